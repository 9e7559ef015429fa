"""Which releases a plan rules out, and why: a line for neighbours with the same decisive reasons."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.plan.records import Plan
from tfgpu_doctor.render.console import marks
from tfgpu_doctor.render.plan_words import clause, neighbours, span_of
from tfgpu_doctor.render.terminal.layout import hanging


def show_ruled_out(plan: Plan, console: Console, *, most: int | None) -> None:
    """Print what is ruled out, the newest first; JSON has every reason of each.

    Args:
        most: lines, with one reason each; the others are counted. None: all of it.
    """
    together = neighbours(plan, None if most is None else 1)
    shown = together[:most]
    width = max(len(span_of(versions)) for versions, _ in shown)
    head = Text("Ruled out  ", "bold")
    for versions, reasons in shown:
        text = Text()
        for index, violation in enumerate(reasons):
            text.append(("; " if index else "") + clause(violation))
            if violation.constraint == "known-issue" and violation.source.startswith("https:"):
                text.append(f" {marks(console)['from']} {violation.source}", "dim")
        hanging(Text.assemble(head, f"{span_of(versions):{width}}  "), text, console)
        head = Text(" " * len(head))
    rest = [version for versions, _ in together[len(shown) :] for version in versions]
    if rest:
        older = f"{len(rest)} older releases, down to {rest[-1]}" if len(rest) > 1 else f"{rest[0]}, too"
        hanging(head, Text(older), console)
