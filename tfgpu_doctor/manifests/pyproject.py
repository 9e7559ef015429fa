"""pyproject.toml: the dependencies of a project, of its extras and of its groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from packaging.utils import canonicalize_name

from tfgpu_doctor.manifests import Environment, Requirement
from tfgpu_doctor.manifests.pip import Include
from tfgpu_doctor.manifests.poetry import read_poetry
from tfgpu_doctor.manifests.toml_project import Project, Reader, load, table


def read_pyproject(path: str, text: str, include: Include, *, quote: bool = True) -> tuple[Environment, ...]:
    """The project itself, then each extra and each group together with it. Raises ManifestError: no valid TOML."""
    data = load(path, text)
    reader = Reader(path, text, include, quote=quote)
    standard, poetry = _standard(reader, data), read_poetry(reader, data)
    python, base = [*standard.python, *poetry.python], [*standard.base, *poetry.base]
    parts = {**standard.parts, **poetry.parts}
    first = reader.environment(path, python, base)
    return (
        first,
        *(_part(reader, f"{path}, {name}", python, [*base, *own]) for name, own in parts.items() if own),
    )


def _part(reader: Reader, label: str, python: list[Requirement], found: list[Requirement]) -> Environment:
    """A part that can name a Python of its own."""
    own = [one for one in found if one.name == "python"]
    return reader.environment(label, own or python, [one for one in found if one.name != "python"])


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
    for name, one in table(tool, "hatch", "envs").items():
        found.parts[f"environment {name} of Hatch"] = list(_of_hatch(reader, f"tool.hatch.envs.{name}", table(one)))
    for name, lines in table(tool, "pdm", "dev-dependencies").items():
        found.parts[f"group {name}"] = list(reader.listed(f"tool.pdm.dev-dependencies.{name}", lines))
    return found


def _of_hatch(reader: Reader, key: str, one: dict[str, Any]) -> Iterator[Requirement]:
    """An environment of Hatch: its dependencies beside the project's, and its Python."""
    for name in ("dependencies", "extra-dependencies"):
        yield from reader.listed(f"{key}.{name}", one.get(name))
    if isinstance(version := one.get("python"), str) and version.replace(".", "").isdecimal():
        yield Requirement("python", f"=={version}.*", reader.place(f"{key}.python"), version)


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
