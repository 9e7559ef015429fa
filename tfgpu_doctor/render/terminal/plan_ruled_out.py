"""Which releases a plan rules out, and why: a line for neighbours with the same decisive reasons."""

from __future__ import annotations

import itertools

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.plan.constraints import Violation
from tfgpu_doctor.plan.records import Plan, RuledOut
from tfgpu_doctor.render.console import marks
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


def neighbours(plan: Plan, reasons: int | None) -> list[tuple[list[str], tuple[Violation, ...]]]:
    """Neighbouring releases with the same decisive reasons; at most so many `reasons` of each."""
    groups = itertools.groupby(plan.ruled_out, lambda group: _decisive(group)[:reasons])
    return [([version for group in found for version in group.versions], why) for why, found in groups]


def span_of(versions: list[str]) -> str:
    """The first and the last of some versions."""
    return versions[0] if len(versions) == 1 else f"{versions[-1]} to {versions[0]}"


def _decisive(group: RuledOut) -> tuple[Violation, ...]:
    """What decides: the card or the build alone; else what no change of the machine helps against comes first."""
    found = group.violations
    alone = next(((one,) for one in found if one.constraint in ("tensorflow", "build", "gpu")), None)
    return alone or tuple(sorted(found, key=lambda one: one.constraint in ("driver", "python")))


def clause(violation: Violation) -> str:
    """A reason in a few words."""
    match violation.constraint:
        case "gpu":
            return f"no {violation.need}"
        case "known-issue" | "yanked" | "build":
            return violation.saw
        case "tensorflow":
            return "not asked for"
        case _:
            return f"needs {violation.need}"
