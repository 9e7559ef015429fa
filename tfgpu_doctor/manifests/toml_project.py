"""What the readers of pyproject.toml's tables share."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from tfgpu_doctor.manifests import MOST_REQUIREMENTS, Environment, ManifestError, Place, Requirement
from tfgpu_doctor.manifests.pip import Include, Lines
from tfgpu_doctor.manifests.requirement import pip_requirement
from tfgpu_doctor.manifests.templates import complaint
from tfgpu_doctor.manifests.toml_places import TomlPlaces


class Project:
    """What one tool's tables ask for."""

    def __init__(self) -> None:
        self.python: list[Requirement] = []
        self.base: list[Requirement] = []
        self.parts: dict[str, list[Requirement]] = {}  # "extra gpu", "group dev"


class Reader:
    """Turns strings of the file into requirements, and finds the lines that they stand on."""

    def __init__(self, path: str, text: str, include: Include, *, quote: bool = True) -> None:
        self._path = path
        self._places = TomlPlaces(text)
        self._include = include
        self._quote = quote
        self._not_understood: list[str] = []

    def environment(self, label: str, python: list[Requirement], found: list[Requirement]) -> Environment:
        """One of the file's environments."""
        return Environment(
            kind="pyproject",
            label=label,
            place=Place(self._path, 1),
            python=tuple(python),
            requirements=tuple(dict.fromkeys(found)),
            not_understood=tuple(dict.fromkeys(self._not_understood)),
        )

    def place(self, key: str, text: str | None = None) -> Place:
        """The line of a string below a key."""
        return Place(self._path, self._places.line(key, text))

    def attempt(self, place: Place, text: str, read: Callable[[], Requirement | None]) -> Iterator[Requirement]:
        """What is read of `text`, or a line that says why not."""
        try:
            one = read()
        except ValueError as error:
            self._not_understood.append(complaint(place, text, error, quote=self._quote))
            return
        if one:
            yield one

    def listed(self, key: str, lines: Any) -> Iterator[Requirement]:
        """A list of PEP 508 strings; what else a group may hold is for the caller."""
        for line in lines[:MOST_REQUIREMENTS] if isinstance(lines, list) else ():
            if isinstance(line, str):
                place = self.place(key, line)
                yield from self.attempt(place, line, lambda: pip_requirement(line, place))  # noqa: B023 - called at once

    def files(self, key: str, value: Any) -> Iterator[Requirement]:
        """setuptools' {file = ["requirements.txt"]}."""
        names = value.get("file") if isinstance(value, dict) else None
        for name in [names] if isinstance(names, str) else names if isinstance(names, list) else ():
            if isinstance(name, str):
                lines = Lines(self._path, self._include)
                lines.follow(name, self.place(key, name))
                self._not_understood += lines.not_understood
                yield from lines.found()


def loads(text: str) -> dict[str, Any]:
    """The values of a TOML text. Raises ValueError: it is none; RecursionError: it is nested too deeply."""
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef]
    return tomllib.loads(text)


def table(data: Any, *path: str) -> dict[str, Any]:
    """The table below several keys; an empty one where there is none."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def texts(value: Any) -> list[str]:
    """The texts of a list."""
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []


def load(path: str, text: str) -> dict[str, Any]:
    """Read TOML. Raises ManifestError: it is not valid."""
    try:
        return loads(text)
    except RecursionError as error:
        raise ManifestError(f"{path}: nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, and a number that Python does not read
        line = re.search(r"line (\d+)", str(error))
        raise ManifestError(f"{path}:{line[1] if line else 1}: invalid TOML: {error}") from error
