"""What addresses and identifiers look like: URLs, hosts, e-mail, networks, devices. Pure."""

from __future__ import annotations

import re
from ipaddress import AddressValueError, IPv6Address

from tfgpu_doctor.redact.shapes import Match, Shape, Shapes, shape
from tfgpu_doctor.redact.vocabulary import is_public_word

_I = re.IGNORECASE

URL = re.compile(r"\b([a-z][a-z0-9+.-]{1,20})://([^\s\"'`)\]]*)", _I)
PUBLIC_HOSTS = re.compile(
    r"(?:^|\.)(nvidia\.com|nvcr\.io|tensorflow\.org|github\.com|githubusercontent\.com|github\.io|python\.org|keras\.io"
    r"|google\.com|googleapis\.com|gcr\.io|docker\.io|docker\.com|kubernetes\.io|microsoft\.com|aka\.ms|pytorch\.org"
    r"|stackoverflow\.com|numpy\.org|debian\.org|ubuntu\.com|kernel\.org|huggingface\.co|readthedocs\.io|llvm\.org"
    r"|openxla\.org|apple\.com|json-schema\.org|ghcr\.io|quay\.io|k8s\.io|conda-forge\.org"
    r"|rapids\.ai|w3\.org|gnu\.org|kaggle\.com|oneapi\.io|intel\.com|fedoraproject\.org|rpmfusion\.org|centos\.org"
    r"|archlinux\.org|discourse\.group|medium\.com|example\.com)$",
    _I,
)
# public hosts that serve anybody's files: the first part of a path is the name of a bucket
BUCKETS = re.compile(r"^storage\.(?:googleapis|cloud\.google)\.com$", _I)
_A_VERSION_BEFORE = re.compile(
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


def _is_ipv4(match: Match) -> bool:
    """Whether four numbers are an address; not a version, as CUDA's packages have them, nor this very machine."""
    before = match.string[max(0, match.start() - 60) : match.start()]
    if _OPEN.match(match[0]) or _A_VERSION_BEFORE.search(before):
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


def _is_phone(match: Match) -> bool:
    return 9 <= sum(char.isdecimal() for char in match[0]) <= 15


IPV4 = re.compile(
    r"(?<![\w.+<>~!-])(?<![<>~!=]=)(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)(?![\w.+-]*\w)"
)
_HEX = r"[0-9A-Fa-f]"
UUID = shape(
    "uuid", "-", rf"(?<![0-9A-Za-z]){_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}(?![0-9A-Za-z])"
)
# CUDA_VISIBLE_DEVICES may name a GPU by the first characters of its UUID
UUID_START = shape(
    "uuid",
    "gpu- mig-",
    rf"(?<=GPU-)({_HEX}[0-9A-Fa-f-]*)(?![0-9A-Za-z-])|(?<=MIG-)({_HEX}[0-9A-Fa-f-]*)(?![0-9A-Za-z-])",
)
EMAIL = shape(
    "email",
    "@",
    r"(?<![\w.+-])(?!git@)[\w.+-]+@(?!sha256)(?:[\w-]|\\u[0-9a-f]{4})+(?:\.[\w-]+)*\.(?:xn--[a-z0-9-]+|[^\W\d_]{2,})(?![\w-])",
)
IDENTIFIERS = Shapes(
    (
        shape(
            "serial",
            "serial",
            r"\bserial(?:[ _]?(?:number|no\.?|num|#))?\s*[:=]\s*(?!N/A|\[|0\b)([A-Za-z0-9][\w-]{3,})",
            _I,
        ),
        shape(
            "mac",
            ": -",
            rf"(?<![0-9A-Fa-f:.-]){_HEX}{{2}}(?:(?::{_HEX}{{2}}){{5,}}|(?:-{_HEX}{{2}}){{5,}})(?![0-9A-Fa-f:])",
        ),
        # as switches of Cisco print it
        shape("mac", ".", r"(?<![\w.])(?=[0-9.]*[A-Fa-f])[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}\.[0-9A-Fa-f]{4}(?![\w.])"),
        Shape(("address",), (".",), IPV4, _is_ipv4),
        shape("address", ":", r"(?<![\w:.])[0-9A-Fa-f:]{2,39}(?:%[\w.-]+)?(?![\w:.])", 0, _is_ipv6),
        # in the international form; other numbers look like any other number of a log
        shape("phone", "+", r"(?<![\w.+-])\+[1-9]\d{0,2}[ -]\(?\d{1,5}\)?(?:[ -]\d{2,8}){1,4}(?![\w.])", 0, _is_phone),
    )
)

# ------------------------------------------------------------------------------------------------- names of hosts

# Domains at the end of a full name; of those that are also endings of files and names in code ("model.net", "x.py"),
# only names of three labels and more count.
_DOMAINS = frozenset(re.findall(r"\S+", "com org edu gov mil corp intranet localdomain local lan"))
_LONG_DOMAINS = frozenset(
    re.findall(
        r"\S+",
        """
    net int ac io ai de uk fr ch nl se dk fi es pt be eu us ca au nz jp cn kr tw sg hk br mx ar za il tr ru ua cz gr hu
    ro ie it no pl biz cloud tech intra example arpa
    """,
    )
)
_OBJECTS = frozenset({"self", "cls", "this", "np", "os", "pd", "plt"})  # "self.queue.io" is code


def is_full_name(name: str) -> bool:
    """Whether a dotted name is that of a host which says whose it is."""
    *labels, domain = name.lower().rstrip(".").split(".")
    if not labels or (domain not in _DOMAINS and (len(labels) < 2 or domain not in _LONG_DOMAINS)):
        return False
    return labels[0] not in _OBJECTS and not PUBLIC_HOSTS.search(name) and not all(map(is_public_word, labels))
