"""A comparison of two bench results for people: a line or a few for each run, and the sum."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.bench.comparing.records import BenchComparison, RunChange
from tfgpu_doctor.render import bench_compare_words as words
from tfgpu_doctor.render.console import STYLES, marks
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.terminal.layout import conclude, hanging, marked

_MANY = 8  # runs; of more, those that are the same have one line


def render(comparison: BenchComparison, console: Console, detail: Detail = "normal") -> None:
    """Print all of it, or the verdict alone."""
    if detail == "least":
        conclude(words.worst(comparison), Text(words.summary(comparison), "bold"), console, first=True)
        return
    head = f" {comparison.tool.version}, {words.about(comparison)}"
    hanging(Text(""), Text.assemble(("tfgpu compare", "bold"), (head, "dim")), console)
    for label, side in (("base", comparison.base), ("new", comparison.new)):
        about = (f"  {side.created}  {words.software(side)}", "dim")
        hanging(Text(f"  {label:4}  ", "bold"), Text.assemble(side.name, about), console)
    for note in comparison.notes:
        marked("note", note, console, indent=2)
    console.print()
    short = len(comparison.runs) > _MANY
    for run in comparison.runs:
        _run(run, comparison.factor, short and run.verdict == "same", console)
    for ones, side in ((comparison.only_base, comparison.base), (comparison.only_new, comparison.new)):
        if alone := words.alone(ones, side.name):
            marked("absent", alone, console)
    conclude(words.worst(comparison), Text(words.summary(comparison), "bold"), console)


def _run(run: RunChange, factor: float, short: bool, console: Console) -> None:
    mark = words.mark(run)
    symbol = Text(f"{marks(console)[mark]} ", STYLES[mark])
    title = Text("  ".join(words.title(run)) + "  ", "bold")
    text = Text(words.verdict(run), STYLES[mark] if mark in ("error", "unknown") else "")
    if len(symbol) + len(title) + len(text) > console.width and len(title) > console.width // 3:
        hanging(symbol, title, console)
        symbol, title = Text("    "), Text("")
    hanging(Text.assemble(symbol, title), text, console)
    indent = Text("    ")
    for reason in run.reasons:
        hanging(indent, Text(reason), console)
    if short:
        return
    for line in (words.speeds(run), *words.figures(run, factor)):
        if line:
            hanging(indent, Text(line), console)
    if evidence := words.evidence(run):
        hanging(indent, Text(evidence, "dim"), console)
    for note in run.notes:
        marked("note", note, console, indent=4)
