"""A repair for people: what is going to be done, and how it ended."""

from __future__ import annotations

import shlex

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.install.records import MANIFEST
from tfgpu_doctor.install.repair import Action, Repaired
from tfgpu_doctor.records.report import Severity
from tfgpu_doctor.records.units import count
from tfgpu_doctor.render.outline import Block, Line, block
from tfgpu_doctor.render.terminal.install import STEP_MARKS, seconds_text
from tfgpu_doctor.render.terminal.layout import conclude, marked, show_block, show_card


def render_action(action: Action, console: Console) -> None:
    """Print a problem, and what will be done about it."""
    commands = tuple(shlex.join(argv) for argv in action.commands)
    lines = [Line("fix", action.text, commands=commands)]
    if action.added:
        more = f" and {count(len(action.added) - 1, 'more file')}" if len(action.added) > 1 else ""
        lines.append(Line("adds", action.added[0].path + more))
    show_block(Block("error", action.title, tuple(lines), (action.finding,)), console)


def render_repaired(prefix: str, repaired: Repaired, log: str | None, console: Console, *, dry_run: bool) -> None:
    """Print what is verified, what remains and what to type for it, and where all of it is written down."""
    if repaired.proof:
        console.print()
        for step in repaired.proof.steps:
            marked(STEP_MARKS[step.state], f"{step.name}: {step.text}", console, indent=2)
    grave = (Severity.ERROR, Severity.WARNING)
    titles = {finding.id: finding.title for finding in repaired.report.findings}
    left = [one for one in repaired.report.findings if one.root_cause and one.severity in grave]
    if repaired.refused is None:
        for finding in left:
            show_block(block(finding, titles), console)
    conclude(*_verdict(prefix, repaired, dry_run), console)
    if repaired.steps:
        written = [("record", f"{prefix}/{MANIFEST}"), *([("log", log)] if log else [])]
        show_card(written, console)


def _verdict(prefix: str, repaired: Repaired, dry_run: bool) -> tuple[str, Text]:
    done, needed = len(repaired.steps), sum(step.seconds for step in repaired.steps)
    repairs = f"{count(done, 'repair')} in {seconds_text(needed)}" if done else "nothing was changed"
    if repaired.refused:
        why = "nothing was changed; other problems can show when this one is repaired" if dry_run else repairs
        return "warning", Text(f"{prefix} has problems that can be repaired: {why}")
    if repaired.healthy:
        return "ok", Text(f"{prefix} works: {repairs}" if done else f"{prefix} works; there is nothing to repair")
    return "error", Text(f"{prefix} still has problems that cannot be repaired within it: {repairs}")
