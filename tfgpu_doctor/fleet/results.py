"""What is kept of a node's result: a few hundred bytes of tens of thousands, most of them shared with its siblings."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tfgpu_doctor.fleet.records import Unreadable
from tfgpu_doctor.fleet.values import Leaf
from tfgpu_doctor.records.report import Fix

ResultKind = Literal["doctor", "smoke", "bench"]
# where a node's name comes from; those of a place are made up, and no two results share one
NamedBy = Literal["envelope", "prefix", "host", "file", "place"]
# what is known of a GPU, in the order of values.gpu_fields()
GpuValues = tuple[Leaf | None, ...]


class Found(NamedTuple):
    """A root cause that a node's doctor found, or a check of its smoke test that failed."""

    id: str
    severity: str
    layer: str  # empty: as the id's declaration says
    title: str
    saw: str  # what is told of this node
    cause: str
    fixes: tuple[Fix, ...]


class Speed(NamedTuple):
    """A run with its speed, or the reason why there is none."""

    kind: ResultKind
    workload: str
    label: str  # "1 GPU", also where it is GPU 3 alone
    dtype: str
    parameters: str
    device: str  # "GPU 3"; empty: the label says it
    unit: str
    value: float  # 0: none
    failure: str = ""
    wrong: bool = False  # its result was not verified


@dataclass(frozen=True)
class Result:
    """One result of one node."""

    kind: ResultKind | None  # None: the node gave no answer
    node: str
    named_by: NamedBy
    source: str  # "reports/gpu-017.json", "standard input, line 12"
    file: str
    created: str = ""
    verdict: Literal["ok", "degraded", "broken", "unknown"] = "unknown"
    cards: tuple[int, ...] = ()  # what stands for the UUIDs of its GPUs; empty: unknown
    facts: tuple[Leaf | None, ...] = ()  # in the order of values.paths()
    gpus: tuple[GpuValues, ...] | None = None  # None: unknown
    hardware: str = "unknown"
    found: tuple[Found, ...] = ()
    speeds: tuple[Speed, ...] = ()
    version: str = ""  # of tfgpu
    failure: str = ""  # why it gave no answer


@dataclass
class Gathered:
    """All that was read."""

    results: list[Result] = field(default_factory=list)
    unreadable: tuple[Unreadable, ...] = ()
    notes: tuple[str, ...] = ()


def hardware_of(gpus: tuple[GpuValues, ...] | None, name_at: int) -> str:
    """What makes siblings: "8 × NVIDIA H200"; `name_at` is the place of a GPU's name among its values."""
    if gpus is None:
        return "unknown"
    names = Counter((one[name_at] or (("", ("unknown model",)),))[0][1][0] for one in gpus)
    return ", ".join(f"{count} × {name}" for name, count in sorted(names.items())) or "no GPU"
