"""What pip is asked for: one requirement, and the lines of a requirements file."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeAlias

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from tfgpu_doctor.manifests import Environment, Place, Requirement

Include: TypeAlias = Callable[[str], "str | None"]  # a path beside the file → its text; None: it cannot be read

_COMMENT = re.compile(r"(?:^|\s)#.*$")
_INCLUDED = re.compile(r"(?:-r\s*|--requirement(?:\s+|=)|-c\s*|--constraint(?:\s+|=))(?P<path>\S.*)")
_OPTIONS = re.compile(r"\s--?[a-z].*$")  # "--hash=...", "--config-settings ..."
_NOT_A_NAME = re.compile(r"-|\.{1,2}(?:/|$|\[)|/|[a-z]+://|[a-z]+\+|\$")
_EXPORTED = re.compile(r"[\w.-]+=[\w.!+]+=\w+")  # `conda list --export`: "tensorflow=2.1.0=gpu_py36h2e5cdaa_0"
MOST_FILES = 50
LONGEST = 2_000  # characters of one requirement, without its options


def pip_requirement(text: str, place: Place) -> Requirement | None:
    """Read one requirement; None for a path, an address or an option, which name nothing that the matrix knows.

    Raises:
        ValueError: neither of these.
    """
    if len(text) > LONGEST:
        raise ValueError(f"a requirement of {len(text)} characters")
    if (wheel := _wheel(text, place)) is not None:
        return wheel
    if _NOT_A_NAME.match(text):
        return None
    try:
        parsed = Parsed(text)
    except InvalidRequirement as error:
        raise ValueError(f"{text}: {str(error).splitlines()[0]}") from error
    if parsed.url and (wheel := _wheel(parsed.url, place)) is not None:
        return replace(wheel, name=canonicalize_name(parsed.name), text=text)
    return Requirement(
        name=canonicalize_name(parsed.name),
        specifier=str(parsed.specifier),
        place=place,
        text=text,
        extras=tuple(sorted(parsed.extras)),
        marker=str(parsed.marker) if parsed.marker else None,
    )


def _wheel(address: str, place: Place) -> Requirement | None:
    """A wheel by its file name: ".../tensorflow_gpu-1.6.0-cp35-cp35m-linux_x86_64.whl"."""
    file = re.sub(r"[#?;\s].*$", "", address, flags=re.DOTALL).rsplit("/", 1)[-1]
    if not file.endswith(".whl"):
        return None
    try:
        name, version, *_ = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return None
    return Requirement(name=name, specifier=f"=={version}", place=place, text=address)


def read_requirements(path: str, text: str, include: Include) -> tuple[Environment, ...]:
    """A requirements file, with those that it includes; constraints narrow what is there, and install nothing."""
    lines = Lines(path, include)
    lines.read(posixpath.basename(path), text)
    found = lines.found()
    return (
        Environment(
            kind="requirements",
            label=path,
            place=Place(path, 1),
            python=tuple(one for one in found if one.name == "python"),
            requirements=tuple(one for one in found if one.name != "python"),
            not_understood=tuple(lines.not_understood),
        ),
    )


class Lines:
    """Collects requirements over the lines of files that include each other.

    Args:
        path: the file that is read; others are named relative to its folder.
        include: reads them.
    """

    def __init__(self, path: str, include: Include) -> None:
        self._folder = posixpath.dirname(path)
        self._include = include
        self._seen: set[tuple[str, bool]] = set()
        self._requirements: list[Requirement] = []
        self._constraints: dict[str, list[str]] = {}  # specifiers by name
        self.not_understood: list[str] = []

    def read(self, name: str, text: str, *, constraint: bool = False) -> None:
        """Read a file by its name relative to the folder."""
        self._seen.add((posixpath.normpath(name), constraint))
        path = posixpath.join(self._folder, name)
        for number, line in logical_lines(text):
            self.take(line, Place(path, number), posixpath.dirname(name), constraint=constraint)

    def take(self, line: str, place: Place, folder: str = "", *, constraint: bool = False) -> None:
        """Read one logical line; the files that it names are relative to `folder`."""
        if found := _INCLUDED.fullmatch(line):
            narrows = constraint or line.lstrip("-").startswith("c")
            self.follow(posixpath.join(folder, found["path"].strip("\"' ")), place, constraint=narrows)
            return
        bare = _OPTIONS.sub("", re.sub(r"^(-e|--editable)[ =]", "", line)).strip()
        try:
            one = _exported(bare, place) if _EXPORTED.fullmatch(bare) else pip_requirement(bare, place)
        except ValueError as error:
            self.not_understood.append(f"{place}: {error}")
            return
        if one and constraint:
            self._constraints.setdefault(one.name, []).append(one.specifier)
        elif one:
            self._requirements.append(one)

    def follow(self, name: str, place: Place, *, constraint: bool = False) -> None:
        """Read a file that a line names, once."""
        name = posixpath.normpath(name) if "://" not in name else name
        if (name, constraint) in self._seen or len(self._seen) >= MOST_FILES:
            return
        text = None if "://" in name else self._include(name)
        if text is None:
            self._seen.add((name, constraint))
            self.not_understood.append(f"{place}: {name} cannot be read")
        else:
            self.read(name, text, constraint=constraint)

    def add(self, one: Requirement) -> None:
        """Take a requirement that is read already."""
        self._requirements.append(one)

    def found(self) -> tuple[Requirement, ...]:
        """The requirements, each narrowed by the constraints of its name."""
        return tuple(self._narrowed(one) for one in self._requirements)

    def _narrowed(self, one: Requirement) -> Requirement:
        if one.installer != "pip":
            return one
        bounds = filter(None, dict.fromkeys([one.specifier, *self._constraints.get(one.name, ())]))
        return replace(one, specifier=",".join(bounds))


def _exported(line: str, place: Place) -> Requirement:
    """A line of `conda list --export`; the build pypi_0 marks what pip installed."""
    from tfgpu_doctor.manifests.conda import conda_requirement

    name, version, build = line.split("=")
    if build.startswith("pypi"):
        return Requirement(canonicalize_name(name), f"=={version}", place, line)
    return conda_requirement(line, place)


def logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines without comments, continuations joined, each with the number of its first; empty ones are left out."""
    parts: list[str] = []
    start = 1
    for number, line in enumerate(text.splitlines(), 1):
        if not parts:
            start = number
        comment = line.lstrip().startswith("#")
        parts.append("" if comment else line.removesuffix("\\"))
        if line.endswith("\\") and not comment:
            continue
        joined = _COMMENT.sub("", "".join(parts)).strip()
        parts = []
        if joined:
            yield start, joined
    if joined := _COMMENT.sub("", "".join(parts)).strip():
        yield start, joined
