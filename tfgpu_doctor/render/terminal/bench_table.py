"""Runs beside each other: a line each, with a bar for the speed; columns that do not fit are left to the blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tfgpu_doctor.bench.results import Ratio, Run
from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render.console import STYLES, marks

GAP = 2
BAR, SHORTEST_BAR = 20, 8
NARROWEST_LABEL = 12


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


def show_runs(runs: Sequence[Run], console: Console) -> None:
    """Print the table with its bars."""
    table, bar = _fitted(columns(runs), console.width - 2)
    symbols = marks(console)
    lines = _lines(table, len(runs))
    console.print(Text(("  " + lines[0]).rstrip(), "bold"), soft_wrap=True)
    best = max((run.throughput.value for run in runs if run.throughput and not run.virtual), default=0.0)
    alike = len({run.throughput.unit for run in runs if run.throughput}) == 1
    for run, line in zip(runs, lines[1:], strict=True):
        mark = words.mark(run)
        text = Text.assemble((f"{symbols[mark]} ", STYLES[mark]), line)
        if run.throughput and not run.virtual and alike and bar and best:
            length = max(1, round(bar * run.throughput.value / best))
            text.append(" " * GAP + symbols["bar"] * length, "blue")
        text.rstrip()
        console.print(text, soft_wrap=True)


def _fitted(table: list[Column], width: int) -> tuple[list[Column], int]:
    """Columns that fit into `width`, and how long bars may be; labels are shortened last of all."""
    while True:
        taken = sum(column.width for column in table) + GAP * len(table)
        if taken + SHORTEST_BAR <= width:
            return table, min(BAR, width - taken)
        droppable = [column for column in table if column.need]
        if not droppable:
            break
        table = [column for column in table if column is not max(droppable, key=lambda column: column.need)]
    if taken - GAP <= width:
        return table, 0
    room = max(table[0].width - (taken - GAP - width), NARROWEST_LABEL)
    labels = tuple(cell if len(cell) <= room else cell[: room - 2] + ".." for cell in table[0].cells)
    return [Column(table[0].title, labels), *table[1:]], 0


def _lines(table: list[Column], count: int) -> list[str]:
    """The heading and a line for each run."""
    rows = [tuple(column.title for column in table)]
    rows += [tuple(column.cells[number] for column in table) for number in range(count)]
    return [(" " * GAP).join(_padded(cell, column) for cell, column in zip(row, table, strict=True)) for row in rows]


def _padded(cell: str, column: Column) -> str:
    blanks = " " * (column.width - cell_len(cell))
    return blanks + cell if column.right else cell + blanks
