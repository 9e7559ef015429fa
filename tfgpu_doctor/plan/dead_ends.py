"""Where no release is possible: which constraints to drop, the fewest and cheapest first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations

from msgspec import structs

from tfgpu_doctor.matrix.compatibility import arm_only
from tfgpu_doctor.plan.constraints import PlanRequest, branch_to_go_back_to
from tfgpu_doctor.plan.records import Lift, Option

WORKING_SYSTEM = {"windows": "wsl2", "macos": "linux"}
_SYSTEMS = {"windows": "WSL2", "macos": "Linux on a machine with an NVIDIA GPU"}  # what to have instead


def _without(**values: object) -> Callable[[PlanRequest], PlanRequest]:
    return lambda request: replace(request, target=structs.replace(request.target, **values))


def _another_system(request: PlanRequest) -> PlanRequest:
    os = WORKING_SYSTEM.get(request.target.os, request.target.os)
    if os == request.target.os and any(arm_only(gpu.name, gpu.compute_capability) for gpu in request.target.gpus):
        return request  # no x86_64 machine has such a GPU
    return replace(request, target=structs.replace(request.target, os=os, machine="x86_64", glibc=None))


# What costs least to drop comes first.
RELAXED: dict[str, Callable[[PlanRequest], PlanRequest]] = {
    "python": _without(python=None),
    "tensorflow": lambda request: replace(request, specifier=None),
    "driver": _without(driver=None),
    "glibc": _without(glibc=None),
    "os": _another_system,
    "gpu": _without(gpus=()),
}


def relaxed(request: PlanRequest, names: tuple[str, ...]) -> PlanRequest:
    """The request without these constraints."""
    for name in names:
        request = RELAXED[name](request)
    return request


def lifts(request: PlanRequest, best: Callable[[PlanRequest], Option | None]) -> Iterator[Lift]:
    """Each smallest set of constraints without which an option exists: single ones, then pairs, and so on.

    Args:
        best: the best option for a request; None: there is none.
    """
    given = [name for name in RELAXED if relaxed(request, (name,)) != request]
    for size in range(1, len(given) + 1):
        found = False
        for names in combinations(given, size):
            without = relaxed(request, names)
            if option := best(without):
                found = True
                yield Lift(constraints=names, text=_text(request, names, option), option=option)
        if found:
            return


def _text(request: PlanRequest, names: tuple[str, ...], option: Option) -> str:
    changes = " and ".join(_change(request, name, option) for name in names)
    return f"{changes}: {option.title}"


def _change(request: PlanRequest, name: str, option: Option) -> str:
    match name:
        case "python":
            return f"Python {option.python}"
        case "tensorflow":
            return f"another TensorFlow than {request.specifier}"
        case "driver":
            back = branch_to_go_back_to(request)
            return f"driver branch {back}" if back else f"driver {option.min_driver} or newer"
        case "glibc":
            return "a newer Linux distribution"
        case "os":
            return _SYSTEMS.get(request.target.os, "an x86_64 machine")
        case _:
            return "another GPU"
