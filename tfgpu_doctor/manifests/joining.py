"""Files that describe one environment together: a Dockerfile and what it installs from, a project and its Python."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import islice

from tfgpu_doctor.manifests import Environment
from tfgpu_doctor.manifests.building import merged

MOST = 1_000  # environments of all files together
_IN_A_PROJECT = ("requirements", "pyproject")  # where .python-version holds
_MADE_FROM = ("requirements", "dockerfile", "compose", "conda", "pyproject")


def joined(environments: Iterable[Environment]) -> Iterator[Environment]:
    """The environments as they will exist; those that are judged as a part of another say so."""
    found = list({(one.place, one.label): one for one in islice(environments, MOST)}.values())
    if len(found) == MOST:
        note = f"{found[-1].place}: more than {MOST} environments; what follows is not judged"
        found[-1] = replace(found[-1], not_understood=(*found[-1].not_understood, note))
    found = [*_built(found)]
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
        outermost = _path(one) not in included and one.part_of is None and one.kind in _MADE_FROM
        for path in set(one.read) - {_path(one)} if outermost else ():
            owners.setdefault(path, one.label)
    return owners


def _made_from(found: list[Environment]) -> dict[str, str]:
    """requirements.in, with the label of the requirements.txt that is compiled from it."""
    texts = {_path(one): one.label for one in found if one.kind == "requirements" and one.place.path.endswith(".txt")}
    return {f"{path.removesuffix('.txt')}.in": label for path, label in texts.items()}
