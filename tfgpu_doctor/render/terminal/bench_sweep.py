"""A sweep for people: points down, devices across, a bar in each cell for its share of the best in its column.

For every result whose parameters name a `sweep`: the parameter of the runs that is swept over ("size", "bytes").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from tfgpu_doctor.bench.doubts import DOUBTFUL
from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.records.units import digits, scale_of
from tfgpu_doctor.render.bench_words import others, shared_advice, value_of
from tfgpu_doctor.render.console import marks
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.terminal.bench import render as render_runs
from tfgpu_doctor.render.terminal.bench import show_end, show_head, show_verdict
from tfgpu_doctor.render.terminal.layout import hanging, marked

NARROWEST = 17  # characters of a column: a number, its mark, a blank, and a bar that still tells something
BROADEST = 34
GAP = 2
LONGEST = 400  # characters of a failure; TensorFlow's messages hold tracebacks
Column = dict[object, Run]  # by point


def render(result: BenchResult, console: Console, detail: Detail = "normal") -> None:
    """Print a result, as a sweep where it is one; of the least detail, its last line alone."""
    if detail == "least":
        show_verdict(replace(result, conclusions=result.conclusions[:1]), console)
    elif "sweep" in result.parameters:
        render_sweep(result, console)
    else:
        render_runs(result, console, detail)


def render_sweep(result: BenchResult, console: Console) -> None:
    """Print all of it."""
    axis = str(result.parameters["sweep"])
    show_head(result, console)
    columns = _columns(result.runs, axis)
    points = sorted({point for column in columns.values() for point in column}, key=_order)
    rows = [clean(_shown(axis, point)) for point in points]
    first = max(map(len, (axis, *rows)), default=0)
    room = max((console.width - first) // (NARROWEST + GAP), 1)
    names = list(columns)
    for start in range(0, len(names), room):
        console.print()
        shown = {name: columns[name] for name in names[start : start + room]}
        _table(axis, points, [row.rjust(first) for row in rows], shown, console)
    console.print()
    _legend(result.runs, console)
    for line in _failures(columns, axis):
        marked("error", line, console)
    for line in _advice(columns, axis):
        marked("warning", line, console)
    show_end(result, console)


def _order(point: object) -> tuple[int, float, str]:
    return (0, float(point), "") if isinstance(point, int | float) else (1, 0.0, str(point))


def _columns(runs: Sequence[Run], axis: str) -> dict[str, Column]:
    """The runs of each device, type and what else tells them apart, by their point."""
    types = {run.dtype for run in runs}
    columns: dict[str, Column] = {}
    for run in runs:
        others = [str(value) for key, value in run.parameters.items() if key != axis and value is not None]
        name = ", ".join([run.label, *others, *([run.dtype] if len(types) > 1 else [])])
        columns.setdefault(name, {})[run.parameters.get(axis)] = run
    return columns


def _table(axis: str, points: Sequence[object], rows: list[str], columns: dict[str, Column], console: Console) -> None:
    """One table, no wider than the console."""
    first = len(rows[0]) if rows else 0
    width = min((console.width - first) // len(columns) - GAP, BROADEST)
    best = {
        name: max((run.throughput.value for run in column.values() if run.throughput and not run.virtual), default=0.0)
        for name, column in columns.items()
    }
    unit = {name: _unit(column, best[name]) for name, column in columns.items()}
    heads = [[*wrap(clean(name), width), unit[name][1]] for name in columns]
    height = max(map(len, heads))
    for line in range(height):
        cells = [head[line - height + len(head)] if line >= height - len(head) else "" for head in heads]
        title = axis.rjust(first) if line == height - 1 else " " * first
        _print([title, *cells], width, "bold", console)
    for row, point in zip(rows, points, strict=True):
        cells = [
            _cell(column.get(point), best[name], unit[name][0], width, console) for name, column in columns.items()
        ]
        _print([row, *cells], width, "", console)


def _unit(column: Column, best: float) -> tuple[float, str]:
    run = next((run for run in column.values() if run.throughput and not run.virtual), None)
    if run is None or run.throughput is None:
        return 1.0, ""
    return scale_of(best, run.throughput.unit)


def _cell(run: Run | None, best: float, factor: float, width: int, console: Console) -> str:
    """ "464   ━━━━━━━━"; a mark alone where there is no speed."""
    symbols = marks(console)
    if run is None:
        return symbols["absent"]
    if run.throughput is None:
        return symbols["error"]
    if run.virtual:
        return f"{symbols['ok']} virtual"
    value, (low, high) = run.throughput.value, run.throughput.ci95
    number = digits(value / factor, low / factor, high / factor) + ("~" if run.doubts else "")
    space = width - 8
    return f"{number:7} {symbols['bar'] * max(1, round(space * value / best))}"


def _print(cells: Sequence[str], width: int, style: str, console: Console) -> None:
    first, *others = cells
    line = first + "".join(" " * GAP + cell.ljust(width) for cell in others)
    console.print(Text(line.rstrip(), style), soft_wrap=True)


def _legend(runs: Sequence[Run], console: Console) -> None:
    """What bars and marks mean, and that the results are right."""
    parts = []
    if any(run.throughput and not run.virtual for run in runs):
        parts.append("Bars: share of the best in the column.")
    if any(run.doubts and run.throughput and not run.virtual for run in runs):
        parts.append("~ uncertain.")
    if any(run.virtual for run in runs):
        parts.append("Virtual devices are verified, and have no speed.")
    right = sum(1 for run in runs if run.throughput)
    parts.append(f"{right} of {len(runs)} results measured and verified.")
    hanging(Text(""), Text(" ".join(parts), "dim"), console)


def _failures(columns: dict[str, Column], axis: str) -> Iterator[str]:
    """Why there is no speed; what several points have in common, once."""
    failures: dict[str, list[str]] = {}
    for name, column in columns.items():
        for point, run in column.items():
            if run.throughput is None:
                why = " ".join((run.failure or "not measured").split())
                failures.setdefault(why, []).append(f"{name}, {axis} {_shown(axis, point)}")
    for why, places in failures.items():
        yield f"{places[0]}{others(len(places) - 1)}: {why if len(why) <= LONGEST else why[:LONGEST] + '…'}"


def _advice(columns: dict[str, Column], axis: str) -> Iterator[str]:
    """Advice that several points of a column share, once, with the figures of the last."""
    for name, column in columns.items():
        for runs, text in shared_advice(list(column.values())):
            if not text.startswith(DOUBTFUL):  # the mark says it
                yield f"{name}, {axis} {_shown(axis, runs[-1].parameters.get(axis))}{others(len(runs) - 1)}: {text}"


def _shown(axis: str, point: object) -> str:
    return value_of(axis, point if isinstance(point, int | float | str) else None)
