"""What is said of a plan: the machine, an option, what is ruled out and why; for terminals and pages alike."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tfgpu_doctor.plan.constraints import Violation, span
from tfgpu_doctor.plan.records import Kind, Option, Plan, RuledOut
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.versions import minor

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
    "metal": "",
    "cpu": "without a GPU",
}


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
    built = " and ".join(_versions_of(option.cuda, option.cudnn))
    brought = " and ".join(_versions_of(option.delivered.cuda, option.delivered.cudnn)) if option.delivered else built
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


def _versions_of(cuda: str | None, cudnn: str | None) -> Iterator[str]:
    if cuda:
        yield f"CUDA {cuda}"
    if cudnn:
        yield f"cuDNN {cudnn}"


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
