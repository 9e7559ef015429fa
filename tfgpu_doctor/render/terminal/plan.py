"""A plan for people: the options with their commands, what rules the newer releases out, and the short answer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.plan.constraints import Violation, span
from tfgpu_doctor.plan.records import Kind, Option, Plan, RuledOut
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.records.versions import minor
from tfgpu_doctor.render.console import marks
from tfgpu_doctor.render.terminal.layout import conclude, hanging

_WHY: dict[Kind, str] = {
    "as-is": "works with everything as it is",
    "python": "newer, with another Python",
    "driver": "newer, with another driver",
    "python+driver": "with another Python and a newer driver",
    "container": "",
    "conda-forge": "",
    "wsl2": "since 2.11 the GPU works on Windows through WSL2 alone",
    "pre-release": "not released yet",
    "metal": "",
    "cpu": "without a GPU",
}
_SYSTEMS = {"linux": "Linux", "windows": "Windows", "wsl2": "WSL2", "macos": "macOS"}
GROUPS_SHOWN = 6  # of what is ruled out; JSON has all


def render(plan: Plan, console: Console) -> None:
    """Print the whole plan."""
    revision = Text(f" {plan.tool.version}, matrix of {plan.matrix.revision}", "dim")
    console.print(Text.assemble(("tfgpu plan", "bold"), revision))
    asked = f", TensorFlow {plan.tensorflow}" if plan.tensorflow else ""
    hanging(Text("for  ", "dim"), Text(target_line(plan.target) + asked, "bold"), console)
    for problem in plan.problems:
        conclude("error", Text(problem, "bold red"), console)
    shown: set[str] = set()
    for number, option in enumerate(plan.options, 1):
        console.print()
        _option(number, option, plan, console, shown)
    if plan.ruled_out:
        console.print()
        _ruled_out(plan, console)
    _answer(plan, console)


def target_line(target: Target) -> str:
    """One line about the machine."""
    cards = [
        f"{gpu.name} (compute capability {gpu.compute_capability})"
        if gpu.name
        else f"compute capability {gpu.compute_capability}"
        for gpu in target.gpus
    ]
    counted = [f"{cards.count(card)} × {card}" if cards.count(card) > 1 else card for card in dict.fromkeys(cards)]
    parts = [
        " and ".join(counted) or "GPU not given",
        f"driver {target.driver}" if target.driver else "driver not given",
        f"Python {target.python}" if target.python else "Python not given",
        f"{_SYSTEMS[target.os]} {target.machine}",
    ]
    return ", ".join(parts)


def _option(number: int, option: Option, plan: Plan, console: Console, shown: set[str]) -> None:
    """The best option in full; of the others what differs from what stands above (`shown`). JSON has all of each."""
    title = Text.assemble((option.title, "bold green"), (f"  {_why(option, plan)}", "dim"))
    hanging(Text(f"{number}  ", "bold"), title, console)
    for label, line in _facts(option, plan.matrix.revision):
        _labelled(label, Text(line), console)
    for fix in option.first:
        if fix.text not in shown:
            _fix("first", fix, console)
    for manager in list(option.commands) if number == 1 else list(option.commands)[:1]:
        for index, command in enumerate(option.commands[manager]):
            _command(manager if index == 0 else "", command, console)
    if option.kind not in shown:  # that of another image differs in its name alone
        for command in (command for fix in option.then for command in fix.commands):
            _command("check", command, console)
    for fix in option.missing if number == 1 else ():
        for index, command in enumerate(fix.commands):
            reason = "       or: " if index else f"   if     {fix.text}: "
            told = Text.assemble((reason, "dim"), (command, "bold cyan"))
            console.print(told, soft_wrap=True)
    for note in option.notes:
        if note not in shown:
            _labelled("note", Text(note), console)
    if option.see and option.see not in shown:
        console.print(Text(f"   see    {option.see}", "dim"), soft_wrap=True)  # a link must survive, too
    shown.update((option.kind, option.see or "", *option.notes, *(fix.text for fix in option.first)))


def _command(label: str, command: str, console: Console) -> None:
    """Never wrapped by us: a command must survive being copied."""
    console.print(Text.assemble(Text(f"   {label:6} ", "dim"), (command, "bold cyan")), soft_wrap=True)


def _facts(option: Option, day: str) -> Iterator[tuple[str, str]]:
    built = " and ".join(_versions_of(option.cuda, option.cudnn))
    if option.delivered and (option.delivered.cuda, option.delivered.cudnn) != (minor(option.cuda), option.cudnn):
        brought = " and ".join(_versions_of(option.delivered.cuda, option.delivered.cudnn))
        yield "has", f"{brought} from pip ({day}); built with {built}"
    elif built:
        yield "has", built
    needs = [f"driver {option.min_driver} or newer"] if option.min_driver else []
    if option.pythons:
        needs.append(f"Python {span(option.pythons)}")
    elif option.python and option.kind != "container":
        needs.append(f"Python {option.python}")
    if needs:
        yield "needs", ", ".join(needs)


def _versions_of(cuda: str | None, cudnn: str | None) -> Iterator[str]:
    if cuda:
        yield f"CUDA {cuda}"
    if cudnn:
        yield f"cuDNN {cudnn}"


def _why(option: Option, plan: Plan) -> str:
    if option.kind == "as-is" and plan.described:
        return "matches everything you specified"
    if option.kind in ("python", "driver") and plan.options[0].kind != "as-is":
        return _WHY[option.kind].removeprefix("newer, ")
    return _WHY[option.kind]


def _fix(label: str, fix: Fix, console: Console) -> None:
    _labelled(label, Text(fix.text), console)
    for command in fix.commands:
        console.print(Text("            " + command, "bold cyan"), soft_wrap=True)


def _labelled(label: str, text: Text, console: Console) -> None:
    hanging(Text(f"   {label:6} ", "dim"), text, console)


def _ruled_out(plan: Plan, console: Console) -> None:
    """One line for neighbours that the same decisive reasons rule out; JSON has every reason of each."""
    console.print(Text("Ruled out", "bold"))
    together: list[tuple[list[str], tuple[Violation, ...]]] = []
    for _, found in itertools.groupby(
        plan.ruled_out, lambda group: [_clause(violation) for violation in _decisive(group)]
    ):
        groups = list(found)
        together.append(([version for group in groups for version in group.versions], _decisive(groups[0])))
    shown = together[:GROUPS_SHOWN]
    width = max(len(_versions(versions)) for versions, _ in shown)
    for versions, reasons in shown:
        text = Text()
        for index, violation in enumerate(reasons):
            text.append(("; " if index else "") + _clause(violation))
            if violation.constraint == "known-issue" and violation.source.startswith("https:"):
                text.append(f" {marks(console)['from']} {violation.source}", "dim")
        hanging(Text(f"   {_versions(versions):{width}}  "), text, console)
    rest = [version for versions, _ in together[GROUPS_SHOWN:] for version in versions]
    if rest:
        older = f"{len(rest)} older releases, down to {rest[-1]}" if len(rest) > 1 else f"{rest[0]}, too"
        hanging(Text("   "), Text(f"{older}; --format json gives the reasons for each", "dim"), console)


def _versions(versions: list[str]) -> str:
    return versions[0] if len(versions) == 1 else f"{versions[-1]} to {versions[0]}"


def _decisive(group: RuledOut) -> tuple[Violation, ...]:
    """Where the card or the build is ruled out, nothing else matters."""
    found = group.violations
    return next(((violation,) for violation in found if violation.constraint in ("tensorflow", "build", "gpu")), found)


def _clause(violation: Violation) -> str:
    match violation.constraint:
        case "gpu":
            return f"no {violation.need}"
        case "known-issue" | "yanked" | "build":
            return violation.saw
        case "tensorflow":
            return "not asked for"
        case _:
            return f"needs {violation.need}"


def _answer(plan: Plan, console: Console) -> None:
    if plan.lifts:
        conclude("error", Text.assemble(("no match", "bold red"), ". What would help, one of:"), console)
        for lift in plan.lifts:
            hanging(Text("   - "), Text(lift.text), console)
    elif plan.options and plan.options[0].kind != "cpu":
        best = Text.assemble(("recommended", "bold green"), f": option 1, {plan.options[0].title}")
        conclude("ok", best, console)
    else:
        conclude("error", Text("No NVIDIA GPU to plan for", "bold red"), console)
