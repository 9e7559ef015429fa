"""What pip is asked for: one requirement, and the lines of a requirements file."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator
from typing import TypeAlias

from packaging.requirements import InvalidRequirement
from packaging.requirements import Requirement as Parsed
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

from tfgpu_doctor.manifests import Environment, Place, Requirement

Include: TypeAlias = Callable[[str], "str | None"]  # a path beside the file → its text; None: it cannot be read

_COMMENT = re.compile(r"(?:^|\s)#.*$")
_INCLUDED = re.compile(r"(?:-r\s*|--requirement(?:\s+|=)|-c\s*|--constraint(?:\s+|=))(?P<path>\S.*)")
_OPTIONS = re.compile(r"\s--?[a-z][\w-]*(?:[= ].*)?$")  # "--hash=...", "--config-settings ..."
_NOT_A_NAME = re.compile(r"-|\.{1,2}(?:/|$)|/|[a-z]+://|[a-z]+\+|\$")
MOST_FILES = 50


def pip_requirement(text: str, place: Place) -> Requirement | None:
    """Read one requirement; None for a path, an address or an option, which name nothing that the matrix knows.

    Raises:
        ValueError: neither of these.
    """
    if (wheel := _wheel(text, place)) is not None:
        return wheel
    if _NOT_A_NAME.match(text):
        return None
    try:
        parsed = Parsed(text)
    except InvalidRequirement as error:
        raise ValueError(str(error).splitlines()[0]) from error
    if parsed.url and (wheel := _wheel(parsed.url, place)) is not None:
        return wheel
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
    file = re.sub(r"[#?].*$", "", address).rsplit("/", 1)[-1]
    if not file.endswith(".whl"):
        return None
    try:
        name, version, *_ = parse_wheel_filename(file)
    except InvalidWheelFilename:
        return None
    return Requirement(name=name, specifier=f"=={version}", place=place, text=address)


def read_requirements(path: str, text: str, include: Include) -> tuple[Environment, ...]:
    """A requirements file, with those that it includes; constraints narrow what is there, and install nothing."""
    lines = _Lines(include)
    lines.read(path, text, constraint=False)
    found = tuple(_narrowed(one, lines.constraints) for one in lines.requirements)
    return (
        Environment(
            kind="requirements",
            label=path,
            place=Place(path, 1),
            requirements=found,
            not_understood=tuple(lines.not_understood),
        ),
    )


class _Lines:
    """Collects requirements over a file and those that it includes."""

    def __init__(self, include: Include) -> None:
        self.include = include
        self.seen: set[str] = set()
        self.requirements: list[Requirement] = []
        self.constraints: list[Requirement] = []
        self.not_understood: list[str] = []

    def read(self, path: str, text: str, *, constraint: bool) -> None:
        for number, line in logical_lines(text):
            place = Place(path, number)
            if found := _INCLUDED.fullmatch(line):
                self._follow(path, found["path"].strip("\"' "), place, constraint or line.lstrip("-").startswith("c"))
                continue
            try:
                one = pip_requirement(_OPTIONS.sub("", re.sub(r"^(-e|--editable)[ =]", "", line)).strip(), place)
            except ValueError as error:
                self.not_understood.append(f"{place}: {error}")
                continue
            if one:
                (self.constraints if constraint else self.requirements).append(one)

    def _follow(self, path: str, name: str, place: Place, constraint: bool) -> None:
        beside = posixpath.normpath(posixpath.join(posixpath.dirname(path), name))
        if beside in self.seen or len(self.seen) >= MOST_FILES:
            return
        self.seen.add(beside)
        text = self.include(name)
        if text is None:
            self.not_understood.append(f"{place}: {name} cannot be read")
        else:
            self.read(beside, text, constraint=constraint)


def _narrowed(one: Requirement, constraints: list[Requirement]) -> Requirement:
    from dataclasses import replace

    bounds = [other.specifier for other in constraints if other.name == one.name and other.specifier]
    return replace(one, specifier=",".join(filter(None, [one.specifier, *bounds]))) if bounds else one


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
