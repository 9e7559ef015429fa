"""Runs beside each other: a line each, with a bar for the speed; columns that do not fit are left to the blocks."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render.bench_columns import Column, columns
from tfgpu_doctor.render.console import STYLES, marks

GAP = 2
BAR, SHORTEST_BAR = 20, 8
NARROWEST_LABEL = 12


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
