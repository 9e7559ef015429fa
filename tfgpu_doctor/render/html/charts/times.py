"""What happened over time: every sample, the GPUs as NVML saw them, the way to the first sample. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from tfgpu_doctor.bench.results import Reading, Run
from tfgpu_doctor.bench.statistics import quantile
from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.records.units import GIB, seconds
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render.html.charts.common import described, label_rows, short, steady, styles
from tfgpu_doctor.render.html.svg import COLOUR, CYCLE, drawing, svg

THINNED = 120  # readings of a line; more cannot be told apart at this width


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

    Samples that fall on one spot are drawn once. Those of blocks in which a GPU was slowed down are crosses, those
    outside of the window triangles at its edge; the line is the median, the band its interval.
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
        name_of = words.namer(everything)
        titles = [(short(name_of(run)), short(steady(run), 26)) for run in runs]
        label_rows(axes, titles)
        axes.set_xlabel("% of the run's median")
        axes.grid(visible=False, axis="y")
        return svg(figure, name, f"All samples around their medians: {described(titles)}")


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


PANELS: Mapping[str, tuple[str, float]] = {
    "utilization": ("busy, %", 1.0),
    "sm_clock_mhz": ("SM clock, MHz", 1.0),
    "power_w": ("power, W", 1.0),
    "temperature_c": ("temperature, °C", 1.0),
    "memory_used": ("memory, GiB", GIB),
}


def panels_of(run: Run) -> dict[str, tuple[str, float]]:
    """What NVML reported of any GPU of the run."""
    readings = [reading for gpu in run.gpu for reading in gpu.readings]
    unknown = {"utilization"} if all(gpu.utilization is None for gpu in run.gpu) else set()
    return {
        field: panel
        for field, panel in PANELS.items()
        if field not in unknown and any(getattr(reading, field) is not None for reading in readings)
    }


def telemetry(run: Run, name: str) -> str:
    """What NVML reported of each GPU over the time of the run; nothing where it reported nothing."""
    panels = panels_of(run)
    if not panels:
        return ""
    with drawing(0.6 + 1.0 * len(panels) + 0.2 * -(-len(run.gpu) // 4)) as figure:
        stacked: list[Any] = list(figure.subplots(len(panels), 1, sharex=True, squeeze=False).flat)
        for axes, (field, (title, factor)) in zip(stacked, panels.items(), strict=True):
            for gpu, style in zip(run.gpu, styles(), strict=False):
                found = _thinned([reading for reading in gpu.readings if getattr(reading, field) is not None])
                marker = {"marker": "o"} if len(found) < 3 else {"marker": ""}
                axes.plot(
                    [reading.t for reading in found],
                    [getattr(reading, field) / factor for reading in found],
                    label=short(gpu.device, 12),
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
        titles = ", ".join(title for title, _ in panels.values())
        return svg(figure, name, clean(f"{titles} of {len(run.gpu)} GPUs over time; {words.gpu_load(run)}"))


def _thinned(readings: Sequence[Reading]) -> Sequence[Reading]:
    return readings[:: -(-len(readings) // THINNED) or 1]


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
                label = None if part in drawn else short(part, 18)
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
        name_of = words.namer(everything)
        titles = [(short(name_of(run), 26), short(f"{seconds(total(run))}, then {steady(run)}", 32)) for run in runs]
        label_rows(axes, titles)
        axes.set_xlabel("seconds before the first sample")
        axes.grid(visible=False, axis="y")
        figure.legend(loc="outside lower center", ncols=3)
        return svg(figure, name, f"Cold start against the steady state: {described(titles)}")


def total(run: Run) -> float:
    """Seconds before the first sample."""
    return sum(parts_of(run).values())
