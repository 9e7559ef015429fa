"""What credentials look like: by the name before them, by their own form, by their place in a command. Pure."""

from __future__ import annotations

import re

from tfgpu_doctor.redact.shapes import Match, Shape, Shapes, shape

_I, _M = re.IGNORECASE, re.MULTILINE

PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,8}-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL
)
# of a key that is spread over several texts, a line each
KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY")
KEY_LINE = re.compile(r"\A\s*(?:[A-Za-z0-9+/]+={0,2}\s*\Z|[A-Z][A-Za-z-]{1,30}: )")

# -------------------------------------------------------------------------------------- by the name before them

_NAME = (
    r"(?:(?:api|(?:shared[_-]?)?access|account|private|secret|auth|shared|encryption|signing|master|license"
    r"|subscription|storage|deploy)[_-]?key(?:[_-]?id)?|secret|(?<!max_)(?<!num_)(?:identity|registry|refresh|oauth|access)?token|password|passwd|passphrase"
    r"|passcode|pwd|credentials?|auth|shared[_-]?access[_-]?signature|client[_-]key[_-]data|session[_-]?id"
    r"|certificate[_-](?:authority[_-])?data)"
)
_CAMEL = r"(?<=[a-z0-9])(?:Token|Secret|Password|Passwd|Passphrase|(?:Api|Access|Account|Private|Secret|Auth)Key)"
_VALUE = r"(?:\\*\"([^\"\\\n]+)|'([^'\n]+)'|([^\s\"',;&<>]+))"
# what stands there besides: words of a sentence, variables, code
_NO_VALUE = re.compile(
    r"(?:none|null|nil|true|false|yes|no|not|is|are|was|be|been|the|a|an|in|on|of|for|to|too|or|and|also|now|only"
    r"|required|optional|invalid|valid|expired|missing|wrong|incorrect|correct|empty|unset|set|undefined|needed|used"
    r"|hidden|redacted|expected|unexpected|stored|given|provided|authentication|auto|basic|bearer|digest|token"
    r"|x+|\d{1,3})[.,:;!)\]]*$|\W+$|[$%(\[{<]",
    _I,
)
_OF_LANGUAGE = re.compile(
    r"(?:pad|eos|bos|unk|mask|sep|cls|special|next|prev|previous|first|last|input|output|start|end|stop|per|new"
    r"|unexpected|syntax|no)[_ -]?\Z",
    _I,
)


def _is_value(match: Match) -> bool:
    """Whether what follows the name of a secret is one: no word of a sentence, and no token of a language model."""
    value = next((group for group in match.groups() if group), "")
    if _NO_VALUE.match(value):
        return False
    return not _OF_LANGUAGE.search(match.string[max(0, match.start() - 12) : match.start()])


def _is_pair(match: Match) -> bool:
    """USER:PASSWORD of curl, not USER:GROUP of docker."""
    return not re.match(r"\d+:\d+$|[$({]|root:root$", match[1])


_QUOTE = r"\\*[\"']"
_QUOTED = r"\\*[\"']([^\s\"'\\<]+)"
_NAMED = "key token secret pass pwd credential auth signature certificate session"
# a field or variable of such a name holds one, whatever it looks like
SECRET_NAME = re.compile(rf"(?:^|[_-]){_NAME}$|KEY$", _I)

_NAMED_OR_KNOWN: tuple[Shape, ...] = (
    shape("secret", "cookie", r"\bcookies?2?\\*[\"']?\s*[=:]\s*\\*[\"']?([^\s\"'<\\][^\"'\n<\\]*)", _I),
    shape("secret", "cookie", r"--cookie[= ][\"']?([^\s\"'<]+)", _I),
    shape(
        "secret",
        "authorization",
        r"authorization\\*[\"']?\s*[=:]\s*\\*[\"']?(?:(?:bearer|basic|digest|token|negotiate|apikey)\s+)?([^\s\"',;<>]+)",
        _I,
        lambda match: not _NO_VALUE.match(match[1]),
    ),
    shape("secret", _NAMED, rf"(?<![A-Za-z0-9]){_NAME}\\*[\"']?\s*(?:=>?|:(?=\s*\S\S\S))\s*{_VALUE}", _I, _is_value),
    shape("secret", "token secret pass key", rf"{_CAMEL}\\*[\"']?\s*[=:]\s*{_VALUE}", 0, _is_value),
    shape("secret", "sig", r"\bsig(?:nature)?=([A-Za-z0-9%+/=_-]{8,})", _I),
    shape("secret", "key", r"\b[A-Z][A-Z0-9_]*_?KEY\s*=\s*[\"']?([^\s\"',;&<>]{6,})"),
    # kaggle.json, beside the name of the user; elsewhere "key" is the name of anything
    shape(
        "secret",
        "key",
        rf"username{_QUOTE}\s*:\s*{_QUOTE}[^\s\"'\\]{{1,100}}{_QUOTE}\s*,\s*{_QUOTE}key{_QUOTE}\s*:\s*{_QUOTED}",
        _I,
    ),
    shape("secret", "key", rf"{_QUOTE}key{_QUOTE}\s*:\s*{_QUOTED}{_QUOTE}\s*,\s*{_QUOTE}username{_QUOTE}\s*:", _I),
    # options of mount.cifs, and names that stand for one value only
    shape(
        "secret",
        "pass= passkey= password2= otp= pin= webhook",
        r"(?<![\w.-])(?:pass(?:key|word2)?|otp|pin|webhook)=[\"']?([^\s\"',;&<>]{4,})",
        _I,
        _is_value,
    ),
    shape("secret", "key", r"\bkey\\*[\"']?\s*[=:]\s*\\*[\"']?([0-9a-f]{32,})", _I),
    shape(
        "secret",
        _NAMED,
        rf"(?<!\S)--?(?:[A-Za-z0-9]{{1,20}}[_-]){{0,4}}{_NAME}[ \t]+(?!-){_VALUE}",
        _I,
        _is_value,
    ),
    shape(
        "secret",
        "pass pwd key token secret",
        rf"\b(?:pass ?(?:word|phrase|code|wd)|pwd|api[ _-]?key|access[ _-]?key|secret(?: key)?|token)"
        rf"\s+(?:is|was)(?:\s*:|\s+now)?\s+{_VALUE}",
        _I,
        _is_value,
    ),
    # .netrc, on one line or on several
    shape("user secret", "login", r"\blogin[ \t]+(\S+)[ \t]+password[ \t]+([^\s<]+)", _I),
    shape("secret", "password", r"^[ \t]*password[ \t]+([^\s<]+)[ \t]*$", _I | _M, _is_value),
    shape("secret", ":", r"^[\w.*-]+:(?:\d{2,5}|\*):[^:\s]+:[^:\s]+:([^\s<:]+)$", _M),  # .pgpass
    shape(
        "secret",
        "-u --user --proxy-user",
        r"(?<!\S)(?:-u|-U|--user|--proxy-user)[ =]?[\"']?([^\s:\"'<>=/]+:[^\s\"'<>]+)",
        0,
        _is_pair,
    ),
    shape(
        "secret",
        "sshpass login mysql ldap smbclient redis-cli",
        r"\b(?:sshpass|login|mysql\w{0,20}|ldap\w{0,20}|smbclient|redis-cli)(?:[ \t]+(?!-[pwa])\S+){0,6}?"
        r"[ \t]+-[pwa][ \t]?[\"']?([^\s\"'<>-][^\s\"'<>]*)",
        0,
        lambda match: not _NO_VALUE.match(match[1]),
    ),
    # ---------------------------------------------------------------------------------- by their own form
    shape("secret", "akia asia aroa aida", r"\b((?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16})\b"),  # AWS access key ids
    shape("secret", "gh github_pat_", r"\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    shape("secret", "gl", r"\b(gl(?:pat|dt|rt|ptt|c)[-_][A-Za-z0-9_.-]{16,})"),  # GitLab, Grafana
    shape("secret", "hf_ api_org_", r"\b(hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{16,})"),  # Hugging Face
    shape("secret", "xox xapp-", r"\b(xox[a-z]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,})"),  # Slack
    shape(
        "secret",
        "aiza ya29. gocspx-",
        r"\b(AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{16,}|GOCSPX-[0-9A-Za-z_-]{16,})",  # Google
    ),
    # OpenAI, Anthropic, Stripe
    shape("secret", "sk- k_live_ k_test_", r"\b(sk-[A-Za-z0-9_-]{20,}|[rsp]k_(?:live|test)_[A-Za-z0-9]{16,})"),
    shape(
        "secret",  # npm, Docker, NVIDIA NGC, Databricks, Replicate, Vault, Kaggle, W&B
        "npm_ dckr_pat_ nvapi- dapi r8_ hvs. kgat_ wandb_v1_",
        r"\b((?:npm|r8)_[A-Za-z0-9]{30,}|dckr_pat_[A-Za-z0-9_-]{20,}|nvapi-[A-Za-z0-9_-]{20,}|dapi[0-9a-f]{32}"
        r"|hvs\.[A-Za-z0-9_-]{20,}|KGAT_[A-Za-z0-9]{20,}|wandb_v1_[A-Za-z0-9_]{20,})",
    ),
    shape("secret", "-ag", r"\b([a-z]{2,8}-Ag[A-Za-z0-9_-]{40,})"),  # package index upload tokens (macaroons)
    shape("secret", "sg.", r"\b(SG\.[A-Za-z0-9_-]{16,80}\.[A-Za-z0-9_-]{16,})"),  # SendGrid
    shape(
        "secret",  # JSON web tokens
        "eyj",
        r"(?<![A-Za-z0-9_-])(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",
    ),
    shape("secret", "/t/", r"/t/((?:[a-z]{2}-[0-9a-f-]{16,}|[A-Za-z0-9-]{30,}))(?=/)"),  # conda channels
    shape("secret", "bearer basic", r"\b(?:bearer|basic)\s+([A-Za-z0-9+/=_.-]{16,})", _I),
    # the comment behind a public key is a name with a host
    shape(
        "secret name",
        "ssh- ecdsa-sha2-",
        r"(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-\w{1,20}(?:@openssh\.com)?) +(AAAA[A-Za-z0-9+/=]+)"
        r"(?:[ \t]+([^\s<]+@[^\s<]+))?",
    ),
)

# A run of base64 that nothing names, such as an AWS secret access key (40 characters) or a line of a key (64):
# capitals, small letters and digits take turns all the time, as they do in no word, path or mangled symbol.
# Hexadecimal digits are hashes of commits and files, and stay.
_LONE = re.compile(r"(?<![\w+/.=@-])[A-Za-z0-9+/]{40,}={0,2}(?![\w+/.-])")
_CHANGES = re.compile(r"(?<=[a-z])[^a-z]|(?<=[A-Z])[^A-Z]|(?<=[0-9])[^0-9]|(?<=[+/])[^+/]")
_OFTEN = (0.36, 0.25)  # of its places, in short runs and in long ones; 0.64 is the mean of random ones


def _is_random(match: Match) -> bool:
    text = match[0]
    if text.startswith("/") or not all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", "[0-9]")):
        return False
    return text.count("/") * 10 <= len(text) and len(_CHANGES.findall(text)) >= _OFTEN[len(text) >= 60] * len(text)


SECRETS = Shapes((*_NAMED_OR_KNOWN, Shape(("secret",), ("",), _LONE, _is_random)))
