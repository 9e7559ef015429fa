"""What the charts of a bench result share: labels, rows, styles of lines, parts that fit a page. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any

from matplotlib.axes import Axes

from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.records.units import seconds
from tfgpu_doctor.render.html.svg import CYCLE

ROWS = 12  # runs in one figure; more would not fit a printed page
LONGEST = 34  # characters of a label
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES = ("-", "--", ":", "-.")


def short(words_: str, longest: int = LONGEST) -> str:
    """At most so long: what tells runs apart stands at both ends."""
    shown = clean(words_)
    tail = longest // 2 - 1
    return shown if len(shown) <= longest else f"{shown[: longest - tail - 1]}…{shown[-tail:]}"


def worth_drawing(runs: Sequence[Run], most: int) -> Sequence[Run]:
    """At most so many of the runs, in their order: those that were throttled or have advice before others."""
    by_need = sorted(range(len(runs)), key=lambda place: (not runs[place].throttled_samples, not runs[place].advice))
    return [runs[place] for place in sorted(by_need[:most])]


def chunks(runs: Sequence[Run]) -> Iterator[Sequence[Run]]:
    """Parts of even length, of at most ROWS runs."""
    parts = -(-len(runs) // ROWS)
    for part in range(parts):
        yield runs[len(runs) * part // parts : len(runs) * (part + 1) // parts]


def styles() -> Iterator[dict[str, Any]]:
    """Colour, marker and dashes of one line after the other: no two alike in less than 32."""
    for number in cycle(range(len(CYCLE) * len(DASHES))):
        yield {
            "color": CYCLE[number % len(CYCLE)],
            "marker": MARKERS[number % len(MARKERS)],
            "linestyle": DASHES[number // len(CYCLE)],
            "markersize": 4,
            "linewidth": 1.4,
        }


def label_rows(axes: Axes, titles: Sequence[tuple[str, str]]) -> None:
    """A row for each run, from the top: its name above it, a value at the right end."""
    axes.set_ylim(len(titles) - 0.35, -0.75)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    for place, (left, right) in enumerate(titles):
        for x, words_, side in ((0.0, left, "left"), (1.0, right, "right")):
            axes.text(x, place - 0.32, words_, transform=axes.get_yaxis_transform(), ha=side, va="bottom", fontsize=9.5)


def described(titles: Sequence[tuple[str, str]]) -> str:
    """The rows in words, for who cannot see the picture."""
    return "; ".join(f"{left} {right}" for left, right in titles)


def steady(run: Run) -> str:
    """The median of a step."""
    assert run.median_s
    return f"{seconds(run.median_s / run.steps)} per {run.step_name}"
