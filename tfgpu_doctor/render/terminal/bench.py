"""A benchmark for people: a table of all runs with bars, and a block for each of them."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render.console import marks
from tfgpu_doctor.render.terminal.bench_table import show_runs
from tfgpu_doctor.render.terminal.layout import hanging, marked

_MANY = 8  # runs; of more, those without failure, advice or figures have their line in the table alone


def render(result: BenchResult, console: Console) -> None:
    """Print all of it."""
    show_head(result, console)
    if len(result.runs) > 1 and any(run.throughput for run in result.runs):
        console.print()
        show_runs(result.runs, console)
    many = len(result.runs) > _MANY
    for run in result.runs:
        if not many or run.failure or run.advice or run.figures:
            console.print()
            _run(run, many, console)
    if many:
        console.print()
        hanging(Text(""), Text("For the details of each run: --html FILE, or --output FILE.json.", "dim"), console)
    if result.notes:
        console.print()
    for note in result.notes:
        marked("note", note, console)


def show_head(result: BenchResult, console: Console) -> None:
    """Print what was measured on which machine, and the conclusions."""
    hanging(Text(f"tfgpu bench {result.workload}  ", "bold"), Text(result.title), console)
    hanging(Text(""), Text(words.machine(result), "dim"), console)
    if result.conclusions:
        console.print()
    for conclusion in result.conclusions:
        hanging(Text(f"{marks(console)['bar']} ", "bold"), Text(conclusion, "bold"), console)


def _run(run: Run, short: bool, console: Console) -> None:
    symbols = marks(console)
    title = "  ".join(part for part in (run.label, run.dtype, words.point(run)) if part) + "  "
    if run.throughput is None:
        head = Text.assemble((f"{symbols['error']} ", "bold red"), (title, "bold"))
        if len(head) > console.width // 2:
            hanging(head[:2], head[2:], console)
            head = Text("    ")
        hanging(head, Text(run.failure or "not measured"), console)
        return
    indent = Text("    ")
    head, speed = Text.assemble((f"{symbols['ok']} ", "green"), (title, "bold")), _speed(run)
    if len(head) + len(speed) > console.width and len(head) > console.width // 2:
        hanging(head[:2], head[2:], console)
        head = indent
    hanging(head, speed, console)
    hanging(indent, Text(words.timing(run)), console)
    for text in (*words.comparisons(run), *map(words.figure, run.figures)):
        hanging(indent, Text(text), console)
    details = (words.utilisation(run), words.proof(run), "" if run.virtual else words.start_up(run))
    for text in () if short else filter(None, details):
        hanging(indent, Text(text, "dim"), console)
    for advice in run.advice:
        marked("warning", advice, console, indent=4)


def _speed(run: Run) -> Text:
    """The throughput, and its share of what is possible. Virtual devices have none to show."""
    shares = words.peaks(run)
    return Text(words.throughput(run) + (f" ({shares})" if shares else ""), "dim" if run.virtual else "")
