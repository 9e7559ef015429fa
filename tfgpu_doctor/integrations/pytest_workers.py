"""Which GPUs the tests of this process may use: all of them, or in a worker of pytest-xdist a group of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tfgpu_doctor.integrations.pytest_examine import examine, shared
from tfgpu_doctor.integrations.pytest_gpus import Machine, Needs, UsableGpu, chunks, groups, renumbered

VISIBLE, GROWTH = "CUDA_VISIBLE_DEVICES", "TF_FORCE_GPU_ALLOW_GROWTH"


class Share(NamedTuple):
    """What the tests of a process have."""

    machine: Machine
    gpus: tuple[UsableGpu, ...]
    limited_by: str = ""  # why these are fewer than the machine has
    problem: str = ""  # why this process has no GPUs of its own, though it should
    note: str = ""  # what is worth a line in the summary

    def missing(self, needs: Needs) -> str:
        """Why a test with these needs cannot run here, with what was asked and what was found; "" where it can."""
        if needs.met_by(self.gpus):
            return ""
        from tfgpu_doctor.records.printable import one_line

        machine = self.machine
        if not machine.gpus:
            found = f"no GPU that TensorFlow can use: {machine.reason or 'TensorFlow lists none'}; run tfgpu doctor"
        elif needs.met_by(machine.gpus):
            found = f"found {_listed(self.gpus)}: {self.limited_by}"
        else:
            also = f"; {machine.reason}; run tfgpu doctor" if machine.reason else ""
            found = f"found {_listed(machine.gpus)}{also}"
        return one_line(f"needs {needs}: {found}")


def _listed(gpus: Sequence[UsableGpu]) -> str:
    names = [str(gpu) for gpu in gpus]
    return ", ".join(f"{names.count(name)} × {name}" for name in dict.fromkeys(names))


def alone(needs: Sequence[Needs]) -> Share:
    """Of a process that runs all tests: all GPUs, those first that meet every test."""
    machine = examine()
    return Share(machine, _best_first(machine.gpus, needs))


def _best_first(gpus: tuple[UsableGpu, ...], needs: Sequence[Needs]) -> tuple[UsableGpu, ...]:
    """`gpu` gives the first one, so that it meets every test where any GPU does."""
    first = [gpu for group in groups(gpus, needs) for gpu in group]
    return (*first, *(gpu for gpu in gpus if gpu not in first))


def of_worker(given: Mapping[str, Any] | None, number: int, count: int, needs: Sequence[Needs]) -> Share:
    """Of a worker, the `number`-th of `count`; `given` is what the controller gave it.

    Its variables are set, unless the controller has set them before the worker began. One to which the controller gave
    nothing runs on another machine, or was started with GPUs of its own (--tx): it keeps all that it sees.
    """
    if given is None:
        return alone(needs)
    if "machine" in given:
        return _dealt_before(given)
    machine = shared(given.get("folder", ""))
    dealt = groups(machine.gpus, needs)
    mine = dealt[number % len(dealt)]
    sharing = ""
    if count == 1 or not machine.gpus:
        return Share(machine, _best_first(machine.gpus, needs))
    if count > len(dealt):
        os.environ.setdefault(GROWTH, "true")  # else the first process takes nearly all memory of a GPU
        sharing = note(count, dealt)
    if len(mine) == len(machine.gpus):
        return Share(machine, mine, note=sharing)
    from tfgpu_doctor.probes.cuda_state import is_initialized

    if is_initialized():
        problem = (
            f"CUDA was initialized in this process while tests were collected, so that {VISIBLE} has no effect any "
            f"more: set gpus_per_worker = {len(mine)} in the configuration of pytest, or use no GPU while a test file "
            "is imported"
        )
        return Share(machine, _best_first(machine.gpus, needs), problem=problem, note=problem)
    os.environ[VISIBLE] = ",".join(gpu.visible for gpu in mine)
    return Share(machine, renumbered(mine), f"the others are for other workers ({len(dealt)} groups)", note=sharing)


def note(workers: int, dealt: Sequence[Sequence[UsableGpu]]) -> str:
    """A sentence on GPUs that several workers use; "" where each has its own."""
    number = sum(map(len, dealt))
    if workers <= len(dealt) or not number:
        return ""
    gpus = "1 GPU" if number == 1 else f"{number} GPUs"
    return f"{workers} workers share {gpus}; with -n {len(dealt)}, each has its own"


def deal_before(per_worker: int, workers: int) -> tuple[Machine, list[dict[str, str]]]:
    """What each worker gets before it starts (--gpus-per-worker): the variables that are to be set in it."""
    machine = examine()
    dealt = chunks(machine.gpus, per_worker)
    if not dealt:
        return machine, [{} for _ in range(workers)]
    more = {GROWTH: "true"} if workers > len(dealt) and GROWTH not in os.environ else {}
    visible = [",".join(gpu.visible for gpu in group) for group in dealt]
    return machine, [{VISIBLE: visible[number % len(dealt)], **more} for number in range(workers)]


def _dealt_before(given: Mapping[str, Any]) -> Share:
    machine = Machine.decode(given["machine"])
    entries = (given.get("visible") or "").split(",")
    mine = renumbered(gpu for entry in entries for gpu in machine.gpus if gpu.visible == entry) or machine.gpus
    return Share(machine, mine, f"this worker has {len(mine)} of {len(machine.gpus)} GPUs (gpus_per_worker)")
