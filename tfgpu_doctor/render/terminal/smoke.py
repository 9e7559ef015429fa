"""A smoke test for people: a line for each check, and the verdict."""

from __future__ import annotations

from collections import Counter

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.plan.windows_shell import quoted
from tfgpu_doctor.records.facts import Known, value_or
from tfgpu_doctor.records.units import count
from tfgpu_doctor.render.console import STYLES, marks
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import block
from tfgpu_doctor.render.outlines.report import titles_of
from tfgpu_doctor.render.smoke_words import MARKS, failing, machine, outcome, title, verdict
from tfgpu_doctor.render.terminal.layout import conclude, hanging, marked, show_block
from tfgpu_doctor.smoke.records import Smoke, SmokeCheck


def render(smoke: Smoke, console: Console, detail: Detail = "normal") -> None:
    """Print the whole result; with less detail what is not ok, and the verdict."""
    checks = [check for check in smoke.checks if detail != "least" or check.status in ("failed", "unknown")]
    skipped = {} if detail == "full" else _skipped(checks)
    alone = [check for check in checks if check.status != "not run" or check.why not in skipped]
    hanging(Text(f"tfgpu smoke {smoke.tool.version}  ", "bold"), Text(machine(smoke), "dim"), console)
    console.print()
    symbols = marks(console)
    widest = max((len(title(check)) for check in alone), default=0)
    for check in alone:
        mark = MARKS[check.status]
        head = Text.assemble((f"  {symbols[mark]} ", STYLES[mark]), (f"{title(check):{widest}}  ", "bold"))
        hanging(head, Text(outcome(check), "dim" if check.status == "not run" else ""), console)
    for why, number in skipped.items():
        marked("absent", f"{count(number, 'check')} not run: {why}", console, indent=2)
    for finding in failing(smoke) if detail == "full" else ():
        show_block(block(finding, titles_of(smoke.report.findings)), console)
    conclude(MARKS[smoke.verdict], Text(verdict(smoke)), console)
    _show_next(smoke, console)


def _skipped(checks: list[SmokeCheck]) -> dict[str, int]:
    """Why checks were not run, and how many, where it is more than one."""
    reasons = Counter(check.why for check in checks if check.status == "not run" and check.why)
    return {why: number for why, number in reasons.items() if number > 1}


def _show_next(smoke: Smoke, console: Console) -> None:
    if any(check.name == "doctor" and check.status in ("failed", "unknown") for check in smoke.checks):
        facts = smoke.report.facts
        python = quoted(value_or(facts.python.executable, ""), value_or(facts.host.os, None))
        command = f"tfgpu doctor --python {python}" if isinstance(facts.python.executable, Known) else "tfgpu doctor"
        hanging(Text("  "), Text(f"Next: {command}", "dim"), console)
