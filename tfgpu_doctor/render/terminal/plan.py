"""A plan for people: the options with their commands, what rules the newer releases out, and the short answer."""

from __future__ import annotations

import itertools

from rich.console import Console
from rich.text import Text

from tfgpu_doctor.plan.constraints import Violation
from tfgpu_doctor.plan.records import Kind, Option, Plan, RuledOut
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.render.console import marks
from tfgpu_doctor.render.terminal.layout import conclude, hanging

_WHY: dict[Kind, str] = {
    "as-is": "works with everything as it is",
    "python": "newer, with another Python",
    "driver": "newer, with another driver",
    "python+driver": "with another Python and a newer driver",
    "container": "",
    "conda-forge": "",
    "wsl2": "GPU support on Windows since 2.11",
    "pre-release": "not released yet",
    "cpu": "without a GPU",
}
_SYSTEMS = {"linux": "Linux", "windows": "Windows", "wsl2": "WSL2", "macos": "macOS"}
_INSTEAD = {
    "python": "another Python",
    "tensorflow": "another TensorFlow than the one asked for",
    "glibc": "a newer Linux distribution, or a container",
    "driver": "another driver",
    "known-issue": "a release that is known to be broken",
    "cudnn": "another card",
    "gpu": "another card",
    "build": "another platform",
}
GROUPS_SHOWN = 6  # of what is ruled out; JSON has all


def render(plan: Plan, console: Console) -> None:
    """Print the whole plan."""
    revision = Text(f" {plan.tool.version}, matrix of {plan.matrix.revision}", "dim")
    console.print(Text.assemble(("tfgpu plan", "bold"), revision))
    asked = f", TensorFlow {plan.tensorflow}" if plan.tensorflow else ""
    hanging(Text("for  ", "dim"), Text(target_line(plan.target) + asked, "bold"), console)
    for problem in plan.problems:
        conclude("error", Text(problem, "bold red"), console)
    for number, option in enumerate(plan.options, 1):
        console.print()
        _option(number, option, plan, console)
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


def _option(number: int, option: Option, plan: Plan, console: Console) -> None:
    title = Text.assemble((option.title, "bold green"), (f"  {_why(option, plan)}", "dim"))
    hanging(Text(f"{number}  ", "bold"), title, console)
    parts = (("CUDA", option.cuda), ("cuDNN", option.cudnn), ("Python", option.python))
    needs = f"; needs driver {option.min_driver} or newer" if option.min_driver else ""
    if option.cuda:
        has = ", ".join(f"{name} {version}" for name, version in parts if version)
        _labelled("has", Text(f"{has}{needs}"), console)
    for fix in option.first:
        _fix("first", fix, console)
    for manager, commands in option.commands.items():
        for index, command in enumerate(commands):
            # never wrapped by us: a command must survive being copied
            label = Text(f"   {manager if index == 0 else '':6} ", "dim")
            console.print(Text.assemble(label, (command, "bold cyan")), soft_wrap=True)
    for fix in option.then:
        _fix("then", fix, console)
    for note in option.notes:
        _labelled("note", Text(note), console)
    if option.see:
        console.print(Text(f"   see    {option.see}", "dim"), soft_wrap=True)  # a link must survive, too


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
    if plan.options and plan.options[0].kind == "cpu":
        conclude("error", Text("No GPU to plan for", "bold red"), console)
    elif plan.options:
        best = Text.assemble(("recommended", "bold green"), f": option 1, {plan.options[0].title}")
        conclude("ok", best, console)
    else:
        why = ", whichever single constraint is lifted"
        if plan.lift:
            why = f": {plan.lift.text}. What would help: {_INSTEAD[plan.lift.constraint]}"
        conclude("error", Text.assemble(("no match", "bold red"), why), console)
