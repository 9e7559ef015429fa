"""What a real resolver (uv, pip) is asked about an environment, and the environment with its answer. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from msgspec import structs
from packaging.requirements import Requirement as Readable
from packaging.utils import canonicalize_name

from tfgpu_doctor.manifests import Environment, Requirement
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.planned import PlannedEnvironment, planned
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.resolution import Answer

# a requirement with an address or a path, in the syntax of pip or of TOML
_FROM_ELSEWHERE = re.compile(r"@|://|\b(?:path|url|file|git|hg|svn|workspace|directory|editable)[\"']?\s*[=:]")
NOT_RESOLVED = "not resolved"  # of the reason why there is no answer


@dataclass(frozen=True)
class Question:
    """What a resolver is asked: requirements by name only, of no file's paths, addresses or options."""

    requirements: tuple[str, ...]
    python: str  # "3.12"
    platform: str  # "linux_x86_64"


@dataclass(frozen=True)
class Answers:
    """The answers for several environments, and why some have none."""

    found: Mapping[Environment, Answer] = field(default_factory=dict)
    open: tuple[str, ...] = ()


def question_of(view: PlannedEnvironment) -> Question | None:
    """What to ask about an environment; None where pip installs no TensorFlow in it, and nothing beside one."""
    if not view.judged or view.conda or view.environment.part_of is not None:
        return None
    if view.tensorflow and _text(view.tensorflow) is None:
        return None
    lines = tuple(dict.fromkeys(text for one in view.environment.requirements if (text := _text(one))))
    if not lines:
        return None
    python, platform = view.universe.python, view.target.platform
    return Question((*_of_image(view, python), *lines), python, platform)


def _text(one: Requirement) -> str | None:
    """A requirement as a resolver reads it; None for one that is not for pip, or not from an index."""
    if one.installer != "pip" or _FROM_ELSEWHERE.search(one.text):
        return None
    extras = f"[{','.join(one.extras)}]" if one.extras else ""
    marker = f" ; {one.marker}" if one.marker else ""
    try:
        read = Readable(f"{one.name}{extras}{one.specifier}{marker}")
    except (ValueError, RecursionError):  # the latter of a marker in hundreds of parentheses
        return None
    return str(read) if read.url is None else None


def _of_image(view: PlannedEnvironment, python: str) -> Iterator[str]:
    """The TensorFlow that the image has, where the index has it, too."""
    inside = view.base.tensorflow if view.base and view.tensorflow is None else None
    row = view.matrix.tensorflow(inside, view.target.platform) if inside else None
    if row and python in row.python:
        yield f"{row.package}=={row.version}"


def settled(view: PlannedEnvironment, answer: Answer | None) -> PlannedEnvironment:
    """The same environment with exactly the versions that the resolver has chosen, also of what no line names."""
    if answer is None or answer.refusal is not None:
        return replace(view, answer=answer)
    environment, versions = view.environment, dict(answer.versions)
    own = tuple(_pinned(one, versions) for one in environment.requirements)
    named = {one.name for one in own}
    line = view.tensorflow or next(one for one in own if one.installer == "pip")
    more = tuple(
        Requirement(name, f"=={version}", line.place, f"{name}=={version}", brought_by=line.text)
        for name, version in versions.items()
        if name not in named and _is_judged(name, view.matrix)
    )
    exact = planned(replace(environment, requirements=(*own, *more)), _target_of(view, answer), view.matrix)
    return replace(exact, differences=view.differences, answer=answer)


def _pinned(one: Requirement, versions: Mapping[str, str]) -> Requirement:
    version = versions.get(canonicalize_name(one.name)) if one.installer == "pip" else None
    return replace(one, specifier=f"=={version}") if version else one


def _is_judged(name: str, matrix: Matrix) -> bool:
    return name.startswith("nvidia-") or name in matrix.packages


def _target_of(view: PlannedEnvironment, answer: Answer) -> Target:
    """The versions are those for one Python; without another bound it is the one that the environment has."""
    return view.target if view.pythons else structs.replace(view.target, python=answer.python)
