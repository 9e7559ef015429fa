"""pyproject.toml and pixi.toml: the dependencies of a project, of its extras and of its groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from packaging.utils import canonicalize_name

from tfgpu_doctor.manifests import Environment, ManifestError, Place, Requirement
from tfgpu_doctor.manifests.pip import Include, Lines, pip_requirement
from tfgpu_doctor.manifests.toml_places import TomlPlaces


def read_pyproject(path: str, text: str, include: Include) -> tuple[Environment, ...]:
    """The project itself, then each extra and each group together with it.

    Raises:
        ManifestError: no valid TOML.
    """
    from tfgpu_doctor.manifests.poetry_pixi import read_pixi, read_poetry

    data = _toml(path, text)
    reader = Reader(path, text, include)
    standard, poetry, pixi = _standard(reader, data), read_poetry(reader, data), read_pixi(reader, data)
    python = [*standard.python, *poetry.python, *pixi.python]
    base = [*standard.base, *poetry.base, *pixi.base]
    parts = {**standard.parts, **poetry.parts, **pixi.parts}
    first = reader.environment(path, python, base)
    return (
        first,
        *(reader.environment(f"{path}, {name}", python, [*base, *own]) for name, own in parts.items() if own),
    )


class Project:
    """What one tool's tables ask for."""

    def __init__(self) -> None:
        self.python: list[Requirement] = []
        self.base: list[Requirement] = []
        self.parts: dict[str, list[Requirement]] = {}  # "extra gpu", "group dev"


class Reader:
    """Turns strings of the file into requirements, and finds the lines that they stand on."""

    def __init__(self, path: str, text: str, include: Include) -> None:
        self._path = path
        self._places = TomlPlaces(text)
        self._include = include
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

    def attempt(self, place: Place, read: Callable[[], Requirement | None]) -> Iterator[Requirement]:
        """What is read, or a line that says why not."""
        try:
            one = read()
        except ValueError as error:
            self._not_understood.append(f"{place}: {error}")
            return
        if one:
            yield one

    def listed(self, key: str, lines: Any) -> Iterator[Requirement]:
        """A list of PEP 508 strings; what else a group may hold is for the caller."""
        for line in lines if isinstance(lines, list) else ():
            if isinstance(line, str):
                place = self.place(key, line)
                yield from self.attempt(place, lambda: pip_requirement(line, place))  # noqa: B023 - called at once

    def files(self, key: str, value: Any) -> Iterator[Requirement]:
        """setuptools' {file = ["requirements.txt"]}."""
        names = value.get("file") if isinstance(value, dict) else None
        for name in [names] if isinstance(names, str) else names if isinstance(names, list) else ():
            if isinstance(name, str):
                lines = Lines(self._path, self._include)
                lines.follow(name, self.place(key, name))
                self._not_understood += lines.not_understood
                yield from lines.found()


def _standard(reader: Reader, data: dict[str, Any]) -> Project:
    """[project] and [dependency-groups], and what setuptools, uv and PDM add."""
    project, tool, found = table(data, "project"), table(data, "tool"), Project()
    if isinstance(python := project.get("requires-python"), str):
        place = reader.place("project.requires-python")
        found.python.append(Requirement("python", python, place, f"python {python}"))
    dynamic = table(tool, "setuptools", "dynamic")
    found.base += reader.listed("project.dependencies", project.get("dependencies"))
    found.base += reader.files("tool.setuptools.dynamic.dependencies", dynamic.get("dependencies"))
    extras = table(project, "optional-dependencies")
    for name, lines in extras.items():
        found.parts[f"extra {name}"] = list(reader.listed(f"project.optional-dependencies.{name}", lines))
    for name, value in table(dynamic, "optional-dependencies").items():
        key = f"tool.setuptools.dynamic.optional-dependencies.{name}"
        found.parts[f"extra {name}"] = list(reader.files(key, value))
    _join_extras(str(project.get("name", "")), found.parts)
    groups = table(data, "dependency-groups")
    for name in groups:
        found.parts[f"group {name}"] = list(_group(reader, groups, name, set()))
    found.parts["group dev of uv"] = list(
        reader.listed("tool.uv.dev-dependencies", table(tool, "uv").get("dev-dependencies"))
    )
    for name, lines in table(tool, "pdm", "dev-dependencies").items():
        found.parts[f"group {name}"] = list(reader.listed(f"tool.pdm.dev-dependencies.{name}", lines))
    return found


def _join_extras(project: str, parts: dict[str, list[Requirement]]) -> None:
    """An extra may name others of its own project: all = ["mine[gpu,docs]"]."""
    own = canonicalize_name(project)
    for name, lines in list(parts.items()):
        named = [extra for one in lines if one.name == own for extra in one.extras]
        more = [one for extra in named for one in parts.get(f"extra {extra}", ()) if one.name != own]
        parts[name] = [*(one for one in lines if not (own and one.name == own)), *more]


def _group(reader: Reader, groups: dict[str, Any], name: str, seen: set[str]) -> Iterator[Requirement]:
    """A group, with those that it includes (PEP 735)."""
    seen.add(name)
    lines = groups.get(name)
    yield from reader.listed(f"dependency-groups.{name}", lines)
    for line in lines if isinstance(lines, list) else ():
        other = line.get("include-group") if isinstance(line, dict) else None
        if isinstance(other, str) and other not in seen and len(seen) < 50:
            yield from _group(reader, groups, other, seen)


def table(data: Any, *path: str) -> dict[str, Any]:
    """The table below several keys; an empty one where there is none."""
    for name in path:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _toml(path: str, text: str) -> dict[str, Any]:
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib  # type: ignore[no-redef]
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise ManifestError(f"{path}: nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, and a number that Python does not read
        line = re.search(r"line (\d+)", str(error))
        raise ManifestError(f"{path}:{line[1] if line else 1}: no valid TOML: {error}") from error
