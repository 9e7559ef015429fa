"""Pipenv: Pipfile and Pipfile.lock."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from packaging.utils import canonicalize_name

from tfgpu_doctor.manifests import MOST_REQUIREMENTS, Environment, ManifestError, Place, Requirement
from tfgpu_doctor.manifests.pip import Include
from tfgpu_doctor.manifests.toml_project import Reader, load, table, texts

_KEY = re.compile(r'\s*"((?:[^"\\]|\\.){1,200})"\s*:\s*\{')
_PYTHON = re.compile(r"\d+(\.\d+){0,3}")


def read_pipfile(path: str, text: str, include: Include, *, quote: bool = True) -> tuple[Environment, ...]:
    """[packages], and [dev-packages] together with it. Raises ManifestError: no valid TOML."""
    data, reader = load(path, text), Reader(path, text, include, quote=quote)
    python = list(_python(table(data, "requires"), lambda key: reader.place(f"requires.{key}")))
    own, development = (list(_entries(reader, key, table(data, key))) for key in ("packages", "dev-packages"))
    found = [reader.environment(path, python, own)]
    if development:
        found.append(reader.environment(f"{path}, group dev", python, [*own, *development]))
    return tuple(found)


def read_pipfile_lock(path: str, text: str) -> tuple[Environment, ...]:
    """The sections default, and develop together with it. Raises ManifestError: no valid JSON."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise ManifestError(f"{path}:{line}: invalid JSON") from error
    lines = dict(_lines(text))
    python = tuple(_python(table(data, "_meta", "requires"), lambda _: Place(path, lines.get(("", "requires"), 1))))
    sections = {}
    for section in ("default", "develop"):
        entries = list(table(data, section).items())[:MOST_REQUIREMENTS]
        read = (_locked(name, table(value), Place(path, lines.get((section, name), 1))) for name, value in entries)
        sections[section] = tuple(one for one in read if one)
    parts = {"": sections["default"]}
    if sections["develop"]:
        parts[", group dev"] = (*sections["default"], *sections["develop"])
    return tuple(
        Environment(kind="lock", label=f"{path}{part}", place=Place(path, 1), python=python, requirements=found)
        for part, found in parts.items()
    )


def _entries(reader: Reader, key: str, entries: dict[str, Any]) -> Iterator[Requirement]:
    for name, value in entries.items():
        details = value if isinstance(value, dict) else {"version": value}
        version = details.get("version", "*")
        if isinstance(version, str):
            place = reader.place(f"{key}.{name}")
            yield from reader.attempt(place, f"{name} {version}", lambda: _entry(name, version, details, place))  # noqa: B023


def _entry(name: str, version: str, details: dict[str, Any], place: Place) -> Requirement:
    from packaging.specifiers import SpecifierSet

    bounds = "" if version.strip() in ("", "*") else str(SpecifierSet(version))
    marker = details.get("markers")
    extras = tuple(texts(details.get("extras")))
    of_text = marker if isinstance(marker, str) else None
    return Requirement(canonicalize_name(name), bounds, place, f'{name} = "{version}"', extras, of_text)


def _locked(name: str, details: dict[str, Any], place: Place) -> Requirement | None:
    from tfgpu_doctor.manifests.locks import locked

    version, marker = details.get("version"), details.get("markers")
    if not isinstance(version, str) or not version.startswith("=="):
        return None  # of a path or a repository
    extras = tuple(texts(details.get("extras")))
    return locked(place, name, version.removeprefix("=="), extras, marker if isinstance(marker, str) else None)


def _python(requires: dict[str, Any], place: Any) -> Iterator[Requirement]:
    for key in ("python_full_version", "python_version"):
        version = requires.get(key)
        if isinstance(version, str) and _PYTHON.fullmatch(version):
            specifier = f"=={version}" if version.count(".") > 1 else f"=={version}.*"
            yield Requirement("python", specifier, place(key), f'{key} = "{version}"')
            return


def _lines(text: str) -> Iterator[tuple[tuple[str, str], int]]:
    """The line of each mapping, by the section above it."""
    section = ""
    for number, line in enumerate(text.splitlines(), 1):
        if found := _KEY.match(line):
            if found[1] in ("_meta", "default", "develop"):
                section = "" if found[1] == "_meta" else found[1]
            yield (section, found[1]), number
