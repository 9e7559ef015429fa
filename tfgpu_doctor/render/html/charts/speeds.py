"""Speed as bars, speed-up and efficiency over GPUs, throughput over a sweep. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from tfgpu_doctor.bench.results import Ratio, Run
from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.records.units import scale_of
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render.html.charts.common import described, label_rows, short, styles
from tfgpu_doctor.render.html.svg import COLOUR, CYCLE, drawing, svg


def speed(runs: Sequence[Run], everything: Sequence[Run], name: str) -> str:
    """Bars of throughput with their intervals; one unit for all."""
    measured = [run.throughput for run in everything if run.throughput and not run.virtual]
    best = max(speed.value for speed in measured)
    factor, unit = scale_of(best, measured[0].unit)
    with drawing(0.55 + 0.42 * len(runs)) as figure:
        axes = figure.subplots()
        for place, run in enumerate(runs):
            if run.throughput and not run.virtual:
                value, (low, high) = run.throughput.value / factor, run.throughput.ci95
                axes.barh(place, value, height=0.42, color=CYCLE[0] if run.devices[0].startswith("/GPU") else CYCLE[1])
                axes.plot([low / factor, high / factor], [place, place], color=COLOUR["ink"], linewidth=1.6)
        name_of = words.namer(everything)
        titles = [(short(name_of(run)), short(words.throughput(run), 22)) for run in runs]
        label_rows(axes, titles)
        axes.set_xlim(0, 1.02 * max(speed.ci95[1] for speed in measured) / factor)
        axes.set_xlabel(unit)
        axes.grid(visible=False, axis="y")
        return svg(figure, name, f"Speed of {len(runs)} runs in {unit}: {described(titles)}")


def scaling(runs: Sequence[Run], name: str) -> str:
    """Speed-up over one GPU and efficiency against the number of GPUs, beside the ideal; nothing for a single GPU."""
    several = [run for run in runs if run.efficiency and run.speedup_vs_1gpu]
    if not several:
        return ""
    lines = _scaling_lines(several)
    most = max(len(run.devices) for run in several)
    with drawing(3.6 + 0.2 * -(-len(lines) // 2)) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        upper.plot([1, most], [1, most], color=COLOUR["muted"], linestyle=(0, (4, 3)), linewidth=1, label="ideal")
        lower.axhline(100, color=COLOUR["muted"], linestyle=(0, (4, 3)), linewidth=1)
        for (title, found), style in zip(lines.items(), styles(), strict=False):
            counts = [len(run.devices) for run in found]
            _line(upper, counts, [run.speedup_vs_1gpu for run in found], 1.0, {**style, "label": short(title)})
            _line(lower, counts, [run.efficiency for run in found], 100.0, style)
        upper.set_ylabel("speed-up")
        lower.set_ylabel("efficiency, %")
        lower.set_xlabel("GPUs")
        upper.set_ylim(bottom=0)
        lower.set_ylim(0, max(112.0, *(108 * run.efficiency.high for run in several if run.efficiency)))
        lower.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside lower center", ncols=2)
        values = "; ".join(f"{run.label} {words.ratio(ratio)}" for run in several if (ratio := run.speedup_vs_1gpu))
        return svg(figure, name, f"Speed-up over one GPU against the number of GPUs: {values}")


def _scaling_lines(several: Sequence[Run]) -> dict[str, list[Run]]:
    """The runs of each line: of one way to spread the work, one type, one point."""
    lines: dict[str, list[Run]] = {}
    for run in several:
        spread = run.label.partition(", ")[2]
        parts = (spread, run.scaling and f"{run.scaling} scaling", run.dtype, words.point(run))
        lines.setdefault(", ".join(part for part in parts if part), []).append(run)
    return lines


def _line(axes: Axes, counts: list[int], ratios: Sequence[Ratio | None], whole: float, style: dict[str, Any]) -> None:
    """One line from (1 GPU, `whole`) on, with the interval of each quotient."""
    known = [ratio for ratio in ratios if ratio]
    axes.plot([1, *counts], [whole, *(whole * ratio.value for ratio in known)], **style)
    low, high = [whole * ratio.low for ratio in known], [whole * ratio.high for ratio in known]
    axes.vlines(counts, low, high, color=style["color"])


def axis_of(runs: Sequence[Run], named: object = None) -> str | None:
    """The parameter that is swept over: the one named, or the only one with several numbers; None without one."""
    candidates = []
    for key in dict.fromkeys(key for run in runs for key in run.parameters):
        values = {run.parameters.get(key) for run in runs}
        if len(values) > 1 and all(isinstance(value, int | float) and value > 0 for value in values):
            candidates.append(key)
    return str(named) if named in candidates else candidates[0] if len(candidates) == 1 else None


def sweep_lines(runs: Sequence[Run], axis: str) -> dict[str, list[Run]]:
    """The measured runs of each line of a sweep, ascending; virtual devices have no speed to show."""
    lines: dict[str, list[Run]] = {}
    measured = [run for run in runs if run.throughput and not run.virtual]
    types = len({run.dtype for run in measured}) > 1
    for run in measured:
        others = [words.value_of(key, value) for key, value in run.parameters.items() if key != axis]
        lines.setdefault(", ".join([run.label, *([run.dtype] if types else []), *others]), []).append(run)
    return {title: sorted(line, key=lambda run: point_of(run, axis)) for title, line in lines.items()}


def _between_decades(axes: Axes, values: Sequence[float]) -> None:
    """Ticks at 2 and 5 where the powers of ten alone would be too few."""
    near = max(values) < 30 * min(values)
    axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}") if near else NullFormatter())
    axes.tick_params(axis="y", which="minor", labelsize=9, labelcolor=COLOUR["ink"])


def point_of(run: Run, axis: str) -> int | float:
    """Where on the axis of a sweep a run stands."""
    value = run.parameters[axis]
    assert isinstance(value, int | float)
    return value


def sweep(runs: Sequence[Run], axis: str, name: str) -> str:
    """Throughput against the parameter, both logarithmic, a line for each device and type."""
    lines = sweep_lines(runs, axis)
    if not lines:
        return ""
    drawn = [run for line in lines.values() for run in line]
    speeds = [run.throughput for run in drawn if run.throughput]
    factor, unit = scale_of(max(speed.value for speed in speeds), speeds[0].unit)
    with drawing(3.1 + 0.2 * -(-len(lines) // 2)) as figure:
        axes = figure.subplots()
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for (title, line), style in zip(lines.items(), styles(), strict=False):
            _points(axes, line, axis, factor, {**style, "label": short(title)})
        points = sorted({point_of(run, axis) for run in drawn})
        shown = points[:: -(-len(points) // 7)]
        axes.set_xticks(shown, [words.value_of(axis, int(at) if at == int(at) else at) for at in shown])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        _between_decades(axes, [speed.value for speed in speeds])
        axes.set_xlabel(short(axis.replace("_", " ")))
        axes.set_ylabel(unit)
        figure.legend(loc="outside lower center", ncols=2)
        counts = "; ".join(f"{title}: {len(line)} points" for title, line in lines.items())
        about = f"Throughput in {unit} against {axis.replace('_', ' ')}, both logarithmic: {counts}"
        return svg(figure, name, clean(about))


def _points(axes: Axes, line: Sequence[Run], axis: str, factor: float, style: dict[str, Any]) -> None:
    """One line of a sweep, with the interval of each point."""
    found = [(point_of(run, axis), run.throughput) for run in line if run.throughput]
    places = [place for place, _ in found]
    axes.plot(places, [speed.value / factor for _, speed in found], **style)
    low, high = ([speed.ci95[side] / factor for _, speed in found] for side in (0, 1))
    axes.vlines(places, low, high, color=style["color"])
