"""Runs of a bench result beside each other, a column for each figure: for terminals and pages alike."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from tfgpu_doctor.bench.results import Ratio, Run
from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.render import bench_words as words


@dataclass(frozen=True)
class Column:
    """A heading and a cell for each run; `right` for numbers that are compared, digit below digit."""

    title: str
    cells: tuple[str, ...]
    right: bool = False
    need: int = 0  # those with the highest number go first where there is no room; 0 stays

    @property
    def width(self) -> int:
        """Cells of the terminal that it takes."""
        return max(map(cell_len, (self.title, *self.cells)))


def _times(ratio: Ratio | None) -> str:
    return words.ratio(ratio, interval=False) if ratio else ""


def _efficiency(run: Run) -> str:
    return words.ratio(run.efficiency, interval=False, factor=100) + " %" if run.efficiency else ""


def _verified(run: Run) -> str:
    return "yes" if run.verified and run.verified.ok else "no"


# heading, cell, `need` and `right` of the columns that every workload has
_FIXED: tuple[tuple[str, Callable[[Run], str], int, bool], ...] = (
    ("speed", words.throughput, 0, False),
    ("vs CPU", lambda run: _times(run.speedup_vs_cpu), 2, True),
    ("vs 1 GPU", lambda run: _times(run.speedup_vs_1gpu) if len(run.devices) > 1 else "", 3, True),
    ("efficiency", _efficiency, 4, True),
    ("of peak", words.of_peak, 5, True),
    ("verified", _verified, 6, False),
)


def columns(runs: Sequence[Run]) -> list[Column]:
    """The runs beside each other; a column that would be empty or the same for all is left out."""
    found = [_column("run", [run.label for run in runs])]
    if len({run.dtype for run in runs}) > 1:
        found.append(_column("type", [run.dtype for run in runs]))
    found += _parameters(runs)
    for title, cell, need, right in _FIXED:
        cells = [cell(run) for run in runs]
        if any(cells):
            found.append(_column(title, cells, need, right))
    return found


def _column(title: str, cells: Sequence[str], need: int = 0, right: bool = False) -> Column:
    return Column(title, tuple(map(clean, cells)), right, need)


def _parameters(runs: Sequence[Run]) -> Iterator[Column]:
    """Those in which the runs differ."""
    for key in dict.fromkeys(key for run in runs for key in run.parameters):
        cells = [words.value_of(key, run.parameters[key]) if key in run.parameters else "" for run in runs]
        if len(set(cells)) > 1:
            yield _column(key.replace("_", " "), cells, right=_are_numbers(runs, key))


def _are_numbers(runs: Sequence[Run], key: str) -> bool:
    return all(isinstance(run.parameters.get(key), int | float | None) for run in runs)
