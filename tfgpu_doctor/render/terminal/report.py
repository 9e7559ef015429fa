"""A report for people: the stack, the findings, the verdict. Plain where the output is no terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.records.report import Report
from tfgpu_doctor.records.wording import problem_counts, verdict_sentence
from tfgpu_doctor.render.console import STYLES, marks
from tfgpu_doctor.render.outline import VERDICT_MARKS, blocks, undetermined
from tfgpu_doctor.render.stack import Layer, layers_of
from tfgpu_doctor.render.terminal.layout import conclude, hanging, show_block


def render(report: Report, console: Console) -> None:
    """Print the whole report."""
    command = "tfgpu explain" if report.source == "text" else "tfgpu doctor"
    about = f" {report.tool.version}, matrix of {report.matrix.revision}"
    console.print(Text.assemble((command, "bold"), (about, "dim")))
    console.print()
    _show_stack(layers_of(report), console)
    for block in blocks(report):
        show_block(block, console)
    if report.verdict == "unknown":
        _show_undetermined(report, console)
    show_verdict(report, verdict_sentence(report), console)


def _show_stack(layers: tuple[Layer, ...], console: Console) -> None:
    symbols = marks(console)
    widest = max(len(layer.name) for layer in layers)
    for layer in layers:
        head = Text.assemble((f"  {symbols[layer.mark]} ", STYLES[layer.mark]), (f"{layer.name:{widest}} ", "bold"))
        hanging(head, Text(layer.text, "dim" if layer.mark == "absent" else ""), console)


def _show_undetermined(report: Report, console: Console) -> None:
    reasons = undetermined(report)
    if reasons:
        console.print()
        console.print(Text(f"{marks(console)['unknown']} Could not determine", STYLES["unknown"]))
    for reason, ids in reasons:
        hanging(Text("    "), Text.assemble(reason, (f"  {ids}", "dim")), console)


def show_verdict(report: Report, sentence: str, console: Console) -> None:
    """Print the last line: the verdict, what it means, and how many problems there are."""
    mark = VERDICT_MARKS[report.verdict]
    word = (report.verdict, f"bold {STYLES[mark]}")
    conclude(mark, Text.assemble(word, f": {sentence}{problem_counts(report)}"), console)
