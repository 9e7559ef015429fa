"""pyproject.toml: PEP 621, extras and groups, Poetry, setuptools; each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from packaging.utils import canonicalize_name

from tfgpu_doctor.manifests import MOST_REQUIREMENTS, Environment, ManifestError, Place, Requirement, environment_of
from tfgpu_doctor.manifests.pip import Include, Lines
from tfgpu_doctor.manifests.requirement import pip_requirement, poetry_specifier
from tfgpu_doctor.manifests.variables import complaint

_KEY = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_DOTTED = rf"({_KEY}(?:\s{{0,9}}\.\s{{0,9}}{_KEY}){{0,20}})"
_HEADER = re.compile(rf"\s*\[{{1,2}}\s*{_DOTTED}\s*\]{{1,2}}\s*(?:#.*)?")
_ASSIGNED = re.compile(rf"\s*{_DOTTED}\s*=")
_UNQUOTED = re.compile(r"[\s\"']+")
_STRING = re.compile(r""""((?:\\.|[^"\\])*)"|'([^']*)'""")


class TomlPlaces:
    """The lines of a TOML file that is known to be valid."""

    def __init__(self, text: str) -> None:
        self._keys: dict[str, int] = {}  # the first line of each key, and of what is below it
        self._strings: dict[tuple[str, str], int] = {}
        table = key = ""
        for number, line in enumerate(text.split("\n"), 1):
            if line.lstrip().startswith("#"):
                continue
            header, assigned = _HEADER.fullmatch(line[:1000]), _ASSIGNED.match(line[:1000])
            if header:
                table = key = _UNQUOTED.sub("", header[1])
            elif assigned:
                key = f"{table}.{_UNQUOTED.sub('', assigned[1])}".strip(".")
            parts = key.split(".")[:10]
            for end in range(1, len(parts) + 1) if header or assigned else ():
                self._keys.setdefault(".".join(parts[:end]), number)
            for found in _STRING.finditer(line, assigned.end() if assigned else 0):
                for end in (len(parts), len(parts) - 1):
                    self._strings.setdefault((".".join(parts[:end]), found[1] or found[2] or ""), number)

    def line(self, key: str, text: str | None = None) -> int:
        """The line of a string below a dotted key; of the key where it is not found; 1 where neither is."""
        found = self._strings.get((key, text)) if text is not None else None
        return found or self._keys.get(key, 1)


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

    def environment(self, label: str, found: list[Requirement]) -> Environment:
        """One of the file's environments."""
        return environment_of("pyproject", self._path, found, self._not_understood, label=label)

    def place(self, key: str, text: str | None = None) -> Place:
        """The line of a string below a key."""
        return Place(self._path, self._places.line(key, text))

    def refused(self, place: Place, text: str, error: ValueError) -> None:
        """Keep why a text is not understood."""
        self._not_understood.append(complaint(place, text, error, quote=self._quote))

    def listed(self, key: str, lines: Any) -> Iterator[Requirement]:
        """A list of PEP 508 strings; what else a group may hold is for the caller."""
        for line in texts(lines)[:MOST_REQUIREMENTS]:
            place = self.place(key, line)
            try:
                if one := pip_requirement(line, place):
                    yield one
            except ValueError as error:
                self.refused(place, line, error)

    def files(self, key: str, value: Any) -> Iterator[Requirement]:
        """setuptools' {file = ["requirements.txt"]}."""
        names = value.get("file") if isinstance(value, dict) else None
        for name in [names] if isinstance(names, str) else texts(names):
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


def read_poetry(reader: Reader, data: dict[str, Any]) -> Project:
    """[tool.poetry]: name = "^2.15", name = {version = "...", extras = [...], markers = "..."}, or a list of these."""
    poetry, found = table(data, "tool", "poetry"), Project()
    key = "tool.poetry.dependencies"
    dependencies = table(poetry, "dependencies")
    if isinstance(python := dependencies.pop("python", None), str):
        found.python += _entries(reader, key, {"python": python})
    optional = {name: one for name, one in dependencies.items() if isinstance(one, dict) and one.get("optional")}
    found.base += _entries(reader, key, {name: one for name, one in dependencies.items() if name not in optional})
    for extra, names in table(poetry, "extras").items():
        members = {name: optional[name] for name in texts(names) if name in optional}
        found.parts[f"extra {extra}"] = list(_entries(reader, key, members))
    for name, group in table(poetry, "group").items():
        key = f"tool.poetry.group.{name}.dependencies"
        found.parts[f"group {name}"] = list(_entries(reader, key, table(group, "dependencies")))
    if old := table(poetry, "dev-dependencies"):
        found.parts["group dev"] = list(_entries(reader, "tool.poetry.dev-dependencies", old))
    return found


def _entries(reader: Reader, key: str, entries: dict[str, Any]) -> Iterator[Requirement]:
    for name, value in entries.items():
        for details in value if isinstance(value, list) else [value]:
            given = details if isinstance(details, dict) else {"version": details}
            version = given.get("version", "*")
            if not isinstance(version, str):
                continue
            place = reader.place(f"{key}.{name}", version if "version" in given else None)
            systems = given.get("platform")
            markers = [given.get("markers"), f"sys_platform == '{systems}'" if isinstance(systems, str) else None]
            joined = [one for one in markers if isinstance(one, str) and one.strip()]
            try:
                specifier = poetry_specifier(version)
            except ValueError as error:
                reader.refused(place, f"{name} {version}", error)
                continue
            yield Requirement(
                name=canonicalize_name(name),
                specifier=specifier,
                place=place,
                text=f'{name} = "{version}"',
                extras=tuple(texts(given.get("extras"))),
                marker=" and ".join(f"({one})" for one in joined) if len(joined) > 1 else next(iter(joined), None),
            )


def read_pyproject(path: str, text: str, include: Include, *, quote: bool = True) -> tuple[Environment, ...]:
    """The project itself, then each extra and each group together with it. Raises ManifestError: no valid TOML."""
    try:
        data = loads(text)
    except RecursionError as error:
        raise ManifestError(f"{path}: nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, and a number that Python does not read
        line = re.search(r"line (\d+)", str(error))
        raise ManifestError(f"{path}:{line[1] if line else 1}: invalid TOML: {error}") from error
    reader = Reader(path, text, include, quote=quote)
    standard, poetry = _standard(reader, data), read_poetry(reader, data)
    python, base = [*standard.python, *poetry.python], [*standard.base, *poetry.base]
    parts = {**standard.parts, **poetry.parts}
    found = [reader.environment(path, [*python, *base])]
    for name, own in parts.items():  # a part can name a Python of its own
        pythons = [] if any(one.name == "python" for one in (*base, *own)) else python
        found += [reader.environment(f"{path}, {name}", [*pythons, *base, *own])] if own else []
    return tuple(found)


def _standard(reader: Reader, data: dict[str, Any]) -> Project:
    """[project] and [dependency-groups], and what setuptools adds."""
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
