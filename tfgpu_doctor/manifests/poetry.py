"""The tables of Poetry in pyproject.toml."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from packaging.utils import canonicalize_name

from tfgpu_doctor.manifests import Place, Requirement
from tfgpu_doctor.manifests.toml_project import Project, Reader, table, texts
from tfgpu_doctor.manifests.versions import poetry_specifier


def read_poetry(reader: Reader, data: dict[str, Any]) -> Project:
    """[tool.poetry]: name = "^2.15", name = {version = "...", extras = [...], markers = "..."}, or a list of these."""
    poetry, found = table(data, "tool", "poetry"), Project()
    key = "tool.poetry.dependencies"
    dependencies = table(poetry, "dependencies")
    if isinstance(python := dependencies.get("python"), str):
        place = reader.place(f"{key}.python", python)
        found.python += reader.attempt(
            place, python, lambda: Requirement("python", poetry_specifier(python), place, f'python = "{python}"')
        )
    optional = {name for name, value in dependencies.items() if isinstance(value, dict) and value.get("optional")}
    wanted = {name: value for name, value in dependencies.items() if name != "python" and name not in optional}
    found.base += _entries(reader, key, wanted)
    for extra, names in table(poetry, "extras").items():
        members = {name: dependencies[name] for name in texts(names) if name in optional}
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
            if isinstance(version, str):
                place = reader.place(f"{key}.{name}", version if "version" in given else None)
                yield from reader.attempt(place, f"{name} {version}", lambda: _entry(name, version, given, place))  # noqa: B023


def _entry(name: str, version: str, given: dict[str, Any], place: Place) -> Requirement:
    systems = given.get("platform")
    markers = [given.get("markers"), f"sys_platform == '{systems}'" if isinstance(systems, str) else None]
    joined = [one for one in markers if isinstance(one, str) and one.strip()]
    return Requirement(
        name=canonicalize_name(name),
        specifier=poetry_specifier(version),
        place=place,
        text=f'{name} = "{version}"',
        extras=tuple(texts(given.get("extras"))),
        marker=" and ".join(f"({one})" for one in joined) if len(joined) > 1 else next(iter(joined), None),
    )
