"""A comparison of two bench results for an issue or the summary of a job: a table, and nothing that acts as markup."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from tfgpu_doctor.bench.comparing.records import BenchComparison, RunChange
from tfgpu_doctor.render import bench_compare_words as words
from tfgpu_doctor.render.console import MARKS
from tfgpu_doctor.render.markdown.report import LONGEST, escape, folded, table

_HEAD = ("", "Run", "Verdict", "Base → new")


def render(comparison: BenchComparison) -> str:
    """The whole page; rows that would make it longer than GitHub takes are counted instead."""
    base, new = comparison.base, comparison.new
    page = [
        f"**{MARKS[words.worst(comparison)].markdown} tfgpu compare**: {escape(words.summary(comparison))}",
        f"{escape(words.about(comparison))}, {escape(base.name)} → {escape(new.name)}",
    ]
    rows, room = [], LONGEST // 2
    for run in comparison.runs:
        rows.append(_row(run))
        room -= len(table(_HEAD, rows[-1:]))
        if room < 0:
            rows.pop()
            page.append(f"{len(comparison.runs) - len(rows)} more are too many for this page")
            break
    if rows:
        page.append(table(_HEAD, rows))
    if notes := dict.fromkeys(islice(_notes(comparison), 50)):
        page.append("\n".join(f"- {escape(line)}" for line in notes))
    tool = f"tfgpu compare {comparison.tool.version}, {comparison.created}"
    sides = "\n".join(
        f"- {escape(side.name)}: {escape(side.created)}, {escape(words.software(side))}" for side in (base, new)
    )
    page.append(folded("What was compared", f"{sides}\n- {escape(tool)}"))
    return "\n\n".join(page) + "\n"


def _row(run: RunChange) -> tuple[str, ...]:
    title = " ".join(words.title(run))
    because = "; ".join(run.reasons)
    return (
        MARKS[words.mark(run)].markdown,
        title,
        words.verdict(run) + (f": {because}" if because else ""),
        words.speeds(run),
    )


def _notes(comparison: BenchComparison) -> Iterator[str]:
    """What does not fit into the table."""
    yield from comparison.notes
    for run in comparison.runs:
        for text in (*run.notes, *words.figures(run, comparison.factor)):
            yield f"{' '.join(words.title(run))}: {text}"
    for ones, side in ((comparison.only_base, comparison.base), (comparison.only_new, comparison.new)):
        if alone := words.alone(ones, side.name):
            yield alone
