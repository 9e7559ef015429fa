"""What a plan comes to: a block for each option with its commands, and what is ruled out. Pure."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator

from tfgpu_doctor.facts.about import SYSTEMS
from tfgpu_doctor.plan.constraints import Violation, span
from tfgpu_doctor.plan.records import Kind, Option, Plan, RuledOut
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.shapes import Block, Items, Line, Page, Table

_COMMAND = "tfgpu plan"
_WHY: dict[Kind, str] = {  # of the others, the title says it
    "as-is": "matches everything that is known",
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
    is_brief = detail == "normal"
    blocks = [
        _block(number, option, plan.last_driver_branch, is_brief) for number, option in enumerate(plan.options, 1)
    ]
    problems = Items(plan.problems, mark="error")
    if not is_brief or not plan.options:
        return whole._replace(parts=(problems, *blocks, _ruled_out(plan, 5 if is_brief else None)))
    others = plan.options[1 : _OTHERS + 1]
    rows = [(str(number), _title(option).removeprefix("TensorFlow ")) for number, option in enumerate(others, 2)]
    more = len(plan.options) - 1 - len(others)
    rows += [("", f"and {more} more")] if more else []
    table = Table("Other options", ("Option", "What"), tuple(rows))
    sentence = f"{whole.sentence.partition(',')[0]}. Details: add -v"
    return whole._replace(parts=(problems, blocks[0], table, _ruled_out(plan, 1)), sentence=sentence)


def _answer(plan: Plan) -> tuple[str, str, str]:
    if plan.is_found:
        return "ok", "recommended", f"option 1, {plan.options[0].title}"
    if not plan.options:
        return "error", "no match", "no release is suitable"
    return "error", "no match", f"no NVIDIA GPU {'can be used here' if plan.target.gpus else 'to plan for'}"


def _block(number: int, option: Option, last_branch: str | None, is_brief: bool) -> Block:
    """Return an option with everything; in brief, for its first package manager."""
    tools = list(option.commands)[: 1 if is_brief else None]
    lines = (
        *_facts(option, last_branch),
        *(Line("first", fix.text, commands=fix.commands) for fix in option.first),
        *(Line(tool, "", commands=option.commands[tool]) for tool in tools),
        *(Line("check", "", commands=fix.commands) for fix in option.then),
        *_missing(option, is_brief),
        *(Line("note", note) for note in option.notes[-_NOTES if is_brief else 0 :]),
    )
    mark = "ok" if number == 1 and option.kind != "cpu" else "note"
    return Block(mark, f"{number}. {_title(option)}", lines, (), option.see or "")


def _missing(option: Option, is_brief: bool) -> Iterator[Line]:
    """Yield how to get what the commands start; in brief, only the first command of the first program."""
    starts = f"{next(iter(option.commands.values()))[0].split(' ')[0]} is missing"
    for fix in (one for one in option.missing if not is_brief or one.text.startswith(starts)):
        sentence = ": ".join((fix.text, *fix.commands[:1]))
        is_short = is_brief and len(sentence) < 90  # a longer one would be broken within the command
        yield Line("if", sentence) if is_short else Line("if", fix.text, commands=fix.commands)


def _title(option: Option) -> str:
    """What an option is and, where that does not say it, why it is offered."""
    return ": ".join(filter(None, (option.title, _WHY.get(option.kind))))


def _ruled_out(plan: Plan, most: int | None) -> Table:
    """Return what is ruled out, the newest first, neighbours together; of at most so many groups, one reason each."""
    groups = itertools.groupby(plan.ruled_out, lambda group: _reasons(group)[: 1 if most else None])
    together = [([version for group in found for version in group.versions], why) for why, found in groups]
    shown = together[:most]
    rows = [(" to ".join(dict.fromkeys((one[-1], one[0]))), "; ".join(reasons)) for one, reasons in shown]
    rest = [version for versions, _ in together[len(shown) :] for version in versions]
    rows += [("", f"and {len(rest)} older, down to {rest[-1]}")] if rest else []
    return Table("Ruled out", ("TensorFlow", "Why"), tuple(rows), is_folded=True)


def _reasons(group: RuledOut) -> list[str]:
    """What decides: the card or the build alone; else what no change of the machine helps against comes first."""
    found = group.violations
    alone = [one for one in found if one.constraint in ("tensorflow", "build", "gpu")][:1]
    return [*map(_clause, alone or sorted(found, key=lambda one: one.constraint in ("driver", "python")))]


def _clause(violation: Violation) -> str:
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


# ---------------------------------------------------------------------------------------------------------------- words


def target_line(target: Target) -> str:
    """One line about the machine."""
    cards = Counter(
        f"{gpu.name} (compute capability {gpu.compute_capability})" if gpu.name else gpu.shown for gpu in target.gpus
    )
    counted = [f"{number} × {card}" if number > 1 else card for card, number in cards.items()]
    parts = [
        " and ".join(counted) or "GPU not given",
        f"driver {target.driver}" if target.driver else "driver not given",
        f"Python {target.python}" if target.python else "Python not given",
        f"{SYSTEMS[target.os]} {target.machine}",
    ]
    return ", ".join(parts)


def _facts(option: Option, last_branch: str | None) -> Iterator[Line]:
    """What it is built with, and what it needs."""
    built = [f"{name} {version}" for name, version in (("CUDA", option.cuda), ("cuDNN", option.cudnn)) if version]
    if built:
        yield Line("built", f"with {' and '.join(built)}")
    upto = f"to branch {last_branch}" if last_branch else "or newer"
    needs = [f"driver {option.min_driver} {upto}"] if option.min_driver else []
    if option.pythons:
        needs.append(f"Python {span(option.pythons)}")
    elif option.python and option.kind != "container":
        needs.append(f"Python {option.python}")
    if needs:
        yield Line("needs", ", ".join(needs))
