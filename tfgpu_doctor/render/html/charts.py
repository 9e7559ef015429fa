"""The charts of a bench result as SVG: speed, scaling, sweep, samples, telemetry, cold start. Pure.

Each function returns elements of a page; the numbers that they show stand in tables beside them (html.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from tfgpu_doctor.bench.results import GpuTelemetry, Reading, Run
from tfgpu_doctor.bench.statistics import quantile
from tfgpu_doctor.records.units import scale_of, seconds
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render.console import clean
from tfgpu_doctor.render.html.svg import COLOUR, CYCLE, drawing, svg

ROWS = 12  # runs in one figure; more would not fit a printed page
LONGEST = 34  # characters of a label
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")
THINNED = 120  # readings of a line; more cannot be told apart at this width


def _label(words_: str, longest: int = LONGEST) -> str:
    """At most so long: what tells runs apart stands at both ends."""
    shown = clean(words_)
    tail = longest // 2 - 1
    return shown if len(shown) <= longest else f"{shown[: longest - tail - 1]}…{shown[-tail:]}"


def chunks(runs: Sequence[Run]) -> Iterator[Sequence[Run]]:
    """Parts of even length, of at most ROWS runs."""
    parts = -(-len(runs) // ROWS)
    for part in range(parts):
        yield runs[len(runs) * part // parts : len(runs) * (part + 1) // parts]


def _styles() -> Iterator[dict[str, Any]]:
    """Colour, marker and dashes of one line after the other: no two alike in less than 32."""
    for number in cycle(range(len(CYCLE) * len(DASHES))):
        yield {
            "color": CYCLE[number % len(CYCLE)],
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": DASHES[number // len(CYCLE)],
            "markersize": 4,
            "linewidth": 1.4,
        }


def _rows(axes: Axes, titles: Sequence[tuple[str, str]]) -> None:
    """A row for each run, from the top: its name above it, a value at the right end."""
    axes.set_ylim(len(titles) - 0.35, -0.75)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for place, (left, right) in enumerate(titles):
        for x, words_, side in ((0.0, left, "left"), (1.0, right, "right")):
            axes.text(x, place - 0.32, words_, transform=axes.get_yaxis_transform(), ha=side, va="bottom", fontsize=9.5)


# ------------------------------------------------------------------------------------------------ speed


def speed(runs: Sequence[Run], everything: Sequence[Run], name: str) -> str:
    """Bars of throughput with their intervals; one unit for all."""
    measured = [run.throughput for run in everything if run.throughput and not run.virtual]
    best = max(one.value for one in measured)
    factor, unit = scale_of(best, measured[0].unit)
    with drawing(0.55 + 0.42 * len(runs)) as figure:
        axes = figure.subplots()
        for place, run in enumerate(runs):
            if run.throughput and not run.virtual:
                value, (low, high) = run.throughput.value / factor, run.throughput.ci95
                axes.barh(place, value, height=0.42, color=CYCLE[0] if run.devices[0].startswith("/GPU") else CYCLE[1])
                axes.plot([low / factor, high / factor], [place, place], color=COLOUR["ink"], linewidth=1.6)
        titles = [(_label(words.name(run, everything)), _label(words.throughput(run), 22)) for run in runs]
        _rows(axes, titles)
        axes.set_xlim(0, 1.02 * max(one.ci95[1] for one in measured) / factor)
        axes.set_xlabel(unit)
        axes.grid(visible=False, axis="y")
        return svg(figure, name, f"Speed of {len(runs)} runs in {unit}: {_told(titles)}")


def _told(titles: Sequence[tuple[str, str]]) -> str:
    return "; ".join(f"{left} {right}" for left, right in titles)


# ---------------------------------------------------------------------------------------------- scaling


def scaling(runs: Sequence[Run], name: str) -> str:
    """Speed-up over one GPU and efficiency against the number of GPUs, beside the ideal; nothing for a single GPU."""
    lines: dict[str, list[Run]] = {}
    several = [run for run in runs if run.efficiency and run.speedup_vs_1gpu]
    for run in several:
        _, _, spread = run.label.partition(", ")
        parts = (spread, run.scaling and f"{run.scaling} scaling", run.dtype, words.point(run))
        lines.setdefault(", ".join(part for part in parts if part), []).append(run)
    if not lines:
        return ""
    most = max(len(run.devices) for run in several)
    with drawing(3.6 + 0.2 * -(-len(lines) // 2)) as figure:
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        upper.plot([1, most], [1, most], color=COLOUR["muted"], linestyle=(0, (4, 3)), linewidth=1, label="ideal")
        lower.axhline(100, color=COLOUR["muted"], linestyle=(0, (4, 3)), linewidth=1)
        for (title, found), style in zip(lines.items(), _styles(), strict=False):
            counts = [1, *(len(run.devices) for run in found)]
            ratios = [run.speedup_vs_1gpu for run in found if run.speedup_vs_1gpu]
            shares = [run.efficiency for run in found if run.efficiency]
            upper.plot(counts, [1.0, *(one.value for one in ratios)], label=_label(title), **style)
            upper.vlines(counts[1:], [one.low for one in ratios], [one.high for one in ratios], color=style["color"])
            lower.plot(counts, [100.0, *(100 * one.value for one in shares)], **style)
            lower.vlines(
                counts[1:], [100 * one.low for one in shares], [100 * one.high for one in shares], color=style["color"]
            )
        upper.set_ylabel("speed-up")
        lower.set_ylabel("efficiency, %")
        lower.set_xlabel("GPUs")
        upper.set_ylim(bottom=0)
        lower.set_ylim(0, max(112.0, *(108 * run.efficiency.high for run in several if run.efficiency)))
        lower.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(loc="outside lower center", ncols=2)
        told = "; ".join(f"{run.label} {words.ratio(one)}" for run in several if (one := run.speedup_vs_1gpu))
        return svg(figure, name, f"Speed-up over one GPU against the number of GPUs: {told}")


# ------------------------------------------------------------------------------------------------ sweep


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
    return {title: sorted(line, key=lambda run: _number(run, axis)) for title, line in lines.items()}


def _between_decades(axes: Axes, values: Sequence[float]) -> None:
    """Ticks at 2 and 5 where the powers of ten alone would be too few."""
    near = max(values) < 30 * min(values)
    axes.yaxis.set_minor_locator(LogLocator(subs=(2.0, 5.0)))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda value, _: f"{value:g}") if near else NullFormatter())
    axes.tick_params(axis="y", which="minor", labelsize=9, labelcolor=COLOUR["ink"])


def _number(run: Run, axis: str) -> float:
    value = run.parameters[axis]
    assert isinstance(value, int | float)
    return value


def sweep(runs: Sequence[Run], axis: str, name: str) -> str:
    """Throughput against the parameter, both logarithmic, a line for each device and type."""
    lines = sweep_lines(runs, axis)
    if not lines:
        return ""
    best = max((run.throughput for line in lines.values() for run in line if run.throughput), key=lambda one: one.value)
    factor, unit = scale_of(best.value, best.unit)
    points = sorted({_number(run, axis) for line in lines.values() for run in line})
    with drawing(3.1 + 0.2 * -(-len(lines) // 2)) as figure:
        axes = figure.subplots()
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        for (title, line), style in zip(lines.items(), _styles(), strict=False):
            found = [(_number(run, axis), run.throughput) for run in line if run.throughput]
            places = [point for point, _ in found]
            axes.plot(places, [one.value / factor for _, one in found], label=_label(title), **style)
            low, high = ([one.ci95[side] / factor for _, one in found] for side in (0, 1))
            axes.vlines(places, low, high, color=style["color"])
        shown = points[:: -(-len(points) // 7)]
        axes.set_xticks(shown, [words.value_of(axis, int(one) if one == int(one) else one) for one in shown])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        _between_decades(axes, [one.value for line in lines.values() for run in line if (one := run.throughput)])
        axes.set_xlabel(_label(axis.replace("_", " ")))
        axes.set_ylabel(unit)
        figure.legend(loc="outside lower center", ncols=2)
        told = "; ".join(f"{title}: {len(line)} points" for title, line in lines.items())
        return svg(
            figure, name, clean(f"Throughput in {unit} against {axis.replace('_', ' ')}, both logarithmic: {told}")
        )


# ---------------------------------------------------------------------------------------------- samples


def window(runs: Sequence[Run]) -> tuple[float, float]:
    """Which part of the samples' spread is drawn, in per cent of the median; what lies outside is drawn at the edge.

    As far as the samples go, but no farther than three interquartile ranges beyond the quartiles (Tukey's far fences)
    of the run that is widest.
    """
    lows, highs = [], []
    for run in runs:
        ordered = [100 * sample / (run.median_s or 1.0) for sample in sorted(run.samples_s)]
        first, third = quantile(ordered, 0.25), quantile(ordered, 0.75)
        reach = max(3 * (third - first), 0.5)
        lows.append(max(ordered[0], first - reach))
        highs.append(min(ordered[-1], third + reach))
    margin = max(0.08 * (max(highs) - min(lows)), 0.2)
    return min(lows) - margin, max(highs) + margin


def samples(runs: Sequence[Run], everything: Sequence[Run], name: str) -> str:
    """Every sample in per cent of its run's median, the first at the top of the run's row and the last at its bottom.

    Samples that fall on one spot are drawn once. Those of throttled blocks are crosses, those outside of the window
    triangles at its edge; the line is the median, the band its interval.
    """
    low, high = window(runs)
    with drawing(0.6 + (0.62 if len(runs) > 2 else 1.4) * len(runs)) as figure:
        axes = figure.subplots()
        for place, run in enumerate(runs):
            assert run.median_s and run.ci95_s
            first, last = (100 * edge / run.median_s for edge in run.ci95_s)
            axes.fill_betweenx([place - 0.28, place + 0.28], first, last, color=COLOUR["grid"], linewidth=0)
            axes.vlines(100, place - 0.28, place + 0.28, color=COLOUR["ink"], linewidth=1.2)
            _borders(axes, run, place)
            _dots(axes, run, place, low, high)
        axes.set_xlim(low, high)
        titles = [(_label(words.name(run, everything)), _label(_median(run), 26)) for run in runs]
        _rows(axes, titles)
        axes.set_xlabel("% of the run's median")
        axes.grid(visible=False, axis="y")
        return svg(figure, name, f"All samples around their medians: {_told(titles)}")


def _median(run: Run) -> str:
    assert run.median_s
    return f"{seconds(run.median_s / run.steps)} a {run.step_name}"


def _borders(axes: Axes, run: Run, place: int) -> None:
    """A line where one process ended and the next began."""
    before = 0
    for count in run.processes[:-1]:
        before += count
        y = place - 0.24 + 0.48 * (before - 0.5) / max(len(run.samples_s) - 1, 1)
        axes.axhline(y, color=COLOUR["muted"], linewidth=0.5, linestyle=(0, (2, 3)))


def _dots(axes: Axes, run: Run, place: int, low: float, high: float) -> None:
    """The samples of one run in its row."""
    throttled, last = set(run.throttled_samples), max(len(run.samples_s) - 1, 1)
    spots: dict[str, set[tuple[float, float]]] = {"o": set(), "x": set(), "<": set(), ">": set()}
    for number, sample in enumerate(run.samples_s):
        x = 100 * sample / (run.median_s or 1.0)
        kind = "<" if x < low else ">" if x > high else "x" if number in throttled else "o"
        x = min(max(x, low), high)
        # half a unit of the picture in each direction: what is nearer cannot be told apart
        spots[kind].add((round((x - low) / (high - low) * 680) / 680, round(number / last * 40) / 40))
    for kind, found in spots.items():
        if found:
            xs, ys = zip(*sorted(found), strict=True)
            colour = COLOUR["c1"] if kind == "o" else COLOUR["bad"]
            axes.plot(
                [low + x * (high - low) for x in xs],
                [place - 0.24 + 0.48 * y for y in ys],
                kind,
                color=colour,
                markersize=4 if kind != "o" else 3.4 if len(run.samples_s) <= 50 else 2.2,
                markeredgewidth=1 if kind == "x" else 0,
                clip_on=False,
            )


# -------------------------------------------------------------------------------------------- telemetry

PANELS: Mapping[str, tuple[str, float]] = {
    "utilization": ("busy, %", 1.0),
    "sm_clock_mhz": ("SM clock, MHz", 1.0),
    "power_w": ("power, W", 1.0),
    "temperature_c": ("temperature, °C", 1.0),
    "memory_used": ("memory, GiB", 2.0**30),
}


def _told_by(gpus: Sequence[GpuTelemetry], field: str) -> bool:
    return any(getattr(reading, field) is not None for gpu in gpus for reading in gpu.readings)


def telemetry(run: Run, name: str) -> str:
    """What NVML said of each GPU over the time of the run; nothing where it said nothing."""
    panels = {field: panel for field, panel in PANELS.items() if _told_by(run.gpu, field)}
    if not panels:
        return ""
    with drawing(0.6 + 1.0 * len(panels) + 0.2 * -(-len(run.gpu) // 4)) as figure:
        stacked: list[Any] = list(figure.subplots(len(panels), 1, sharex=True, squeeze=False).flat)
        for axes, (field, (title, factor)) in zip(stacked, panels.items(), strict=True):
            for gpu, style in zip(run.gpu, _styles(), strict=False):
                found = _thinned([one for one in gpu.readings if getattr(one, field) is not None])
                marker = {"marker": "o"} if len(found) < 3 else {"marker": ""}
                axes.plot(
                    [one.t for one in found],
                    [getattr(one, field) / factor for one in found],
                    label=_label(gpu.device, 12),
                    **{**style, **marker, "linewidth": 1.1},
                )
            axes.set_title(title, pad=2)
            axes.margins(y=0.15)
            axes.yaxis.set_major_locator(MaxNLocator(3))
        if "utilization" in panels:
            stacked[0].set_ylim(0, 105)
        stacked[-1].set_xlabel("seconds since the first timed block")
        handles, labels = stacked[0].get_legend_handles_labels()
        if len(run.gpu) > 1:
            figure.legend(handles, labels, loc="outside lower center", ncols=4)
        told = ", ".join(title for title, _ in panels.values())
        return svg(figure, name, clean(f"{told} of {len(run.gpu)} GPUs over time; {words.utilisation(run)}"))


def _thinned(readings: Sequence[Reading]) -> Sequence[Reading]:
    return readings[:: -(-len(readings) // THINNED) or 1]


# ------------------------------------------------------------------------------------------- cold start


def parts_of(run: Run) -> dict[str, float]:
    """Seconds before the first sample, in their order: the set-up, and the calls that warm up."""
    parts = dict(run.cold_start_s)
    for number, took in enumerate(run.warmup_s):
        parts["first call" if number == 0 else "further calls"] = took + (
            parts.get("further calls", 0.0) if number > 1 else 0.0
        )
    return parts


def start(runs: Sequence[Run], everything: Sequence[Run], name: str) -> str:
    """What is waited for before the steady state, stacked, with the steady median at the end of each row."""
    names = list(dict.fromkeys(part for run in everything for part in parts_of(run)))
    colours = {part: CYCLE[number % len(CYCLE)] for number, part in enumerate(names)}
    hatches = {part: ("", "////", "....", "xxxx")[number // len(CYCLE) % 4] for number, part in enumerate(names)}
    shown = [part for part in names if any(parts_of(run).get(part, 0.0) > 0 for run in runs)]
    with drawing(0.65 + 0.42 * len(runs) + 0.2 * -(-len(shown) // 3)) as figure:
        axes = figure.subplots()
        drawn: set[str] = set()
        for place, run in enumerate(runs):
            left = 0.0
            for part, took in parts_of(run).items():
                label = None if part in drawn else _label(part, 18)
                drawn.add(part)
                axes.barh(
                    place,
                    took,
                    left=left,
                    height=0.42,
                    color=colours[part],
                    hatch=hatches[part],
                    label=label,
                    edgecolor=COLOUR["page"],
                    linewidth=0.8,
                )
                left += took
        titles = [
            (_label(words.name(run, everything), 26), _label(f"{seconds(total(run))}, then {_median(run)}", 32))
            for run in runs
        ]
        _rows(axes, titles)
        axes.set_xlabel("seconds before the first sample")
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside lower center", ncols=3)
        return svg(figure, name, f"Cold start against the steady state: {_told(titles)}")


def total(run: Run) -> float:
    """Seconds before the first sample."""
    return sum(parts_of(run).values())
