"""What pip, conda and uv say while they install: refusals, lists of versions, conflicts, what was installed.

>>> text = '''WARNING: tensorflow 2.12.1 does not provide the extra 'and-cuda'
... ERROR: Could not find a version that satisfies the requirement tensorflow==2.15.0 (from versions: 2.20.0rc0, 2.20.0)
... ERROR: No matching distribution found for tensorflow==2.15.0
... tensorflow 2.15.1 requires keras<2.16,>=2.15.0, but you have keras 3.5.0 which is incompatible.
... Successfully installed keras-3.5.0 opt-einsum-3.4.0'''
>>> for one in parse([Line(number, line) for number, line in enumerate(text.splitlines(), 1)]):
...     print(one.line, one.kind, one.name, one.version, one.requirement, one.other, one.other_version, one.versions)
1 no-extra tensorflow 2.12.1  and-cuda  ()
2 no-version tensorflow  tensorflow==2.15.0   ('2.20.0rc0', '2.20.0')
3 no-match tensorflow  tensorflow==2.15.0   ()
4 conflict tensorflow 2.15.1 keras<2.16,>=2.15.0 keras 3.5.0 ()
5 installed keras 3.5.0    ()
5 installed opt-einsum 3.4.0    ()

The kinds and what they fill:

* ``no-version``: requirement; `versions` that pip offered, which betray its Python; an empty list is "none"
* ``no-match``: requirement; ``wheel-refused``, of one that is not for this Python or platform: name, version, `tags`
* ``installed``: name, version; ``satisfied``: name, version
* ``no-extra``: name, version, the extra in `other`; ``removed``: name of a package that was taken off the index
* ``conflict``: name and version of who complains, its requirement, `other` and `other_version` that is there (None
  when it is missing); ``unresolvable``: pip found no set of versions
* ``externally-managed``; ``build-failed``: name
* ``conda-not-found``: requirement; ``conda-unsatisfiable``; ``conda-no-provider``: `requirement` ("__cuda") that `name`
  needs and nothing provides
* ``uv-no-wheels``: name, version (empty: all)
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.parsers.tools.package_rows import normalised

LONGEST = 4000
_JOINED = 80  # lines over which a list of versions may be wrapped
_MOST = 2000  # versions of one list


@dataclass(frozen=True)
class Event:
    """One message of an installer; the module's docstring tells which kind fills what."""

    kind: str
    line: int
    name: str = ""  # normalised
    version: str = ""
    requirement: str = ""
    other: str = ""
    other_version: str | None = ""
    versions: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()  # "cp311-cp311-manylinux_2_17_x86_64"


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
    rf"(?:Failed building wheel for |Building wheel for (?=[\w.-]+ .{{0,60}}error)|Could not build wheels for |"
    rf"Failed to build (?!installable)['`\"]?)(?P<name>{_NAME})"
)
_NOTHING_PROVIDES = re.compile(
    rf"nothing provides (?:requested )?(?P<requirement>\S{{1,60}}(?: [\w.<>=*|,]{{1,60}}(?= needed))?)"
    rf"(?: needed by (?P<name>{_NAME}?)-(?P<version>{_VERSION})(?:-\S{{1,60}})?)?"
)
_MISSING_ON_SYSTEM = re.compile(r"(?<!\w)(?P<requirement>__\w{2,20})[^,\n]{0,40}, which is missing on the system")
_LISTED = re.compile(
    r"^\s*- (?P<requirement>(?:[\w./-]{1,60}::?)?(?P<name>[A-Za-z_][\w.-]{0,80}?)(?:[=<> ]\S{0,80})?)\s*$"
)
_UV_NONE = re.compile(
    rf"(?:{_BEGINS}(?P<name>{_NAME})(?:[=<>]{{1,2}}(?P<version>{_VERSION}))? (?:has|is unusable because|have)"
    rf"|all versions of (?P<all>{_NAME}) have) no wheels (?:are available )?with a matching (?:Python|platform)"
)
_UV_NAME_ABOVE = re.compile(r"\s*(?:ha(?:s|ve) )?no wheels")


def parse(lines: Sequence[Line]) -> tuple[Event, ...]:
    """Every message of the installers, in the order of the text."""
    found: list[Event] = []
    for place, line in enumerate(lines):
        for marker, read in _READERS:
            if marker in line.text:
                found += read(line.text[:LONGEST], lines, place)
    return tuple(found)


_Read = Callable[[str, Sequence[Line], int], Iterator[Event]]


def _event(kind: str, match: re.Match[str] | None, line: Line) -> Iterator[Event]:
    """The event of a match whose groups are named as the fields are."""
    if match is not None:
        values = {
            key: value.strip() for key, value in match.groupdict().items() if value and key in Event.__annotations__
        }
        for key in ("name", "other"):
            if key in values and kind != "no-extra":
                values[key] = normalised(values[key])
        yield Event(kind, line.number, **values)  # type: ignore[arg-type]


def _simple(kind: str, pattern: re.Pattern[str]) -> _Read:
    return lambda text, lines, place: _event(kind, pattern.search(text), lines[place])


def _flag(kind: str) -> _Read:
    return lambda _text, lines, place: iter([Event(kind, lines[place].number)])


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
    words = [word.strip() for word in offered["versions"].split(",")][:_MOST] if offered else []
    versions = tuple(word for word in words if re.fullmatch(_VERSION, word))
    name, requirement = normalised(match["name"]), match["requirement"].strip()
    yield Event("no-version", lines[place].number, name, requirement=requirement, versions=versions)


def _refused(text: str, lines: Sequence[Line], place: int) -> Iterator[Event]:
    if match := _WHEEL.search(text):
        name = normalised(match["name"])
        yield Event("wheel-refused", lines[place].number, name, match["version"], tags=(match["tags"],))


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


def _lacks(text: str, lines: Sequence[Line], place: int) -> Iterator[Event]:
    for one in _event("conflict", _LACKS.search(text), lines[place]):
        yield Event(one.kind, one.line, one.name, one.version, one.requirement, one.other, None)


def _not_found(_text: str, lines: Sequence[Line], place: int) -> Iterator[Event]:
    """The list under conda's "PackagesNotFoundError"."""
    for line in lines[place + 1 : place + 40]:
        entry = _LISTED.match(line.text[:LONGEST])
        if entry:
            yield from _event("conda-not-found", entry, line)
        elif line.text.strip():
            return


def _unsatisfiable(_text: str, lines: Sequence[Line], place: int) -> Iterator[Event]:
    """conda's refusal; where Python itself stands in the list under it, no build is for that Python."""
    yield Event("conda-unsatisfiable", lines[place].number)
    entries = [match for line in lines[place + 1 : place + 16] if (match := _LISTED.match(line.text[:LONGEST]))]
    names = {entry["name"]: entry["requirement"] for entry in entries}
    wanted = next((asked for name, asked in names.items() if name.startswith("tensorflow")), None)
    if wanted and "python" in names:
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


_READERS: tuple[tuple[str, _Read], ...] = (
    (_NO_VERSION_MARKER, _no_version),
    ("No matching distribution found for", _simple("no-match", _NO_MATCH)),
    ("is not a supported wheel on this platform", _refused),
    ("Successfully installed ", _installed),
    ("Requirement already ", _satisfied),
    ("does not provide the extra", _simple("no-extra", _NO_EXTRA)),
    ("package has been removed", _simple("removed", _REMOVED)),
    ("which is incompatible", _simple("conflict", _CONFLICT)),
    (", which is not installed", _lacks),
    ("ResolutionImpossible", _flag("unresolvable")),
    ("externally-managed-environment", _flag("externally-managed")),
    ("Failed building wheel for ", _simple("build-failed", _BUILD_FAILED)),
    ("Could not build wheels for ", _simple("build-failed", _BUILD_FAILED)),
    ("Failed to build ", _simple("build-failed", _BUILD_FAILED)),
    ("PackagesNotFoundError", _not_found),
    ("ResolvePackageNotFound", _not_found),
    ("UnsatisfiableError", _unsatisfiable),
    ("nothing provides ", _simple("conda-no-provider", _NOTHING_PROVIDES)),
    ("which is missing on the system", _simple("conda-no-provider", _MISSING_ON_SYSTEM)),
    ("no wheels", _uv_none),
    ("has no", _uv_wrapped),
    ("have no", _uv_wrapped),
)
