"""A smoke test for people: a line for each check, and the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.records.facts import value_or
from tfgpu_doctor.render.console import clean, marks
from tfgpu_doctor.render.terminal.report import STYLES, hanging
from tfgpu_doctor.smoke.records import Smoke, SmokeCheck

MARKS = {"ok": "ok", "failed": "error", "not run": "absent", "unknown": "unknown"}
WORDS = {"ok": "ok", "failed": "failed", "not run": "not run", "unknown": "could not determine"}


def render(smoke: Smoke, console: Console) -> None:
    """Print the whole result."""
    hanging(Text(f"tfgpu smoke {clean(smoke.tool.version)}  ", "bold"), Text(clean(machine(smoke)), "dim"), console)
    console.print()
    symbols = marks(console)
    names = max(len(name_of(check)) for check in smoke.checks)
    for check in smoke.checks:
        mark = MARKS[check.status]
        head = Text.assemble((f"  {symbols[mark]} ", STYLES[mark]), (f"{clean(name_of(check)):{names}}  ", "bold"))
        hanging(head, Text(clean(told(check)), "dim" if check.status == "not run" else ""), console)
    console.print()
    mark = MARKS[smoke.verdict]
    hanging(Text(f"{symbols[mark]} ", f"bold {STYLES[mark]}"), Text(verdict(smoke)), console)
    for line in advice(smoke):
        hanging(Text("  "), Text(line, "dim"), console)


def machine(smoke: Smoke) -> str:
    """What was tested: "TensorFlow 2.21.0, Python 3.12.3, 2 × NVIDIA H200"."""
    names = {"tensorflow": "TensorFlow", "python": "Python"}
    parts = [f"{names[name]} {version}" for name, version in smoke.software.items() if name in names]
    parts += [f"{smoke.gpus.count(name)} × {name}" for name in dict.fromkeys(smoke.gpus)] or ["no GPU"]
    return ", ".join(parts)


def name_of(check: SmokeCheck) -> str:
    """ "matpow, GPU 0"."""
    return f"{check.name}, {check.on}" if check.on else check.name


def told(check: SmokeCheck) -> str:
    """Everything behind the name: how it ended, how often, figure and reason."""
    word = WORDS[check.status] if check.status != "ok" else ""
    often = f"{check.passed} of {check.rounds} ok" if check.rounds > 1 and check.ran else ""
    status = ", ".join(part for part in (word, often) if part)
    what = "; ".join(part for part in (check.saw, check.why) if part)
    return ": ".join(part for part in (status, what) if part) or WORDS[check.status]


def verdict(smoke: Smoke) -> str:
    """ "failed: 1 of 6 checks failed, 2 were not run (41 s of 60 s)"."""
    counts = {status: sum(check.status == status for check in smoke.checks) for status in WORDS}
    said = [f"{counts['failed']} failed"] if counts["failed"] else []
    said += [f"{counts['unknown']} could not be determined"] if counts["unknown"] else []
    said += [f"{counts['not run']} not run"] if counts["not run"] else []
    what = f"{', '.join(said)} of {len(smoke.checks)} checks" if said else f"all {len(smoke.checks)} checks"
    word = {"ok": "ok", "failed": "failed", "unknown": "could not determine"}[smoke.verdict]
    return f"{word}: {what} ({smoke.seconds:.0f} s of {smoke.budget_s:g} s)"


def advice(smoke: Smoke) -> Iterator[str]:
    """Where to look next."""
    doctor = next((check for check in smoke.checks if check.name == "doctor"), None)
    if doctor is not None and doctor.status in ("failed", "unknown"):
        python = value_or(smoke.report.facts.python.executable, "")
        yield "What to do about it: tfgpu doctor" + (f" --python {clean(python)}" if python else "")
