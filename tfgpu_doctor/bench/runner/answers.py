"""What a worker may answer. An answer is checked once, where it comes in, so that nobody behind that has to doubt it.

What `verify` answers is between a workload and its judge.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from tfgpu_doctor.bench.results import Amount, Count, Figure, Pause, Time

Capability = Annotated[str, Meta(pattern=r"^\d+\.\d+$")]


class Gpu(Struct):
    """A GPU that TensorFlow lists."""

    name: str
    compute_capability: Capability | None


class Hello(Struct):
    """Versions, and what TensorFlow lists."""

    tensorflow: str
    numpy: str
    python: str
    gpus: list[Gpu]


class Prepared(Struct):
    """How long each part of the start took."""

    cold: dict[str, Pause]


class Sampled(Struct):
    """A block of samples."""

    samples: Annotated[list[Time], Meta(min_length=1)]
    loads: list[Amount]
    placed_on: list[str]
    misplaced: str | None
    rechecked: list[dict[str, Any]]
    waited: Amount | None = None
    busy: Amount = 0.0
    took: Amount | None = None  # seconds from the request to the answer, by the worker's clock

    def __post_init__(self) -> None:
        """Every sample has its load."""
        if len(self.samples) != len(self.loads):
            raise ValueError(f"{len(self.samples)} samples, and the load of {len(self.loads)}")


class Figures(Struct):
    """Figures beside the samples."""

    figures: list[Figure]
    remarks: list[str] = []
    peak: Count | None = None


class Profiled(Struct):
    """The files of a trace."""

    files: list[str]


class Followed(Struct):
    """What a follower has done."""

    done: str


class Spec(Struct):
    """An input or an output of a SavedModel."""

    name: str
    shape: list[Count | None] | None
    dtype: str


class Described(Struct):
    """A signature of a SavedModel."""

    name: str
    names: list[str]
    inputs: list[Spec]
    outputs: list[Spec]


class Unusable(Struct):
    """Why there is no such signature."""

    unusable: str


class Slurm(Struct):
    """Who takes part, by Slurm."""

    cluster: dict[str, list[str]]
    index: Count


_ANSWERS: dict[str, type[Struct]] = {
    "hello": Hello,
    "prepare": Prepared,
    "sample": Sampled,
    "figures": Figures,
    "profile": Profiled,
    "follow": Followed,
}
_TASKS: dict[str, type[Struct]] = {"describe": Described, "slurm": Slurm}  # of `reference`


# a time of the worker that is no time
_NO_TIME = re.compile(r"^Expected `float` [<>]=? .* at `\$\.(?:cold|samples|loads|waited|busy|took)\b")
NO_TIMES = "so that its times mean nothing"  # how the failure of a run ends that says nothing of TensorFlow
_CLOCK = f"its clock stood still, went back or jumped, {NO_TIMES}"
_SLACK = 2.0  # seconds in which a busy machine may deliver an answer


def problem(request: Mapping[str, Any], answer: dict[str, Any]) -> str | None:
    """What is wrong with an answer; None for one that can be used."""
    kind = _TASKS.get(request["task"]) if "task" in request else _ANSWERS.get(request["do"])
    if kind is Described and "unusable" in answer:
        kind = Unusable
    try:
        if kind is not None:
            msgspec.convert(answer, kind)
    except msgspec.ValidationError as error:
        return _CLOCK if _NO_TIME.search(str(error)) else str(error)
    return None


def clock_problem(answer: Mapping[str, Any], elapsed: float) -> str | None:
    """What our own clock, by which the answer took `elapsed` seconds, says against that of the worker."""
    took = answer.get("took")
    if took is None or (elapsed <= 2 * took + _SLACK and took <= 2 * elapsed + _SLACK):
        return None
    return f"its clock counted {took:.3g} s where {elapsed:.3g} s passed, {NO_TIMES}"
