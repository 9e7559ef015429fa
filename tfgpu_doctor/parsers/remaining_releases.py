"""Which releases of TensorFlow, and which Pythons, remain where the text does not name one.

The form of TensorFlow's log, its date, the names of the libraries that it opens and the cuDNN that it was compiled with
belong to some releases only; so do the lines of the source files that print ("cpu_feature_guard.cc:193] This ..."), and
the Python beside it. A release is left out only where it is known to print the same message from other lines, or the
releases before and after it are: between them, a file grows from line to line. A message, or a line, that the matrix
does not have says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from packaging.version import Version

from tfgpu_doctor.facts.facts import Fact, Known, Python, Unknown, value_or
from tfgpu_doctor.facts.versions import dotted, major, minor
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.matrix.names import known_library
from tfgpu_doctor.matrix.offers import versions_offered
from tfgpu_doctor.matrix.schema import LogMessage
from tfgpu_doctor.parsers.parsed_text import ParsedText

# ------------------------------------------------------------------------------------------ log lines

WORDS = 5  # of a message that tell it from others
MOST_LINES = 400  # messages of one text that are looked at
PRINTED = re.compile(r"\b(?P<file>\w{2,60}\.cc):(?P<line>\d{1,5})\] (?P<message>\S.{0,200})")
_VALUE = re.compile(r"[\d'\"/\\<>@]|^\(")

Series = tuple[int, int]


def message_key(message: str) -> str:
    """The first words of a message, its values left out.

    >>> message_key("Could not load dynamic library 'libcudart.so.11.0'; dlerror: libcudart.so.11.0: cannot open")
    'Could not load dynamic library'
    >>> message_key("failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected")
    'failed call to cuInit: CUDA_ERROR'
    """
    words: list[str] = []
    for word in message.split()[:WORDS]:
        if word.startswith("CUDA_ERROR"):
            return " ".join([*words, "CUDA_ERROR"])
        words.append("*" if _VALUE.search(word) else word)
        if (len(words) == 1 and word.endswith(":")) or words == ["Executing", "op"]:
            break
    return " ".join(words)


def printed(texts: Iterable[str]) -> Iterator[tuple[str, int, str]]:
    """Source file, line and key of each message of TensorFlow's log."""
    for text in texts:
        if found := PRINTED.search(text):
            yield found["file"], int(found["line"]), message_key(found["message"])


def by_series(row: LogMessage) -> dict[Series, set[int]]:
    """Minor release → the lines from which its patches print the message."""
    lines: dict[Series, set[int]] = {}
    for line, releases in row.lines.items():
        for release in releases.split():
            version = Version(release)
            lines.setdefault((version.major, version.minor), set()).add(int(line))
    return lines


def places_of(texts: Iterable[str], rows: Iterable[LogMessage]) -> dict[str, dict[Series, bool]]:
    """ "dso_loader.cc:64" → minor release → whether it prints that message from that line."""
    known = {(row.file, row.message): row for row in rows}
    found: dict[str, dict[Series, bool]] = {}
    for number, (file, line, key) in enumerate(printed(texts)):
        if number >= MOST_LINES:
            break
        row = known.get((file, key))
        if row is not None and str(line) in row.lines:
            possible = found.setdefault(f"{file}:{line}", {})
            for series, lines in _with_those_between(by_series(row)).items():
                possible[series] = line in lines or possible.get(series, False)
    return found


def _with_those_between(known: dict[Series, set[int]]) -> dict[Series, range | set[int]]:
    """The lines of each minor release, also of those between two that are known: from the first of theirs to the last.

    >>> _with_those_between({(2, 13): {110}, (2, 15): {113}})
    {(2, 13): {110}, (2, 14): range(110, 114), (2, 15): {113}}
    """
    lines: dict[Series, range | set[int]] = dict(known)
    for before, after in pairwise(sorted(known)):
        theirs = known[before] | known[after]
        for number in range(before[1] + 1, after[1]) if before[0] == after[0] else ():
            lines[before[0], number] = range(min(theirs), max(theirs) + 1)
    return dict(sorted(lines.items()))


# ------------------------------------------------------------------------------------------ remaining releases

MOST = 12  # releases; more say nothing
_MOST_OF_WINDOWS = 24  # there the question is one alone: whether the release has CUDA at all
_BY_PIP = re.compile(r"\bpip\d?\b|\binstall\w*\b.{0,40}\btensorflow\b|\btensorflow\b.{0,40}\binstall", re.IGNORECASE)

# where the source file that prints lies: first and last release (TensorFlow's tags)
_FORMS: tuple[tuple[re.Pattern[str], Series, Series], ...] = (
    (re.compile(r"\bI0000 00:00:\d+\.\d+ +\d+ (?:port|cpu_feature_guard)\.cc:"), (2, 17), (9, 0)),
    (re.compile(r"\b[EWI]0000 00:00:\d+\.\d+ +\d+ \w+\.cc:"), (2, 14), (9, 0)),
    (re.compile(r"external/local_(?:tsl|xla)/"), (2, 15), (2, 19)),
    (re.compile(r"tensorflow/tsl/"), (2, 11), (2, 14)),
    (re.compile(r"tensorflow/compiler/xla/stream_executor/"), (2, 11), (2, 14)),
    (re.compile(r"tensorflow/stream_executor/platform/default/dso_loader\.cc"), (1, 14), (2, 10)),
    (re.compile(r"\bCould not dlopen library '"), (1, 14), (2, 0)),  # of the same file
    (re.compile(r"\bCould not load dynamic library '"), (2, 1), (9, 0)),
    (re.compile(r"tensorflow/stream_executor/dso_loader\.cc"), (1, 0), (1, 13)),
    (re.compile(r"tensorflow/stream_executor/"), (1, 0), (2, 10)),
)
_EXTRA = re.compile(r"\btensorflow\[and[-_]cuda\](?!.{0,3}==)")
_FOLDERS: tuple[tuple[re.Pattern[str], Series, Series], ...] = (
    (re.compile(r"-packages[/\\]tensorflow_core[/\\]"), (1, 15), (2, 1)),
    (_EXTRA, (2, 14), (9, 0)),
)  # of wheels, and their extra
_DATED = re.compile(r"^(?P<year>20[12]\d)-(?P<month>[01]\d)-\d\d \d\d:\d\d:\d\d\.\d+: [IWEF] (?:tensorflow|external)/")
# months in which minor releases came out (their tags); a log is not older than its TensorFlow
_PUBLISHED: dict[Series, tuple[int, int]] = {
    (1, 0): (2017, 2), (1, 1): (2017, 4), (1, 2): (2017, 6), (1, 3): (2017, 8), (1, 4): (2017, 11), (1, 5): (2018, 1),
    (1, 6): (2018, 2), (1, 7): (2018, 3), (1, 8): (2018, 4), (1, 9): (2018, 7), (1, 10): (2018, 8), (1, 11): (2018, 9),
    (1, 12): (2018, 11), (1, 13): (2019, 2), (1, 14): (2019, 6), (1, 15): (2019, 10), (2, 0): (2019, 9),
    (2, 1): (2020, 1), (2, 2): (2020, 5), (2, 3): (2020, 7), (2, 4): (2020, 12), (2, 5): (2021, 5), (2, 6): (2021, 8),
    (2, 7): (2021, 11), (2, 8): (2022, 2), (2, 9): (2022, 5), (2, 10): (2022, 9), (2, 11): (2022, 11),
    (2, 12): (2023, 3), (2, 13): (2023, 7), (2, 14): (2023, 9), (2, 15): (2023, 11), (2, 16): (2024, 3),
    (2, 17): (2024, 7), (2, 18): (2024, 10), (2, 19): (2025, 3), (2, 20): (2025, 8),
}  # fmt: skip
_OPENED = re.compile(r"dso_loader|dynamic library|CUDA library", re.IGNORECASE)
_MOST_PLACES = 3  # that are named as the reason
_NAMED = re.compile(r"\btensor ?flow\b", re.IGNORECASE)
DRIVER = "driver"  # component of libcuda.so.1, which every release opens
OTHER_BUILDS = ("source-build", "conda-build", "conda-tensorflow", "jetson")  # built with other libraries than wheels


class _Wheel(NamedTuple):
    """What tells one release from another in a text; joining a whole row of the matrix for each takes 40 ms."""

    version: Version
    python: tuple[str, ...]
    sonames: frozenset[str]  # none: unknown
    cuda: str | None
    cudnn: str | None  # compiled against

    @property
    def series(self) -> Series:
        """The minor release."""
        return self.version.major, self.version.minor


Clue = tuple[str, Callable[[_Wheel], bool]]  # what it is, and which releases it leaves


def remaining_releases(text: ParsedText, matrix: Matrix, python: Python, *, wheel: bool) -> Unknown | None:
    """The newest patch of each minor release that could have printed this; None where too many could, or none.

    Args:
        wheel: the build is a published wheel, as far as is known, so that it opens the libraries of the matrix.
    """
    of_log, libraries = [*_of_the_log(text)], [*_of_the_libraries(text, matrix)] if wheel else []
    clues = [*of_log, *libraries]
    lines = [*_of_the_lines(text, matrix, otherwise=True)] if wheel else []
    platform = value_or(python.wheel_platform, "linux_x86_64")
    version = minor(value_or(python.version, None))
    by_python = platform == "windows_amd64" and _is_asked_of_pip(text, bool(version and not (clues or lines)))
    if not (clues or lines or by_python):
        return None
    beside: list[Clue] = [(f"Python {version}", lambda row: version in row.python)] if version else []
    wheels = [*_wheels(matrix, platform, with_cuda=not by_python)]
    ways = [[*clues, *beside, *lines]]
    if lines and libraries:  # else it is another build's, of a source that is known to print so
        ways.append([*of_log, *beside, *_of_the_lines(text, matrix, otherwise=False)])
    ways.append([*clues, *beside])  # or the log is of two releases
    newest, used = next(_that_leave_some(wheels, ways), ({}, []))
    return _described(newest, used) if 1 <= len(newest) <= (_MOST_OF_WINDOWS if by_python else MOST) else None


def _that_leave_some(
    wheels: Collection[_Wheel], ways: Iterable[list[Clue]]
) -> Iterator[tuple[dict[Series, Version], list[Clue]]]:
    """What each of several lists of clues leaves, if it leaves anything."""
    for way in ways:
        if newest := _newest_patches(wheels, way):
            yield newest, way


def _is_asked_of_pip(text: ParsedText, named: bool) -> bool:
    """Whether pip is asked for CUDA, which it leaves out on Windows, or for any wheel of the Python that is named."""
    return bool(text.find(_EXTRA) or (named and text.find(_BY_PIP) and text.find(_NAMED)))


def _described(newest: Mapping[Series, Version], clues: Iterable[Clue]) -> Unknown:
    names = [*dict.fromkeys(name for name, _ in clues)]
    first, last = (f"{one[0]}.{one[1]}" for one in (min(newest), max(newest)))
    span = first if first == last else f"{first} to {last}"
    return Unknown(
        f"the text does not name the release; {', '.join(names)} leave{'s' if len(names) == 1 else ''} {span}",
        one_of=tuple(str(newest[series]) for series in sorted(newest)),
    )


def _of_the_lines(text: ParsedText, matrix: Matrix, *, otherwise: bool) -> Iterator[Clue]:
    """The lines of the source files that print: a release that prints a message from another line is none of these.

    Args:
        otherwise: whether a release stays of which no line of the message is known.
    """
    places = places_of((line.text for line in text.lines), matrix.data.log_lines)
    if places:
        name = ", ".join([*places][:_MOST_PLACES])
        yield name, lambda row: all(one.get(row.series, otherwise) for one in places.values())


def _newest_patches(wheels: Iterable[_Wheel], clues: Collection[Clue]) -> dict[Series, Version]:
    newest: dict[Series, Version] = {}
    for row in wheels:
        if not (row.version.is_prerelease or row.version.local) and all(leaves(row) for _, leaves in clues):
            newest[row.series] = max(row.version, newest.get(row.series, row.version))
    return newest


def python_of_offers(
    text: ParsedText, matrix: Matrix, platform: Fact[str], stated: str | None = None
) -> Fact[str] | None:
    """The Python to which pip offers the versions that it lists: known where only one fits, else one of several.

    None where it is the stated one, as far as the offers tell.
    """
    for event in text.events:
        if event.kind != "no-version" or not event.versions:
            continue
        pythons, _ = versions_offered(matrix, event.name, event.versions, value_or(platform, None)) or ((), False)
        if stated and minor(stated) in pythons:
            return None
        if len(pythons) == 1:
            return Known(pythons[0], f"line {event.line}: the versions that pip offers", "inferred")
        if 1 < len(pythons) <= MOST:
            return Unknown("pip offers the same versions to several Pythons", one_of=pythons)
    return None


def _wheels(matrix: Matrix, platform: str, *, with_cuda: bool = True) -> Iterator[_Wheel]:
    """The releases with CUDA, and on platforms without any all."""
    opened = {one.id: frozenset(one.libraries.values()) for one in matrix.data.libraries}
    documented = {one.version: one.cudnn for one in matrix.data.official}
    rows = [
        (row.version, wheel)
        for row in matrix.data.tensorflow
        if row.package in ("tensorflow", "tensorflow-gpu")
        for name, wheel in row.wheels.items()
        if name == platform
    ]
    for version, wheel in [row for row in rows if with_cuda and row[1].cuda is not None] or rows:
        cudnn = wheel.cudnn or (documented.get(minor(version)) if wheel.cuda else None)
        sonames = opened.get(wheel.libraries or "", frozenset())
        yield _Wheel(Version(version), wheel.python, sonames, wheel.cuda, cudnn)


def _of_the_log(text: ParsedText) -> Iterator[Clue]:
    for pattern, first, last in (*_FORMS, *_FOLDERS):
        if found := text.find(pattern):
            name = "the form of the log" if (pattern, first, last) in _FORMS else f"{found[0][0]} on line {found[1]}"
            yield name, lambda row, first=first, last=last: first <= row.series <= last  # type: ignore[misc]
    if dated := text.find(_DATED):
        year, month = int(dated[0]["year"]), int(dated[0]["month"])
        limit = (year, month + 1)  # release candidates are some weeks older
        yield f"its date {year}-{month:02}", lambda row: _PUBLISHED.get(row.series, max(_PUBLISHED.values())) <= limit


def _of_the_libraries(text: ParsedText, matrix: Matrix) -> Iterator[Clue]:
    """The names that TensorFlow opens, found or not; those that no release has are another program's."""
    linked = text.messages_of("loader-error") if text.messages_of("native-traceback") else ()
    opened = (one for one in text.messages_of("library-not-opened", "library-opened") if _OPENED.search(one.text))
    names = {one.values["library"] for one in (*linked, *opened) if "library" in one.values}
    known = {name for one in matrix.data.libraries for part, name in one.libraries.items() if part != DRIVER}
    for name in sorted(names & known):
        yield name, lambda row, name=name: _opens(row, name)  # type: ignore[misc]
    for message in text.messages_of("cudnn-version-differs"):
        if (compiled := dotted(message.values.get("compiled"))) is not None:
            yield f"cuDNN {compiled}", lambda row, compiled=compiled: _compiled_with(row, compiled)  # type: ignore[misc]


def _opens(row: _Wheel, name: str) -> bool:
    """Whether it has that library among those that it opens; where they are not known, whether it fits its CUDA."""
    library = known_library(name) if not row.sonames else None
    if library is None:
        return name in row.sonames
    built_for = row.cudnn if library.component == "cudnn" else row.cuda
    return not (built_for and library.version) or built_for.startswith(library.version)


def _compiled_with(row: _Wheel, cudnn: str) -> bool:
    known = row.cudnn or cudnn
    return minor(cudnn) == known if "." in known else major(cudnn) == known
