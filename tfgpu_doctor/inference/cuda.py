"""CUDA and cuDNN of a pasted text: stated, printed by nvcc, installed by a command, named in a sentence or a path."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfgpu_doctor.inference.parsed_text import ParsedText, fact_from, stated_at
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.records.facts import NOT_IN_TEXT, Cuda, Cudnn, CudnnFile, Known, Nvcc, Toolkit
from tfgpu_doctor.records.versions import minor

_INSTALLED_BY = re.compile(
    r"(?<![\w-])(?P<name>cudatoolkit|cuda-toolkit|cuda-runtime|cudnn|cuda-nvcc)==?(?P<version>\d+(?:\.\d+)*)"
)
# the distributions' own package: "nvidia-cuda-toolkit 12.2.1", "nvidia-cuda-toolkit/jammy 11.5.1-1ubuntu1"
_OF_DISTRIBUTION = re.compile(
    r"(?<![\w-])nvidia-cuda-toolkit(?:/\w+)?[ =:-]{1,30}(?P<version>\d{1,2}(?:\.\d{1,3}){1,2})\b"
)
_FOLDER = re.compile(r"[/\\]cuda(?:-|[/\\]v)(?P<version>\d{1,2}\.\d)\b", re.IGNORECASE)
_RUNTIME_FILE = re.compile(
    r"\bcudart64_(?P<digits>(?:[5-9]\d|1[01]\d))\.dll\b|\blibcudart\.so\.(?P<version>\d{1,2}\.\d)(?=\.?\d*\b)"
    r"|\blib(?:cublas|cufft|curand|cusolver|cusparse)\.so\.(?P<alike>7\.[05]|8\.0|9\.[0-2]|10\.0)(?=\.?\d*\b)",
    re.IGNORECASE,
)
_CLAUSE = re.compile(r"[.;,]\s+|\b(?:but|and)\b")
_SENTENCE = 400  # a line that is longer is a program's
_OLD = ("cublas", "cufft", "curand", "cusolver", "cusparse")
_ALL_ALIKE = ("7.0", "7.5", "8.0", "9.0", "9.1", "9.2", "10.0")
_HEADER = re.compile(r"^\S{1,200}: *$|/ldconfig")  # a folder above its list of files, which tells what is in it
_AROUND = 20  # characters before and after that may turn a statement into a wish
# a sentence about what a program wants or a page says, no statement of what is there
NOT_HERE = re.compile(
    r"looking for|looks? (?:\w+ )?for|search|whereis|\bwants?\b|instead of|requires?\b|needs?\b|asks? for|asking for"
    r"|Download and install|built (?:for"
    r"|against|with)|compiled|expects?|should i|CUDA Version:|nvidia-smi|supports?\b|not found|could not"
    r"|cannot open|or (?:earlier|later|newer|above)|downloading|from this URL|you may install",
    re.IGNORECASE,
)


# "with 2.14.0 everything worked", "the default TF 1.2 does not do this": what that release needs is there
_WORKS_WITH = re.compile(
    r"\b(?:works?|worked|fine|runs|(?:does|did)(?:n't| not) (?:happen|occur)|no (?:such )?(?:problem|error|issue)s?)\b"
    r"[^.\n]{0,40}\b(?:tensor ?flow(?:[-_]gpu)?|tf)[ =v]{1,4}(?P<version>[12]\.\d{1,2})(?!\d)"
    r"|\b(?:revert\w*|downgrad\w*|(?:went|going) back)\b[^.\n]{0,40}?\b(?:to|with) (?:tensor ?flow(?:[-_]gpu)?|tf)?"
    r"[ =v]{0,4}(?P<older>[12]\.\d{1,2})(?:\.\d+)?\b[^.\n]{0,40}\b(?:works?|worked|fine|fixed|solved)\b",
    re.IGNORECASE,
)


def cuda(text: ParsedText, matrix: Matrix | None = None) -> Cuda:
    """The toolkits that tools, files, somebody's words, a command or a path tell of."""
    printed = [one for one in text.versions if one.component == "cuda"]
    kits = [
        Toolkit(path=one.via, version=one.version, source=f"line {one.line}: {one.via}", via=one.via) for one in printed
    ]
    stated = text.all_stated("cuda")
    if printed:  # people take nvidia-smi's "CUDA Version", the newest that the driver supports, for their toolkit's
        stated = [one for one in stated if one.value != text.smi.cuda_version]
    kits += [Toolkit(path=one.raw[:80], version=one.value, source=stated_at(one), via="stated") for one in stated]
    kits += _mentioned_toolkits(text, bool(kits))
    kits += _listed_runtimes(text)
    kits += _named_files(text)
    kits += () if kits or matrix is None else _of_another_release(text, matrix)
    nvcc = next((one for one in printed if one.via == "nvcc"), None)
    return Cuda(
        toolkits=Known(_distinct(kits), kits[0].source, _grade(kits[0].via)) if kits else NOT_IN_TEXT,
        nvcc=Known(Nvcc(path="nvcc", version=nvcc.version), f"line {nvcc.line}") if nvcc else NOT_IN_TEXT,
    )


def _listed_runtimes(text: ParsedText) -> Iterator[Toolkit]:
    """CUDA's libraries in listings of files: libcudart.so.10.1 is there; up to 10.0 all have their toolkit's number."""
    for one in text.libraries:
        version = minor(one.version)
        if one.found and version and (one.component == "cudart" or (one.component in _OLD and version in _ALL_ALIKE)):
            yield Toolkit(
                path=one.path or one.soname, version=version, source=f"line {one.line}: {one.via}", via=one.via
            )


def _named_files(text: ParsedText) -> Iterator[Toolkit]:
    """CUDA's runtime that somebody names in a sentence: "the folder has cudart64_102.dll"."""
    named = text.messages_of("library-not-opened", "loader-error", "library-opened")
    sought = {message.line: message.values.get("library", "") for message in named}
    for line in text.lines:
        if len(line.text) > _SENTENCE or not any(name in line.text.lower() for name in ("cudart", *_OLD)):
            continue
        for match in _files_there(line.text):
            if match[0] in sought.get(line.number, "") or (match["alike"] and match[0] in sought.values()):
                continue
            digits = match["digits"] or ""
            version = match["version"] or match["alike"] or f"{digits[:-1]}.{digits[-1]}"
            yield Toolkit(path=match[0], version=version, source=f"line {line.number}: {match[0]}", via="stated")


def _of_another_release(text: ParsedText, matrix: Matrix) -> Iterator[Toolkit]:
    """The CUDA of a release that is said to work on that machine."""
    for release, source in _that_works(text, matrix):
        yield Toolkit(path=f"for TensorFlow {release.version}", version=release.cuda, source=source, via="stated")


def _that_works(text: ParsedText, matrix: Matrix) -> Iterator[tuple[Release, str]]:
    """The release that is said to work on that machine, and where."""
    if found := text.find(_WORKS_WITH):
        version = found[0]["version"] or found[0]["older"]
        rows = (matrix.tensorflow(f"{version}.0", "linux_x86_64", name) for name in ("tensorflow-gpu", "tensorflow"))
        yield from [(row, f"line {found[1]}: {row.version} works") for row in rows if row and row.gpu][:1]


def _files_there(line: str) -> Iterator[re.Match[str]]:
    """The files of each clause that is no wish: "it wants libcudart.so.10.1, my file is libcudart.so.10.2.89"."""
    for clause in _CLAUSE.split(line):
        if not NOT_HERE.search(clause):
            yield from _RUNTIME_FILE.finditer(clause)


def _mentioned_toolkits(text: ParsedText, stated: bool) -> Iterator[Toolkit]:
    """Toolkits that a conda command installs, that a path names, or that a sentence says are installed."""
    for line in _lines_with(text, "cuda", "gpu"):
        for match in _INSTALLED_BY.finditer(line.text):
            if match["name"] != "cudnn":
                yield Toolkit(
                    path="conda", version=match["version"], source=f"line {line.number}: {match[0]}", via="conda"
                )
        if packaged := _OF_DISTRIBUTION.search(line.text):
            where = f"line {line.number}: nvidia-cuda-toolkit {packaged['version']}"
            yield Toolkit(path="nvidia-cuda-toolkit", version=packaged["version"], source=where, via="stated")
        if text.libraries and _HEADER.search(line.text):
            continue
        if not stated and (folder := _stated_as_installed(_FOLDER, line.text)):
            yield Toolkit(path=folder[0], version=folder["version"], source=f"line {line.number}", via="stated")
    for one in () if stated else text.said("cuda"):
        yield Toolkit(path=one.raw, version=one.value, source=f"line {one.line}", via="stated")


def _lines_with(text: ParsedText, *words: str) -> Iterator[Line]:
    """The lines that have one of the words: the expressions above try every character of a line."""
    return (line for line in text.lines if any(word in low for low in [line.text.lower()] for word in words))


def _stated_as_installed(pattern: re.Pattern[str], line: str) -> re.Match[str] | None:
    """What a sentence says is installed; not what somebody wants, asks for or is told to install."""
    match = pattern.search(line)
    around = line[max(match.start() - _AROUND, 0) : match.end() + _AROUND] if match else ""
    return None if NOT_HERE.search(around) else match


def cudnn(text: ParsedText, matrix: Matrix | None = None) -> Cudnn:
    """The cuDNN that was loaded, and those that are stated or installed by a command, or of a release that works."""
    files = (*_cudnn_files(text), *_mentioned_cudnn(text))
    if not files and matrix:
        files = tuple(CudnnFile(where, one.cudnn, "stated") for one, where in _that_works(text, matrix))
    differs = next(iter(text.messages_of("cudnn-version-differs")), None)
    loaded = next(iter(text.messages_of("cudnn-loaded")), None)
    version = differs.values["runtime"] if differs else _packed(loaded.values["version"]) if loaded else None
    return Cudnn(
        installed=Known(files, files[0].path, _grade(files[0].source)) if files else NOT_IN_TEXT,
        runtime=fact_from(dotted(version), differs or loaded),
    )


def _cudnn_files(text: ParsedText) -> Iterator[CudnnFile]:
    """What tools print, what the form states, and what listings show."""
    for one in text.versions:
        if one.component == "cudnn":
            yield CudnnFile(path=f"line {one.line}: {one.via}", version=one.version, source=one.via)
    for stated in text.all_stated("cudnn"):
        yield CudnnFile(path=stated_at(stated), version=stated.value, source="stated")
    for file in text.libraries:
        if file.found and file.component == "cudnn" and file.version:
            path = f"line {file.line}: {file.path or file.soname}"
            yield CudnnFile(path=path, version=file.version, source=file.via)


def _mentioned_cudnn(text: ParsedText) -> Iterator[CudnnFile]:
    """What a conda command installs, or a sentence says is installed, unless the form states one."""
    stated = text.all_stated("cudnn")
    for line in _lines_with(text, "cudnn"):
        for match in _INSTALLED_BY.finditer(line.text):
            if match["name"] == "cudnn":
                yield CudnnFile(path=f"line {line.number}: {match[0]}", version=match["version"], source="conda")
    for one in () if stated else text.said("cudnn"):
        yield CudnnFile(path=f"line {one.line}", version=one.value, source="stated")


def _grade(via: str | None) -> str:
    return "stated" if via == "stated" else "observed"


def _distinct(kits: list[Toolkit]) -> tuple[Toolkit, ...]:
    seen: dict[str | None, Toolkit] = {}
    for kit in kits:
        seen.setdefault(kit.version, kit)
    return tuple(seen.values())


def dotted(version: str | None) -> str | None:
    """cuDNN's number as it was printed: "8.0.5", "5005" for 5.0.5, "8600" for 8.6.0."""
    version = version.strip(".") if version else None
    return _packed(version) if version and version.isdecimal() else version


def _packed(number: str) -> str:
    """CUDNN_VERSION: major × 1000 + minor × 100 + patch up to 8, major × 10000 + ... from 9 on (cudnn_version.h)."""
    value = int(number)
    base = 10_000 if value >= 90_000 else 1_000
    return f"{value // base}.{value % base // 100}.{value % 100}"
