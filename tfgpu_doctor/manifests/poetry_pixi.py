"""The tables of Poetry and of pixi."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from packaging.utils import canonicalize_name

from tfgpu_doctor.manifests import Place, Requirement
from tfgpu_doctor.manifests.requirement import conda_requirement
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


def read_pixi(reader: Reader, data: dict[str, Any]) -> Project:
    """[tool.pixi], or a pixi.toml: its own dependencies, those for a platform, and those of each feature."""
    found = Project()
    inside = table(data, "tool", "pixi")
    root, key = (inside, "tool.pixi.") if inside else (data, "")
    found.python, found.base = _pixi(reader, root, key)
    for name, feature in table(root, "feature").items():
        python, own = _pixi(reader, table(feature), f"{key}feature.{name}.")
        found.parts[f"feature {name}"] = [*python, *own]
    return found


def _pixi(reader: Reader, root: dict[str, Any], key: str) -> tuple[list[Requirement], list[Requirement]]:
    requirements: list[Requirement] = []
    below = [(key, root)]
    below += [(f"{key}target.{name}.", table(one)) for name, one in table(root, "target").items()]
    for prefix, tables in below:
        for name, value in table(tables, "dependencies").items():
            place = reader.place(f"{prefix}dependencies.{name}")
            requirements += reader.attempt(place, name, lambda: _conda(name, value, place))  # noqa: B023 - called at once
        entries = table(tables, "pypi-dependencies")
        requirements += _entries(reader, f"{prefix}pypi-dependencies", entries)
    pythons = [one for one in requirements if one.name == "python"]
    return pythons, [one for one in requirements if one.name != "python"]


def _conda(name: str, value: Any, place: Place) -> Requirement | None:
    details = value if isinstance(value, dict) else {"version": value}
    version, build = details.get("version", "*"), details.get("build")
    if not isinstance(version, str):
        return None
    operator = "" if version[:1] in "=<>!~*" else "=="
    spec = "" if version.strip() == "*" else f"{operator}{version}"
    one = conda_requirement(f"{name}{spec}", place)
    return Requirement(
        one.name, one.specifier, place, f'{name} = "{version}"', installer="conda",
        build=build if isinstance(build, str) else one.build,
    )  # fmt: skip


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
