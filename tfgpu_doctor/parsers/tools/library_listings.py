"""CUDA's and the driver's library files in listings: ``ls``, ``find``, ``locate``, ``ldd``, ``ldconfig -p``, ``dir``.

>>> text = '''$ ls -l /usr/local/cuda/lib64/libcud*
... lrwxrwxrwx 1 root root        21 Feb  3  2019 /usr/local/cuda/lib64/libcudart.so.10.0 -> libcudart.so.10.0.130
... $ ldd libtide_ops.so
...         libcudart.so.10.1 => not found
...         libcuda.so.1 => /usr/lib/x86_64-linux-gnu/libcuda.so.1 (0x00007fc23063c000)
... ls: cannot access '/usr/lib/libcudnn.so.8': No such file or directory'''
>>> for one in parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)]):
...     print(one.line, one.via, one.component, one.soname, one.path, one.version, one.found)
2 ls cudart libcudart.so.10.0 /usr/local/cuda/lib64/libcudart.so.10.0 10.0.130 True
4 ldd cudart libcudart.so.10.1 None 10.1 False
5 ldd cuda libcuda.so.1 /usr/lib/x86_64-linux-gnu/libcuda.so.1 None True
6 ls cudnn libcudnn.so.8 /usr/lib/libcudnn.so.8 8 False

The lines of TensorFlow's own log are none of these: a library named there is wanted, not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.parsers.text.lines import Line

LONGEST = 1000

_STEM = (
    r"(?:cuda(?:rt)?|cudnn(?:_\w{1,40})?|cublas(?:Lt)?|cufftw?|curand|cusolver(?:Mg)?|cusparse(?:Lt)?|cupti"
    r"|nvrtc(?:-builtins)?|nvJitLink"
    r"|nccl|nvinfer(?:_\w{1,20})?|nvidia-ml|nvidia-ptxjitcompiler)"
)
_FILE = (
    rf"(?:lib(?P<stem>{_STEM})(?:\.(?P<mac>[\d.]{{1,12}}))?\.(?:so|dylib)(?P<suffix>(?:\.\d{{1,4}}){{0,5}})"
    r"|(?P<dll>(?:cudart|cublas|cublasLt|cufft|cufftw|curand|cusolver|cusparse|cudnn|cudnn_\w{1,30}|nvrtc"
    r"|nvrtc-builtins|nvJitLink|cupti)"
    r"(?:64)?_[\d_]{1,12}\.dll|nvcuda\.dll|zlibwapi\.dll))"
)
_DLL_DIGITS = re.compile(r"_(\d{1,3})\.dll$", re.IGNORECASE)
_NAME = re.compile(_FILE)
_WORTH_A_LOOK = re.compile(r"lib(?:cu|nv|nccl)|\.dll", re.IGNORECASE)
_LDD = re.compile(rf"\s*(?P<soname>{_FILE}) => (?P<path>not found|\S{{1,300}})(?: \(0x[0-9a-f]+\))?\s*")
_LDCONFIG = re.compile(rf"\s*(?P<soname>{_FILE}) \((?P<flags>[^()]{{1,80}})\) => (?P<path>\S{{1,300}})\s*")
_LDCONFIG_V = re.compile(rf"\s+(?P<soname>{_FILE}) -> (?P<target>\S{{1,200}})(?: \(changed\))?\s*")
_NO_LINK = re.compile(
    rf"ldconfig\S{{0,8}}: (?P<folder>/(?:[^\s/]{{1,100}}/){{0,20}})(?P<soname>{_FILE}) is not a symbolic link"
)
_LS_LONG = re.compile(
    rf"\s*[-lrwxsdT.+@]{{10,12}}\s+\d+\s+\S+\s+\S+\s+[\d.,]+[KMG]?\s+.{{5,40}}?\s(?P<folder>/?(?:[^\s/]{{1,100}}/){{0,20}})(?P<soname>{_FILE})"
    r"(?: -> (?P<target>\S{1,300}))?\s*[│|]?\s*"
)
_MISSING = re.compile(
    rf"(?:ls|find|stat|cat|file): .{{0,40}}?['‘\"]?(?P<folder>/?(?:[^\s/'‘\"]{{1,100}}/){{0,20}})(?P<soname>{_FILE})"
    r"['’\"]?: No such file or directory"
)
_TOKEN = re.compile(rf"(?P<folder>~?/?(?:[^\s/:]{{1,100}}/){{0,20}})(?P<soname>{_FILE})[@*]?")
_OTHER_FILE = re.compile(r"[\w./+-]{0,200}\.(?:a|so|dylib|h)[\d.]{0,20}")
_WINDOWS = re.compile(
    rf"\s*(?P<folder>[A-Za-z]:\\(?:[^\\/:*?\"<>|]{{1,100}}\\){{0,20}})(?P<soname>{_FILE})\s*", re.IGNORECASE
)
_DIR = re.compile(
    rf"\s*\d{{2,4}}[-/.]\d\d[-/.]\d{{2,4}} .{{4,30}}?[\d,.]{{3,16}} (?P<soname>{_FILE})\s*", re.IGNORECASE
)


@dataclass(frozen=True)
class LibrarySeen:
    """A library file that a listing shows, or shows to be missing."""

    soname: str  # as listed: "libcudart.so.11.0", "cudnn64_8.dll"
    component: str  # "cudart", "cudnn", "cudnn_cnn_infer", "cuda" (the driver's), "cublas" ...
    found: bool
    line: int
    via: str  # "ldd", "ldconfig", "ls", "list" (find, locate, ls without details), "dir"
    path: str | None = None
    version: str | None = None  # from the file's name, two numbers at least; one for cuDNN and for DLLs


def parse(lines: Sequence[Line]) -> tuple[LibrarySeen, ...]:
    """Every library of every listing, in the order of the text."""
    return tuple(
        seen
        for line in lines
        if _WORTH_A_LOOK.search(line.text, 0, LONGEST)
        for seen in _of_line(line.text[:LONGEST], line.number)
    )


def _of_line(text: str, number: int) -> Iterator[LibrarySeen]:
    if match := _LDD.fullmatch(text):
        found = match["path"] != "not found"
        yield _seen(match, number, "ldd", match["path"] if found else None, match["path"], found=found)
    elif match := _LDCONFIG.fullmatch(text):
        yield _seen(match, number, "ldconfig", match["path"], match["path"])
    elif match := _LDCONFIG_V.fullmatch(text):
        yield _seen(match, number, "ldconfig", None, match["target"])
    elif match := _NO_LINK.search(text):  # ldconfig complains of a copy in place of a link, and reads it
        yield _seen(match, number, "ldconfig", _in_folder(match))
    elif match := _LS_LONG.fullmatch(text):
        yield _seen(match, number, "ls", _in_folder(match), match["target"])
    elif match := _MISSING.search(text):
        yield _seen(match, number, "ls", _in_folder(match), found=False)
    elif match := _WINDOWS.fullmatch(text) or _DIR.fullmatch(text):
        yield _seen(match, number, "dir", _in_folder(match))
    else:
        yield from _of_names(text.split(), number)


def _of_names(words: list[str], number: int) -> Iterator[LibrarySeen]:
    """A row of `ls` may hold other files, too; a sentence holds words."""
    matches = [_TOKEN.fullmatch(word) for word in words[:50]]
    if all(match or _OTHER_FILE.fullmatch(word) for match, word in zip(matches, words, strict=False)):
        yield from (_seen(match, number, "list", _in_folder(match)) for match in matches if match)


def _in_folder(match: re.Match[str]) -> str | None:
    """The path of a file whose folder is given."""
    folder: str | None = match.groupdict().get("folder")
    return folder + match["soname"] if folder else None


def _seen(
    match: re.Match[str], number: int, via: str, path: str | None, target: str | None = None, *, found: bool = True
) -> LibrarySeen:
    """The record; a link's target or the file that the loader found may tell more of the version."""
    component = match["stem"] or _component_of(match["dll"])
    return LibrarySeen(match["soname"], component, found, number, via, path, _version_of(match, component, target))


def _component_of(dll: str) -> str:
    """ "cudnn" of cudnn64_8.dll, "cuda" of nvcuda.dll."""
    return re.sub(r"(?:64)?(?:_[\d_]{1,40})?\.dll$", "", dll).removeprefix("nv" if dll == "nvcuda.dll" else "")


def _version_of(match: re.Match[str], component: str, target: str | None) -> str | None:
    suffix = match["suffix"] or match["mac"] or ""
    behind = _NAME.search(target) if target else None
    if behind and (version := _version(behind["suffix"] or behind["mac"] or "")):
        return version
    if version := _version(suffix):
        return version
    if component == "cudnn" and suffix.strip("."):  # its major alone is what programs ask for
        return str(suffix.strip("."))
    digits = _DLL_DIGITS.search(match["dll"]) if match["dll"] else None
    return _of_dll(component, digits[1]) if digits else None


def _of_dll(component: str, digits: str) -> str | None:
    """ "101" of cudart is 10.1 and "80" is 8.0; "12" of cudart and "8" of cudnn are whole."""
    if component == "cudart" and (len(digits) == 3 or (len(digits) == 2 and int(digits) >= 50)):
        return f"{digits[:-1]}.{digits[-1]}"
    return digits if component in ("cudart", "cudnn") else None


def _version(suffix: str) -> str | None:
    numbers = suffix.strip(".")
    return numbers if "." in numbers else None
