"""A smoke test for people: a line for each check, and the verdict."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.records.facts import value_or
from tfgpu_doctor.render.console import STYLES, marks
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.smoke_words import MARKS, machine, outcome, title, verdict
from tfgpu_doctor.render.terminal.layout import conclude, hanging
from tfgpu_doctor.smoke.records import Smoke


def render(smoke: Smoke, console: Console, detail: Detail = "normal") -> None:
    """Print the whole result; with less detail what is not ok, and the verdict."""
    checks = [check for check in smoke.checks if detail != "least" or check.status in ("failed", "unknown")]
    hanging(Text(f"tfgpu smoke {smoke.tool.version}  ", "bold"), Text(machine(smoke), "dim"), console)
    console.print()
    symbols = marks(console)
    widest = max((len(title(check)) for check in checks), default=0)
    for check in checks:
        mark = MARKS[check.status]
        head = Text.assemble((f"  {symbols[mark]} ", STYLES[mark]), (f"{title(check):{widest}}  ", "bold"))
        hanging(head, Text(outcome(check), "dim" if check.status == "not run" else ""), console)
    conclude(MARKS[smoke.verdict], Text(verdict(smoke)), console)
    if any(check.name == "doctor" and check.status in ("failed", "unknown") for check in smoke.checks):
        python = value_or(smoke.report.facts.python.executable, "")
        command = "tfgpu doctor" + (f" --python {python}" if python else "")
        hanging(Text("  "), Text(f"Next: {command}", "dim"), console)
