"""What a plan comes to: a block for each option with its commands, and what is ruled out. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tfgpu_doctor.facts.versions import at_least
from tfgpu_doctor.plan.constraints import Violation, span
from tfgpu_doctor.plan.records import Kind, Option, Plan, RuledOut
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.shapes import Block, Items, Line, Page, Part, Table

_COMMAND = "tfgpu plan"
_SYSTEMS = {"linux": "Linux", "windows": "Windows", "wsl2": "WSL2", "macos": "macOS"}
_WHY: dict[Kind, str] = {
    "as-is": "works with everything as it is",
    "python": "newer, with another Python",
    "driver": "newer, with another driver",
    "python+driver": "with another Python and a newer driver",
    "container": "",
    "conda-forge": "",
    "wsl2": "Windows itself ends with 2.10",
    "pre-release": "not released yet",
    "cpu": "without a GPU",
}


_NOTES, _OTHERS = 2, 4  # of the first option, and other options, on a first screen


def page(plan: Plan, detail: formats.Detail = "shared") -> Page:
    """Every option, best first; why newer releases are not suitable; or what would help."""
    asked = f", TensorFlow {plan.tensorflow}" if plan.tensorflow else ""
    about = (
        f"{_COMMAND} {plan.tool.version}, matrix of {plan.matrix.revision}",
        f"for {target_line(plan.target)}{asked}",
    )
    whole = Page(_COMMAND, about, *_answer(plan), (), "bat" if plan.target.os == "windows" else "sh")
    if detail == "least":
        lines = tuple(_commands(plan.options[0], 1)) if plan.options else ()
        first = (Block("", "How to install it", lines),) if plan.options else ()
        return whole._replace(parts=first, is_brief=True)
    problems = Items(plan.problems, mark="error")
    if detail == "normal" and plan.options:
        sentence = f"{whole.sentence.partition(',')[0]}. Details: add -v"
        return whole._replace(parts=(problems, *_first_screen(plan)), sentence=sentence)
    blocks = (_block(number, option, plan) for number, option in enumerate(plan.options, 1))
    return whole._replace(parts=(problems, *blocks, _ruled_out(plan, 5 if detail == "normal" else None, detail)))


def _answer(plan: Plan) -> tuple[str, str, str]:
    if plan.is_found:
        return "ok", "recommended", f"option 1, {plan.options[0].title}"
    if not plan.options:
        return "error", "no match", "no release is suitable"
    return "error", "no match", f"no NVIDIA GPU {'can be used here' if plan.target.gpus else 'to plan for'}"


def _first_screen(plan: Plan) -> Iterator[Part]:
    """Yield the first option, a line for each other one, and what is ruled out."""
    first, others = plan.options[0], plan.options[1 : _OTHERS + 1]
    starts = next(iter(first.commands.values()), ("",))[0].split(" ")[0]
    missing = [fix for fix in first.missing if fix.text.startswith(f"{starts} is missing")]
    lines = (
        *(Line(*fact) for fact in facts_of(first, plan.last_driver_branch)),
        *_commands(first, 1),
        *(Line("check", "", commands=fix.commands) for fix in first.then),
        *(Line("if", f"{fix.text}: {fix.commands[0]}") for fix in missing),
        *(Line("note", note) for note in first.notes[-_NOTES:]),
    )
    yield _titled(1, first, plan, lines)
    rows = [(str(number), _line(option, plan)) for number, option in enumerate(others, 2)]
    more = len(plan.options) - 1 - len(others)
    rows += [("", f"and {more} more")] if more else []
    yield Table("Other options", ("Option", "What"), tuple(rows))
    yield _ruled_out(plan, 1, "normal")


def _line(option: Option, plan: Plan) -> str:
    """Another option: what it is, and what it asks for beyond the first."""
    more = [reason(option, plan)] if option.kind in ("wsl2", "pre-release") else []
    need, least = option.min_driver, plan.options[0].min_driver
    if plan.target.driver is None and need and not at_least(least, need):
        more.append(f"driver {need}+")
    return ", ".join((option.title.removeprefix("TensorFlow "), *more))


def _block(number: int, option: Option, plan: Plan) -> Block:
    """Return an option with everything."""
    lines = (
        *(Line(*fact) for fact in facts_of(option, plan.last_driver_branch)),
        *(Line("note", note) for note in option.notes),
        *_commands(option, len(option.commands)),
        *(Line("check", "", commands=fix.commands) for fix in option.then),
        *(Line("if", fix.text, commands=fix.commands) for fix in option.missing),
    )
    return _titled(number, option, plan, lines)


def _titled(number: int, option: Option, plan: Plan, lines: tuple[Line, ...]) -> Block:
    why = reason(option, plan)
    title = f"{number}. {option.title}" + (f": {why}" if why else "")
    return Block("ok" if number == 1 and option.kind != "cpu" else "note", title, lines, (), option.see or "")


def _commands(option: Option, managers: int) -> Iterator[Line]:
    """Yield the steps before it, and the commands of the first package managers."""
    yield from (Line("first", fix.text, commands=fix.commands) for fix in option.first)
    yield from (Line(manager, "", commands=option.commands[manager]) for manager in list(option.commands)[:managers])


def _ruled_out(plan: Plan, most: int | None, detail: formats.Detail) -> Table:
    """Return what is ruled out, the newest first, neighbours together; of at most so many groups, one reason each."""
    groups = itertools.groupby(plan.ruled_out, lambda group: _decisive(group)[: 1 if most else None])
    together = [([version for group in found for version in group.versions], why) for why, found in groups]
    shown = together[:most]
    rows = [(span_of(versions), "; ".join(_clause(why, detail) for why in reasons)) for versions, reasons in shown]
    rest = [version for versions, _ in together[len(shown) :] for version in versions]
    if rest:
        rows.append(("", f"{len(rest)} older releases, down to {rest[-1]}" if len(rest) > 1 else f"{rest[0]}, too"))
    return Table("Ruled out", ("TensorFlow", "Why"), tuple(rows), is_folded=True)


def _decisive(group: RuledOut) -> tuple[Violation, ...]:
    """What decides: the card or the build alone; else what no change of the machine helps against comes first."""
    found = group.violations
    alone = next(((one,) for one in found if one.constraint in ("tensorflow", "build", "gpu")), None)
    return alone or tuple(sorted(found, key=lambda one: one.constraint in ("driver", "python")))


def _clause(violation: Violation, detail: formats.Detail) -> str:
    """A reason in a few words; in full with its source."""
    match violation.constraint:
        case "gpu":
            return f"no {violation.need}"
        case "known-issue" | "yanked" | "build":
            is_linked = violation.constraint == "known-issue" and violation.source.startswith("https:")
            return violation.saw + (f" ← {violation.source}" if detail != "shared" and is_linked else "")
        case "tensorflow":
            return "not asked for"
        case _:
            return f"needs {violation.need}"


# ---------------------------------------------------------------------------------------------------------------- words


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


def facts_of(option: Option, last_branch: str | None) -> Iterator[tuple[str, str]]:
    """What it is built with, and what it needs."""
    built = [f"{name} {version}" for name, version in (("CUDA", option.cuda), ("cuDNN", option.cudnn)) if version]
    if built:
        yield "built", f"with {' and '.join(built)}"
    upto = f"to branch {last_branch}" if last_branch else "or newer"
    needs = [f"driver {option.min_driver} {upto}"] if option.min_driver else []
    if option.pythons:
        needs.append(f"Python {span(option.pythons)}")
    elif option.python and option.kind != "container":
        needs.append(f"Python {option.python}")
    if needs:
        yield "needs", ", ".join(needs)


def reason(option: Option, plan: Plan) -> str:
    """Why it is offered."""
    if option.kind == "as-is" and plan.described:
        return "matches everything you specified"
    if option.kind == "python" and option is plan.options[0]:
        own = any(one.kind == "as-is" for one in plan.options)
        python = plan.target.python
        return f"releases for Python {python} are too old" if own else f"none for Python {python}"
    if option is plan.options[0] and "driver" in option.kind:
        return ""  # the title says it
    return _WHY[option.kind]


def span_of(versions: list[str]) -> str:
    """The first and the last of some versions."""
    return versions[0] if len(versions) == 1 else f"{versions[-1]} to {versions[0]}"
