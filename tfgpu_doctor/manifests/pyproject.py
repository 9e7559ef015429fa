"""pyproject.toml: PEP 621, extras and groups, Poetry, setuptools; each with its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from packaging.specifiers import SpecifierSet
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
MOST_GROUPS = 50  # that one includes


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


def read_pyproject(path: str, text: str, include: Include, *, quote: bool = True) -> tuple[Environment, ...]:
    """The project itself, then each extra and each group together with it. Raises ManifestError: no valid TOML."""
    try:
        data = loads(text)
    except RecursionError as error:
        raise ManifestError(f"{path}: nested too deeply") from error
    except ValueError as error:  # TOMLDecodeError, and a number that Python does not read
        line = re.search(r"line (\d+)", str(error))
        raise ManifestError(f"{path}:{line[1] if line else 1}: invalid TOML: {error}") from error
    project = _Project(path, text, include, quote)
    project.read_standard(table(data, "project"), table(data, "tool", "setuptools", "dynamic"))
    project.read_groups(table(data, "dependency-groups"))
    project.read_poetry(table(data, "tool", "poetry"))
    wanted = {path: [*project.python, *project.base]}
    for name, own in project.parts.items():  # a part can name a Python of its own
        pythons = [] if any(one.name == "python" for one in (*project.base, *own)) else project.python
        wanted |= {f"{path}, {name}": [*pythons, *project.base, *own]} if own else {}
    notes = project.not_understood
    return tuple(environment_of("pyproject", path, found, notes, label=label) for label, found in wanted.items())


def _lines_of(text: str) -> dict[tuple[str, str | None], int]:
    """The first line of each dotted key, or of what is below it, and of each string below a key, in valid TOML."""
    lines: dict[tuple[str, str | None], int] = {}
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
        keys = [".".join(parts[:end]) for end in range(1, len(parts) + 1)]
        for one in keys if header or assigned else ():
            lines.setdefault((one, None), number)
        for found in _STRING.finditer(line, assigned.end() if assigned else 0):
            for one in keys[-2:]:
                lines.setdefault((one, found[1] or found[2] or ""), number)
    return lines


class _Project:
    """What the tables ask for, with the lines on which it stands."""

    def __init__(self, path: str, text: str, include: Include, quote: bool) -> None:
        self.python: list[Requirement] = []
        self.base: list[Requirement] = []
        self.parts: dict[str, list[Requirement]] = {}  # "extra gpu", "group dev"
        self.not_understood: list[str] = []
        self._path, self._include, self._quote = path, include, quote
        self._lines, self._rows = _lines_of(text), text.split("\n")

    def read_standard(self, project: dict[str, Any], dynamic: dict[str, Any]) -> None:
        """[project], and what setuptools adds. An extra may name others of its own project: all = ["mine[gpu]"]."""
        if isinstance(python := project.get("requires-python"), str):
            place = self._place("project.requires-python")
            self.python.append(Requirement("python", python, place, f"python {python}"))
        self.base += self._listed("project.dependencies", project.get("dependencies"))
        self.base += self._files("tool.setuptools.dynamic.dependencies", dynamic.get("dependencies"))
        for name, lines in table(project, "optional-dependencies").items():
            self.parts[f"extra {name}"] = [*self._listed(f"project.optional-dependencies.{name}", lines)]
        own = canonicalize_name(str(project.get("name", "")))
        for part, found in [*self.parts.items()] if own else ():
            named = [extra for one in found if one.name == own for extra in one.extras]
            found = [*found, *(one for extra in named for one in self.parts.get(f"extra {extra}", ()))]
            self.parts[part] = [one for one in found if one.name != own]

    def read_groups(self, groups: dict[str, Any]) -> None:
        """[dependency-groups], each with those that it includes (PEP 735)."""
        for name in groups:
            names = [name]
            for other in names:  # to which others are added
                lines = groups.get(other)
                tables = [line for line in lines if isinstance(line, dict)] if isinstance(lines, list) else []
                included = [one for line in tables if isinstance(one := line.get("include-group"), str)]
                names += [one for one in dict.fromkeys(included) if one not in names][: MOST_GROUPS - len(names)]
            every = (self._listed(f"dependency-groups.{one}", groups.get(one)) for one in names)
            self.parts[f"group {name}"] = [one for several in every for one in several]

    def read_poetry(self, poetry: dict[str, Any]) -> None:
        """[tool.poetry]: its dependencies, the optional ones by the extras that name them, and its groups."""
        key = "tool.poetry.dependencies"
        dependencies = table(poetry, "dependencies")
        if isinstance(python := dependencies.pop("python", None), str):
            self.python += self._entries(key, {"python": python})
        optional = {name: one for name, one in dependencies.items() if isinstance(one, dict) and one.get("optional")}
        self.base += self._entries(key, {name: one for name, one in dependencies.items() if name not in optional})
        for extra, names in table(poetry, "extras").items():
            members = {name: optional[name] for name in texts(names) if name in optional}
            self.parts[f"extra {extra}"] = [*self._entries(key, members)]
        if older := table(poetry, "dev-dependencies"):
            self.parts["group dev"] = [*self._entries("tool.poetry.dev-dependencies", older)]
        for name, group in table(poetry, "group").items():
            members = table(group, "dependencies")
            self.parts[f"group {name}"] = [*self._entries(f"tool.poetry.group.{name}.dependencies", members)]

    def _place(self, key: str, text: str | None = None) -> Place:
        """The line of a string below a dotted key; of the key where it is not found; 1 where neither is."""
        return Place(self._path, self._lines.get((key, text)) or self._lines.get((key, None), 1))

    def _refuse(self, place: Place, text: str, error: ValueError) -> None:
        self.not_understood.append(complaint(place, text, error, quote=self._quote))

    def _listed(self, key: str, lines: Any) -> Iterator[Requirement]:
        """A list of PEP 508 strings."""
        for line in texts(lines)[:MOST_REQUIREMENTS]:
            place = self._place(key, line)
            try:
                if one := pip_requirement(line, place):
                    yield one
            except ValueError as error:
                self._refuse(place, line, error)

    def _files(self, key: str, value: Any) -> Iterator[Requirement]:
        """setuptools' {file = ["requirements.txt"]}."""
        names = value.get("file") if isinstance(value, dict) else None
        for name in [names] if isinstance(names, str) else texts(names):
            lines = Lines(self._path, self._include)
            lines.follow(name, self._place(key, name))
            self.not_understood += lines.not_understood
            yield from lines.found()

    def _entries(self, key: str, entries: dict[str, Any]) -> Iterator[Requirement]:
        """Poetry's name = "^2.15", name = {version = "...", extras = [...], markers = "..."}, or a list of these."""
        every = (
            (name, one) for name, value in entries.items() for one in (value if isinstance(value, list) else [value])
        )
        for name, details in every:
            given = details if isinstance(details, dict) else {"version": details}
            version, system = given.get("version", "*"), given.get("platform")
            if not isinstance(version, str):
                continue
            place = self._place(f"{key}.{name}", version if "version" in given else None)
            try:
                specifier, python = poetry_specifier(version), poetry_specifier(str(given.get("python", "")))
            except ValueError as error:
                self._refuse(place, f"{name} {version}", error)
                continue
            markers = [f"sys_platform == '{system}'"] if system else []
            markers += [f"python_full_version {one.operator} '{one.version}'" for one in SpecifierSet(python)]
            own = given.get("markers")
            markers += [f"({own})" if markers else own] if isinstance(own, str) else []
            inline = re.search(rf"(?<![\w.-]){re.escape(name)}\s*=\s*{{[^{{}}]*}}", self._rows[place.line - 1][:1000])
            yield Requirement(
                name=canonicalize_name(name),
                specifier=specifier,
                place=place,
                text=inline[0] if inline else f'{name} = "{version}"',
                extras=tuple(map(canonicalize_name, texts(given.get("extras")))),
                marker=" and ".join(markers) or None,
            )
