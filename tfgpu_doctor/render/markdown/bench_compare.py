"""A comparison of two bench results for an issue or the summary of a job: a table, and nothing that acts as markup."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.bench.comparing.records import BenchComparison, RunChange
from tfgpu_doctor.render import bench_compare_words as words
from tfgpu_doctor.render.markdown.report import LONGEST, escape, folded, table

_SYMBOLS = {"error": "✗", "ok": "✓", "unknown": "?", "absent": "–"}
_HEAD = ("", "Run", "Verdict", "Base → new")


def render(comparison: BenchComparison) -> str:
    """The whole page; rows that would make it longer than GitHub takes are counted instead."""
    base, new = comparison.base, comparison.new
    page = [
        f"**{_SYMBOLS[words.worst(comparison)]} tfgpu compare**: {escape(words.summary(comparison))}",
        f"{escape(new.workload)}: {escape(new.title)}, {escape(base.name)} → {escape(new.name)}",
    ]
    rows, room = [], LONGEST // 2
    for one in comparison.runs:
        rows.append(_row(one))
        room -= len(table(_HEAD, rows[-1:]))
        if room < 0:
            rows.pop()
            page.append(f"{len(comparison.runs) - len(rows)} more are too many for this page")
            break
    if rows:
        page.append(table(_HEAD, rows))
    told = list(_told(comparison))
    if told:
        page.append(_list(told[:50]))
    tool = f"tfgpu compare {comparison.tool.version}, {comparison.created}"
    sides = "\n".join(
        f"- {escape(side.name)}: {escape(side.created)}, {escape(words.software(side))}" for side in (base, new)
    )
    page.append(folded("What was compared", f"{sides}\n- {escape(tool)}"))
    return "\n\n".join(page) + "\n"


def _row(one: RunChange) -> tuple[str, ...]:
    title = " ".join(words.title(one))
    because = "; ".join(one.reasons)
    return (
        _SYMBOLS[words.mark(one)],
        title,
        words.verdict(one) + (f": {because}" if because else ""),
        words.speeds(one),
    )


def _told(comparison: BenchComparison) -> Iterator[str]:
    """What has to be said beside the table."""
    yield from comparison.notes
    for one in comparison.runs:
        for text in (*one.notes, *words.figures(one, comparison.factor)):
            yield f"{' '.join(words.title(one))}: {text}"
    for ones, side in ((comparison.only_base, comparison.base), (comparison.only_new, comparison.new)):
        if told := words.alone(ones, side.name):
            yield told


def _list(lines: list[str]) -> str:
    return "\n".join(f"- {escape(line)}" for line in dict.fromkeys(lines))
