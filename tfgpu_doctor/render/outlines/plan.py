"""What a plan comes to: a block for each option with its commands, and what is ruled out. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from tfgpu_doctor.plan.constraints import Violation, span
from tfgpu_doctor.plan.records import Kind, Option, Plan, RuledOut
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.versions import at_least, minor
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.shapes import Block, Items, Line, Page, Part, Table
from tfgpu_doctor.render.shapes import Detail as Folded

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


class _Room(NamedTuple):
    """How much of a plan one screen shows: package managers and notes of the first option, others, ruled-out groups."""

    managers: int = 2
    notes: int = 9
    others: int = 5
    groups: int = 2


# from all that one screen may have to what it must have
_ROOMS = (_Room(), _Room(1), _Room(1, groups=1), _Room(1, groups=1, notes=1), _Room(1, groups=1, notes=0, others=2))


def page(plan: Plan, detail: Detail = "shared") -> Page:
    """Every option, best first; why newer releases are not suitable; or what would help."""
    asked = f", TensorFlow {plan.tensorflow}" if plan.tensorflow else ""
    about = (
        f"{_COMMAND} {plan.tool.version}, matrix of {plan.matrix.revision}",
        f"for {target_line(plan.target)}{asked}",
    )
    whole = Page(_COMMAND, about, *_answer(plan), (), "bat" if plan.target.os == "windows" else "sh")
    if detail == "least":
        commands = _Shown(plan).commands(plan.options[0], 1) if plan.options else ()
        first = (Block("", "How to install it", tuple(commands)),) if plan.options else ()
        return whole._replace(parts=first, is_brief=True)
    problems = Items(plan.problems, mark="error")
    if detail == "normal" and plan.options:
        forms = [whole._replace(parts=(problems, *_one_screen(plan, room))) for room in _ROOMS]
        forms = [form._replace(sentence=f"{form.sentence.partition(',')[0]}. Details: add -v") for form in forms]
        return forms[0]._replace(shorter=tuple(forms[1:])) if plan.is_found else forms[0]
    shown = _Shown(plan, once=detail == "full")
    blocks = (shown.block(number, option) for number, option in enumerate(plan.options, 1))
    ruled_out = _ruled_out(plan, 5 if detail == "normal" else None, detail)
    return whole._replace(parts=(problems, *blocks, ruled_out))


def _answer(plan: Plan) -> tuple[str, str, str]:
    if plan.is_found:
        return "ok", "recommended", f"option 1, {plan.options[0].title}"
    if not plan.options:
        return "error", "no match", "no release is suitable"
    return "error", "no match", f"no NVIDIA GPU {'can be used here' if plan.target.gpus else 'to plan for'}"


def _one_screen(plan: Plan, room: _Room) -> Iterator[Part]:
    """The first option with what one screen has room for, a line for each other one, and what is ruled out."""
    yield _Shown(plan).brief(plan.options[0], room)
    others = plan.options[1 : room.others + 1]
    rows = [(str(number), _line(option, plan)) for number, option in enumerate(others, 2)]
    more = len(plan.options) - 1 - len(others)
    rows += [("", f"and {more} more")] if more else []
    yield Table("Other options", ("Option", "What"), tuple(rows))
    if room.groups:
        yield _ruled_out(plan, room.groups, "normal")


def _line(option: Option, plan: Plan) -> str:
    """Another option: what it is, and what it asks for beyond the first."""
    more = [reason(option, plan)] if option.kind in ("wsl2", "pre-release") else []
    need, least = option.min_driver, plan.options[0].min_driver
    if plan.target.driver is None and need and not at_least(least, need):
        more.append(f"driver {need}+")
    return ", ".join((option.title.removeprefix("TensorFlow "), *more))


class _Shown:
    """The options of a plan as blocks; `once`: what stands with one of them already is left out."""

    def __init__(self, plan: Plan, once: bool = False) -> None:
        self._plan, self._once, self._said = plan, once, set[str]()

    def block(self, number: int, option: Option) -> Block:
        """An option with everything."""
        rest = number > 1 and self._once
        lines = (
            *(Line(*fact) for fact in facts_of(option, self._plan.matrix.revision, self._plan.last_driver_branch)),
            *(Line("note", note) for note in self._new(option.notes)),
            *self.commands(option, 1 if rest else len(option.commands)),
            *(Line("check", "", commands=fix.commands) for fix in option.then if self._new((option.kind,))),
            *(Line("if", fix.text, commands=fix.commands) for fix in (() if rest else option.missing)),
        )
        see = "".join(self._new((option.see or "",)))
        self._said |= {option.kind, see, *option.notes, *(fix.text for fix in option.first)} if self._once else set()
        return self._block(number, option, lines, see)

    def brief(self, option: Option, room: _Room) -> Block:
        """What the option is, how to install and to check it, and the last notes, which weigh most."""
        starts = next(iter(option.commands.values()), ("",))[0].split(" ")[0]
        missing = [fix for fix in option.missing if fix.text.startswith(f"{starts} is missing")]
        lines = (
            *(Line(*fact) for fact in facts_of(option, None, self._plan.last_driver_branch)),
            *self.commands(option, room.managers),
            *(Line("check", "", commands=fix.commands) for fix in option.then),
            *(Line("if", f"{fix.text}: {fix.commands[0]}") for fix in missing),
            *(Line("note", note) for note in option.notes[max(len(option.notes) - room.notes, 0) :]),
        )
        return self._block(1, option, lines, option.see or "")

    def commands(self, option: Option, managers: int) -> Iterator[Line]:
        """The steps before it, and the commands of the first package managers."""
        for fix in option.first:
            if self._new((fix.text,)):
                yield Line("first", fix.text, commands=fix.commands)
        for manager in list(option.commands)[:managers]:
            yield Line(manager, "", commands=option.commands[manager])

    def _block(self, number: int, option: Option, lines: tuple[Line, ...], see: str) -> Block:
        why = reason(option, self._plan)
        title = f"{number}. {option.title}" + (f": {why}" if why else "")
        return Block("ok" if number == 1 and option.kind != "cpu" else "note", title, lines, (), see)

    def _new(self, texts: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(text for text in texts if text not in self._said)


def _ruled_out(plan: Plan, most: int | None, detail: Detail) -> Folded:
    """What is ruled out, the newest first, neighbours together; of at most so many groups, with one reason each."""
    together = _neighbours(plan, 1 if most else None)
    shown = together[:most]
    rows = [(span_of(versions), "; ".join(_clause(why, detail) for why in reasons)) for versions, reasons in shown]
    rest = [version for versions, _ in together[len(shown) :] for version in versions]
    if rest:
        rows.append(("", f"{len(rest)} older releases, down to {rest[-1]}" if len(rest) > 1 else f"{rest[0]}, too"))
    return Folded("Ruled out", ("TensorFlow", "Why"), tuple(rows))


def _neighbours(plan: Plan, reasons: int | None) -> list[tuple[list[str], tuple[Violation, ...]]]:
    """Neighbouring releases with the same decisive reasons; at most so many `reasons` of each."""
    groups = itertools.groupby(plan.ruled_out, lambda group: _decisive(group)[:reasons])
    return [([version for group in found for version in group.versions], why) for why, found in groups]


def _decisive(group: RuledOut) -> tuple[Violation, ...]:
    """What decides: the card or the build alone; else what no change of the machine helps against comes first."""
    found = group.violations
    alone = next(((one,) for one in found if one.constraint in ("tensorflow", "build", "gpu")), None)
    return alone or tuple(sorted(found, key=lambda one: one.constraint in ("driver", "python")))


def _clause(violation: Violation, detail: Detail) -> str:
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


def facts_of(option: Option, day: str | None, last_branch: str | None) -> Iterator[tuple[str, str]]:
    """What it has and needs; with the day, what it is built with, too."""
    built = _versions_of(option.cuda, option.cudnn)
    brought = _versions_of(option.delivered.cuda, option.delivered.cudnn) if option.delivered else built
    if day is None:
        yield from [("has", brought)] if brought else []
    elif option.delivered and (option.delivered.cuda, option.delivered.cudnn) != (minor(option.cuda), option.cudnn):
        yield "has", f"{brought} from pip ({day}); built with {built}"
    elif built:
        yield "has", built
    upto = f"to branch {last_branch}" if last_branch else "or newer"
    needs = [f"driver {option.min_driver} {upto}"] if option.min_driver else []
    if option.pythons:
        needs.append(f"Python {span(option.pythons)}")
    elif option.python and option.kind != "container":
        needs.append(f"Python {option.python}")
    if needs:
        yield "needs", ", ".join(needs)


def _versions_of(cuda: str | None, cudnn: str | None) -> str:
    return " and ".join(f"{name} {version}" for name, version in (("CUDA", cuda), ("cuDNN", cudnn)) if version)


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
