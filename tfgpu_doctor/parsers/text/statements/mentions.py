"""Short lines that name versions without a colon: "Cuda 10.2", "centos 7.7, CUDA 10.0, TF 2.0, python 3.7.4".

Every part of the line must be such a name, so that prose and documentation state nothing.

>>> mentions("centos 7.7, CUDA 10.0, TF 2.0, python 3.7.4")
[('os', 'centos 7.7'), ('cuda', '10.0'), ('tensorflow', '2.0'), ('python', '3.7.4')]
>>> mentions("- cuDNN v7.1.2 (Mar 21, 2018), for CUDA 9.0")
[('cudnn', '7.1.2'), ('cuda', '9.0')]
>>> mentions("TensorFlow 2.14 needs CUDA 11.8 to run")
[]
"""

from __future__ import annotations

import re

from tfgpu_doctor.parsers.text.statements import values
from tfgpu_doctor.records.versions import major

LONGEST = 160

_BRACKETS = re.compile(r"\([^()]*\)")
_START = re.compile(r"^[\s>#*•·+`_-]*(?:\d[.)]\s)?[\s*_`]*")
_COMMA = re.compile(r"\s*[,;，；]\s*")
_PART = re.compile(r"\s*(?:[,;，；+&]|\b(?:and|with|on|under)\b| - )\s*", re.IGNORECASE)
_OPENING = re.compile(
    r"(?:i'?m |i am |i )?(?:use|using|have|running|run|tried|installed?|my|our|for|version|the|in|a|an|nvidia)\s+",
    re.IGNORECASE,
)
_BETWEEN = r"\s*(?:(?:version|ver\.?|v\.?|toolkit|release|is)\s*)?(?:is\s*)?(?:(?::|=(?!=))\s*)?[vr]?"
_NUMBER = r"(?P<number>\d{1,3}(?:\.\d{1,3}){0,3}(?:[-.]?(?:rc|a|b|dev)\d+)?)"
_END = r"(?:\.x|\.)?(?: ?(?:lts|x64|64[ -]?bits?|\(?gpu\)?|toolkit|installed|x|rc\d?))?"
_NAMES = (
    ("cuda", re.compile(rf"cuda(?: ?toolkit)?{_BETWEEN}{_NUMBER}{_END}", re.IGNORECASE)),
    ("cudnn", re.compile(rf"cu ?dnn{_BETWEEN}{_NUMBER}{_END}", re.IGNORECASE)),
    (
        "tensorflow",
        re.compile(
            rf"(?:tensorflow(?:[-_ ](?:gpu|cpu))?|tf(?:[-_ ]gpu)?|tf-nightly){_BETWEEN}{_NUMBER}{_END}", re.IGNORECASE
        ),
    ),
    ("python", re.compile(rf"(?:anaconda )?python{_BETWEEN}{_NUMBER}{_END}", re.IGNORECASE)),
    ("driver", re.compile(rf"(?:nvidia |gpu |graphics? |windows )?drivers?{_BETWEEN}{_NUMBER}{_END}", re.IGNORECASE)),
)
_BOTH = re.compile(r"cuda(?: ?/ ?cudnn)?\s*v?[\d.]{1,12}\s*/\s*(?:cu ?dnn\s*)?v?[\d.]{1,12}", re.IGNORECASE)
_PY = re.compile(r"py(?:thon)?(?P<major>[23])(?P<minor>\d{1,2})", re.IGNORECASE)
_DESCRIBED = re.compile(r"v\d\.\d{1,2}\.\d{1,2}-[\w.-]{1,40} \d\.\d{1,2}\.\d{1,2}\S{0,10}")
_SYSTEM = re.compile(
    r"(?:linux |gnu/linux |wsl ?2? )?(?:[klx]?ubuntu(?: mate)?|debian(?: gnu/linux)?|centos|fedora|rhel"
    r"|red hat[a-z ]{0,30}|linux mint|mint|arch linux|arch|manjaro|opensuse[a-z ]{0,20}|rocky(?: linux)?|almalinux"
    r"|windows|win|mac ?os(?: x)?|os ?x|osx|wsl)"
    r" ?(?:release |server |leap )?v?\d*(?:\.\d{1,3}){0,2}(?: (?:lts|home|pro|professional|enterprise|x64|64[ -]?bit"
    r"|\d\dh\d|server|desktop|\d{2}\.\d\d|monterey|ventura|sonoma|catalina|big sur|in docker))*",
    re.IGNORECASE,
)
_PLAIN_SYSTEM = re.compile(r"windows|linux|mac|macos|wsl", re.IGNORECASE)
_CARD = re.compile(
    r"(?:nvidia )?(?:(?:(?:geforce|quadro|tesla|titan|gtx|rtx|gt|mx) ?)+(?:[a-z]{0,3} ?\d{2,4}[a-z]{0,2}|xp?|v|rtx)?"
    r"|[ahlvtpkb]\d{1,3}[a-z]?)"
    r"(?: ?(?:ti|super|mobile|laptop|max-q|xp|black|z|notebook|d|gpu|-?pcie|-?sxm\d?))*(?: ?\d{1,3} ?gi?b)?"
    r"(?: drivers? (?P<driver>\d{3}\.\d+(?:\.\d+)?))?",
    re.IGNORECASE,
)
_RADEON = re.compile(r"(?:amd )?radeon [\w ]{1,20}", re.IGNORECASE)
_SMALL = {"cuda": (2, 19), "cudnn": (1, 9), "tensorflow": (0, 2), "python": (2, 3), "driver": (180, 999)}


def mentions(text: str) -> list[tuple[str, str]]:
    """Key and value of each part of the line; nothing when it holds other things, too.

    A list with commas may hold some: of "Fedora 25, Python 3.5.4, GCC 6.4.1" the first two are read.
    """
    if len(text) > LONGEST:
        return []
    plain = _START.sub("", _BRACKETS.sub(" ", text)).strip(" \t.*_`:")
    return _of_parts(_PART.split(plain), strict=True) or _of_parts(_COMMA.split(plain), strict=False)


def _of_parts(parts: list[str], strict: bool) -> list[tuple[str, str]]:
    """What the parts say: all of them when `strict`, else two at least and half of them."""
    named = [part.strip() for part in parts if part.strip()]
    found = [_of_part(part, alone=len(named) < 2) for part in named]
    known = sum(bool(one) for one in found)
    if not 1 <= len(named) <= 8 or (known < len(named) if strict else known < 2 or 2 * known < len(named)):
        return []
    return [pair for one in found for pair in one]


def _of_part(part: str, alone: bool) -> list[tuple[str, str]]:
    plain = _OPENING.sub("", part, count=1).strip() if _OPENING.match(part) else part
    for key, pattern in _NAMES:
        if match := pattern.fullmatch(plain):
            return _version(key, match["number"])
    if _BOTH.fullmatch(plain):
        both = zip(("cuda", "cudnn"), values.cuda_and_cudnn(plain), strict=True)
        return [(key, version) for key, version in both if version]
    if digits := _PY.fullmatch(plain):
        return [("python", f"{digits['major']}.{digits['minor']}")]
    if _DESCRIBED.fullmatch(plain) and (version := values.tensorflow(plain)):
        return [("tensorflow", version)]
    if _SYSTEM.fullmatch(plain) and any(letter.isdigit() for letter in plain):
        return [("os", " ".join(plain.lower().split()))]
    if not alone and _PLAIN_SYSTEM.fullmatch(plain):
        return [("os", plain.lower())]
    return _card(part)


def _version(key: str, number: str) -> list[tuple[str, str]]:
    low, high = _SMALL[key]
    version = values.tensorflow(number) if key == "tensorflow" else number
    if not version or not low <= int(major(version)) <= high:
        return []
    return [(key, version)] if "." in version or key in ("cudnn", "cuda", "driver") else []


def _card(part: str) -> list[tuple[str, str]]:
    if _RADEON.fullmatch(part):
        return [("gpu", part)]
    card = _CARD.fullmatch(part)
    if card is None or not any(letter.isdigit() for letter in part):
        return []
    if card["driver"]:
        name = part[: card.start("driver")].rsplit("driver", 1)[0]
        return [("gpu", name.strip()), ("driver", card["driver"])]
    known = values.gpu(part)
    return [("gpu", known)] if known else []
