"""What people write into a form's fields, made comparable: versions, operating systems, names of GPUs.

>>> cuda_and_cudnn("CUDA v11.2, cudnn-11.2-windows-x64-v8.1.0.77")
('11.2', '8.1.0.77')
>>> cuda_and_cudnn("12.4 / 8.9.7"), cuda_and_cudnn("11.5 CUDA, 8.3.1"), cuda_and_cudnn("release 9.0, V9.0.176")
(('12.4', '8.9.7'), ('11.5', '8.3.1'), ('9.0', None))
>>> tensorflow("v2.3.0-rc2-23-gb36436b087 2.3.0"), tensorflow("tensorflow-2.4.0-cp38-cp38-manylinux2010_x86_64.whl")
('2.3.0', '2.4.0')
>>> gpu("NVIDIA Corporation GK208B [GeForce GT 710] / 2GB"), gpu("GeForce GTX 1080, 8 GB"), gpu("12G")
('NVIDIA Corporation GK208B [GeForce GT 710]', 'GeForce GTX 1080', None)
>>> gpu("RTX 3080 Ti, CUDA10.0")
'RTX 3080 Ti'

Short lines that name versions without a colon: "Cuda 10.2", "centos 7.7, CUDA 10.0, TF 2.0, python 3.7.4". Every part
of the line must be such a name, so that prose and documentation state nothing.

What the reporter says of the machine: GitHub's issue forms, older templates, free lines and tables. What nvidia-smi
calls "CUDA Version" is what its driver supports, and no statement about a toolkit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.facts.versions import major
from tfgpu_doctor.parsers.lines import Line, any_case

# ------------------------------------------------------------------------------------------ values

LONGEST = 400  # characters of a value that are looked at

_NOTHING = any_case(
    r"[-–—_*.?/\\ ]*|[\"'(*_]*(?:n\.? ?/? ?[ax]\.?\b|none\b|null\b|nil\b|no response|unknown|unsure|not (?:applicable"
    r"|relevant|sure|known|used)|don'?t know|do not know|see (?:above|below|title|log|output)|same as above|as above"
    r"|irrelevant|no idea|no (?:cuda|cudnn|gpu)|without (?:cuda|gpu)).*|[\"'(*_]*(?:yes|no|true|false|latest|default"
    r"|any|all|ok)\W*"
)
_NUMBER = r"\d{1,2}(?:\.\d{1,3}){0,3}"
# installers and archives carry both versions in their names
_CUDNN_OLD = any_case(r"cudnn-?(\d{1,2}[.-]\d)(?:-[a-z]+\d*-[a-z0-9]+)?-v(\d[\d.]*\d|\d)")
# the CUDA that this cuDNN is for is another package, of which the name tells nothing
_CUDNN_PACKAGE = any_case(r"libcudnn\d(?:-dev|-doc)?[_= ]v?(\d(?:\.\d+){2,3})(?:-\d\+cuda[\d.]+)?")
_CUDNN_NEW = any_case(r"cudnn-(?:windows|linux)-[a-z0-9_]+?-(\d{1,2}(?:\.\d+){2,3})(?:_cuda(\d{1,2}(?:\.\d+)?))?")
_CUDA_INSTALLER = any_case(r"cuda_(\d{1,2}\.\d+(?:\.\d+)?)_(?:\d{3}\.\d+(?:\.\d+)?|[a-z])")
_NVCC = any_case(r"release (\d{1,2}\.\d),? *V\d{1,2}\.\d\.\d{1,3}")
# "10.2.89-5" is the fifth package of CUDA 10.2.89 in a distribution
_PACKAGE_OF = re.compile(r"(\d+\.\d+\.\d+)-\d(?![.\d])")
_DATE = any_case(
    r"(?<![\d.])(?:\d{1,2}/\d{1,2}/20\d\d|20\d\d([/-])\d{1,2}\1\d{1,2}"
    r"|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.? \d{1,2}(?:st|nd|rd|th)?,? 20\d\d)(?!\d)"
)
_REVISION = re.compile(r"(?<=\d)-1(?:\+cuda[\d.]+)?(?![\w.])")  # of a package of Debian or Ubuntu
_ASIDE = any_case(r"\((?![^()]*(?:cuda|cudnn))[^()]*\)")
_TOKEN = any_case(rf"(?P<label>cuda|cudnn)|(?<![\d.])v?(?P<number>{_NUMBER})(?![\d]|\.\d)")

_TF_VERSION = any_case(
    r"(?<![\d.])(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?)(?:\.?(dev\d{1,10})|[-.]?((?:rc|alpha|beta|a|b)\d{1,2}))?(?![\d])"
)
_BOUND = re.compile(r"(?:[<>~]\s?=?|^=)\s?\Z")  # "> =2.2" is no release
_GIT_DESCRIBE = any_case(r"v\d+\.\d+\.\d+[\w.-]{0,40}-g[0-9a-f]{6,}|v\d+\.\d+\.\d+[\w.-]{0,40}-\d+-g[0-9a-f]+")
_PYTHON = re.compile(r"(?<![\d.])([23]\.\d{1,2}(?:\.\d{1,2})?)(?!\d)")
_PYTHON_WORD = any_case(r"python *(?:version *)?(?:[:=] *)?v?([23]\.\d{1,2}(?:\.\d{1,2})?)")
_DRIVER = re.compile(r"(?<![\d.])(\d{3}\.\d{1,3}(?:\.\d{1,3})?)(?![\d.]*\d)")

_EXAMPLE = any_case(r"\(e\.g\.[^()]{0,80}\)")  # of the form, behind which somebody leaves it
_OS = any_case(
    r"linux|ubuntu|debian|centos|red ?hat|rhel|fedora|suse|arch\b|manjaro|mint|gentoo|alma|rocky|pop!?[_ ]?os|kali"
    r"|nixos|jetson|google colab|^\d\d\.(?:04|10)\b|win(?:dows)?[ -_]?(?:\d|xp|server)|windows|wsl|mac ?os"
    r"|\bos ?x\b|\bosx|darwin|catalina|big sur|monterey|ventura|sonoma|sierra|jetpack|l4t|amazon|slackware|void"
)
_GPU = any_case(
    r"nvidia|ge ?force|\b[gr]tx|quadro|tesla|titan|jetson|radeon|\bamd\b|advanced micro|intel|\biris\b|\bxe\b|\barc\b"
    r"|apple|\bm[1-4]\b|\b(?:gt|gts|mx|rx|nvs)[ -]?\d{3,4}|\b[agpktvlhb][ -]?\d{1,4}[a-z]{0,2}\b|\bgrid\b|\bvega\b"
    r"|grace|blackwell|ampere|\b\d{3,4} ?(?:ti|m|super|max-?q)\b|\b[1-5]0[5-9]0\b|\bdgx\b|\brtx"
)
_NO_GPU = any_case(r"[(]?(?:none\b|no$|no gpu\b|(?:only )?cpu\b|without (?:a )?gpu|no (?:nvidia|dedicated)|integrated)")
_MEMORY = any_case(
    r"[\s,;:/|(@+&-]{0,20}(?:\b(?:and|with)\b[\s(]{0,20})?(?<![A-Za-z\d.])\d{1,3}(?:[.,]\d{1,2})? ?(?:gi?b?s?|mi?b)\b"
    r"(?: *(?:of )?(?:d?ram|v-?ram|gddr\d\w?|memory|video memory))?[\s).]*|[\s,;/(]{1,20}\d{4,6} ?(?:mi?b)\b[\s).]*"
)
_COUNT = re.compile(r"^(?:\d{1,2} ?[x×*] ?|\d{1,2} (?=[A-Za-z]))|\s*[(]?[x×] ?\d{1,2}[)]?$")


# what people list behind the card, on the same line
_OTHER_PARTS = any_case(r"\s*[,;/]\s*(?:cuda|cudnn|driver|python|tensorflow|ubuntu|windows) ?v?\d.*")

_NONE_THERE = any_case(r"\W*(?:no|none|not|n/?a)\b(?! ?[\d.:])")
_NO_CUDA = re.compile(r"[56](?:\.\d)?$|7\.[1-46-9]|8\.[1-9]|9\.(?:[3-9]|1\d)")


def cuda_and_cudnn(text: str) -> tuple[str | None, str | None]:
    """The versions in the field "CUDA/cuDNN version"; None for what is not there.

    Numbers belong to the word before them, else to the word after them, else to CUDA and cuDNN in that order.
    """
    cuda, cudnn, rest = _named_files(_DATE.sub(" ", text[:LONGEST]))
    labels: list[str] = []
    free: list[str] = []
    found = {"cuda": cuda, "cudnn": cudnn}
    end = -9
    for token in _TOKEN.finditer(rest):
        if token["label"]:
            label = token["label"].lower()
            if free and token.start() - end <= 2 and not found[label]:
                found[label] = free.pop()
            elif not found[label]:
                labels.append(label)
        elif labels:
            found[labels.pop(0)] = token["number"]
            end = -9
        else:
            free.append(token["number"])
            end = token.end()
    # numbers without a word: CUDA's, then cuDNN's; a single one that no CUDA has is cuDNN's
    if len(free) == 1 and not any(found.values()) and _NO_CUDA.match(free[0]):
        found["cudnn"] = free.pop()
    for number in free:
        if not found["cuda"]:
            found["cuda"] = number
        elif not found["cudnn"] and number != found["cuda"]:
            found["cudnn"] = number
    return _plausible(found["cuda"], 2, 19), _plausible(found["cudnn"], 1, 9)


def _named_files(text: str) -> tuple[str | None, str | None, str]:
    """CUDA and cuDNN from the names of archives and packages, and the text without them."""
    cuda = cudnn = None
    if _NONE_THERE.match(text) or "nvidia-smi" in text.lower() or "driver" in _ASIDE.sub(" ", text).lower():
        return None, None, ""  # "12.2 (nvidia-smi)" is what the driver supports
    for pattern, places in (
        (_CUDA_INSTALLER, (1, None)),
        (_NVCC, (1, None)),
        (_CUDNN_PACKAGE, (None, 1)),
        (_CUDNN_OLD, (1, 2)),
        (_CUDNN_NEW, (2, 1)),
    ):
        if match := pattern.search(text):
            cuda = cuda or (match[places[0]] if places[0] else None)
            cudnn = cudnn or (match[places[1]] if places[1] else None)
            text = text[: match.start()] + " " + text[match.end() :]
    return cuda and cuda.replace("-", "."), cudnn, _PACKAGE_OF.sub(r"\1", _ASIDE.sub(" ", _REVISION.sub("", text)))


def _plausible(version: str | None, low: int, high: int) -> str | None:
    return version if version and low <= int(major(version)) <= high else None


def tensorflow(text: str) -> str | None:
    """The release; behind the output of git describe stands the version proper."""
    plain = _GIT_DESCRIBE.sub(" ", text[:LONGEST])
    match = _TF_VERSION.search(plain) or _TF_VERSION.search(text[:LONGEST])
    if match is None or int(major(match[1])) > 2 or _BOUND.search(match.string, 0, match.start()):
        return None
    stage = (match[3] or "").lower().replace("alpha", "a").replace("beta", "b")
    return match[1] + (f".{match[2].lower()}" if match[2] else stage)


def python(text: str) -> str | None:
    """The version of Python: "3.8.10"; None for a bare "3"."""
    match = _PYTHON_WORD.search(text[:LONGEST]) or _PYTHON.search(text[:LONGEST])
    return match[1] if match else None


def names_no_gpu(text: str) -> bool:
    """Whether the field for the GPU says in words that there is none: "None", "CPU only"."""
    return _NO_GPU.match(text.strip()) is not None


def system(text: str) -> str | None:
    """The operating system's name as it was written, in lower case; None when it is not one."""
    plain = " ".join(_EXAMPLE.sub("", text[:LONGEST]).split()).strip("*_`. :")
    offers_all = all(re.search(name, plain, re.IGNORECASE) for name in (r"\bwin", r"\bmac", r"\blinux"))
    return plain.lower() if _OS.search(plain) and not offers_all else None  # the words of the form


def gpu(text: str) -> str | None:
    """The name of the GPU without its memory; "none", "CPU only" and other makers' names as they are."""
    plain = " ".join(text[:LONGEST].split()).strip("*_`, ")
    if _NO_GPU.match(plain) or not _GPU.search(plain):
        return plain if _NO_GPU.match(plain) else None
    name = _COUNT.sub("", _MEMORY.sub(" ", _OTHER_PARTS.sub("", plain), count=4)).strip(" ,;/|(-:+")
    return " ".join(name.split()) or None


# ------------------------------------------------------------------------------------------ labels

MARKS = " \t#*_`>-•·+|"  # of Markdown, around a label
BULLET = re.compile(r"^[\s>#*•·+-]*(?:\d{1,2}[.)]\s)?[\s#*_`-]*")
BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_LONGEST_LABEL = 80

Pair = tuple[str, str]  # key, value
_READERS: dict[str, Callable[[str], str | None]] = {
    "os": system,
    "python": python,
    "tensorflow": tensorflow,
    "driver": lambda text: next(iter(_DRIVER.findall(text[:LONGEST])), None),  # "535.113.01", "440.82"
    "gpu": gpu,
    "install": lambda text: " ".join(text[:LONGEST].lower().split()).strip("*_` ") or None,
    "compiler": lambda _text: None,  # nobody asks for it; the label tells where another field ends
}


# "1.10.0, 1.13.1 and 1.14.0": those that somebody tried
_ONE_OF = r"v?\d{1,3}(?:\.\d{1,3}){1,3}(?:[-.]?(?:rc|a|b)\d+)?(?![\w.]{0,20}\w)"
TRIED = any_case(rf"(?<![\w.])(?:{_ONE_OF}\s*(?:,|/|;|&|\band\b|\bor\b)\s*(?:py(?:thon)? ?|tf ?|cuda ?)?)+{_ONE_OF}")


def _pairs(key: str, text: str) -> list[Pair]:
    """What the value behind the label of a key tells, all versions of a list of them."""
    pairs = _first_pairs(key, text)
    tried = TRIED.search(text[:LONGEST]) if pairs and key in _VERSIONED else None
    for number in re.findall(_ONE_OF, tried[0]) if tried and pairs[0][1] in tried[0] else ():
        of_two = key == "cuda" and not 10 <= int(major(number.lstrip("v"))) <= 19  # else it may be cuDNN's
        found = [] if of_two else _first_pairs(key, number)
        # "10.2, V10.2.89" are one
        pairs += [one for one in found if one[0] == key and not any(one[1].startswith(known) for _, known in pairs)]
    return pairs


def _first_pairs(key: str, text: str) -> list[Pair]:
    if key in ("cuda", "cudnn"):
        alone = key == "cudnn" and "cudnn" not in text.lower()
        found = zip(("cuda", "cudnn"), cuda_and_cudnn(f"cudnn {text}" if alone else text), strict=True)
        # "version 5, 6 and 7" behind cuDNN's label are all cuDNN's
        kept = ("cudnn",) if alone and "cuda" not in text.lower() else ("cuda", "cudnn")
        return [(name, value) for name, value in found if value and name in kept]
    value = _READERS[key](text)
    return [(key, value)] if value else []


# what stands before the colon, in lower case and without what is in brackets
LABELS = {
    key: re.compile(pattern)
    for key, pattern in {
        "os": r"(?:os|o\.s\.|operating systems?(?: version)?|os (?:version|type|name)|system(?: version)?|platform"
        r"|distribution|os ?/ ?(?:platform|version|distro)|os,? platform(?: (?:and|&) distribution)?"
        r"|linux distribution|host os|os information|distro|environment os)",
        "python": r"(?:(?:anaconda )?python(?: ?3)?(?: (?:version|ver|environment))?|py(?:thon)? ?v(?:ersion)?)",
        "tensorflow": r"(?:tensor ?flow|tf)(?:[ _-]?(?:gpu|cpu|2|nightly))?(?: (?:docker )?(?:version|ver|v"
        r"|image))?(?: ?/ ?keras(?: version)?)?|(?:version of tensorflow|tf\.?__version__|tf\.version)",
        "cuda": r"(?:(?:installed )?versions? of )?cuda ?(?:/|and|&|,|\+|or) ?cu ?dnn(?: versions?)?(?: installed)?"
        r"|cuda(?: ?toolkit)?(?: (?:version|ver|v|release|version installed))?|nvcc(?: version)?|cuda sdk",
        "cudnn": r"cu ?dnn(?: (?:version|ver|v|sdk|library))?",
        "driver": r"(?:(?:nvidia|gpu|graphics?(?: card)?|display|windows|nvidia[ -]gpu|nvidia graphics)[ _-])?drivers?"
        r"(?: version)?|nvidia version",
        "gpu": r"(?:nvidia )?gpus?(?:_devices)?(?: ?(?:model|type|name|card|s|used|device|info))?"
        r"(?: (?:name|version))?(?: ?(?:and|/|&) ?memory)?"
        r"|(?:graphics?|video|nvidia|display)[ -]?cards?(?: model)?|gpu models? and memory|graphics|device name",
        "compiler": r"(?:gcc ?/ ?compiler|compiler|g\+\+|clang)(?: version)?",
        "install": r"tensorflow installed (?:from|with|using|via)|installed (?:using|via|with) .{0,40}|source"
        r"|install(?:ation)? (?:method|type)|installed from",
    }.items()
}


def _key_of(label: str) -> str | None:
    """The key that this label asks for; None when it is no label of ours."""
    plain = BULLET.sub("", BRACKETS.sub(" ", label)).strip(MARKS + "?:").lower()
    if not plain or len(plain) > _LONGEST_LABEL:
        return None
    plain = " ".join(plain.replace("*", "").replace("`", "").removeprefix("my ").removeprefix("your ").split())
    return next((key for key, pattern in LABELS.items() if pattern.fullmatch(plain)), None)


# ------------------------------------------------------------------------------------------ mentions

_LONGEST_MENTION = 160

_START = re.compile(r"^[\s>#*•·+`_-]*(?:\d[.)]\s)?[\s*_`]*")
_COMMA = re.compile(r"\s*[,;，；]\s*")
_PART = any_case(r"\s*(?:[,;，；+&]|\b(?:and|with|on|under)\b| - )\s*")
_OPENING = any_case(
    r"(?:i'?m |i am |i )?(?:use|using|have|running|run|tried|installed?|my|our|for|version|the|in|a|an|nvidia)\s+"
)
_BETWEEN = r"\s*(?:(?:version|ver\.?|v\.?|toolkit|release|is)\s*)?(?:is\s*)?(?:(?::|=(?!=))\s*)?[vr]?"
_MENTIONED_NUMBER = r"(?P<number>\d{1,3}(?:\.\d{1,3}){0,3}(?:[-.]?(?:rc|a|b|dev)\d+)?)"
_END = r"(?:\.x|\.)?(?: ?(?:lts|x64|64[ -]?bits?|\(?gpu\)?|toolkit|installed|x|rc\d?))?"
_MENTION = any_case(rf"(?P<label>[a-z][a-z ._/-]{{0,30}}?)(?![a-z]{{2}}){_BETWEEN}{_MENTIONED_NUMBER}{_END}")
_VERSIONED = ("cuda", "cudnn", "tensorflow", "python", "driver")
_SYSTEM = any_case(
    r"(?:linux |gnu/linux |wsl ?2? )?(?:[klx]?ubuntu(?: mate)?|debian(?: gnu/linux)?|centos|fedora|rhel"
    r"|red hat[a-z ]{0,30}|linux mint|mint|arch linux|arch|manjaro|opensuse[a-z ]{0,20}|rocky(?: linux)?|almalinux"
    r"|windows|win|mac ?os(?: x)?|os ?x|osx|wsl)"
    r" ?(?:release |server |leap )?v?\d*(?:\.\d{1,3}){0,2}(?: (?:lts|home|pro|professional|enterprise|x64|64[ -]?bit"
    r"|\d\dh\d|server|desktop|\d{2}\.\d\d|monterey|ventura|sonoma|catalina|big sur|in docker))*"
)
_PLAIN_SYSTEM = any_case(r"windows|linux|mac|macos|wsl")
_CARD = any_case(
    r"(?:nvidia )?(?:(?:(?:geforce|quadro|tesla|titan|gtx|rtx|gt|mx) ?)+(?:[a-z]{0,3} ?\d{2,4}[a-z]{0,2}|xp?|v|rtx)?"
    r"|[ahlvtpkb]\d{1,3}[a-z]?)(?: ?(?:ti|super|mobile|laptop|max-q|xp|black|z|notebook|d|gpu|-?pcie"
    r"|-?sxm\d?))*(?: ?\d{1,3} ?gi?b)?(?: drivers? (?P<driver>\d{3}\.\d+(?:\.\d+)?))?"
)


def mentions(text: str) -> list[tuple[str, str]]:
    """Key and value of each part of the line; nothing when it holds other things, too.

    A list with commas may hold some: of "Fedora 25, Python 3.5.4, GCC 6.4.1" the first two are read.
    """
    if len(text) > _LONGEST_MENTION:
        return []
    plain = _START.sub("", re.sub(r"\([^()]*\)", " ", text)).strip(" \t.*_`:")
    return _of_parts(_PART.split(plain), strict=True) or _of_parts(_COMMA.split(plain), strict=False)


def _of_parts(parts: list[str], strict: bool) -> list[tuple[str, str]]:
    """What the parts say: all of them when `strict`, else two at least and half of them."""
    named = [part.strip() for part in parts if part.strip()]
    found = [_of_part(part, alone=len(named) < 2) for part in named]
    known = sum(bool(one) for one in found)
    if not 1 <= len(named) <= 8 or (known < len(named) if strict else known < 2 or 2 * known < len(named)):
        return []
    return _without_offers([pair for one in found for pair in one])


def _without_offers(pairs: list[Pair]) -> list[Pair]:
    """What is said, without systems among which a form lets choose."""
    systems = [name for key, name in pairs if key == "os" and _PLAIN_SYSTEM.fullmatch(name)]
    return [pair for pair in pairs if not (systems[1:] and pair[0] == "os")]


def _of_part(part: str, alone: bool) -> list[Pair]:
    opening = _OPENING.match(part)
    plain = part[opening.end() if opening else 0 :].strip()
    named = _MENTION.fullmatch(plain)
    if named and (key := _key_of(named["label"])):
        number = named["number"]
        bare = [("driver", number)] if key == "driver" and number.isdecimal() and int(number) >= 180 else []
        if (pairs := _pairs(key, f"{named['label']} {number}") or bare) and pairs[0][0] in _VERSIONED:
            return pairs[:1]
    named_system = _SYSTEM.fullmatch(plain) if re.search(r"\d", plain) else None
    if named_system or (not alone and _PLAIN_SYSTEM.fullmatch(plain)):
        return [("os", " ".join(plain.lower().split()))]
    return _of_card(part)


def _of_card(part: str) -> list[Pair]:
    card = _CARD.fullmatch(part) if re.search(r"\d", part) else None
    if card and card["driver"]:
        return [("gpu", part[: card.start("driver")].rsplit("driver", 1)[0].strip()), ("driver", card["driver"])]
    return _pairs("gpu", part) if card else []


# ------------------------------------------------------------------------------------------ issue form

_ANSWER_WITHIN = 12  # lines between a command that asks for the version and its answer
_SHORT = 80  # characters of a heading
_NEVER = -_ANSWER_WITHIN - 1
_VALUE_WITHIN = 4  # lines between a heading and its value


@dataclass(frozen=True)
class Statement:
    """One thing that somebody wrote about the machine, in a field or in a sentence."""

    # "os", "python", "tensorflow", "cuda", "cudnn", "driver", "gpu", "install"; "supported": the driver's newest CUDA
    key: str
    value: str  # "12.4", "ubuntu 20.04", "GeForce GTX 1080"
    raw: str  # the whole field as it was written
    line: int
    stance: str = "here"  # or "wanted" (asked for, needed, recommended), "elsewhere" (another machine or time)


_WORTH_A_LOOK = any_case(
    r"cuda|cudnn|tensor ?flow|\btf|python|driver|gpu|graphic|video|\bos\b|operating|platform|distr|gcc|compiler|clang"
    r"|install|source|system|windows|ubuntu|debian|centos|linux|mac ?os|nvcc|card|quadro|geforce|gtx|rtx|version|py"
)
_LOGGED = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:|[IWEF]\d{4} \d\d:|[IWEF] (?:tensorflow|external)/|Traceback |  File \"")
_HEADING = re.compile(
    r"\s*#{1,6}\s+(?P<label>\S(?:.*[^\s:#])?)[\s:#]*$|\s*\*\*(?P<bold>[^*:]*[^*:\s])\s*:?\*\*\s*:?\s*$"
)
_SEPARATOR = re.compile(r"\s*[:：=|]+\s*|(?<=\w)\s+[-–—]\s+")
_FIELD_OF_FORM = any_case(
    r"[\s*-]*(?P<label>OS Platform and Distribution|CUDA/cuDNN version|GPU model and memory|GCC/Compiler version) +"
    r"(?=[\w\[])"
)
_WIDE_COLON = re.compile(r"\S {2,}:\s")  # as nvidia-smi writes
_ASKS = re.compile(
    r"\b(?:tf|tensorflow)\.(?:__version__|VERSION|version\.VERSION|GIT_VERSION)"
    r"|\btf_version\(|\btf\$[`\w$]{0,40}(?i:version)"  # of R
)
_ANSWER = re.compile(
    r"[\s(]*(?:Out\[\d{1,4}\]: )?(?:b?['\"]?(?:v\d[\w.-]*|unknown)['\"]?,?\s+)?"
    r"b?['\"]?(?P<version>[012]\.\d{1,2}\.\d{1,2}[\w.-]{0,16})['\"]?[\s)]*"
    r"|\[1\] ['\"‘](?P<of_r>[12]\.\d{1,2}(?:\.\d{1,2})?)['\"’]"
)


_EXPECTED = any_case(r"\W{0,8}(?:describe the )?expected (?:behaviou?r|results?|outputs?)\W{0,4}\s*")
_LISTS_A_GPU = re.compile(r"device:GPU|GPU:\d|device_type='GPU'")
_NEXT_PART = any_case(
    r"\s*(?:#{1,6}\s+\S|\*\*[^*]{2,80}\*\*\s*:?\s*$"
    r"|\W{0,8}(?:actual|current|observed|steps|other|environment|system|additional|relevant|screenshots?|logs?)\b)"
)


def without_expected(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines without the devices that a form says should have been listed."""
    kept: list[Line] = []
    inside = False
    for line in lines:
        if len(line.text) < _SHORT and _EXPECTED.fullmatch(line.text):
            inside = True
        elif inside and _NEXT_PART.match(line.text):
            inside = False
        if not (inside and _LISTS_A_GPU.search(line.text)):
            kept.append(line)
    return tuple(kept)


_BROWSER = any_case(r"[\s*_#-]*browser\b")
_HOSTED = any_case(r"\b(?:sagemaker|studio lab|colab|kaggle|paperspace|databricks)\b")


def without_browser(lines: Sequence[Line]) -> tuple[Line, ...]:
    """The lines without the system of the browser in which a hosted notebook is open: it runs on another machine."""
    browsers = [one.number for one in lines if len(one.text) < _SHORT and _BROWSER.match(one.text)]
    if not browsers or not any(_HOSTED.search(one.text) for one in lines):
        return tuple(lines)
    near = {number + step for number in browsers for step in range(-2, 3)}
    return tuple(one for one in lines if not (one.number in near and _key_of(_split(one.text)[0]) == "os"))


def parse(lines: Sequence[Line]) -> tuple[Statement, ...]:
    """Everything that is stated, in the order of the text, a thing twice when it is stated twice."""
    found: list[Statement] = []
    asked, read = _NEVER, 0
    for place, line in enumerate(lines):
        text = line.text
        if line.number <= read or len(text) > LONGEST or _LOGGED.match(text):
            continue
        answer = _ANSWER.fullmatch(text) if place - asked <= _ANSWER_WITHIN else None
        if answer and (version := tensorflow(answer["version"] or answer["of_r"])):
            found.append(Statement("tensorflow", version, text.strip(), line.number))
            asked = _NEVER
        if _WORTH_A_LOOK.search(text):
            asked = place if _ASKS.search(text) else asked
            stated = list(_of_line(lines, place))
            read = max((one.line for one in stated), default=read)
            found += stated
    return tuple(found)


def _of_line(lines: Sequence[Line], place: int) -> Iterator[Statement]:
    """What one line says, with the lines after it where the value stands there."""
    text, number = _joined(lines, place), lines[place].number
    if heading := _HEADING.match(text):
        yield from _below(lines, place, _key_of(heading["label"] or heading["bold"]), titled=True)
    elif text.count("|") >= 2:  # a row of a table: label and value
        cells = [cell.strip() for cell in lines[place].text[:LONGEST].strip().strip("|").split("|")]
        key = _key_of(cells[0])
        if len(cells) == 2 and key and not _key_of(cells[1]):
            yield from _read_field(key, cells[1], number)
    elif not _is_of_nvidia_smi(lines, place):
        label, value = _split(text)
        key = _key_of(label)
        if key is None:
            yield from (Statement(key, value, text.strip(), number) for key, value in mentions(text))
        elif value.strip(MARKS):
            yield from _read_field(key, value, number)
        else:
            yield from _below(lines, place, key)


def _joined(lines: Sequence[Line], place: int) -> str:
    """The line, with the next one when the label's brackets were wrapped: "(e.g.," and "Linux Ubuntu 16.04): ..."."""
    text = lines[place].text
    if text.count("(") > text.count(")") and place + 1 < len(lines) and len(text) < 100:
        following = lines[place + 1].text
        if ")" in following and len(following) <= LONGEST - 100:
            return f"{text.rstrip()} {following.lstrip()}"
    return text


def _split(text: str) -> tuple[str, str]:
    """Label and value at the first colon outside brackets."""
    head = BRACKETS.sub(lambda match: " " * len(match[0]), text)
    separator = _FIELD_OF_FORM.match(head) or _SEPARATOR.search(head)
    if separator is None or separator.start() > 120 or separator[0].strip() == "==":
        return "", ""
    if head[: separator.start()].endswith(("<", ">", "!", "~")):  # "CUDA version >= 11.1 is needed" is no field
        return "", ""
    if separator.re is _FIELD_OF_FORM:  # "GPU model and memory   NVIDIA Corporation GK208 [GeForce GT 710]"
        return separator["label"], text[separator.end() :]
    # brackets behind the separator are a value: "('v1.3.0-rc2-20-g0787eee', '1.3.0')"
    return head[: separator.start()], text[separator.start() + len(separator[0].rstrip()) :]


def _read_field(key: str, value: str, number: int) -> Iterator[Statement]:
    plain = value.strip().strip("*`").strip()
    in_words = key == "gpu" and names_no_gpu(plain)
    pairs = _pairs(key, plain) if in_words or not _NOTHING.fullmatch(plain[:LONGEST]) else []
    if pairs and key == "os" and "," in plain:  # "OS: windows 11, tensorflow-cpu 2.6.0, Python 3.9.7"
        others = [pair for pair in mentions(plain) if pair[0] != "os"]
        first = system(plain.split(",")[0])
        pairs = [("os", first), *others] if others and first else pairs
    yield from (Statement(key, value, plain, number) for key, value in pairs)


def _below(lines: Sequence[Line], place: int, key: str | None, titled: bool = False) -> Iterator[Statement]:
    """The value of a heading, or of a label with nothing behind it: the next paragraph."""
    if key is None or (not titled and key == "install"):
        return  # any text would do for this one
    seen = 0
    for line in lines[place + 1 : place + 1 + 2 * _VALUE_WITHIN]:
        text = line.text[:LONGEST].strip()
        if not text or text.startswith("```"):
            if seen:
                return
            continue
        another = _HEADING.match(text) or _LOGGED.match(text) or ((seen or not titled) and _key_of(_split(text)[0]))
        if seen == _VALUE_WITHIN or another:
            return
        seen += 1
        yield from _read_field(key, BULLET.sub("", text), line.number)


def _is_of_nvidia_smi(lines: Sequence[Line], place: int) -> bool:
    """Whether "CUDA Version" stands in nvidia-smi's banner, wrapped or not, or in its long form."""
    text = lines[place].text
    if "version" not in text.lower():
        return False
    before = lines[place - 1].text[:LONGEST] if place else ""
    is_row = text.rstrip().endswith("|") or _WIDE_COLON.search(text) is not None
    return is_row or "NVIDIA-SMI" in before or "NVRM" in before
