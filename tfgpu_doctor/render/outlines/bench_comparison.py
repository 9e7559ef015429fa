"""What a comparison of two bench results comes to: a row, a case and a ratio for each run. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from tfgpu_doctor.bench.comparison import (
    WORDS,
    BenchComparison,
    FailOnSpeed,
    RunChange,
    Verdict,
    exit_code,
    is_failing,
    is_incomplete,
    is_open,
)
from tfgpu_doctor.bench.devices import plain
from tfgpu_doctor.bench.results import Ratio
from tfgpu_doctor.facts.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN
from tfgpu_doctor.facts.units import approximate, digits
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.outlines.bench import value_of
from tfgpu_doctor.render.shapes import Block, Case, Checks, Items, Line, Outcome, Page, Part, Suite, Table, problems

MARKS: dict[Verdict, str] = {
    "slower": "error",
    "faster": "ok",
    "same": "ok",
    "cannot tell": "unknown",
    "not comparable": "absent",
}
_COMMAND = "tfgpu compare"
_MANY = 8  # runs; of more, those that are the same have one line


def page(comparison: BenchComparison, detail: formats.Detail = "shared") -> Page:
    """A table of the runs; in a terminal, a block for each."""
    base, new, runs = comparison.base, comparison.new, comparison.runs
    titles = " → ".join(dict.fromkeys((base.title, new.title)))
    what = f"{new.workload}: {titles}" if base.workload == new.workload else f"{base.workload} and {new.workload}"
    about = (f"{_COMMAND} {comparison.tool.version}, {what}", f"{base.name} → {new.name}")
    mark = {EXIT_OK: "ok", EXIT_PROBLEM: "error"}.get(exit_code(comparison, "slower"), "unknown")
    whole = Page(_COMMAND, about, mark, _COMMAND, _summary(comparison), (), created=comparison.created)
    shown: tuple[Part, ...] = tuple(_block(run, comparison.factor, len(runs) > _MANY) for run in runs)
    if detail == "shared":
        rows = tuple((" ".join(_title(run)), _verdict(run, reasons=True), _speeds(run)) for run in runs)
        moved = (f"{' '.join(_title(run))}: {text}" for run in runs for text in _figures(run, comparison.factor))
        shown = (Table("Runs", ("Run", "Verdict", "Base → new"), rows, tuple(map(_mark, runs))), Items(tuple(moved)))
    notes = dict.fromkeys((*comparison.notes, *(note for run in runs for note in run.notes)))
    sides = tuple(
        (side.name, f"{side.created}  {', '.join(map(' '.join, side.software.items()))}") for side in (base, new)
    )
    parts = (
        *shown,
        Items(tuple(notes), mark="note"),
        Items(tuple(_alone(comparison)), mark="absent"),
        Table("What was compared", ("Result", "Measured, with"), sides, is_folded=True),
    )
    allowed = dict.fromkeys(name for run in runs for name in _allowing(run))
    remedy = f"; compare the others with --across {','.join(allowed)}" if allowed else ""
    return whole._replace(parts=parts, sentence=whole.sentence + remedy)


def _allowing(run: RunChange) -> list[str]:
    """Return the names for --across with which a run can be compared; none where something else forbids it, too."""
    names = [name for reason in run.reasons for name in re.findall(r"\(--across (\w+) allows it\)$", reason)]
    return names if len(names) == len(run.reasons) else []


def _block(run: RunChange, factor: float, short: bool) -> Block:
    texts = () if short and run.verdict == "same" else (*run.reasons, *_texts(run, factor))
    return Block(_mark(run), "  ".join((*_title(run), _verdict(run))), tuple(Line("", text) for text in texts))


def _texts(run: RunChange, factor: float) -> tuple[str, ...]:
    """Return all that is known of a run beside its verdict."""
    return tuple(filter(None, (_speeds(run), *_figures(run, factor), _evidence(run))))


def checks(comparison: BenchComparison, fail_on: FailOnSpeed = "slower") -> Checks:
    """A case for each run, and one for whether all that the base has was judged."""
    code = exit_code(comparison, fail_on)
    runs = (f"{_COMMAND}: {' '.join(_title(run))}: {_verdict(run)}" for run in comparison.runs)
    log = (*runs, f"{_COMMAND}: {_summary(comparison)}")
    cases = tuple(_case(run, comparison, fail_on, code) for run in comparison.runs)
    whole = Case("all runs of the base were judged", "tfgpu.compare", details=(_summary(comparison),))
    if is_incomplete(comparison):
        # beside a run that says so itself, or that is slower, it is no second error
        is_alone = code == EXIT_UNKNOWN and not any(case.outcome == "error" for case in cases)
        outcome: Outcome = "error" if is_alone else "skipped"
        lost = tuple(_alone(comparison))
        whole = whole._replace(outcome=outcome, kind="inconclusive", message=_summary(comparison), details=lost)
    every = (whole, *cases)
    return Checks(_COMMAND, comparison.created, (Suite(_COMMAND, every),), problems(_COMMAND, every), log)


def _case(run: RunChange, comparison: BenchComparison, fail_on: FailOnSpeed, code: int) -> Case:
    case = Case(" ".join(_title(run)), "tfgpu.compare", details=_texts(run, comparison.factor))
    message = _verdict(run, reasons=True)
    if is_failing(run, fail_on):
        return case._replace(outcome="failure", kind="failed" if run.lost else WORDS[run.verdict], message=message)
    if is_open(run):
        # beside a run that is slower, what is inconclusive is no second problem
        outcome: Outcome = "error" if code == EXIT_UNKNOWN else "skipped"
        return case._replace(outcome=outcome, kind=WORDS[run.verdict], message=message)
    return case._replace(details=(message, *case.details))


# ---------------------------------------------------------------------------------------------------------------- words


def _mark(run: RunChange) -> str:
    """The symbol of a run: one that has failed since is as bad as one that became slower."""
    return "error" if run.lost else MARKS[run.verdict]


def _title(run: RunChange) -> tuple[str, ...]:
    point = ", ".join(f"{name.replace('_', ' ')} {value_of(name, value)}" for name, value in run.parameters.items())
    return tuple(filter(None, (plain(run.label), run.dtype, point)))


def change(ratio: Ratio) -> str:
    """Return how the time of a step changed: "time +10.2 % (95 %: +8.9 to +11.5 %)"."""
    value, low, high = (_signed(one, ratio) for one in (ratio.value, ratio.low, ratio.high))
    return f"time {value} % (95 %: {low} to {high} %)"


def _signed(value: float, ratio: Ratio) -> str:
    """Per cent beyond 1, to a tenth where the interval is that narrow."""
    decimals = 1 if 100 * (ratio.high - ratio.low) < 10 else 0
    text = f"{100 * (value - 1):+.{decimals}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("+-")


def _verdict(run: RunChange, reasons: bool = False) -> str:
    """The verdict with the change, and with its reasons. The same samples have no change to show."""
    shown = run.ratio if run.ratio and run.ratio.low < run.ratio.high and run.verdict != "not comparable" else None
    parts = (WORDS[run.verdict], change(shown) if shown else "", "; ".join(run.reasons) if reasons else "")
    return ": ".join(filter(None, parts))


def _speeds(run: RunChange) -> str:
    """Throughput and time, before and after: "190 → 172 GFLOP/s, 25.1 → 27.6 ms per sample"; empty without both."""
    if not run.base or not run.new or run.verdict == "not comparable":
        return ""
    speed = f"{_arrow(run.base.throughput, run.new.throughput, run.new.unit)}, " * (run.base.unit == run.new.unit)
    return f"{speed}{_arrow(run.base.step_s, run.new.step_s, 's')} per {run.step_name}"


def _arrow(base: float, new: float, unit: str) -> str:
    return f"{approximate(base, unit)} → {approximate(new, unit)}"


def _evidence(run: RunChange) -> str:
    """What the verdict rests on: "processes 5 and 5, samples 370 and 350"; empty where nothing was judged."""
    if not run.base or not run.new or not run.ratio:
        return ""
    base, new = run.base, run.new
    left_out = f" (left out, because other programs used the CPUs: {base.left_out} and {new.left_out})"
    counts = f"processes {base.processes} and {new.processes}, samples {base.samples} and {new.samples}"
    return counts + left_out * bool(base.left_out or new.left_out)


def _figures(run: RunChange, factor: float) -> Iterator[str]:
    """Figures of runs that were compared which moved by more than the factor."""
    if run.base and run.new and run.verdict != "not comparable":
        before = {(one.name, one.unit): one.value for one in run.base.figures}
        for one in run.new.figures:
            old = before.get((one.name, one.unit), one.value)
            if not old / factor <= one.value <= old * factor:
                yield f"{one.name} {_arrow(old, one.value, one.unit)}"


def _alone(comparison: BenchComparison) -> Iterator[str]:
    """Yield the cases that one result has alone: "only in base.json: 1 GPU float32"."""
    for runs, side in ((comparison.only_base, comparison.base), (comparison.only_new, comparison.new)):
        titles = [" ".join(_title(run)) + ("" if run.base or run.new else " (without a speed)") for run in runs]
        if titles:
            yield f"only in {side.name}: {'; '.join(titles)}"


def _summary(comparison: BenchComparison) -> str:
    """How many of each: "1 slower, 2 the same; a change counts above 5 %"."""
    words = ["failed in NEW", *WORDS.values()]
    found = Counter("failed in NEW" if run.lost else WORDS[run.verdict] for run in comparison.runs)
    parts = [f"{found[word]} {word}" for word in words if found[word]]
    limit = digits(100 * (comparison.factor - 1), 0, 0).rstrip("0").rstrip(".")
    return f"{', '.join(parts) or 'no run in both'}; a change counts above {limit} %"
