"""What a comparison of two bench results says in words: for terminals and pages. Pure.

Text from outside (labels, names of files, reasons that quote them) is returned as it is; who prints it cleans it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.bench.comparison import (
    WORDS,
    Alone,
    BenchComparison,
    Measured,
    RunChange,
    Side,
    Verdict,
)
from tfgpu_doctor.bench.results import Ratio
from tfgpu_doctor.records.units import digits, quantity
from tfgpu_doctor.render.bench_words import value_of

MARKS: dict[Verdict, str] = {
    "slower": "error",
    "faster": "ok",
    "same": "ok",
    "cannot tell": "unknown",
    "not comparable": "absent",
}
_NAMES = {"tensorflow": "TensorFlow", "keras": "Keras", "numpy": "NumPy", "python": "Python"}
_ROUGHLY = 0.01  # of a figure without an interval: three digits
_LARGE = 10.0  # a change beyond this factor is no matter of per cent


def mark(run: RunChange) -> str:
    """The symbol of a run: one that has failed since is as bad as one that became slower."""
    return "error" if run.lost else MARKS[run.verdict]


def title(run: RunChange | Alone) -> tuple[str, ...]:
    """Label, type and point."""
    point = ", ".join(f"{name.replace('_', ' ')} {value_of(name, value)}" for name, value in run.parameters.items())
    return tuple(part for part in (run.label, run.dtype, point) if part)


def change(ratio: Ratio) -> str:
    """Return how the time of a step changed: "time +10.2 % (95 %: +8.9 to +11.5 %)"."""
    if not 1 / _LARGE < ratio.value < _LARGE:
        value, low, high = (digits(one, ratio.low, ratio.high) for one in (ratio.value, ratio.low, ratio.high))
        return f"time × {value} (95 %: {low} to {high})"
    value, low, high = (_signed(one, ratio) for one in (ratio.value, ratio.low, ratio.high))
    return f"time {value} % (95 %: {low} to {high} %)"


def _signed(value: float, ratio: Ratio) -> str:
    """Per cent beyond 1, to a tenth where the interval is that narrow."""
    decimals = 1 if 100 * (ratio.high - ratio.low) < 10 else 0
    text = f"{100 * (value - 1):+.{decimals}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("+-")


def verdict(run: RunChange) -> str:
    """The verdict with the change; reasons stand apart. The same samples have no change to show."""
    shown = run.ratio if run.ratio and run.ratio.low < run.ratio.high and run.verdict != "not comparable" else None
    return WORDS[run.verdict] + (f": {change(shown)}" if shown else "")


def speeds(run: RunChange) -> str:
    """Throughput and time, before and after: "190 → 172 GFLOP/s, 25.1 → 27.6 ms per sample"; empty without both."""
    if not run.base or not run.new or run.verdict == "not comparable":
        return ""
    parts = []
    if run.base.throughput and run.new.throughput and run.base.unit and run.base.unit == run.new.unit:
        parts.append(arrow(run.base.throughput, run.new.throughput, run.base.unit))
    parts.append(f"{arrow(run.base.step_s, run.new.step_s, 's')} per {run.step_name}")
    return ", ".join(parts)


def arrow(base: float, new: float, unit: str) -> str:
    """Two quantities with three digits; their unit once, where it is the same."""
    before, after = (quantity(one, unit, (one * (1 - _ROUGHLY), one * (1 + _ROUGHLY))) for one in (base, new))
    number, _, shown = before.partition(" ")
    return f"{number if shown == after.partition(' ')[2] else before} → {after}"


def evidence(run: RunChange) -> str:
    """What the verdict rests on: "5 and 5 processes, 370 and 350 samples"; empty where nothing was judged."""
    if not run.base or not run.new or not run.ratio:
        return ""
    counts = _both(run.base, run.new, "processes", "process") + ", " + _both(run.base, run.new, "samples", "sample")
    if not run.base.left_out and not run.new.left_out:
        return counts
    return f"{counts}; {run.base.left_out} and {run.new.left_out} left out, because other programs used the CPUs"


def _both(base: Measured, new: Measured, name: str, single: str) -> str:
    before, after = getattr(base, name), getattr(new, name)
    return f"{before} {single if before == 1 else name} each" if before == after else f"{before} and {after} {name}"


def figures(run: RunChange, factor: float) -> Iterator[str]:
    """Figures that moved by more than the factor."""
    for figure in run.figures:
        if figure.ratio is None or not 1 / factor <= figure.ratio.value <= factor:
            yield f"{figure.name} {arrow(figure.base, figure.new, figure.unit)}"


def alone(ones: tuple[Alone, ...], name: str) -> str:
    """The cases that one result has alone: "only in base.json: 1 GPU float32"; empty without any."""
    titles = [" ".join(title(one)) + ("" if one.measured else " (without a speed)") for one in ones]
    return f"only in {name}: {'; '.join(titles)}" if titles else ""


def summary(comparison: BenchComparison) -> str:
    """How many of each: "1 slower, 2 the same; a change counts above 5 %"."""
    counts = {word: sum(run.verdict == word for run in comparison.runs) for word in WORDS}
    lost = sum(run.lost for run in comparison.runs)
    counts["not comparable"] -= lost
    parts = [f"{lost} failed in NEW"] if lost else []
    parts += [f"{count} {WORDS[word]}" for word, count in counts.items() if count]
    limit = digits(100 * (comparison.factor - 1), 0, 0).rstrip("0").rstrip(".")
    return f"{', '.join(parts) or 'no run in both'}; a change counts above {limit} %"


def worst(comparison: BenchComparison) -> str:
    """The symbol of the whole."""
    marks = {mark(run) for run in comparison.runs}
    inconclusive = any(run.base and run.verdict == "not comparable" for run in comparison.runs)
    if inconclusive or any(alone.measured for alone in comparison.only_base):
        marks.add("unknown")
    return next((mark for mark in ("error", "unknown", "ok") if mark in marks), "unknown")


def about(comparison: BenchComparison) -> str:
    """What was compared: "matpow: A^10 and B^10, 512 × 512"; of different workloads, both names."""
    base, new = comparison.base, comparison.new
    return f"{new.workload}: {new.title}" if base.workload == new.workload else f"{base.workload} and {new.workload}"


def software(side: Side) -> str:
    """ "TensorFlow 2.21.0, Python 3.12.3"."""
    return ", ".join(f"{_NAMES.get(name, name)} {version}" for name, version in side.software.items())
