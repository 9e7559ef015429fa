"""Files that describe one environment together: a lock and its manifest, a Dockerfile and what it installs from."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from packaging.specifiers import SpecifierSet

from tfgpu_doctor.manifests import Environment, Requirement
from tfgpu_doctor.manifests.building import merged

MOST = 1_000  # environments of all files together
MOST_OUTDATED = 5  # requirements of a manifest that its lock does not hold
_IN_A_PROJECT = ("requirements", "pyproject", "lock", "setup", "pipfile")  # where .python-version holds
_MADE_FROM = ("requirements", "dockerfile", "compose", "conda", "devcontainer", "pyproject", "setup")


def joined(environments: Iterable[Environment]) -> Iterator[Environment]:
    """The environments as they will exist; those that are judged as a part of another say so."""
    found = list({(one.place, one.label): one for one in islice(environments, MOST)}.values())
    if len(found) == MOST:
        note = f"{found[-1].place}: more than {MOST} environments; what follows is not judged"
        found[-1] = replace(found[-1], not_understood=(*found[-1].not_understood, note))
    found = [*_built(found)]
    found = [*_locked(found)]
    found = [*_with_python(found)]
    yield from _parts(found)


def _path(one: Environment) -> str:
    return posixpath.normpath(one.place.path)


def _built(found: list[Environment]) -> Iterator[Environment]:
    """A service that is built from a Dockerfile among the files gets what that Dockerfile installs."""
    dockerfiles = {_path(one): one for one in reversed(found) if one.kind == "dockerfile"}
    for one in found:
        built = dockerfiles.get(posixpath.normpath(one.build_context)) if one.build_context else None
        if built is not None:
            yield replace(merged(one, built), read=(*one.read, _path(built), *built.read))
        elif one.build_context:
            note = f"{one.place}: {one.build_context} cannot be read; if it lies elsewhere, name it, too"
            yield replace(one, not_understood=(*one.not_understood, note))
        else:
            yield one


def _locked(found: list[Environment]) -> Iterator[Environment]:
    """A lock is what is installed; its manifest tells the extras, and what of it the lock does not hold."""
    manifests: dict[tuple[str, str, str], Environment] = {}
    locks: dict[tuple[str, str, str], str] = {}
    for one in found:
        if one.kind == "lock":
            locks.setdefault(_part(one), one.label)
        elif one.kind in ("pyproject", "pipfile", "conda"):
            manifests.setdefault(_part(one), one)
    for one in found:
        key = _part(one)
        manifest = manifests.get(key)
        if one.kind == "lock" and manifest is not None:
            yield _of_manifest(one, manifest)
        elif manifest is one and key in locks:
            yield replace(one, part_of=f"locked in {locks[key]}")
        else:
            yield one


def _part(one: Environment) -> tuple[str, str, str]:
    """The folder, the extra or group, and the kind of the manifest: a lock is of one program."""
    path = _path(one)
    kind: str = one.kind
    if kind == "lock":
        kind = (
            "conda" if path.endswith((".yml", ".yaml")) else "pipfile" if path.endswith("Pipfile.lock") else "pyproject"
        )
    return posixpath.dirname(path), one.label.removeprefix(one.place.path), kind


def _of_manifest(lock: Environment, manifest: Environment) -> Environment:
    asked: dict[str, Requirement] = {}
    for one in manifest.requirements:
        asked.setdefault(one.name, one)
    requirements = tuple(_with_extras(one, asked.get(one.name)) for one in lock.requirements)
    outdated = [
        (asked[one.name], one) for one in requirements if one.name in asked and not _holds(asked[one.name], one)
    ]
    return replace(
        lock,
        python=manifest.python or lock.python,
        requirements=requirements,
        read=(*lock.read, _path(manifest)),
        outdated=tuple(outdated[:MOST_OUTDATED]),
        not_understood=(*lock.not_understood, *manifest.not_understood),
    )


def _with_extras(one: Requirement, asked: Requirement | None) -> Requirement:
    if asked is None or one.extras or not asked.extras:
        return one
    text = one.text.replace(one.name, f"{one.name}[{','.join(asked.extras)}]", 1)
    return replace(one, extras=asked.extras, text=text)


def _holds(asked: Requirement, locked: Requirement) -> bool:
    """Whether an exact version is one of those that a manifest allows."""
    if asked.marker is not None or asked.installer != locked.installer:
        return True  # there can be others of that name
    try:
        return SpecifierSet(asked.specifier).contains(locked.specifier.lstrip("="), prereleases=True)
    except ValueError:
        return True


def _with_python(found: list[Environment]) -> Iterator[Environment]:
    """.python-version and its like tell the Python of the projects beside them that name none, or several."""
    pythons = {posixpath.dirname(_path(one)): one for one in reversed(found) if one.kind == "python" and one.python}
    for one in found:
        of_folder = pythons.get(posixpath.dirname(_path(one)))
        if of_folder is not None and one.kind in _IN_A_PROJECT:
            python = (*of_folder.python, *one.python)
            yield replace(one, python=python, read=(*one.read, _path(of_folder)))
        else:
            yield one


def _parts(found: list[Environment]) -> Iterator[Environment]:
    """What another file of the same list includes, or is made from, is judged there."""
    owners = {**_made_from(found), **_including(found)}
    for one in found:
        owner = owners.get(_path(one), one.label)
        is_whole = one.label == one.place.path or one.kind == "dockerfile"
        is_part = one.part_of is None and owner != one.label and is_whole
        yield replace(one, part_of=f"part of {owner}") if is_part else one


def _including(found: list[Environment]) -> dict[str, str]:
    """The paths of files that others include, with the label of the first that does."""
    included = {path for one in found for path in one.read if path != _path(one)}
    owners: dict[str, str] = {}
    for one in found:
        # two that include each other are both judged, so that nothing is left out
        outermost = _path(one) not in included and one.part_of is None and one.kind in (*_MADE_FROM, "lock")
        for path in set(one.read) - {_path(one)} if outermost else ():
            owners.setdefault(path, one.label)
    return owners


def _made_from(found: list[Environment]) -> dict[str, str]:
    """requirements.in, with the label of the requirements.txt that is compiled from it."""
    texts = {_path(one): one.label for one in found if one.kind == "requirements" and one.place.path.endswith(".txt")}
    return {f"{path.removesuffix('.txt')}.in": label for path, label in texts.items()}
