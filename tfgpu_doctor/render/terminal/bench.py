"""A benchmark for people: a table of all runs with bars, and a block for each of them."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from tfgpu_doctor.bench.results import BenchResult, Run
from tfgpu_doctor.render import bench_words as words
from tfgpu_doctor.render.console import STYLES, marks
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.terminal.bench_table import show_runs
from tfgpu_doctor.render.terminal.layout import conclude, hanging, marked

_MANY = 8  # runs; of more, those without failure, advice or figures have their line in the table alone


def render(result: BenchResult, console: Console, detail: Detail = "normal") -> None:
    """Print it; of many runs, `full` shows the details of each."""
    show_head(result, console)
    if len(result.runs) > 1 and any(run.throughput for run in result.runs):
        console.print()
        show_runs(result.runs, console)
    many = len(result.runs) > _MANY and detail != "full"
    advised = words.shared_advice(result.runs)
    for run in result.runs:
        own = [advice for runs, advice in advised if runs == (run,)]
        if not many or run.failure or own or run.figures:
            console.print()
            _run(run, own, "least" if many else detail, console)
    if many:
        console.print()
        hanging(
            Text(""),
            Text("For the details of each run: -v, --output FILE.html, or --output FILE.json.", "dim"),
            console,
        )
    _shared(result.runs, advised, console)
    show_end(result, console)


def _shared(runs: Sequence[Run], advised: Sequence[tuple[tuple[Run, ...], str]], console: Console) -> None:
    """Print the advice that several runs share, once."""
    name = words.namer(runs)
    lines = [
        f"{name(having[-1])}{words.others(len(having) - 1)}: {text}" for having, text in advised if len(having) > 1
    ]
    if lines:
        console.print()
    for line in lines:
        marked("warning", line, console)


def show_head(result: BenchResult, console: Console) -> None:
    """Print what was measured on which machine."""
    hanging(Text(f"tfgpu bench {result.workload}  ", "bold"), Text(result.title), console)
    hanging(Text(""), Text(words.machine(result), "dim"), console)


def show_end(result: BenchResult, console: Console) -> None:
    """Print the notes, and as the last of all what the user wanted to know."""
    if notes := words.notes(result):
        console.print()
    for note in notes:
        marked("note", note, console)
    first = words.leading(result)[:1]
    others = result.conclusions[len(first) :]
    if others:
        console.print()
    for conclusion in others:
        hanging(Text(f"{marks(console)['bar']} ", "bold"), Text(conclusion), console)
    show_verdict(replace(result, conclusions=first), console)


def show_verdict(result: BenchResult, console: Console) -> None:
    """Print the last line, which is all that -q shows."""
    conclude(words.worst(result), Text(words.verdict(result), "bold"), console)


def _run(run: Run, advised: Sequence[str], detail: Detail, console: Console) -> None:
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
    mark = words.mark(run)
    head, speed = Text.assemble((f"{symbols[mark]} ", STYLES[mark]), (title, "bold")), _speed(run)
    if len(head) + len(speed) > console.width and len(head) > console.width // 2:
        hanging(head[:2], head[2:], console)
        head = indent
    hanging(head, speed, console)
    hanging(indent, Text(words.taken(run) if run.virtual else words.timing(run)), console)
    for text in (*words.comparisons(run), *map(words.figure, words.figures(run))):
        hanging(indent, Text(text), console)
    details = [words.gpu_load(run), words.proof(run, brief=detail != "full")] if detail != "least" else []
    details += [words.start_up(run)] if detail == "full" and not run.virtual else []
    for text in filter(None, details):
        hanging(indent, Text(text, "dim"), console)
    for advice in advised:
        marked("warning", advice, console, indent=4)


def _speed(run: Run) -> Text:
    """The throughput, and its share of what is possible. Virtual devices have none to show."""
    shares = words.peaks(run)
    return Text(words.throughput(run) + (f" ({shares})" if shares else ""), "dim" if run.virtual else "")
