"""What private values look like: credentials, names where programs print them, addresses, hosts with a path. Pure.

The expressions stand in patterns.txt. What is found in the place of a name (users, hosts, names) is learned, and
replaced wherever it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from ipaddress import AddressValueError, IPv6Address
from pathlib import Path
from typing import NamedTuple

from tfgpu_doctor.redact.escapes import after_blank
from tfgpu_doctor.redact.paths import DOMAINS, LONG_DOMAINS, NOBODY, PUBLIC_HOSTS, is_public, is_public_word, is_term

Match = re.Match[str]
_I = re.IGNORECASE


class Shape(NamedTuple):
    """An expression, every group of which is a private value (without groups: all of it), of these kinds."""

    kinds: tuple[str, ...]
    needles: tuple[str, ...]  # lower case; one of them stands in the text, else it is not searched
    pattern: re.Pattern[str]
    accepts: Callable[[Match], bool] | None

    def rewritten(self, match: Match, name: Callable[[str, str], str]) -> str:
        """Return what was matched, with `name(kind, value)` in place of every value."""
        if self.accepts and not self.accepts(match):
            return match[0]
        pieces, done = [], match.start()
        for group in range(1, self.pattern.groups + 1) or (0,):
            if match[group]:
                kind = self.kinds[max(group - 1, 0) % len(self.kinds)]
                pieces += [match.string[done : match.start(group)], name(kind, match[group])]
                done = match.end(group)
        return "".join((*pieces, match.string[done : match.end()]))


Shapes = tuple[Shape, ...]


def replaced(shapes: Shapes, text: str, name: Callable[[str, str], str]) -> str:
    """Return the text with `name(kind, value)` in place of every value of these shapes."""
    lower = text.lower()
    for shape in shapes:
        if any(needle in lower for needle in shape.needles):
            text = shape.pattern.sub(partial(shape.rewritten, name=name), text)
    return text


# ---------------------------------------------------------------------------------------- tests of what was matched

# what stands behind the name of a secret besides: words of a sentence, variables, code
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
# Capitals, small letters and digits take turns all the time, as they do in no word, path or mangled symbol; hexadecimal
# digits are hashes of commits and files, and stay.
_CHANGES = re.compile(r"(?<=[a-z])[^a-z]|(?<=[A-Z])[^A-Z]|(?<=[0-9])[^0-9]|(?<=[+/])[^+/]")
_OFTEN = (0.36, 0.25)  # of its places, in short runs and in long ones; 0.64 is the mean of random ones
A_VERSION_BEFORE = re.compile(
    r"(?:version|release|[<>~!=]=|\bv|-cu\d\d|\bnvidia-[\w.+-]*|\blib(?:cu|nv|nccl|npp)[\w.+-]*|\btensorrt[\w.+-]*"
    r"|(?:-cu\d\d|\bnvidia-[\w.+-]*) \d[\d.]{2,20} instead of"
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
_OPEN = re.compile(r"127\.|0\.0\.0\.0$|255\.")
_SHARES = re.compile(r"\bnfs|\bcifs|\bsmb|samba|\bmount|\brsync|\bscp\b|\bsshfs|\bautofs|lustre|net use|@tcp|@o2ib", _I)
_OBJECTS = frozenset({"self", "cls", "this", "np", "os", "pd", "plt"})  # "self.queue.io" is code


def _is_value(match: Match) -> bool:
    """Whether what follows the name of a secret is one: no word of a sentence, and no token of a language model."""
    value = next((group for group in match.groups() if group), "")
    if _NO_VALUE.match(value):
        return False
    return not _OF_LANGUAGE.search(match.string[max(0, match.start() - 12) : match.start()])


def _is_random(match: Match) -> bool:
    text = match[0]
    if text.startswith("/") or not all(re.search(kind, text) for kind in ("[a-z]", "[A-Z]", "[0-9]")):
        return False
    return text.count("/") * 10 <= len(text) and len(_CHANGES.findall(text)) >= _OFTEN[len(text) >= 60] * len(text)


def _is_ipv4(match: Match) -> bool:
    """Whether four numbers are an address; not a version, as CUDA's packages have them, nor this very machine."""
    before = match.string[max(0, match.start() - 60) : match.start()]
    if _OPEN.match(match[0]) or A_VERSION_BEFORE.search(before):
        return False
    return bool(_PRIVATE.match(match[0])) or not _MAYBE_A_VERSION_BEFORE.search(before)


def _is_ipv6(match: Match) -> bool:
    """Whether hexadecimal groups are an address of another machine."""
    text = match[0].partition("%")[0]
    if text.count(":") < 2 or not text.strip(":") or text == "::1":
        return False
    if not re.search(r"\d|[A-Fa-f]{4}", text):  # "a::b" is C++
        return False
    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _is_pod(match: Match) -> bool:
    end = match[1].rpartition("-")[2]
    return any(char.isdecimal() for char in end) and any(char.isalpha() for char in end)


def _is_registry(match: Match) -> bool:
    host, port = match[1], match.string[match.end(1) : match.start(2)]
    if not port:
        return is_full_name(host)
    told = "." in host or (len(port) > 4 and match[2][1].isalpha())  # "step:10/100" is none
    return told and not is_public(host) and not is_public_host(host)


def _is_share(match: Match) -> bool:
    """Whether what stands before ":/" or behind "//" is a host: it has a digit or a dot, or it is about mounts."""
    name, around = match[1], match.string[max(0, match.start() - 200) : match.end()]
    if name.lower() in NOBODY or is_term(name) or is_public_host(name):
        return False
    if _SHARES.search(around):
        return True
    return bool(re.search(r"[\d.]", name)) and not (is_public(name) or is_public(name.rpartition(".")[0] or name))


def is_public_host(name: str) -> bool:
    """True for the hosts of everybody, such as github.com."""
    labels = name.lower().split(".")
    return any(".".join(labels[place:]) in PUBLIC_HOSTS for place in range(len(labels)))


def is_full_name(name: str) -> bool:
    """Whether a dotted name is that of a host which says whose it is."""
    *labels, domain = name.lower().rstrip(".").split(".")
    if not labels or (domain not in DOMAINS and (len(labels) < 2 or domain not in LONG_DOMAINS)):
        return False
    return labels[0] not in _OBJECTS and not is_public_host(name) and not all(map(is_public_word, labels))


_TESTS: dict[str, Callable[[Match], bool]] = {
    "word free": lambda match: not _NO_VALUE.match(match[1]),
    "value": _is_value,
    # USER:PASSWORD of curl, not USER:GROUP of docker
    "pair": lambda match: not re.match(r"\d+:\d+$|[$({]|root:root$", match[1]),
    "random": _is_random,
    "private host": lambda match: not is_public_host(match[1]),
    "full name": lambda match: is_full_name(match[1]),
    "repository": lambda match: not is_public_host(match[2]) and match[2] != "sha256",
    "registry": _is_registry,
    "share": _is_share,
    "pod": _is_pod,
    "ipv4": _is_ipv4,
    "ipv6": _is_ipv6,
    "phone": lambda match: 9 <= sum(map(str.isdecimal, match[0])) <= 15,
}


# ------------------------------------------------------------------------------------------------------- the patterns


def _read(text: str) -> dict[str, Shapes]:
    sections: dict[str, list[Shape]] = {}
    macros: dict[str, str] = {}
    section, head = "", ""

    def expanded(pattern: str) -> str:
        return re.sub(r"<<(\w+)>>", lambda match: macros[match[1]], pattern)

    for line in text.splitlines():
        if line.startswith("["):
            section = line[1:-1]
            sections[section] = []
        elif line.startswith("    "):
            sections[section].append(_shape(head, expanded(line[4:])))
        elif found := re.fullmatch(r"([A-Z]+) = (.*)", line):
            macros[found[1]] = expanded(found[2])
        elif not line.startswith("#"):
            head = line
    return {name: tuple(shapes) for name, shapes in sections.items()}


def _shape(head: str, pattern: str) -> Shape:
    kinds, needles, flags, test = (part.strip() for part in f"{head} ".split("|"))
    words = tuple(needle.replace("␣", " ") for needle in needles.split())
    given = (_I if "i" in flags else 0) | (re.MULTILINE if "m" in flags else 0)
    pattern = re.sub(r"^(?:\\b|(?:\(\?<![^)]+\))+)", lambda lead: after_blank(lead[0]), pattern)
    return Shape(tuple(kinds.split()), words or ("",), re.compile(pattern, given), _TESTS[test] if test else None)


_ALL = _read((Path(__file__).parent / "patterns.txt").read_text(encoding="utf-8"))
SECRETS, IDENTIFIERS = _ALL["secrets"], _ALL["identifiers"]
REMOTES = _ALL["remotes"]
# in this order: what is a user is no host
PLACES = (*_ALL["users"], *_ALL["hosts"], *_ALL["names"])
UUIDS, STARTS_OF_UUIDS, EMAILS = _ALL["uuids"], _ALL["beginnings of uuids"], _ALL["emails"]
UUID, SECRET_NAME = UUIDS[0].pattern, _ALL["names of secrets"][0].pattern
IPV4 = next(shape.pattern for shape in IDENTIFIERS if shape.accepts is _is_ipv4)

URL = re.compile(after_blank(r"\b") + r"([a-z][a-z0-9+.-]{1,20})://(?!#)((?:(?!\\[nrt])[^\s\"'`)\]])*)", _I)
# public hosts that serve anybody's files: the first part of a path is the name of a bucket
BUCKETS = re.compile(r"^storage\.(?:googleapis|cloud\.google)\.com$", _I)
PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY[A-Z ]{0,8}-----.*?(?:-----END [A-Z ]{0,40}-----|\Z)", re.DOTALL
)
# of a key that is spread over several texts, a line each
KEY_BEGINS = re.compile(r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY")
KEY_LINE = re.compile(r"\A\s*(?:[A-Za-z0-9+/]+={0,2}\s*\Z|[A-Z][A-Za-z-]{1,30}: )")
