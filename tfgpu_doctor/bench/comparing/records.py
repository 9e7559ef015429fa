"""What `tfgpu compare` says of two bench results: the records that become JSON.

Times are seconds of one step: a sample over the steps that it holds.
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from tfgpu_doctor.bench.results import Ratio
from tfgpu_doctor.records.about import public
from tfgpu_doctor.records.fact import Document
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.report import Tool

SCHEMA: Literal["tfgpu.bench-compare/1"] = "tfgpu.bench-compare/1"

Verdict = Literal["slower", "faster", "same", "cannot tell", "not comparable"]
# the verdicts as people read them
WORDS: dict[Verdict, str] = {
    "slower": "slower",
    "faster": "faster",
    "same": "the same",
    "cannot tell": "inconclusive",
    "not comparable": "not comparable",
}
# what a verdict rests on: the times; what they can be at least and at most, since other programs ran; the CPU time
Basis = Literal["time", "bounds", "CPU time"]
FailOnSpeed = Literal["slower", "faster", "change", "never"]


class Side(Record, frozen=True):
    """One of the two results."""

    name: str
    created: str
    tool: str  # version that measured
    workload: str
    title: str
    software: Annotated[dict[str, str], public("software")]


class Measured(Record, frozen=True):
    """One run, as it was judged."""

    step_s: float  # the median, as the result has it
    samples: int  # that count
    processes: int  # that count
    left_out: int  # samples during which something else wanted the CPUs
    throughput: float | None  # likewise
    unit: str | None


class FigureChange(Record, frozen=True):
    """A figure beside the samples; it has no verdict, since its samples are not in the file."""

    name: str
    unit: str
    base: float
    new: float
    ratio: Ratio | None  # NEW over BASE, with what both intervals allow at worst; None where BASE is 0


class RunChange(Record, frozen=True):
    """One case in both results."""

    label: str
    dtype: str
    spread: str
    parameters: dict[str, int | float | str | None]
    step_name: str
    verdict: Verdict
    reasons: tuple[str, ...] = ()  # why it cannot be told or compared
    ratio: Ratio | None = None  # time of a step (or its CPU time, see basis), NEW over BASE; above 1 is slower
    basis: Basis = "time"
    base: Measured | None = None
    new: Measured | None = None
    lost: bool = False  # it had a speed in BASE and has failed in NEW
    figures: tuple[FigureChange, ...] = ()
    notes: tuple[str, ...] = ()


class Alone(Record, frozen=True):
    """A case that only one of the results has."""

    label: str
    dtype: str
    parameters: dict[str, int | float | str | None]
    measured: bool  # whether it has a speed


class BenchComparison(Document, frozen=True):
    """Two bench results beside each other."""

    schema: Literal["tfgpu.bench-compare/1"]
    tool: Tool
    created: str  # UTC
    base: Side
    new: Side
    factor: float  # a change counts when it is larger, and clear
    across: tuple[str, ...]  # differences that were allowed
    runs: tuple[RunChange, ...]
    only_base: tuple[Alone, ...] = ()
    only_new: tuple[Alone, ...] = ()
    notes: tuple[str, ...] = ()

    def in_brief(self) -> str:
        """How many cases came out how."""
        verdicts = Counter(run.verdict for run in self.runs)
        return ", ".join(f"{many} {WORDS[verdict]}" for verdict, many in verdicts.items()) or "no common runs"
