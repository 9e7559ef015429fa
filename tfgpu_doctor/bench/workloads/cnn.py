"""Training steps of an image classifier (models.py) over data that lie on the devices: images a second.

Each replica has its own batch; the gradients are summed over the replicas before the update (training.py). Several
steps are queued and waited for once: a training does not look at every loss.
Work: images. FLOP: 3 × forward, less the first layer's input gradient (models.training_flop).

Verified (docs/measuring.md) by the function that is measured, from the initial weights, one device with few images;
on several machines, too, which run under MultiWorkerMirroredStrategy (machines.py). Of later blocks: their last losses
are finite, and at the end all replicas still hold the same weights.
"""

from __future__ import annotations

import json
from typing import Any

from .machines import Machines
from .training import Check, Judgement, Training, TrainingWorkload, judge_training

UNIT = "images/s"
METHODS = (
    "losses fall; losses and weights of the first steps against a training in float64 on the CPU",
    "losses fall; the first steps against one device that computes all batches in turn; weights bit by bit",
)
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


def judge(answer: dict[str, Any], dtype: str, _parameters: dict[str, Any]) -> Judgement:
    """Say whether losses are finite and fall, agree with the other computation, and replicas are alike."""

    def falls() -> Check:
        first, *_, last = answer["losses"]
        return Check("loss falls", last < first, f"{first:.4g} to {last:.4g}")

    return judge_training(answer, TOLERANCE[dtype], ("same update", "weights"), falls, METHODS)


class Workload(TrainingWorkload):
    """A training over the devices of a case, or of several machines."""

    machines: Machines | None = None

    def make(self) -> Training:
        """Build the training, over all machines where there are several."""
        if self.spread != "workers":
            return super().make()
        asked = self.parameters
        with self.starting("other machines"):
            self.machines = Machines(self.devices, asked["index"], asked["workers"])
        self.machines.agree(json.dumps([asked["model"], self.each, asked["xla"], self.dtype]))
        here = self.machines.strategy, self.machines.local
        return Training(*here, asked["model"], self.dtype, len(self.devices), self.machines.first, xla=asked["xla"])

    def lead(self, what: str, number: int = 0) -> None:
        """Tell the other machines what comes, where there are some."""
        if self.machines:
            self.machines.lead(what, number)

    def sample(self, steps: int) -> float:
        self.lead("steps", steps)
        return super().sample(steps)

    def verify(self, request: dict[str, Any]) -> dict[str, Any]:
        self.lead("verify")
        return super().verify(request)

    def first_steps_of_all(self) -> tuple[list[list[float]], tuple[int, int]]:
        losses, identical = super().first_steps_of_all()
        if not self.machines:
            return losses, identical
        found = self.machines.gather([loss for step in losses for loss in step])
        here = len(losses[0])
        steps = [[loss for one in found for loss in one[step * here :][:here]] for step in range(len(losses))]
        return steps, self.machines.identical(self.training.trained())

    def follow(self, _request: dict[str, Any]) -> dict[str, Any]:
        """On machines other than the first: wait for what that wants, do it, and say what it was.

        Raises ValueError: this machine's part was computed elsewhere than asked for.
        """
        assert self.machines is not None
        done = self.machines.follow({"steps": self.steps, "verify": lambda _: self.first_steps_of_all()})
        wrong = self.misplaced() if self.outputs else None
        if wrong:
            raise ValueError(wrong)
        return {"done": done}

    def farewell(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Let the other machines go. Raises ValueError: the replicas here have come to differ."""
        same, of = self.training.identical()
        if same != of:
            raise ValueError(f"{of - same} of {of} weights differ between the replicas at the end")
        self.lead("end")
        return {}

    def placed_on(self) -> list[str]:
        """Return the device of each replica's loss. Those of other machines were looked at there: who finds his part
        misplaced takes no more part, which ends the training."""
        return super().placed_on() + (self.machines.elsewhere if self.machines else [])
