"""Saved bench results: read back, with a sentence for everything that can be wrong with one. Pure.

What is read here is believed everywhere else: the bounds of each number stand in bench/results.py, and what the fields
of a run say of each other is held by `contradictions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tfgpu_doctor.bench.results import SCHEMA, BenchResult, Run
from tfgpu_doctor.records.report import ReportError, decode_saved, other_kind, schema_of, short


def load_result(data: bytes, name: str, command: str = "tfgpu compare") -> BenchResult:
    """Decode a saved bench result; `name` and the `command` that reads it stand in the message.

    Raises ReportError: not JSON, no bench result, or one of another schema version.
    """
    kind = schema_of(data, name)
    if kind != SCHEMA:
        raise ReportError(f"{name} {other_kind(kind, SCHEMA, command, 'a bench result')}")
    result = decode_saved(data, BenchResult, name, "bench result")
    check_runs(result.runs, name, "bench result")
    return result


def check_runs(runs: Iterable[Run], name: str, what: str) -> None:
    """Refuse runs that contradict themselves; `name` and `what` the file should be stand in the message.

    Raises ReportError: one does; the message says which, and in what.
    """
    for number, run in enumerate(runs, 1):
        for problem in contradictions(run):
            raise ReportError(f"{name} is not a valid {what}: run {number} ({short(run.label)}): {problem}")


def contradictions(run: Run) -> Iterator[str]:
    """Yield what the fields of a run say against each other, in half a sentence each."""
    count = len(run.samples_s)
    if run.throughput:
        yield from _speed_without_reason(run)
    for title, values in (("cpu_load", run.cpu_load), ("cpu_wait", run.cpu_wait)):
        if values and len(values) != count:
            yield f"{title} has {len(values)} values for {count} samples"
    if run.processes and sum(run.processes) != count:
        yield f"its processes gave {sum(run.processes)} samples, but samples_s has {count}"
    if run.left_out and run.left_out >= count:
        yield f"left_out is {run.left_out} of {count} samples"
    if any(place >= count for place in run.throttled_samples):
        yield "throttled_samples names a sample that samples_s does not have"
    if run.ci95_s and run.median_s and not run.ci95_s[0] <= run.median_s <= run.ci95_s[1]:
        yield f"median_s ({run.median_s:g}) lies outside of ci95_s"


def _speed_without_reason(run: Run) -> Iterator[str]:
    """A speed stands on samples of a verified result, and on nothing else."""
    if run.failure:
        yield f"it has a speed, although it failed: {short(run.failure)}"
    if run.verified is None or not run.verified.ok:
        yield "it has a speed, although its result was not verified"
    if run.median_s is None or run.ci95_s is None or not run.samples_s:
        yield "it has a speed without median_s, ci95_s and samples_s"
    elif not min(run.samples_s) <= run.median_s <= max(run.samples_s):
        yield f"median_s ({run.median_s:g}) lies outside of samples_s"
