"""What private values look like: credentials, addresses, identifiers, and where programs print names. Pure."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

_I = re.IGNORECASE

# ------------------------------------------------------------------------------------------ credentials

PRIVATE_KEY = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)
_SECRET_WORD = (
    r"(?:api[_-]?key|access[_-]?key|account[_-]?key|private[_-]?key|secret[_-]?key|secret|(?<!max_)(?<!num_)token"
    r"|password|passwd|passphrase|pwd|credentials?|auth|sharedaccesskey|signature|sig)"
)
# each with one group: what is replaced
TOKENS = tuple(
    re.compile(pattern)
    for pattern in (
        r"\b((?:AKIA|ASIA|AROA|AIDA)[0-9A-Z]{16})\b",  # AWS access key ids
        r"\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})",  # GitHub
        r"\b(gl(?:pat|dt|rt|ptt)-[A-Za-z0-9_.-]{16,})",  # GitLab
        r"\b(hf_[A-Za-z0-9]{16,}|api_org_[A-Za-z0-9]{16,})",  # Hugging Face
        r"\b(xox[a-z]-[A-Za-z0-9-]{8,}|xapp-[A-Za-z0-9-]{8,})",  # Slack
        r"\b(AIza[0-9A-Za-z_-]{30,}|ya29\.[0-9A-Za-z_-]{16,}|GOCSPX-[0-9A-Za-z_-]{16,})",  # Google
        r"\b(sk-[A-Za-z0-9_-]{20,}|[rsp]k_(?:live|test)_[A-Za-z0-9]{16,})",  # OpenAI, Anthropic, Stripe
        r"\b(npm_[A-Za-z0-9]{30,}|dckr_pat_[A-Za-z0-9_-]{20,}|nvapi-[A-Za-z0-9_-]{20,})",  # npm, Docker, NVIDIA NGC
        r"\b([a-z]{2,8}-Ag[A-Za-z0-9_-]{40,})",  # package index upload tokens (macaroons)
        r"\b(SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,})",  # SendGrid
        r"\b(eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)",  # JSON web tokens
        rf"(?i)(?<![A-Za-z0-9]){_SECRET_WORD}[\"']?\s*[=:]\s*[\"']?([^\s\"',;&<>]{{4,}})",
        r"\b[A-Z][A-Z0-9_]*_?KEY\s*=\s*[\"']?([^\s\"',;&<>]{6,})",
        rf"(?i)--?{_SECRET_WORD}\s+[\"']?([^\s\"'<>-][^\s\"'<>]{{3,}})",
        r"(?i)\b(?:bearer|basic)\s+([A-Za-z0-9+/=_.-]{16,})",
    )
)
SECRET_NAME = re.compile(rf"(?:^|[_-]){_SECRET_WORD}$|KEY$", _I)

# --------------------------------------------------------------------------------------------- addresses

URL = re.compile(r"\b([a-z][a-z0-9+.-]{1,20})://([^\s\"'`)\]]*)", _I)
PUBLIC_HOSTS = re.compile(
    r"(?:^|\.)(nvidia\.com|nvcr\.io|tensorflow\.org|github\.com|githubusercontent\.com|github\.io|python\.org|keras\.io"
    r"|google\.com|googleapis\.com|gcr\.io|docker\.io|docker\.com|kubernetes\.io|microsoft\.com|aka\.ms|pytorch\.org"
    r"|stackoverflow\.com|numpy\.org|debian\.org|ubuntu\.com|kernel\.org|huggingface\.co|readthedocs\.io|llvm\.org"
    r"|openxla\.org|apple\.com|json-schema\.org)$",
    _I,
)
EMAIL = re.compile(r"(?<![\w.+-])(?!git@)[\w.+-]+@(?!sha256)[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,}\b")
MAC = re.compile(r"(?<![0-9A-Fa-f:.-])(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4,}[0-9A-Fa-f]{2}(?![0-9A-Fa-f:])")
IPV4 = re.compile(
    r"(?<![\w.+<>~!-])(?<![<>~!=]=)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.+-]*\w)"
)
_A_VERSION_BEFORE = re.compile(
    r"(?:version|release|[<>~!=]=|\bv|-cu\d\d|\bnvidia-[\w.+-]*|\blib(?:cu|nv|nccl|npp)[\w.+-]*|\btensorrt[\w.+-]*"
    r"|\bcu(?:da|dnn|blas|fft|rand|solver|sparse|pti)[\w.+-]*|\bnv(?:jitlink|rtc|cc|tx)[\w.+-]*)[\s(:='\",]*$",
    _I,
)
# what a version stands after, and hardly a public address: "kernel 5.15.90.1", "11.8/8.7.0.84", a row of a package list
_MAYBE_A_VERSION_BEFORE = re.compile(
    r"(?:\bkernel|\bWSL2?)[\s(:]*$|[\w.]/$|^\W*[A-Za-z][\w.-]+\s{2,}$", _I | re.MULTILINE
)
_PRIVATE = re.compile(
    r"10\.|192\.168\.|172\.(?:1[6-9]|2\d|3[01])\.|169\.254\.|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7])\."
)
IPV6 = re.compile(r"(?<![\w:.])[0-9A-Fa-f:]{2,39}(?:%[\w.-]+)?(?![\w:.])")
_OPEN = re.compile(r"127\.|0\.0\.0\.0$|255\.")


def is_ipv4(match: re.Match[str]) -> bool:
    """Whether four numbers are an address; not a version, as CUDA's packages have them, nor this very machine."""
    before = match.string[max(0, match.start() - 60) : match.start()]
    if _OPEN.match(match[0]) or _A_VERSION_BEFORE.search(before):
        return False
    return bool(_PRIVATE.match(match[0])) or not _MAYBE_A_VERSION_BEFORE.search(before)


def is_ipv6(text: str) -> bool:
    """Whether hexadecimal groups are an address of another machine."""
    text = text.partition("%")[0]
    if text.count(":") < 2 or not text.strip(":") or text == "::1":
        return False
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


# ------------------------------------------------------------------------------------------- identifiers

_HEX = r"[0-9A-Fa-f]"
UUID = re.compile(rf"(?<![0-9A-Za-z]){_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}(?![0-9A-Za-z])")
UUID_START = re.compile(
    rf"(?<=GPU-)({_HEX}[0-9A-Fa-f-]*)(?![0-9A-Za-z-])|(?<=MIG-)({_HEX}[0-9A-Fa-f-]*)(?![0-9A-Za-z-])"
)
SERIAL = re.compile(r"\bserial(?:[ _]?(?:number|no\.?|num|#))?\s*[:=]\s*(?!N/A|\[|0\b)([A-Za-z0-9][\w-]{3,})", _I)

# ------------------------------------------------------------------------ where programs print names of hosts

_NAME = r"[\"']?([^\W_][\w.-]*)"
HOSTS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        rf"(?i)\b(?:for host|hostname|host[_ ]name|node[_ ]?name|computer ?name|nodelist|submit_host)\s*[:=]\s*{_NAME}",
        rf"(?:SLURM\w*_NODELIST|SLURMD_NODENAME|SLURM_SUBMIT_HOST|SLURM_TOPOLOGY_ADDR|HOST)=\s*{_NAME}",
        r"\bLinux ([^\W\d_][\w.-]*) \d+\.\d+\.\d+\S* #\d",  # uname -a
        r"^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d ([\w.-]+) [\w.\[\]()/-]+:",  # syslog
        r"\b(?:srun|slurmstepd|salloc|sbatch): (?:error|Warning)?:? ?(?:\*\*\* )?([^\W\d_][\w-]*\d[\w-]*):",
        r"\[[\w.-]+@([\w-][\w.-]*) [^\]]*\][$#]",  # prompts: [ada@node7 ~]$, ada@node7:~/code$
        r"(?:^|[\s)])[^\W\d][\w.-]*@([^\W\d_][\w.-]*):[~/]",
        r"^([^\W\d_][\w.-]*):\d+:\d+ \[\d+\] NCCL",
        r"\b((?:DESKTOP|LAPTOP)-[A-Z0-9]{5,8})\b",
        r"\b(ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?:\.[\w.-]+)?)",
        r"(?<![\w./-])([\w-]+(?:\.[\w-]+)*\.(?:local|lan|corp|intranet|localdomain|home\.arpa|compute\.internal"
        r"|ec2\.internal|svc|svc\.cluster\.local))\b(?![(/.])",
        r"(?<![\w./-])([\w-]+(?:\.[\w-]+)*\.c\.[\w-]+\.internal)\b",
    )
)
USERS = tuple(
    re.compile(pattern, re.MULTILINE)
    for pattern in (
        r"\b(?:USER|LOGNAME|USERNAME|SLURM_JOB_USER|SUDO_USER|username|user name|owner)\s*[:=]\s*"
        r"[\"']?([^\W\d][\w.-]*)",
        r"\[([^\W\d][\w.-]*)@[\w-][\w.-]* [^\]]*\][$#]",
        r"(?:^|[\s)])([^\W\d][\w.-]*)@[^\W\d_][\w.-]*:[~/]",
    )
)
NAMES = tuple(
    re.compile(pattern)
    for pattern in (
        r"\bSLURM_(?:JOB_NAME|JOB_ACCOUNT|JOB_PARTITION|CLUSTER_NAME|JOB_QOS)\s*[:=]\s*[\"']?([A-Za-z0-9][\w.-]*)",
        r"\bpods?/([a-z0-9][a-z0-9.-]+)",
        r"\b(?:POD_NAME|POD_NAMESPACE|namespace|Namespace|NAMESPACE)\s*[:=]\s*[\"']?([a-z0-9][a-z0-9.-]+)",
        r"(?i)\bpods? \"([a-z0-9][a-z0-9./-]+)\"",
    )
)
# what such a place may hold without naming anybody
NOBODY = frozenset(
    re.findall(
        r"\S+",
        """
    localhost none null unknown host hostname root user users admin ubuntu debian docker container default true false
    worker chief master node name kernel systemd buildkitsandbox tensorflow kube-system git linux windows nvidia cuda
    python conda system local nobody jovyan runner test tests dev max min the
    """,
    )
)
