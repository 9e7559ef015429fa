"""Encoded images through tf.data, alone and into the training of a network: images a second.

Three things are measured with the same batches: a pipeline alone (nobody consumes), the training alone (its data lie
on the device), and the training fed by a pipeline. One step is BLOCK batches. Before each timed block some batches are
used up that a pipeline had made ready while nobody asked: what is timed is what it can sustain.

Verified: over the first epoch every image arrives once, with the pixels that decoding and augmenting it outside of any
pipeline gives, by a checksum of each; after that the last batch of every sample likewise, and how often each image
came. The losses of a training are finite.
"""

from __future__ import annotations

import time
from typing import Any

from . import pictures, pipelines
from .judgement import Check, Judgement, short
from .models import MODELS, training_flop
from .replicas import misplaced, on_devices, room_for, strategy_over, synchronise
from .training import Training

UNIT = "images/s"
DTYPES = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
BLOCK = 4  # batches that are timed together
READY = pipelines.PREFETCH + 1  # batches that may wait ready, and are used up before
METHOD = "every image of an epoch once, with the pixels that it has outside of any pipeline; losses finite"


def flop(model: str, images: int) -> float:
    """FLOP of training with so many images."""
    return float(training_flop(model)) * images


def judge(answer: dict[str, Any], _dtype: str, _parameters: dict[str, Any]) -> Judgement:
    """Say whether the right images arrived, and the losses are numbers."""
    checks = []
    if answer["images"] is not None:
        for name in ("missing", "more than once", "other pixels", "other shape"):
            count = answer[name]
            checks.append(Check(f"no image {name}", count == 0, f"{count} of {answer['images']}"))
    if answer["losses"] is not None:
        wrong = sum(loss is None for loss in answer["losses"])
        checks.append(Check("loss finite", wrong == 0, f"{len(answer['losses']) - wrong} of {len(answer['losses'])}"))
    why = "; ".join(f"failed: {check.name} ({check.saw})" for check in checks if not check.ok)
    return Judgement(ok=not why, method=METHOD, why=why, checks=tuple(checks))


def reference(folder: str, image: list[int], count: int, make: bool) -> None:
    """Write images into a folder for a benchmark whose user has none, or look whether the user's can be decoded.

    Raises ValueError: one cannot; the message names it.
    """
    height, width, channels = image
    if make:
        pictures.make(folder, (height, width, channels), count)
    else:
        pictures.expected(folder, (height, width, channels), count)


class Workload:
    """A pipeline, a training, or both; `parameters`: folder, count, model, batch, pipeline or None, trains."""

    def __init__(self, parameters: dict[str, Any], dtype: str, devices: list[str], _spread: str) -> None:
        """Build what is measured, and go through one epoch."""
        self.size, self.devices = parameters["batch"], devices
        self.model = MODELS[parameters["model"]]
        self.training: Any = None
        self.batches: Any = None
        self.losses: Any = ()
        self.last: Any = None
        self.given: list[Any] = []  # the indices of the images of each batch, tensors
        self.counts: Any = None  # how often each image came
        self.verified = False
        self.cold: dict[str, float] = {}
        strategy = strategy_over(devices) if parameters["trains"] else None
        started = time.perf_counter()
        if strategy is not None:
            name = parameters["model"]
            with room_for(f"{name} and {self.size} images"):
                self.training = Training(strategy, devices, name, dtype, False, len(devices))
                self.resident = self.training.data(self.size)
                synchronise(self.training.tensors()[-1:])
            self.cold["network"] = time.perf_counter() - started
        if parameters["pipeline"] is not None:
            self._open(parameters, pipelines.PIPELINES[parameters["pipeline"]], strategy)

    def _open(self, parameters: dict[str, Any], chosen: pipelines.Pipeline, strategy: Any) -> None:
        """Build the pipeline, and check its first epoch."""
        import numpy as np
        import tensorflow as tf

        folder, count, image = parameters["folder"], parameters["count"], self.model.image
        self.expected = np.array(pictures.expected(folder, image, count), np.uint32)
        self.counts = np.zeros(len(self.expected), np.int64)
        files = pictures.find(folder, count)
        started = time.perf_counter()
        spread = len(self.devices) > 1
        whole = self.size * len(self.devices)  # a strategy deals out shares of each batch
        data = pipelines.build(files, image, self.model.classes, whole, chosen, None if spread else self.devices[0])
        if spread and strategy is not None:
            data = strategy.experimental_distribute_dataset(data)
            self.shares = strategy.experimental_local_results
        else:
            self.shares = lambda value: (value,)
        with tf.device("/CPU:0"):
            self.batches = iter(data)
        self.wrong = self.shapes = 0
        for _ in range(-(-len(files) // whole)):
            self._pull()
            self._look()
        self.first = self._found()
        self.cold["first epoch, checked"] = time.perf_counter() - started

    def _pull(self) -> Any:
        """The next batch: images and labels."""
        self.last = next(self.batches)
        self.given.append(self.last[2])
        return self.last

    def _step(self) -> None:
        """One batch."""
        images, labels = self.resident if self.batches is None else self._pull()[:2]
        if self.training is not None:
            self.losses = self.training.step(images, labels)

    def sample(self, steps: int) -> float:
        """Seconds of `steps` blocks of batches, after those that were ready are used up."""
        with room_for(f"a training step of {self.size} images"):
            for _ in range(READY if self.batches is not None else 1):
                self._step()
            self._synchronise()
            started = time.perf_counter()
            for _ in range(BLOCK * steps):
                self._step()
            self._synchronise()
            return time.perf_counter() - started

    def _synchronise(self) -> None:
        synchronise(self.training.tensors()[-1:] if self.training is not None else ())

    def _look(self) -> None:
        """Count the images that came, and compare the pixels of the last batch."""
        import numpy as np

        for given in self.given:
            for share in self.shares(given):
                np.add.at(self.counts, share.numpy(), 1)
        self.given = []
        for images, indices in zip(self.shares(self.last[0]), self.shares(self.last[2])):
            pixels = images.numpy()
            if pixels.shape != (self.size, *self.model.image) or pixels.dtype != np.float32:
                self.shapes += len(pixels)
            sums = np.array([pictures.checksum(one) for one in np.ascontiguousarray(pixels)], np.uint32)
            self.wrong += int(np.count_nonzero(sums != self.expected[indices.numpy()]))

    def _found(self) -> dict[str, Any]:
        """What there is to say of the images until now; an image of the epoch that goes on may have come once more."""
        rounds, rest = divmod(int(self.counts.sum()), len(self.counts))
        most = rounds + (rest > 0)
        return {
            "images": len(self.counts),
            "missing": int((self.counts < rounds).sum()),
            "more than once": int((self.counts > most).sum()),
            "other pixels": self.wrong,
            "other shape": self.shapes,
        }

    def _losses(self) -> list[float | None] | None:
        if self.training is None:
            return None
        found = [float(loss) for loss in self.losses]
        return [loss if abs(loss) < float("inf") else None for loss in found]

    def verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        """What the first epoch brought, and the last losses."""
        self.verified = True
        return {"images": None, **(self.first if self.batches is not None else {}), "losses": self._losses()}

    def recheck(self) -> dict[str, Any] | None:
        """None while the right images come, as often as each other, and the losses are finite."""
        if not self.verified:
            return None
        answer: dict[str, Any] = {"images": None, "losses": self._losses()}
        if self.batches is not None:
            self._look()
            answer.update(self._found())
        return None if judge(answer, "", {}).ok else answer

    def figures(self) -> dict[str, Any]:
        """Nothing beside the samples."""
        return {"figures": []}

    def placed_on(self) -> list[str]:
        """Where the losses lie; for a pipeline alone, its images."""
        if self.training is not None:
            return on_devices(self.losses)
        return [short(self.last[0].backing_device)]

    def misplaced(self) -> str | None:
        """What was computed elsewhere than asked for; None when nothing was."""
        if self.training is None:
            return None
        graph = self.training.step.get_concrete_function(*self.resident).graph
        return misplaced(self.devices, self.placed_on(), graph)
