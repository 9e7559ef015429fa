"""Training steps of an image classifier (models.py) over data that lie on the devices: images a second.

Each replica has its own batch; the gradients are summed over the replicas before the update (training.py). Several
steps are queued and waited for once: a training does not look at every loss.
Work: images. FLOP: 3 × forward, less the first layer's input gradient (models.training_flop).

Verified by the function that is measured, from the initial weights: every loss is finite and the loss falls.
  One device: its losses and its weights after some steps, with few images, against a training in float64 on the CPU.
  Several replicas: against one device that computes the same batches one after the other and averages the gradients,
  which is right for batch normalisation, too; and all replicas hold the same weights, bit by bit. So on several
  machines, too, which run under MultiWorkerMirroredStrategy (machines.py).
Later blocks: their last losses are finite.
"""

from __future__ import annotations

import json
import math
import time
from functools import partial
from typing import Any

from .judgement import Check, Judgement, finite, judged, numbers
from .machines import ELSEWHERE, END, REDUCE, STEPS, VERIFY, Machines
from .training import (
    Training,
    all_reduce,
    block,
    count_identical,
    fit,
    limit_memory,
    misplaced,
    on_devices,
    shares,
    strategy_over,
    train_apart,
)

UNIT = "images/s"
DTYPES = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
STEPS_COMPARED = 3  # of the verification
FEW = 16  # images that are compared with float64 on the CPU
ONE = "losses fall; losses and weights of the first steps against a training in float64 on the CPU"
SEVERAL = "losses fall; the first steps against one device that computes all batches in turn; weights bit by bit"
LATER = "every loss is finite"
# Largest relative difference of a loss, and relative rms distance of what the steps added to the weights, after so many
# steps. Measured on a CPU against float64, TensorFlow 2.21, worst of mnist (64 images), cifar (16, three seeds) and
# resnet50 (8): float32 5e-7 and 7e-3, mixed_float16 6e-5 and 4.6e-2, mixed_bfloat16 4e-4 and 1e-1. tf32 keeps as many
# bits as float16. The limits are 12 to 33 times the first and 3 to 7 times the second; updates from the shard of one
# replica alone are 0.5 and more apart.
TOLERANCE = {
    "float32": (1e-5, 5e-2),
    "tf32": (2e-3, 1.5e-1),
    "mixed_float16": (2e-3, 1.5e-1),
    "mixed_bfloat16": (5e-3, 3e-1),
}


NO_FIT = "model.fit is not measured on several machines: Keras 3 fails there (keras issue 20585)"


def judge(answer: dict[str, Any], dtype: str, _parameters: dict[str, Any]) -> Judgement:
    """Say whether losses are finite and fall, agree with the other computation, and replicas are alike."""
    if "block" in answer:
        return judged(LATER, [_finite(answer["block"])])
    losses = answer["losses"]
    checks = [_finite(losses)]
    if checks[0].ok:
        checks.append(Check("loss falls", losses[-1] < losses[0], f"{losses[0]:.4g} to {losses[-1]:.4g}"))
    several = answer["replicas"] > 1
    limit, update_limit = TOLERANCE[dtype]
    residual = _apart(answer["compared"], answer["expected"])
    name = "like one device" if several else "like float64"
    checks.append(Check(name, residual <= limit, f"losses differ by {residual:.2g} (limit {limit:g})"))
    update = math.nan if answer["update"] is None else answer["update"]
    checks.append(
        Check("same update", update <= update_limit, f"weights differ by {update:.2g} (limit {update_limit:g})")
    )
    if several:
        same, of = answer["identical"]
        checks.append(
            Check("replicas identical", same == of, f"{same} of {of} weights in {answer['replicas']} replicas")
        )
    return judged(
        SEVERAL if several else ONE, checks, residual=residual if residual < math.inf else None, tolerance=limit
    )


def _finite(losses: list[float | None]) -> Check:
    wrong = sum(loss is None for loss in losses)
    return Check(
        "loss finite", not wrong, f"{wrong} of {len(losses)} are not finite" if wrong else f"{len(losses)} losses"
    )


def _apart(found: list[float | None], expected: list[float | None]) -> float:
    """Largest relative difference; not a number where one is none."""
    pairs = list(zip(found, expected))
    if any(a is None or b is None for a, b in pairs):
        return math.nan
    return max(abs(a - b) / abs(b) for a, b in pairs if a is not None and b is not None)


class Workload:
    """A training over the devices of a case, or of several machines."""

    def __init__(self, parameters: dict[str, Any], dtype: str, devices: list[str], spread: str) -> None:
        """Build network and data; nothing is computed yet."""
        if "memory_limit" in parameters:
            limit_memory(parameters["memory_limit"])
        self.name, self.each, self.xla = parameters["model"], parameters["batch"], parameters["xla"]
        self.dtype, self.devices = dtype, devices
        self.losses: Any = ()
        started = time.perf_counter()
        self.machines = None
        if spread == "workers":
            self.machines = Machines(devices, *(parameters[name] for name in ("index", "workers", "collectives")))
        self.cold = {}
        if self.machines:
            self.cold["other machines"] = time.perf_counter() - started
            self.machines.agree(json.dumps([self.name, self.each, self.xla, dtype, parameters["collectives"]]))
            here = self.machines.strategy, self.machines.local
        else:
            here = strategy_over(devices), devices
        started = time.perf_counter()
        first = self.machines.first if self.machines else 0
        self.training = Training(*here, self.name, dtype, self.xla, len(devices), first)
        self.training.wait()
        self.cold["network"] = time.perf_counter() - started
        started = time.perf_counter()
        self.data = self.training.data(self.each)
        self.training.wait()
        self.cold["to devices"] = time.perf_counter() - started
        self.verified = False
        self.step_s = 0.0  # of the last block
        self.reducing: Any = None

    def lead(self, what: int, number: int = 0) -> None:
        """Tell the other machines what comes, where there are some."""
        if self.machines:
            self.machines.lead(what, number)

    def sample(self, steps: int) -> float:
        """Seconds of `steps` training steps, from the first call to the end on the last device."""
        self.lead(STEPS, steps)
        started = time.perf_counter()
        self._steps(steps)
        seconds = time.perf_counter() - started
        self.step_s = seconds / steps
        return seconds

    def _steps(self, steps: int) -> None:
        for _ in range(steps):
            self.losses = self.training.step(*self.data)
        self.training.wait()

    def verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Train some steps from the initial weights, here and in the way that the result is compared with."""
        self.lead(VERIFY)
        losses, identical = self._verified_steps()
        several = len(self.devices) > 1
        each, dtype, device = (self.each, self.dtype, self.devices[0]) if several else (FEW, "float64", "/CPU:0")
        each = min(each, self.each)
        compared = losses if each == self.each else self._train(self.training.data(each))
        weights = self.training.weights()
        expected, trained = train_apart(self.name, dtype, device, each, len(self.devices), STEPS_COMPARED)
        self.verified = True
        return {
            "losses": numbers(sum(step) / len(step) for step in losses),
            "compared": numbers(loss for step in compared for loss in step),
            "expected": numbers(loss for step in expected for loss in step),
            "update": finite(_update(self._initial(), weights, trained)),
            "replicas": len(self.devices),
            "identical": identical,
        }

    def _verified_steps(self) -> tuple[list[list[float]], tuple[int, int]]:
        """Losses of all replicas for the first steps, and how many weights are the same in all of them; all machines
        do this together."""
        losses, weights = self._train(self.data), self.training.model.trainable_variables
        if not self.machines:
            return losses, self._identical()
        found = self.machines.gather([loss for step in losses for loss in step])
        here = len(losses[0])
        steps = [[loss for one in found for loss in one[step * here :][:here]] for step in range(len(losses))]
        return steps, self.machines.identical(weights)

    def _train(self, data: tuple[Any, ...]) -> list[list[float]]:
        """Some steps from the initial weights: the losses of each replica here, for each step."""
        self.training.reset()
        return [[float(loss) for loss in self.training.step(*data)] for _ in range(STEPS_COMPARED)]

    def _initial(self) -> list[Any]:
        """The initial values of the trained weights, in their order."""
        training = self.training
        began = dict(zip([id(weight) for weight in training.model.weights], training.initial))
        return [began[id(weight)] for weight in training.model.trainable_variables]

    def _identical(self) -> tuple[int, int]:
        """Return how many of the trained weights are the same in all replicas bit by bit, and how many there are."""
        weights = self.training.model.trainable_variables
        return count_identical(self.training.strategy, weights), len(weights)

    def recheck(self) -> dict[str, Any] | None:
        """None while the last losses are finite, or nothing was verified yet."""
        if not self.verified:
            return None
        losses = numbers(float(loss) for loss in self.losses)
        return {"block": losses} if None in losses else None

    def figures(self) -> dict[str, Any]:
        """What `fit` gives, and where the time of several replicas goes; the replicas must still be alike."""
        same, of = self._identical()
        if same != of:
            raise ValueError(f"{of - same} of {of} weights differ between the replicas at the end")
        announce = partial(self.lead, REDUCE)
        found = shares(self.training, self.data, announce) if len(self.devices) > 1 else []
        if self.machines:
            return {"figures": found, "remarks": [NO_FIT]}
        fitted, why = fit(self.training, self.each, self.step_s)
        return {"figures": found + fitted, "remarks": why}

    def follow(self) -> str:
        """On machines other than the first: wait for what that wants, do it, and say what it was.

        Raises ValueError: this machine's part was computed elsewhere than asked for.
        """
        assert self.machines is not None
        done = self.machines.follow(
            {STEPS: self._steps, VERIFY: lambda _: self._verified_steps(), REDUCE: self._reduce}
        )
        wrong = self.misplaced() if self.losses else None
        if wrong:
            raise ValueError(wrong)
        return done

    def _reduce(self, count: int) -> None:
        """Take part in a block of all-reduces."""
        if self.reducing is None:
            self.reducing, _ = all_reduce(self.training)
        block(self.training, self.reducing, count)

    def farewell(self) -> None:
        """Let the other machines go."""
        self.lead(END)

    def placed_on(self) -> list[str]:
        """The device of each replica's loss. Those of other machines were looked at there: who finds his part
        misplaced takes no more part, which ends the training."""
        return on_devices(self.losses) + (self.machines.elsewhere if self.machines else [])

    def misplaced(self) -> str | None:
        """What was computed elsewhere than asked for; None when nothing was."""
        graph = self.training.step.get_concrete_function(*self.data).graph
        here = [name for name in self.devices if not name.startswith(ELSEWHERE)]
        return misplaced(here, on_devices(self.losses), graph, compiled=self.xla)


def _update(initial: list[Any], weights: list[Any], expected: list[Any]) -> float:
    """How far what was added to the weights is from what should have been added, relative rms over all of them."""
    import numpy as np

    apart = size = 0.0
    for began, one, other in zip(initial, weights, expected):
        added, right = np.float64(one) - np.float64(began), np.float64(other) - np.float64(began)
        apart += float(np.square(added - right).sum())
        size += float(np.square(right).sum())
    return math.sqrt(apart / size) if size else math.nan
