"""One option of a plan: on one screen, or with all that is known about it."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.render.plan_words import facts_of, reason
from tfgpu_doctor.render.terminal.layout import hanging


def show_brief(option: Option, plan: Plan, console: Console, *, managers: int, notes: int) -> None:
    """The first option: what it is, how to install it, how to check it, and the last notes, which weigh most."""
    _title(1, option, plan, console)
    for label, line in facts_of(option, None, plan.last_driver_branch):
        _labelled(label, Text(line), console)
    _steps("first", option.first, console)
    for manager in list(option.commands)[:managers]:
        _commands(manager, option.commands[manager], console)
    _checks(option, console)
    for fix in _missing_first(option):
        _if_missing(fix, fix.commands[:1], console)
    _notes(option.notes[len(option.notes) - notes :] if notes < len(option.notes) else option.notes, console)
    if option.see:
        _see(option.see, console)


def show_commands(option: Option, console: Console) -> None:
    """What to do for an option: the steps before it, and the commands of the first package manager."""
    _steps("first", option.first, console)
    for manager in list(option.commands)[:1]:
        _commands(manager, option.commands[manager], console)


def show_in_full(number: int, option: Option, plan: Plan, console: Console, shown: set[str]) -> None:
    """An option with everything that does not stand above it already (`shown`); JSON has all of each."""
    _title(number, option, plan, console)
    for label, line in facts_of(option, plan.matrix.revision, plan.last_driver_branch):
        _labelled(label, Text(line), console)
    _steps("first", (fix for fix in option.first if fix.text not in shown), console)
    for manager in list(option.commands) if number == 1 else list(option.commands)[:1]:
        _commands(manager, option.commands[manager], console)
    if option.kind not in shown:  # that of another image differs in its name alone
        _checks(option, console)
    for fix in option.missing if number == 1 else ():
        _if_missing(fix, fix.commands, console)
    _notes((note for note in option.notes if note not in shown), console)
    if option.see and option.see not in shown:
        _see(option.see, console)
    shown.update((option.kind, option.see or "", *option.notes, *(fix.text for fix in option.first)))


def _missing_first(option: Option) -> tuple[Fix, ...]:
    """How to get the program that the first package manager's commands start."""
    commands = next(iter(option.commands.values()), ("",))
    starts = commands[0].split(" ")[0]
    return tuple(fix for fix in option.missing if fix.text.startswith(f"{starts} is missing"))


def _title(number: int, option: Option, plan: Plan, console: Console) -> None:
    title = Text.assemble((option.title, "bold green"), (f"  {reason(option, plan)}", "dim"))
    hanging(Text(f"{number}  ", "bold"), title, console)


def _commands(label: str, commands: Iterable[str], console: Console) -> None:
    """Never wrapped by us: a command must survive being copied."""
    for command in commands:
        console.print(Text.assemble(Text(f"   {label:6} ", "dim"), (command, "bold cyan")), soft_wrap=True)
        label = ""


def _checks(option: Option, console: Console) -> None:
    for fix in option.then:
        _commands("check", fix.commands, console)


def _if_missing(fix: Fix, commands: Iterable[str], console: Console) -> None:
    told = f"   if     {fix.text}: "
    for command in commands:
        console.print(Text.assemble((told, "dim"), (command, "bold cyan")), soft_wrap=True)
        told = "       or: "


def _notes(notes: Iterable[str], console: Console) -> None:
    for note in notes:
        _labelled("note", Text(note), console)


def _see(link: str, console: Console) -> None:
    console.print(Text(f"   see    {link}", "dim"), soft_wrap=True)  # a link must survive, too


def _steps(label: str, fixes: Iterable[Fix], console: Console) -> None:
    for fix in fixes:
        _labelled(label, Text(fix.text), console)
        for command in fix.commands:
            console.print(Text("            " + command, "bold cyan"), soft_wrap=True)


def _labelled(label: str, text: Text, console: Console) -> None:
    hanging(Text(f"   {label:6} ", "dim"), text, console)
