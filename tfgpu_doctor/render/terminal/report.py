"""A report for people: the stack, the findings, the verdict. Plain where the output is no terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.records.report import Evidence, Finding, Report, Severity
from tfgpu_doctor.records.wording import problem_counts, verdict_sentence
from tfgpu_doctor.render.console import clean, marks
from tfgpu_doctor.render.stack import Layer, stack

STYLES = {
    "ok": "green",
    "error": "bold red",
    "warning": "yellow",
    "note": "cyan",
    "unknown": "magenta",
    "absent": "dim",
}
_VERDICTS = {
    "ok": "ok",
    "degraded": "warning",
    "broken": "error",
    "unknown": "unknown",
}


# what shows most of a machine without tfgpu on it
_TO_PASTE = (
    "nvidia-smi",
    "python -m pip list",
    "python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'), "
    'tf.sysconfig.get_build_info())"',
)


def render(report: Report, console: Console) -> None:
    """Print the whole report."""
    console.print(_head(report))
    console.print()
    _stack(told(stack(report)) if report.source == "text" else stack(report), console)
    shown = [finding for finding in report.findings if finding.root_cause]
    titles = {finding.id: finding.title for finding in report.findings}
    notes = [finding for finding in shown if finding.severity is Severity.NOTE]
    for finding in shown:
        if not finding.possible and finding not in notes:
            console.print()
            print_finding(finding, titles, console)
    for reason, group in left_open(report):
        console.print()
        _left_open(reason, group, console)
    for finding in notes:
        console.print()
        print_finding(finding, titles, console)
    if report.verdict == "unknown" and report.source == "text":
        console.print()
        _ask_for_more(console)
    elif report.verdict == "unknown" and report.undetermined:
        console.print()
        _undetermined(report, console)
    console.print()
    hanging(*_verdict(report, console), console)


def _head(report: Report) -> Text:
    return Text.assemble(
        ("tfgpu explain" if report.source == "text" else "tfgpu doctor", "bold"),
        (f" {clean(report.tool.version)}, matrix of {clean(report.matrix.revision)}", "dim"),
    )


def _stack(layers: tuple[Layer, ...], console: Console) -> None:
    symbols = marks(console)
    widest = max(len(layer.name) for layer in layers)
    for layer in layers:
        head = Text.assemble((f"  {symbols[layer.mark]} ", STYLES[layer.mark]), (f"{layer.name:{widest}} ", "bold"))
        hanging(head, Text(clean(layer.text), "dim" if layer.mark == "absent" else ""), console)


def told(layers: tuple[Layer, ...]) -> tuple[Layer, ...]:
    """The layers of which the text says anything; one line for none."""
    known = tuple(layer for layer in layers if layer.mark != "unknown")
    return known or (Layer("Text", "unknown", "says nothing of the machine, its driver or its TensorFlow"),)


def left_open(report: Report) -> list[tuple[str, list[Finding]]]:
    """The causes that a text leaves open, those with one reason together."""
    groups: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.possible:
            groups.setdefault(finding.cause, []).append(finding)
    return list(groups.items())


def _left_open(reason: str, group: list[Finding], console: Console) -> None:
    symbol = marks(console)["unknown"]
    console.print(Text(f"{symbol} Left open by the text", STYLES["unknown"]))
    for finding in group:
        hanging(Text("    or   ", "dim"), Text.assemble(clean(finding.title), (f"  {finding.id}", "dim")), console)
    _labelled("why", Text(clean(reason)), console)
    for fix in dict.fromkeys(fix for finding in group for fix in finding.fixes):
        _labelled("do", Text(clean(fix.text)), console)
        for command in fix.commands:
            console.print(Text("           " + clean(command), "bold cyan"), soft_wrap=True)


def _ask_for_more(console: Console) -> None:
    symbol = marks(console)["unknown"]
    console.print(Text(f"{symbol} To find out more", STYLES["unknown"]))
    _labelled("do", Text("On that machine, with the Python of that TensorFlow"), console)
    console.print(Text("           tfgpu doctor", "bold cyan"), soft_wrap=True)
    _labelled("do", Text("Or paste the whole output, with what these print"), console)
    for command in _TO_PASTE:
        console.print(Text("           " + command, "bold cyan"), soft_wrap=True)


def hanging(head: Text, text: Text, console: Console) -> None:
    """Print `head`, and `text` beside it, wrapped under itself, without padding at the ends of lines."""
    indent = len(head)
    for line in text.wrap(console, max(console.width - indent, 20), overflow="fold"):
        line.rstrip()
        console.print(Text.assemble(head, line), soft_wrap=True)
        head = Text(" " * indent)


def print_finding(finding: Finding, titles: dict[str, str], console: Console) -> None:
    """Print one finding; `titles` has those of its consequences."""
    style = STYLES[finding.severity.value]
    symbol = marks(console)[finding.severity.value]
    title = Text.assemble((clean(finding.title), f"bold {style}"), (f"  {finding.id}", "dim"))
    hanging(Text(f"{symbol} ", style), title, console)
    for item in finding.evidence:
        _labelled("saw", _saw(item, console), console)
        if item.need:
            _labelled("need", _need(item, console), console)
    _labelled("why", Text(clean(finding.cause)), console)
    for consequence in finding.consequences:
        _labelled("so", Text.assemble(clean(titles[consequence]), (f"  {consequence}", "dim")), console)
    for fix in finding.fixes:
        _labelled("do", Text(clean(fix.text)), console)
        for command in fix.commands:
            # never wrapped by us: a command must survive being copied
            console.print(Text("           " + clean(command), "bold cyan"), soft_wrap=True)
    if finding.docs:
        console.print(Text(f"    see  {clean(finding.docs)}", "dim"), soft_wrap=True)  # a link must survive, too


def _saw(item: Evidence, console: Console) -> Text:
    return Text.assemble(
        clean(item.saw), (f" {marks(console)['from']} {clean(item.source)}" if item.source else "", "dim")
    )


def _need(item: Evidence, console: Console) -> Text:
    source = f" {marks(console)['from']} {clean(item.need_source)}" if item.need_source else ""
    return Text.assemble(clean(item.need or ""), (source, "dim"))


def _labelled(label: str, text: Text, console: Console) -> None:
    hanging(Text(f"    {label:4} ", "dim"), text, console)


def _undetermined(report: Report, console: Console) -> None:
    symbol = marks(console)["unknown"]
    console.print(Text(f"{symbol} Could not determine", STYLES["unknown"]))
    reasons: dict[str, list[str]] = {}
    for item in report.undetermined:
        reasons.setdefault(item.reason, []).append(item.id)
    for reason, ids in reasons.items():
        hanging(Text("    "), Text.assemble(clean(reason), ("  " + ", ".join(ids), "dim")), console)


def _verdict(report: Report, console: Console) -> tuple[Text, Text]:
    style = _VERDICTS[report.verdict]
    bold = f"bold {STYLES[style]}"
    return Text(f"{marks(console)[style]} ", bold), Text.assemble(
        (report.verdict, bold), f": {verdict_sentence(report)}{problem_counts(report)}"
    )
