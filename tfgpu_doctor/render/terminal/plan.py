"""A plan for people: what to type on one screen, or every option with all that is known about it (`-v`)."""

from __future__ import annotations

import io
from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.records.versions import at_least
from tfgpu_doctor.render.console import console_for, marks
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.plan_words import reason, target_line
from tfgpu_doctor.render.terminal.layout import conclude, hanging
from tfgpu_doctor.render.terminal.plan_option import show_brief, show_commands, show_in_full
from tfgpu_doctor.render.terminal.plan_ruled_out import show_ruled_out

_ROWS = 23  # of a terminal, and one for the prompt
_MORE = ". Details: add -v"


@dataclass(frozen=True)
class _Room:
    """How much of a plan is shown."""

    managers: int = 2  # package managers of the first option
    notes: int = 9
    others: int = 5  # options beside the first
    groups: int = 2  # of what is ruled out


# from all that one screen may have to what it must have
_ROOMS = (
    _Room(),
    _Room(managers=1),
    _Room(managers=1, groups=1),
    _Room(managers=1, groups=1, notes=1),
    _Room(managers=1, groups=1, notes=0, others=2),
)
_ALONE = _Room(groups=5)  # where there is no option


def render(plan: Plan, console: Console, detail: Detail = "normal") -> None:
    """Print the first option and a line for each other one, on one screen; or all of it, or the first alone."""
    if detail == "least":
        _answer(plan, console, "", first=True)
        if plan.options:
            show_commands(plan.options[0], console)
    elif detail == "full" or not plan.options:
        _page(plan, console, None if detail == "full" else _ALONE)
    else:
        _page(plan, console, next((room for room in _ROOMS if _rows(plan, console, room) <= _ROWS), _ROOMS[-1]))


def _rows(plan: Plan, console: Console, room: _Room) -> int:
    """The rows of a terminal that a page takes; long commands are wrapped there."""
    page = io.StringIO()
    scratch = console_for(page)
    scratch.width = console.width
    _page(plan, scratch, room)
    return sum(max(1, -(-len(line) // console.width)) for line in page.getvalue().splitlines())


def _page(plan: Plan, console: Console, room: _Room | None) -> None:
    revision = Text(f" {plan.tool.version}, matrix of {plan.matrix.revision}", "dim")
    console.print(Text.assemble(("tfgpu plan", "bold"), revision))
    asked = f", TensorFlow {plan.tensorflow}" if plan.tensorflow else ""
    hanging(Text("for  ", "dim"), Text(target_line(plan.target) + asked, "bold"), console)
    if plan.problems:
        console.print()
    for problem in plan.problems:
        hanging(Text(f"{marks(console)['error']} ", "bold red"), Text(problem, "bold red"), console)
    if room is None:
        _all_options(plan, console)
    elif plan.options:
        _one_screen(plan, console, room)
    if plan.ruled_out and (room is None or room.groups):
        console.print()
        show_ruled_out(plan, console, most=room.groups if room else None)
    _answer(plan, console, _MORE if room else "")


def _all_options(plan: Plan, console: Console) -> None:
    shown: set[str] = set()
    for number, option in enumerate(plan.options, 1):
        console.print()
        show_in_full(number, option, plan, console, shown)


def _one_screen(plan: Plan, console: Console, room: _Room) -> None:
    console.print()
    show_brief(plan.options[0], plan, console, managers=room.managers, notes=room.notes)
    others = plan.options[1 : room.others + 1]
    if others:
        console.print()
    for number, option in enumerate(others, 2):
        hanging(Text(f"{number}  ", "bold"), _line(option, plan), console)
    if more := len(plan.options) - 1 - len(others):
        hanging(Text("   "), Text(f"and {more} more"), console)


def _line(option: Option, plan: Plan) -> Text:
    """Another option: what it is, and what it asks for beyond the first."""
    more = [reason(option, plan)] if option.kind in ("wsl2", "pre-release") else []
    need, least = option.min_driver, plan.options[0].min_driver
    if plan.target.driver is None and need and not at_least(least, need):
        more.append(f"driver {need}+")
    title = option.title.removeprefix("TensorFlow ")
    return Text.assemble((title, "green"), f", {', '.join(more)}" if more else "")


def _answer(plan: Plan, console: Console, more: str, *, first: bool = False) -> None:
    if plan.lifts:
        conclude("error", Text.assemble(("no match", "bold red"), ". What would help, one of:"), console, first=first)
        for lift in plan.lifts:
            hanging(Text("   - "), Text(lift.text), console)
    elif plan.is_found:
        title = "" if more else f", {plan.options[0].title}"
        conclude(
            "ok",
            Text.assemble(("recommended", "bold green"), f": option 1{title}", (more, "dim")),
            console,
            first=first,
        )
    else:
        cards = "No NVIDIA GPU can be used here" if plan.target.gpus else "No NVIDIA GPU to plan for"
        nothing = cards if plan.options else "no match"
        conclude("error", Text.assemble((nothing, "bold red"), (more, "dim")), console, first=first)
