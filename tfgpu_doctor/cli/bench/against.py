"""`--against BASE.json --within TIME`: measure again and again, until a comparison can tell or the time is up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

import click

from tfgpu_doctor.render.streams import say

if TYPE_CHECKING:
    from tfgpu_doctor.bench.comparing.records import BenchComparison
    from tfgpu_doctor.bench.results import BenchResult
    from tfgpu_doctor.bench.session import Plan
    from tfgpu_doctor.cli.output import Output

LEAST_ROUNDS = 5  # of one process each: with so many the gate holds its promise (benchmarks/compare_gate.py)


@dataclass(frozen=True)
class Against:
    """What to compare with, and how many seconds there are."""

    base: BenchResult
    name: str
    within: float

    def adopt(self, plan: Plan) -> None:
        """Repeat what BASE chose by the speed of the machine, unless the user says otherwise.

        Raises click.UsageError: BASE is a result of another workload.
        """
        from tfgpu_doctor.bench.workload_registry import WORKLOADS

        if self.base.workload != plan.workload:
            raise click.UsageError(f"--against {self.name}: a result of {self.base.workload}, not of {plan.workload}")
        for name in WORKLOADS[plan.workload].chosen:
            if getattr(plan, name, 0) is None and name in self.base.parameters:
                setattr(plan, name, self.base.parameters[name])
        plan.repeat(self.base.runs)

    def until_clear(
        self, measure: Callable[[float], BenchResult], clock: Callable[[], float] = time.monotonic
    ) -> tuple[BenchResult, BenchComparison]:
        """All rounds as one result, and how it compares; `measure` gets the seconds for one round."""
        from tfgpu_doctor.bench.pooling import pooled

        began = clock()
        result: BenchResult | None = None
        rounds = 0
        while True:
            before = clock()
            new = measure(max((self.within - (before - began)) / max(LEAST_ROUNDS - rounds, 1), 1.0))
            result = new if result is None else pooled(result, new)
            rounds += 1
            comparison = self._compare(result)
            took, left = clock() - before, self.within - (clock() - began)
            if left < took or not _worth_more(comparison, rounds):
                return result, comparison
            say(f"tfgpu: round {rounds}: {_sum(comparison)}; {left:.0f} s left")

    def _compare(self, result: BenchResult) -> BenchComparison:
        from tfgpu_doctor.bench.comparing.comparison import compare_benches
        from tfgpu_doctor.diagnosis.reports import now

        return compare_benches(self.base, result, now(), names=(self.name, "this run"))


def load(path: str, within: float) -> Against:
    """Read BASE. Raises click.UsageError: it is no result of tfgpu bench."""
    from tfgpu_doctor.cli.saved import load_bench

    return Against(load_bench(path, "--against"), PurePath(path).name, within)


def conclude(comparison: BenchComparison, targets: list[Output]) -> int:
    """Show the comparison, on standard error where the result is the document; returns the exit code."""
    from tfgpu_doctor.bench.comparing.comparison import exit_code

    if any(target == ("text", None) for target in targets):
        from tfgpu_doctor.render.console import console_for
        from tfgpu_doctor.render.terminal.bench_compare import render

        console = console_for()
        console.print()
        render(comparison, console)
    else:
        say(f"tfgpu: {_sum(comparison)}")
    return exit_code(comparison, "slower")


def _sum(comparison: BenchComparison) -> str:
    from tfgpu_doctor.render.bench_compare_words import summary

    return summary(comparison).partition(";")[0]


def _worth_more(comparison: BenchComparison, rounds: int) -> bool:
    """Whether another round can say more: a run is inconclusive, or has changed by little more than the factor, which
    too often happens by chance where one looks after every round."""
    if any(run.verdict == "cannot tell" for run in comparison.runs):
        return True
    changed = [run.ratio for run in comparison.runs if run.verdict in ("slower", "faster") and run.ratio]
    near = any(ratio.low <= comparison.factor and ratio.high >= 1 / comparison.factor for ratio in changed)
    return near and rounds < LEAST_ROUNDS
