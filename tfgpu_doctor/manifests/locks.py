"""Lock files in TOML: uv.lock, poetry.lock, pdm.lock and pylock.toml (PEP 751). What they hold is what is installed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from packaging.utils import canonicalize_name

from tfgpu_doctor.manifests import MOST_REQUIREMENTS, Environment, Place, Requirement
from tfgpu_doctor.manifests.toml_project import load, table, texts
from tfgpu_doctor.manifests.versions import poetry_specifier

MOST_PARTS = 50  # extras and groups
MOST_MARKERS = 10  # of one package
_ENTRY = re.compile(r"\[\[(packages?)\]\]\s*(?:#.*)?")
_NAME = re.compile(r"""name\s*=\s*["']""")
_PART = re.compile(r"""['"]([\w.-]+)['"]\s+in\s+(extras|dependency_groups)""")


@dataclass
class _Package:
    """An entry of a lock."""

    name: str
    version: str
    line: int
    marker: str | None = None
    data: dict[str, Any] = field(default_factory=dict)

    def parts(self) -> set[str]:
        """The groups and extras that it belongs to; none: the project itself."""
        return {canonicalize_name(one) for one in texts(self.data.get("groups"))}


class Choice:
    """Packages chosen from a lock, with the extras and markers under which they are asked for."""

    def __init__(self) -> None:
        self.chosen: dict[int, _Package] = {}
        self.extras: dict[str, set[str]] = {}
        self.markers: dict[int, list[str] | None] = {}

    def add(self, one: _Package, extras: Iterable[str] = (), marker: str | None = None) -> bool:
        """Add a package; whether that is something new."""
        known, own = id(one) in self.chosen, self.extras.setdefault(one.name, set())
        new = not known or not own.issuperset(extras)
        self.chosen[id(one)] = one
        own.update(extras)
        markers = self.markers.setdefault(id(one), [])
        if marker is None or (markers is not None and len(markers) >= MOST_MARKERS):
            self.markers[id(one)] = None
        elif markers is not None and marker not in markers:
            markers.append(marker)
        return new

    def requirements(self, path: str) -> tuple[Requirement, ...]:
        """What they are, each with its exact version."""
        return tuple(self._requirement(path, one) for one in sorted(self.chosen.values(), key=lambda one: one.line))

    def _requirement(self, path: str, one: _Package) -> Requirement:
        extras = tuple(sorted(self.extras[one.name]))
        markers = self.markers[id(one)]
        joined = one.marker or (" or ".join(f"({each})" for each in markers) if markers else None)
        return locked(Place(path, one.line), one.name, one.version, extras, joined)


def locked(
    place: Place, name: str, version: str, extras: tuple[str, ...] = (), marker: str | None = None
) -> Requirement:
    """An exact version, as a requirement."""
    shown = f"{name}[{','.join(extras)}]" if extras else name
    return Requirement(canonicalize_name(name), f"=={version}", place, f"{shown}=={version}", extras, marker)


def read_lock(path: str, text: str) -> tuple[Environment, ...]:
    """The project, and each of its extras and groups together with it. Raises ManifestError: no valid TOML."""
    data = load(path, text)
    packages = _packages(text, data.get("packages" if "lock-version" in data else "package"))
    if "lock-version" in data:  # PEP 751
        python, choices = data.get("requires-python"), _by_marker(packages)
    elif "requires-python" in data or any("source" in one.data for one in packages if _is_root(one)):
        python, choices = data.get("requires-python"), _of_uv(packages)
    else:
        python, choices = _python(data), _by_group(packages, table(data, "extras"))
    pythons = _required(path, text, python)
    return tuple(
        Environment(
            kind="lock",
            label=f"{path}, {part}" if part else path,
            place=Place(path, 1),
            python=pythons,
            requirements=choice.requirements(path),
        )
        for part, choice in list(choices.items())[:MOST_PARTS]
    )


def _required(path: str, text: str, python: object) -> tuple[Requirement, ...]:
    if not isinstance(python, str):
        return ()
    try:
        specifier = poetry_specifier(python)
    except ValueError:
        return ()
    line = next((number for number, one in enumerate(text.splitlines(), 1) if python in one and "ython" in one), 1)
    return (Requirement("python", specifier, Place(path, line), f"python {python}"),)


def _python(data: dict[str, Any]) -> object:
    """Of Poetry, or of PDM's first target."""
    metadata = table(data, "metadata")
    targets = metadata.get("targets")
    first = targets[0] if isinstance(targets, list) and targets else None
    return metadata.get("python-versions") or table(first).get("requires_python") or metadata.get("requires_python")


def _packages(text: str, entries: object) -> list[_Package]:
    lines = list(_lines(text))
    found = []
    listed = entries[:MOST_REQUIREMENTS] if isinstance(entries, list) else []
    for index, entry in enumerate(listed):
        name, version = table(entry).get("name"), table(entry).get("version")
        if isinstance(name, str) and isinstance(version, str | None):
            line = lines[index] if len(lines) >= len(listed) else 1
            marker = entry.get("marker") or entry.get("markers")
            of_text = marker if isinstance(marker, str) else None
            found.append(_Package(canonicalize_name(name), version or "", line, of_text, entry))
    return found


def _lines(text: str) -> Iterator[int]:
    """Where the name of each entry stands."""
    inside = False
    for number, line in enumerate(text.splitlines(), 1):
        bare = line.strip()
        if _ENTRY.fullmatch(bare):
            inside = True
        elif inside and _NAME.match(bare):
            inside = False
            yield number


def _is_root(one: _Package) -> bool:
    source = table(one.data.get("source"))
    return any(name in source for name in ("virtual", "editable"))


# ------------------------------------------------------------------------------------------------------------- uv


def _of_uv(packages: list[_Package]) -> dict[str, Choice]:
    by_name: dict[str, list[_Package]] = {}
    for one in packages:
        by_name.setdefault(one.name, []).append(one)
    roots = [one for one in packages if _is_root(one)]
    if not roots:
        return {"": _all(packages)}
    found = {"": _closure(by_name, [one.data.get("dependencies") for one in roots])}
    for kind, key in (("extra", "optional-dependencies"), ("group", "dev-dependencies")):
        for root in roots:
            for name, wanted in list(table(root.data.get(key)).items())[:MOST_PARTS]:
                found[f"{kind} {name}"] = _closure(by_name, [root.data.get("dependencies"), wanted])
    return found


def _closure(by_name: dict[str, list[_Package]], wanted: list[object]) -> Choice:
    """All that some dependencies need."""
    choice, open_ = Choice(), [each for one in wanted if isinstance(one, list) for each in one]
    while open_ and len(choice.chosen) < MOST_REQUIREMENTS:
        asked = table(open_.pop())
        marker, extras = asked.get("marker"), texts(asked.get("extra"))
        for one in _entries(by_name, asked.get("name"), asked.get("version")):
            if choice.add(one, extras, marker if isinstance(marker, str) else None):
                open_ += _dependencies(one, extras)
    for identity in [identity for identity, one in choice.chosen.items() if _is_root(one) or not one.version]:
        del choice.chosen[identity]
    return choice


def _entries(by_name: dict[str, list[_Package]], name: object, version: object) -> list[_Package]:
    """The entries of a name, or the one of the version that is given beside it."""
    found = by_name.get(canonicalize_name(name), []) if isinstance(name, str) else []
    return [one for one in found if not isinstance(version, str) or version == one.version]


def _dependencies(one: _Package, extras: list[str]) -> Iterator[object]:
    """The dependencies of a package and of some of its extras."""
    optional = table(one.data.get("optional-dependencies"))
    for needed in (one.data.get("dependencies"), *(optional.get(extra) for extra in extras)):
        yield from needed if isinstance(needed, list) else ()


def _all(packages: Iterable[_Package]) -> Choice:
    choice = Choice()
    for one in packages:
        if one.version:
            choice.add(one, texts(one.data.get("extras")))
    return choice


# -------------------------------------------------------------------------------------------- Poetry, PDM, PEP 751


def _by_group(packages: list[_Package], extras: dict[str, Any]) -> dict[str, Choice]:
    """Poetry's `groups` and `optional`, PDM's `groups`; Poetry names the members of extras at the end."""
    own = [one for one in packages if _in_base(one)]
    found = {"": _all(own)}
    groups = sorted({part for one in packages for part in one.parts()} - {"main", "default"})
    for name in groups[:MOST_PARTS]:
        found[f"group {name}"] = _all([*own, *(one for one in packages if name in one.parts())])
    by_name = {one.name: one for one in packages}
    for name, members in list(extras.items())[:MOST_PARTS]:
        needed = _needed(by_name, [canonicalize_name(one) for one in texts(members)])
        found[f"extra {name}"] = _all([*own, *needed])
    return found


def _in_base(one: _Package) -> bool:
    parts = one.parts()
    return one.data.get("optional") is not True and (not parts or bool(parts & {"main", "default"}))


def _needed(by_name: dict[str, _Package], names: list[str]) -> list[_Package]:
    """Packages with all that they depend on."""
    found: dict[str, _Package] = {}
    while names:
        one = by_name.get(names.pop())
        if one is not None and one.name not in found:
            found[one.name] = one
            names += [canonicalize_name(name) for name in table(one.data.get("dependencies"))]
    return list(found.values())


def _by_marker(packages: list[_Package]) -> dict[str, Choice]:
    """PEP 751: "'gpu' in extras" stands in the markers."""
    parts: dict[str, list[_Package]] = {}
    own = []
    for one in packages:
        named = _PART.findall(one.marker or "")
        for name, kind in named[:MOST_PARTS]:
            parts.setdefault(f"{'extra' if kind == 'extras' else 'group'} {name}", []).append(one)
        if not named:
            own.append(one)
    for one in packages:
        one.marker = None if _PART.search(one.marker or "") else one.marker
    return {"": _all(own), **{part: _all([*own, *several]) for part, several in list(parts.items())[:MOST_PARTS]}}
