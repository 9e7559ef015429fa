"""Files of one project that contradict each other: two releases of TensorFlow, two Pythons. Pure.

Files of one kind are alternatives (requirements-cpu.txt and requirements-gpu.txt, two services), and so are files
whose names tell them apart; files of different kinds in one folder, or below it, describe one project.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tfgpu_doctor.manifests import Difference, Place, Requirement
from tfgpu_doctor.plan.base_images import read_base
from tfgpu_doctor.plan.planned import PlannedEnvironment, specifier

MOST_COMPARED = 60  # environments, each with each
# a folder that holds a file about the one above it
_BELOW = re.compile(r"(?:^|/)[^/]*(?:docker|conda|env|requirements|reqs|build)[^/]*$")
_VARIANT = re.compile(
    r"(?<![a-z])(gpu|cpu|rocm|tpu|mac(?:os)?|win(?:dows)?|arm|jetson|dev|test|ci|docs?|old|legacy)(?![a-z])"
)
_CONTAINERS = ("dockerfile", "compose", "kubernetes")


def compared(views: list[PlannedEnvironment]) -> list[PlannedEnvironment]:
    """The same environments, each with what another file contradicts; each pair is reported once."""
    found = []
    for index, view in enumerate(views):
        others = views[index + 1 : MOST_COMPARED] if index < MOST_COMPARED else ()
        differences = [*_inside(view), *(each for other in others for each in _between(view, other))]
        found.append(replace(view, differences=tuple(dict.fromkeys(differences))) if differences else view)
    return found


def _between(view: PlannedEnvironment, other: PlannedEnvironment) -> Iterator[Difference]:
    if not _of_one_project(view, other):
        return
    one, another = _asked(view), _asked(other)
    if one and another and _disjoint(one[2], another[2]):
        yield Difference("TensorFlow", *one[:2], *another[:2])


def _of_one_project(view: PlannedEnvironment, other: PlannedEnvironment) -> bool:
    one, another = view.environment, other.environment
    kinds = ["container" if each.kind in _CONTAINERS else each.kind for each in (one, another)]
    if kinds[0] == kinds[1] or one.place.path == another.place.path:
        return False
    variants = [set(_VARIANT.findall(each.label.lower())) for each in (one, another)]
    if variants[0] != variants[1]:
        return False
    folders = [posixpath.dirname(each.place.path) for each in (one, another)]
    near = [posixpath.dirname(each) if _BELOW.search(each.lower()) else each for each in folders]
    return near[0] == near[1]


def _asked(view: PlannedEnvironment) -> tuple[str, Place, str] | None:
    """What brings TensorFlow, where that is said, and its versions."""
    if view.tensorflow is not None:
        return view.tensorflow.text, view.tensorflow.place, view.tensorflow.specifier
    if view.base is not None and view.base.tensorflow:
        return view.base.image.reference, view.base.image.place, f"=={view.base.tensorflow}"
    return None


def _disjoint(one: str, another: str) -> bool:
    """Whether no version satisfies both specifiers; the versions that they name are tried."""
    wanted, other = specifier(one), specifier(another)
    if wanted is None or other is None or not one or not another:
        return False
    named = {each.version.removesuffix(".*") for each in (*wanted, *other)}
    named |= {f"{each}.0" for each in named if each.count(".") < 2}
    return not any(wanted.contains(each, prereleases=True) and other.contains(each, prereleases=True) for each in named)


def _inside(view: PlannedEnvironment) -> Iterator[Difference]:
    """A Python that another file of the project rules out; packages of another Python."""
    yield from _pythons(view.environment.python)
    maker, base = read_base(view.environment.packages_of, view.matrix), view.base
    if maker is None or base is None or view.environment.python or view.environment.copies_python:
        return
    if maker.python and base.python and maker.python != base.python:
        pythons = [f"Python {one.python} of {one.image.reference}" for one in (maker, base)]
        yield Difference("packages", pythons[0], maker.image.place, pythons[1], base.image.place)


def _pythons(named: Iterable[Requirement]) -> Iterator[Difference]:
    several = [*named]
    for other in several[1:]:
        first = several[0]
        if first.place.path != other.place.path and _disjoint(first.specifier, other.specifier):
            yield Difference("Python", first.text, first.place, other.text, other.place)
