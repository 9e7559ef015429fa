r"""What pip, conda and uv print: lists of packages, and messages while they install.

Installed packages, as people paste lists of them or parts of lists.

>>> parse_lists([Line(1, "accuracy  0.98"), Line(2, "loss      0.03"), Line(3, "tensorflow 2.13 is what I want")])
()

A row "name version" counts behind a header or a command, or in a run of rows of which one is a package everybody has.

What pip, conda and uv say while they install: refusals, lists of versions, conflicts, what was installed.

The kinds and what they fill:

* ``no-version``: requirement; `versions` that pip offered, which betray its Python; an empty list is "none"
* ``no-match``: requirement; ``wheel-refused``, of one that is not for this Python or platform: name, version, `tags`
* ``installed``: name, version; ``satisfied``: name, version
* ``no-extra``: name, version, the extra in `other`; ``removed``: name of a package that was taken off the index
* ``conflict``: name and version of who complains, its requirement, `other` and `other_version` that is there (empty
  when it is missing); ``unresolvable``: pip found no set of versions
* ``externally-managed``; ``build-failed``: name
* ``conda-unsatisfiable``; ``conda-no-provider``: `requirement` ("__cuda") that `name` needs and nothing provides
* ``uv-no-wheels``: name, version (empty: all)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tfgpu_doctor.parsers.lines import Line, any_case

# ------------------------------------------------------------------------------------------ package rows

NAME = r"[A-Za-z_][A-Za-z0-9._-]{0,80}"
VERSION = r"v?\d[A-Za-z0-9._+!]{0,60}(?:-\d{1,3}\b)?"
ROW = re.compile(rf"\s*(?P<name>{NAME})(?P<gap>\s+)(?P<version>{VERSION})(?P<rest>(?:\s+\S+){{0,3}})\s*")
OLD_ROW = re.compile(rf"\s*(?P<name>{NAME}) \((?P<version>{VERSION})(?:, \S{{1,200}})?\)\s*")
CONDA_ROW = re.compile(
    rf"\s*(?P<name>{NAME})\s+(?P<version>{VERSION})\s+(?P<build><pip>|[\w.*+-]{{1,60}})(?:\s+\[[\w ,]{{1,40}}\])?"
    r"(?:\s+(?P<channel>\S{1,200}))?\s*"
)
STRONG_BUILD = re.compile(r"<pip>|pypi_\d|[\w.]*_\d{1,4}|py\d{2}\w*|h[0-9a-f]{6}\w*")
FREEZE = re.compile(
    rf"[\s\"'`*+~-]*(?P<name>{NAME})(?:\[[\w, .-]{{0,80}}\])?(?P<gap>\s?)==\s?(?P<version>{VERSION})(?P<wild>\.\*)?"
    r"[\"'`,]*\s*(?:\\|[;#].*|--hash.*)?\s*"
)
_EXPORT = re.compile(
    rf"[\s\"'`-]*(?:(?P<channel>[\w.-]{{1,40}})::)?(?P<name>{NAME})={{1,2}}(?P<version>{VERSION})(?P<wild>\.?\*)?"
    r"(?:=(?P<build>[\w.*]{1,60}))?[\"'`]*\s*(?:#.*)?\s*"
)

# of these nearly every environment has one, so a run of rows with one of them is a list of packages
KNOWN = any_case(
    r"(?:tensorflow|tensorboard|keras|tf[-_]|nvidia[-_]|numpy|six|wheel|setuptools|pip$|protobuf|h5py|grpcio|absl[-_]|cudatoolkit"
    r"|cudnn|cuda[-_]|libcu|ml[-_]dtypes|opt[-_]einsum|scipy|pandas|certifi|requests|torch|jax|termcolor|astunparse|gast|flatbuffers"
    r"|google-|libclang|markdown|typing|wrapt|werkzeug|matplotlib|scikit|ipython|jupyter|_tflow|_libgcc|python$|openssl)",
)
NEVER_PIP = any_case(r"(?:python|cuda|cudnn|ubuntu|debian|windows|linux|driver|gcc|nvcc|conda version)$")


@dataclass(frozen=True)
class ListedPackage:
    """One package in a list."""

    name: str  # normalised (PEP 503), but for conda's names that begin with an underscore
    version: str  # "" where the list does not tell it
    line: int
    manager: str  # "pip" or "conda": who installed it
    build: str | None = None  # conda's: "cuda112py310he87a039_0"
    channel: str | None = None


def normalised(name: str) -> str:
    """The name as PEP 503 compares it; conda's own "_tflow_select" stays as it is.

    >>> normalised("Nvidia_cuDNN.cu12"), normalised("_tflow_select")
    ('nvidia-cudnn-cu12', '_tflow_select')
    """
    return name.lower() if name.startswith("_") else re.sub(r"[-_.]+", "-", name).lower()


def _listed(match: re.Match[str], number: int, manager: str) -> ListedPackage:
    values = match.groupdict()
    version = f"{match['version']}.*" if values.get("wild") else match["version"]
    if manager != "conda":
        return ListedPackage(normalised(match["name"]), version, number, manager)
    build, channel = values.get("build"), values.get("channel")
    return ListedPackage(normalised(match["name"]), version, number, manager, build, channel)


# ------------------------------------------------------------------------------------------ pip list

_LONGEST_ROW = 400  # characters; no row of a list is as long
_LIST_GOES_ON = 3  # lines that are no rows, after which a list is over
_ROW_BEGINS = re.compile(
    r"\s*(?:[-+*•~>`'\"]\s*){0,3}[A-Za-z_][\w.-]{0,80}(?:\[[\w, .-]{0,80}\])?"
    r"(?:\s+\(?!?\)?\s*v?\d|\s?==?\s?\d|\s@ |:\s|:$)"
)
_WORDS = ("pip", "conda", "mamba", "Package", "Name", "----", "────")

_LIST_COMMAND = re.compile(
    r"(?:^|[\s$>#%!(;&|`\"'/\\])(?P<tool>uv pip|pip3?(?:\.\d+)?|pip\.exe|conda|mamba|micromamba) "
    r"(?P<what>list|freeze|show|env export)\b"
)
_PIP_HEADER = re.compile(r"\s*Package\s+Version(?:\s+(?:Latest|Type|Editable project location|Location|Installer))*\s*")
_CONDA_HEADER = re.compile(r"[\s#]*(?:packages in environment at .*|Name\s+Version\s+Build(?:\s+Channel)?\s*)")
_RULE = re.compile(r"(?=[\s─-]*[─-]{3})[\s─-]*")
_PROMPT = re.compile(
    r"\s*(?:>>>|In ?\[\d{0,4}\]|\(?[\w.@~:/\\ -]{0,60}\)?\s?[$#%]\s|[A-Z]:\\[^>]{0,80}>|\d{4}-\d\d-\d\d )"
)

_SHOWN_NAME = re.compile(rf"[\s>*`-]*Name: (?P<name>{NAME})\s*")
_SHOWN_VERSION = re.compile(rf"[\s>*`-]*Version: (?P<version>{VERSION})\s*")
_SECTION = re.compile(r"\s*-?\s*(?P<key>dependencies|pip|channels|prefix|name|variables):.*")


def parse_lists(lines: Sequence[Line]) -> tuple[ListedPackage, ...]:
    """Every package of every list, in the order of the text."""
    return tuple(_Reader(lines).read())


class _Reader:
    """Goes through the lines and knows in which list it stands."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines
        self._list = ""  # "pip list", "conda list", "environment"; empty outside of any
        self._others = 0  # lines since the last row
        self._in_pip = False  # the nested list of an environment file
        self._run: list[ListedPackage] = []  # rows that wait for a known package
        self._trusted = False

    def read(self) -> Iterator[ListedPackage]:
        for place, line in enumerate(self._lines):
            text = line.text
            if text.count("|", 0, _LONGEST_ROW) >= 3 and text.lstrip().startswith("|"):
                text = text.replace("|", " ")  # a Markdown table
            if len(text) > _LONGEST_ROW or not (_ROW_BEGINS.match(text) or any(word in text for word in _WORDS)):
                yield from self._no_row(text)
                continue
            if found := self._sure(text, line.number, place):
                yield from self._flush()
                yield from found
                self._others = 0
            elif self._opens(text):
                yield from self._flush()
            elif row := self._row(text, line.number):
                self._others = 0
                if self._list:
                    yield row
                else:
                    self._run.append(row)
                    self._trusted = self._trusted or row.build is not None or bool(KNOWN.match(row.name))
            else:
                yield from self._no_row(text)
        yield from self._flush()

    def _no_row(self, text: str) -> Iterator[ListedPackage]:
        if text.strip() and not _RULE.fullmatch(text[:_LONGEST_ROW]):
            yield from self._flush()
            self._others += 1
            if self._others >= _LIST_GOES_ON or _PROMPT.match(text):
                self._list = ""

    def _flush(self) -> Iterator[ListedPackage]:
        """The rows that waited, where they turned out to be a list."""
        if self._trusted:
            yield from self._run
        self._run, self._trusted = [], False

    def _opens(self, text: str) -> bool:
        """Whether the line begins a list; a prompt with another command ends one."""
        if command := _LIST_COMMAND.search(text):
            lists = "pip list" if "pip" in command["tool"] else "conda list"
            self._list = {"show": "", "env export": "environment"}.get(command["what"], lists)
        elif _PIP_HEADER.fullmatch(text):
            self._list = "pip list"
        elif _CONDA_HEADER.fullmatch(text):
            self._list = "conda list"
        elif section := _SECTION.fullmatch(text):
            self._in_pip = section["key"] == "pip"
            self._list = "environment" if section["key"] in ("dependencies", "pip") else ""
        else:
            self._list = "" if _PROMPT.match(text) else self._list
            return False
        self._others = 0
        return True

    def _sure(self, text: str, number: int, place: int) -> list[ListedPackage]:
        """Rows that are packages wherever they stand."""
        if pinned := FREEZE.fullmatch(text):
            return self._pinned(pinned, number, place)
        match = _EXPORT.fullmatch(text)
        if match and (self._list == "environment" or (match["build"] and STRONG_BUILD.fullmatch(match["build"]))):
            return [_listed(match, number, "conda")]
        if match := _SHOWN_NAME.fullmatch(text):  # `pip show`
            following = [line.text for line in self._lines[place + 1 : place + 3] if line.text.strip()]
            if following and (version := _SHOWN_VERSION.fullmatch(following[0])):
                return [ListedPackage(normalised(match["name"]), version["version"], number, "pip")]
        return []

    def _pinned(self, match: re.Match[str], number: int, place: int) -> list[ListedPackage]:
        if match["gap"] and not KNOWN.match(match["name"]):
            return []
        if self._list == "environment":
            return [_listed(match, number, "pip" if self._in_pip else "conda")]
        around = self._lines[max(0, place - 2) : place + 3]
        if match[0].lstrip().startswith("- ") and any(line.text.lstrip().startswith("+ ") for line in around):
            return []  # uv's "- keras==2.14.0" beside "+ keras==2.15.0" is gone
        return [_listed(match, number, "pip")]

    def _row(self, text: str, number: int) -> ListedPackage | None:
        """A row whose columns are apart by spaces; None when it may be anything."""
        if conda := self._conda_row(text):
            pip = conda["build"] == "<pip>" or conda["build"].startswith("pypi_") or conda["channel"] == "pypi"
            return _listed(conda, number, "pip" if pip else "conda")
        row = OLD_ROW.fullmatch(text) or ROW.fullmatch(text)
        if row is None or not (row.re is OLD_ROW or self._is_plausible(row)):
            return None
        return _listed(row, number, "conda" if self._list == "conda list" and row.re is ROW else "pip")

    def _conda_row(self, text: str) -> re.Match[str] | None:
        """A row of `conda list`: by its place, its build string, or a known package in wide columns."""
        row = CONDA_ROW.fullmatch(text) if self._list in ("", "conda list") else None
        if row is None:
            return None
        among = self._list == "conda list" or (self._run and self._run[-1].build is not None)
        wide = row["build"].isdigit() and KNOWN.match(row["name"]) and re.search(r"\s{2}\S+\s{2}", text)
        return row if among or wide or STRONG_BUILD.fullmatch(row["build"]) else None

    def _is_plausible(self, row: re.Match[str]) -> bool:
        """Whether a name and a version are a package; outside of a list they may be anything."""
        if self._list == "conda list":
            return not row["rest"]
        if NEVER_PIP.match(row["name"]):
            return False
        return bool(self._list) or (len(row["gap"]) >= 2 and not row["rest"] and "." in row["version"])


# ------------------------------------------------------------------------------------------ pip install

LONGEST = 4000
_JOINED = 80  # lines over which a list of versions may be wrapped
_MOST_EVENTS = 2000  # versions of one list


@dataclass(frozen=True)
class Event:
    """One message of an installer; the module's docstring tells which kind fills what."""

    kind: str
    line: int
    name: str = ""  # normalised
    version: str = ""
    requirement: str = ""
    other: str = ""
    other_version: str = ""
    versions: tuple[str, ...] = ()
    tags: str = ""  # "cp311-cp311-manylinux_2_17_x86_64"


# where a name may begin that is searched for: not within another, which would be tried from each of its characters
_BEGINS = r"(?<![A-Za-z0-9._-])[._-]{0,5}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}"
_VERSION = r"\d[A-Za-z0-9.+!_]{0,40}"
_REQUIREMENT = rf"(?P<requirement>(?P<name>{_NAME})(?:\[[\w, -]{{0,80}}\])?[^()\n]{{0,120}}?)"
_NO_VERSION = re.compile(rf"Could not find a version that satisfies the requirement {_REQUIREMENT}\s*(?:\(|$|;)")
_NO_VERSION_MARKER = "satisfies the requirement"
_FROM_VERSIONS = re.compile(r"\(from versions:(?P<versions>[^)]*)")
_NO_MATCH = re.compile(rf"No matching distribution found for {_REQUIREMENT}\s*(?:\(|$|`)")
_WHEEL = re.compile(
    rf"{_BEGINS}(?P<name>{_NAME}?)-(?P<version>{_VERSION})(?:-\d\w{{0,8}})?"
    r"-(?P<tags>[\w.]{1,40}-[\w.]{1,40}-[\w.]{1,120})\.whl"
)
_INSTALLED = re.compile(rf"(?P<name>{_NAME}?)-(?P<version>{_VERSION})(?:-\d)?")
_SATISFIED = re.compile(
    rf"Requirement already (?:satisfied|up-to-date)[^:]{{0,60}}: (?P<requirement>(?P<name>{_NAME})[^\n]{{0,160}}?) in "
    rf"\S.{{0,250}}? ?(?:\(from .{{0,300}}?\) ?)?\((?P<version>{_VERSION})\)"
)
_SATISFIED_ALONE = re.compile(
    rf"Requirement already (?:satisfied|up-to-date)[^:]{{0,60}}: (?P<requirement>(?P<name>{_NAME})\S{{0,160}})"
)
_NO_EXTRA = re.compile(
    rf"{_BEGINS}(?P<name>{_NAME}) (?P<version>{_VERSION}) "
    rf"does not provide the extra ['\"](?P<other>[\w.-]{{1,60}})['\"]"
)
_REMOVED = re.compile(rf"The [\"'“‘](?P<name>{_NAME})[\"'”’] package has been removed")
_CONFLICT = re.compile(
    rf"{_BEGINS}(?P<name>{_NAME}) (?P<version>{_VERSION}) (?:requires|has requirement) "
    rf"(?P<requirement>[^,\s][^\n]{{0,150}}?),? "
    rf"but you(?:'ll)? have (?P<other>{_NAME}) (?P<other_version>{_VERSION}) which is incompatible"
)
_LACKS = re.compile(
    rf"{_BEGINS}(?P<name>{_NAME}) (?P<version>{_VERSION}) requires (?P<requirement>(?P<other>{_NAME})[^\n]{{0,150}}?), "
    r"which is not installed"
)
_BUILD_FAILED = re.compile(
    rf"(?:(?:Failed building wheel|Could not build wheels) for |Failed to build (?!installable)['`\"]?)"
    rf"(?P<name>{_NAME})"
)
_NOTHING_PROVIDES = re.compile(
    rf"nothing provides (?:requested )?(?P<requirement>\S{{1,60}}(?: [\w.<>=*|,]{{1,60}}(?= needed))?)"
    rf"(?: needed by (?P<name>{_NAME}?)-(?P<version>{_VERSION})(?:-\S{{1,60}})?)?"
)
_MISSING_ON_SYSTEM = re.compile(r"(?<!\w)(?P<requirement>__\w{2,20})[^,\n]{0,40}, which is missing on the system")
_LISTED = re.compile(
    r"^\s*- (?P<requirement>(?:[\w./-]{1,60}::?)?(?P<name>[A-Za-z_][\w.-]{0,80}?)(?:[=<> ]\S{0,80})?)\s*$"
)
# "incompatible with the existing python installation": conda/exceptions.py, UnsatisfiableError
_FOR_OTHER_PYTHONS = re.compile(r"^\s*- (?P<requirement>tensorflow[\w.-]{0,20}(?:=\S{0,80})?) -> python\b")
_UV_NONE = re.compile(
    rf"(?:{_BEGINS}(?P<name>{_NAME})(?:[=<>]{{1,2}}(?P<version>{_VERSION}))? (?:has|is unusable because|have)"
    rf"|all versions of (?P<all>{_NAME}) have) no wheels (?:are available )?with a matching (?:Python|platform)"
)
_UV_NAME_ABOVE = re.compile(r"\s*(?:ha(?:s|ve) )?no wheels")
# marker that stands in the line, kind, and what its groups fill
_SIMPLE = (
    ("No matching distribution found for", "no-match", _NO_MATCH),
    ("is not a supported wheel on this platform", "wheel-refused", _WHEEL),
    ("does not provide the extra", "no-extra", _NO_EXTRA),
    ("package has been removed", "removed", _REMOVED),
    ("which is incompatible", "conflict", _CONFLICT),
    (", which is not installed", "conflict", _LACKS),
    ("ResolutionImpossible", "unresolvable", re.compile("")),
    ("externally-managed-environment", "externally-managed", re.compile("")),
    (" build", "build-failed", _BUILD_FAILED),
    ("nothing provides ", "conda-no-provider", _NOTHING_PROVIDES),
    ("which is missing on the system", "conda-no-provider", _MISSING_ON_SYSTEM),
)


def parse_events(lines: Sequence[Line]) -> tuple[Event, ...]:
    """Every message of the installers, in the order of the text."""
    found: list[Event] = []
    for place, line in enumerate(lines):
        text = line.text[:LONGEST]
        for marker, kind, pattern in _SIMPLE:
            if marker in line.text:
                found += _event(kind, pattern.search(text), line)
        for marker, read in _READERS:
            if marker in line.text:
                found += read(text, lines, place)
    return tuple(found)


def _event(kind: str, match: re.Match[str] | None, line: Line) -> Iterator[Event]:
    """The event of a match whose groups are named as the fields are."""
    if match is not None:
        values = {key: value.strip() for key, value in match.groupdict().items() if value}
        for key in ("name", "other"):
            if key in values and kind != "no-extra":
                values[key] = normalised(values[key])
        yield Event(kind, line.number, **values)  # type: ignore[arg-type]


def _joined(text: str, lines: Sequence[Line], place: int, end: str, most: int = _JOINED) -> str:
    """The text with the lines after it, until one has `end`; a paste may have wrapped it."""
    parts = [text.rstrip()]
    for line in lines[place + 1 : place + 1 + most]:
        if end in parts[-1] or not line.text.strip() or _NO_VERSION_MARKER in line.text:
            break
        parts.append(line.text[:LONGEST].strip())
    return " ".join(parts)


def _no_version(text: str, lines: Sequence[Line], place: int) -> Iterator[Event]:
    match = _NO_VERSION.search(text)
    if match is None:
        return
    begin = text.find("(from versions:")
    offered = _FROM_VERSIONS.match(_joined(text[begin:], lines, place, ")")) if begin >= 0 else None
    words = [word.strip() for word in offered["versions"].split(",")][:_MOST_EVENTS] if offered else []
    versions = tuple(word for word in words if re.fullmatch(_VERSION, word))
    yield from (replace(one, versions=versions) for one in _event("no-version", match, lines[place]))


def _installed(text: str, lines: Sequence[Line], place: int) -> Iterator[Event]:
    listed = text[text.find("Successfully installed ") :].split()[2:]
    for line in lines[place + 1 : place + 1 + _JOINED]:  # a list of a hundred packages is often wrapped
        words = line.text[:LONGEST].split()
        if not words or not all(_INSTALLED.fullmatch(word) for word in words):
            break
        listed += words
    for word in listed:
        yield from _event("installed", _INSTALLED.fullmatch(word), lines[place])


def _satisfied(text: str, lines: Sequence[Line], place: int) -> Iterator[Event]:
    yield from _event("satisfied", _SATISFIED.search(text) or _SATISFIED_ALONE.search(text), lines[place])


def _unsatisfiable(_text: str, lines: Sequence[Line], place: int) -> Iterator[Event]:
    """conda's refusal; where Python itself stands in the list under it, no build is for that Python."""
    yield Event("conda-unsatisfiable", lines[place].number)
    listed = [line.text[:LONGEST] for line in lines[place + 1 : place + 16]]
    entries = [match for text in listed if (match := _LISTED.match(text))]
    names = {entry["name"]: entry["requirement"] for entry in entries}
    wanted = next((asked for name, asked in names.items() if name.startswith("tensorflow")), None)
    other = next((match["requirement"] for text in listed if (match := _FOR_OTHER_PYTHONS.match(text))), None)
    if other and any("Your python:" in text for text in listed):
        yield Event("no-match", lines[place].number, normalised("tensorflow"), requirement=other.split("=")[0])
    elif wanted and "python" in names:
        yield Event("no-match", lines[place].number, normalised("tensorflow"), requirement=wanted.split("=")[0])


def _uv_none(text: str, lines: Sequence[Line], place: int) -> Iterator[Event]:
    if place and _UV_NAME_ABOVE.match(text):
        text = f"{lines[place - 1].text[:LONGEST].rstrip()} {text.lstrip()}"
    whole = _joined(text, lines, place, "unsatisfiable", most=6)
    for match in _UV_NONE.finditer(whole):
        if whole.find("no wheels", match.start()) > len(text):
            return  # begins in a later line, which is read by itself
        name = normalised(match["name"] or match["all"])
        if name not in ("and", "versions", "which"):
            yield Event("uv-no-wheels", lines[place].number, name, match["version"] or "")


def _uv_wrapped(text: str, lines: Sequence[Line], place: int) -> Iterator[Event]:
    """uv wraps at the terminal's width, also amid the words that _uv_none is found by."""
    if text.rstrip().endswith((" has no", " have no")):
        yield from _uv_none(text, lines, place)


_READERS: tuple[tuple[str, Callable[[str, Sequence[Line], int], Iterator[Event]]], ...] = (
    (_NO_VERSION_MARKER, _no_version),
    ("Successfully installed ", _installed),
    ("Requirement already ", _satisfied),
    ("UnsatisfiableError", _unsatisfiable),
    ("no wheels", _uv_none),
    ("has no", _uv_wrapped),
    ("have no", _uv_wrapped),
)
