"""What a plan comes to: a block for each option with its commands, and what is ruled out. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.plan.records import Option, Plan
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.render.outline import Block, Detail, Line
from tfgpu_doctor.render.plan_words import clause, facts_of, neighbours, reason, span_of, target_line
from tfgpu_doctor.render.shapes import Items, Page, Part

_COMMAND = "tfgpu plan"


def page(plan: Plan) -> Page:
    """Every option, best first; why newer releases are not suitable; or what would help."""
    ruled_out = tuple(
        (span_of(versions), "; ".join(map(clause, reasons))) for versions, reasons in neighbours(plan, None)
    )
    parts: tuple[Part, ...] = (
        Items(plan.problems),
        *(_block(number, option, plan) for number, option in enumerate(plan.options, 1)),
        Items(tuple(lift.text for lift in plan.lifts), "What would help, one of"),
        Detail("Ruled out", ("TensorFlow", "Why"), ruled_out),
    )
    asked = f", TensorFlow {plan.tensorflow}" if plan.tensorflow else ""
    about = f"{_COMMAND} {plan.tool.version}, matrix of {plan.matrix.revision}, for {target_line(plan.target)}{asked}"
    mark, word, sentence = _answer(plan)
    return Page(_COMMAND, about, mark, word, sentence, parts, "bat" if plan.target.os == "windows" else "sh")


def _answer(plan: Plan) -> tuple[str, str, str]:
    if plan.options and plan.options[0].kind != "cpu":
        return "ok", "recommended", f"option 1, {plan.options[0].title}"
    return "error", "no match", "no NVIDIA GPU to plan for" if plan.options else "no release is suitable"


def _block(number: int, option: Option, plan: Plan) -> Block:
    lines = tuple(_lines(option, plan))
    return Block(
        "ok" if number == 1 and option.kind != "cpu" else "note",
        f"{number}. {option.title}",
        lines,
        (),
        option.see or "",
    )


def _lines(option: Option, plan: Plan) -> Iterator[Line]:
    if why := reason(option, plan):
        yield Line("why", why)
    yield from (Line(label, text) for label, text in facts_of(option, plan.matrix.revision, plan.last_driver_branch))
    yield from (Line("note", note) for note in option.notes)
    yield from _steps("first", option.first)
    yield from (Line(manager, "", commands=commands) for manager, commands in option.commands.items())
    yield from (Line("check", "", commands=fix.commands) for fix in option.then)
    yield from _steps("if", option.missing)


def _steps(label: str, fixes: tuple[Fix, ...]) -> Iterator[Line]:
    for fix in fixes:
        yield Line(label, fix.text, commands=fix.commands)
