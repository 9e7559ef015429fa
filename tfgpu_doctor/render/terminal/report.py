"""A report for people: the stack, the findings, the verdict. Plain where the output is no terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.records.report import Report
from tfgpu_doctor.records.units import count
from tfgpu_doctor.records.wording import problem_counts, verdict_sentence
from tfgpu_doctor.render.console import STYLES, marks
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import VERDICT_MARKS, blocks, brief, least, skipped, undetermined
from tfgpu_doctor.render.stack import layers_of
from tfgpu_doctor.render.terminal.layout import conclude, hanging, marked, show_block, show_stack


def render(report: Report, console: Console, detail: Detail = "normal") -> None:
    """Print the whole report; with less detail one screen of it, or the verdict and the first fix."""
    if detail == "least":
        show_least(report, verdict_sentence(report), console)
        return
    command = "tfgpu explain" if report.source == "text" else "tfgpu doctor"
    about = f" {report.tool.version}, matrix of {report.matrix.revision}"
    console.print(Text.assemble((command, "bold"), (about, "dim")))
    console.print()
    show_stack(layers_of(report), console)
    whole = list(blocks(report))
    shown = whole if detail == "full" else [brief(block) for block in whole]
    for place, block in enumerate(shown):
        # titles alone stand together
        show_block(block, console, close=place > 0 and not block.lines and not shown[place - 1].lines)
    if detail == "full":
        _show_undetermined(report, console)
    elif report.verdict == "unknown":
        _show_skipped(report, console)
    if [block.lines for block in shown] != [block.lines for block in whole]:
        console.print()
        about = next((f"; tfgpu explain {block.ids[0]}" for block in shown if len(block.ids) == 1), "")
        hanging(Text(""), Text(f"All evidence and fixes: {command} -v{about}", "dim"), console)
    show_verdict(report, verdict_sentence(report), console)


def show_least(report: Report, sentence: str, console: Console) -> None:
    """Print the verdict, the first problem and its first fix."""
    show_verdict(report, sentence, console, first=True)
    for place, block in enumerate(least(report)):
        show_block(block, console, close=place > 0)


def _show_skipped(report: Report, console: Console) -> None:
    reasons = skipped(report)
    if reasons:
        console.print()
    for reason, number in reasons:
        marked("unknown", f"skipped, {reason}: {count(number, 'check')}", console)


def _show_undetermined(report: Report, console: Console) -> None:
    reasons = undetermined(report)
    if reasons:
        console.print()
        console.print(Text(f"{marks(console)['unknown']} Could not determine", STYLES["unknown"]))
    for reason, ids in reasons:
        hanging(Text("    "), Text.assemble(reason, (f"  {ids}", "dim")), console)


def show_verdict(report: Report, sentence: str, console: Console, *, first: bool = False) -> None:
    """Print the verdict, what it means, and how many problems there are: the last line, or the `first` one."""
    mark = VERDICT_MARKS[report.verdict]
    word = (report.verdict, f"bold {STYLES[mark]}")
    conclude(mark, Text.assemble(word, f": {sentence}{problem_counts(report)}"), console, first=first)
