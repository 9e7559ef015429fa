"""The labels of issue forms and of free "key: value" lines, and who reads what stands behind each.

>>> reader_of("**OS Platform and Distribution (e.g., Linux Ubuntu 16.04)**")("Linux Ubuntu 20.04")
[('os', 'linux ubuntu 20.04')]
>>> reader_of("### CUDA/cuDNN version")("8.0/5.1"), reader_of("Exact command to reproduce") is None
([('cuda', '8.0'), ('cudnn', '5.1')], True)
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tfgpu_doctor.parsers.text.statements import values

MARKS = " \t#*_`>-•·+|"  # of Markdown, around a label
BULLET = re.compile(r"^[\s>#*•·+-]*(?:\d{1,2}[.)]\s)?[\s#*_`-]*")
BRACKETS = re.compile(r"\([^()]*\)|\[[^\[\]]*\]")
_LONGEST = 80

Pair = tuple[str, str]  # key, value
Reader = Callable[[str], list[Pair]]


def _one(key: str, read: Callable[[str], str | None]) -> Reader:
    return lambda text: [(key, value)] if (value := read(text)) else []


def _cuda_cudnn(text: str) -> list[Pair]:
    found = zip(("cuda", "cudnn"), values.cuda_and_cudnn(text), strict=True)
    return [(key, value) for key, value in found if value] + _one("driver", values.driver_of_installer)(text)


def _cudnn(text: str) -> list[Pair]:
    cuda, cudnn = values.cuda_and_cudnn(f"cudnn {text}" if "cudnn" not in text.lower() else text)
    return [(key, value) for key, value in (("cuda", cuda), ("cudnn", cudnn)) if value]


GPU = _one("gpu", values.gpu)
COMPILER = _one("compiler", values.any_text)
INSTALL = _one("install", values.any_text)

# what stands before the colon, in lower case and without what is in brackets
LABELS: tuple[tuple[re.Pattern[str], Reader], ...] = tuple(
    (re.compile(pattern), reader)
    for pattern, reader in (
        (
            r"(?:os|o\.s\.|operating systems?(?: version)?|os (?:version|type|name)|system(?: version)?|platform"
            r"|distribution"
            r"|os ?/ ?(?:platform|version|distro)|os,? platform(?: (?:and|&) distribution)?|linux distribution|host os"
            r"|os information|distro|environment os)",
            _one("os", values.system),
        ),
        (
            r"(?:python(?: ?3)?(?: (?:version|ver|environment))?|py(?:thon)? ?v(?:ersion)?)",
            _one("python", values.python),
        ),
        (
            r"(?:tensor ?flow|tf)(?:[ -]?(?:gpu|cpu|2))?(?: (?:docker )?(?:version|ver|v|image))?"
            r"(?: ?/ ?keras(?: version)?)?"
            r"|(?:version of tensorflow|tf\.?__version__|tf\.version)",
            _one("tensorflow", values.tensorflow),
        ),
        (
            r"(?:(?:installed )?versions? of )?cuda ?(?:/|and|&|,|\+|or) ?cu ?dnn(?: versions?)?(?: installed)?"
            r"|cuda(?: ?toolkit)?(?: (?:version|ver|v|release|version installed))?|nvcc(?: version)?|cuda sdk",
            _cuda_cudnn,
        ),
        (r"cu ?dnn(?: (?:version|ver|v|sdk|library))?", _cudnn),
        (
            r"(?:(?:nvidia|gpu|graphics?(?: card)?|display|nvidia[ -]gpu|nvidia graphics) )?drivers?(?: version)?"
            r"|nvidia version",
            _one("driver", values.driver),
        ),
        (
            r"(?:nvidia )?gpus?(?:_devices)?(?: ?(?:model|type|name|card|s|used|device|info))?"
            r"(?: (?:name|version))?(?: ?(?:and|/|&) ?memory)?"
            r"|(?:graphics?|video|nvidia|display)[ -]?cards?(?: model)?|gpu models? and memory|graphics|device name",
            GPU,
        ),
        (r"(?:gcc ?/ ?compiler|compiler|g\+\+|clang)(?: version)?", COMPILER),
        (
            r"tensorflow installed (?:from|with|using|via)|installed (?:using|via|with) .{0,40}"
            r"|source|install(?:ation)? (?:method|type)"
            r"|installed from",
            INSTALL,
        ),
    )
)


def reader_of(label: str) -> Reader | None:
    """Who reads the value behind this label; None when it is no label of ours."""
    plain = BULLET.sub("", BRACKETS.sub(" ", label)).strip(MARKS + "?:").lower()
    if not plain or len(plain) > _LONGEST:
        return None
    plain = " ".join(plain.replace("*", "").replace("`", "").removeprefix("my ").removeprefix("your ").split())
    return next((reader for pattern, reader in LABELS if pattern.fullmatch(plain)), None)
