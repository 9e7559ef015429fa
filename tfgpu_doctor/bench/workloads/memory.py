"""Training steps with a batch that may not fit: whether it does, what memory it takes at most, how fast it is then.

The step is that of training.py, with growth of the GPU's memory on. The network stays over the batches that a process
tries; a batch consists of a few images again and again, so that making it takes little memory itself.
Work: images. FLOP: models.training_flop. Peak: TensorFlow's allocator on GPUs, the process's resident set on the CPU.

Verified from the initial weights: at the full batch the losses are finite and fall; with few images the losses are
those of a training in float64 on the CPU, or for replicas of one device that computes their batches in turn.
"""

from __future__ import annotations

import math
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from .cnn import TOLERANCE
from .judgement import Check, Judgement, numbers
from .models import batch
from .replicas import misplaced, on_devices, place, room_for, strategy_over, synchronise
from .training import Training, train_apart

UNIT = "images/s"
DTYPES = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
DISTINCT = 64  # images of a batch; larger ones repeat them
FEW = 8  # images whose losses are compared
STEPS = 3  # of the verification
METHOD = "losses of the full batch fall; those of a few images against {}"

_trainings: dict[tuple[Any, ...], Training] = {}  # by what they were built for: a process keeps its network


def judge(answer: dict[str, Any], dtype: str, _parameters: dict[str, Any]) -> Judgement:
    """Say whether the losses are finite, fall, and are the right ones for a few images."""
    losses = [math.nan if loss is None else loss for loss in answer["losses"]]
    finite = all(math.isfinite(loss) for loss in losses)
    checks = [Check("finite losses", finite, "" if finite else f"{losses}")]
    if "compared" not in answer:
        return _judged("every loss is finite", checks)
    checks.append(Check("falling loss", losses[-1] < losses[0], f"{losses[0]:.4g} to {losses[-1]:.4g}"))
    other = "one device" if answer["replicas"] > 1 else "float64"
    scale = max(abs(right) for right in answer["expected"])  # few images are soon learned: losses near 0 are small
    apart = max(
        math.inf if found is None else abs(found - right) / scale
        for found, right in zip(answer["compared"], answer["expected"])
    )
    limit = TOLERANCE[dtype][0]
    near = apart <= limit
    checks.append(Check(f"losses as in {other}", near, "" if near else f"{apart:.2g} relative difference"))
    return _judged(METHOD.format(other), checks, apart if apart < math.inf else None, limit)


def _judged(method: str, checks: list[Check], apart: float | None = None, limit: float | None = None) -> Judgement:
    why = "; ".join(f"failed: {check.name} ({check.saw})" for check in checks if not check.ok)
    return Judgement(not why, method, apart, limit, why, tuple(checks))


class Workload:
    """A training with one batch, over the devices of a case."""

    def __init__(self, parameters: dict[str, Any], dtype: str, devices: list[str], _spread: str) -> None:
        """Build the network where this process has none yet, and put the images on the devices.

        Raises NoRoomError: there is no memory for them.
        """
        self.name, self.each, self.dtype, self.devices = parameters["model"], parameters["batch"], dtype, devices
        self.largest = max(parameters.get("largest", 0), self.each)  # images that are known to fit
        self.cold: dict[str, float] = {}
        self.verified = False
        self.losses: Any = ()
        with room_for(f"a batch of {self.each}"):
            started = time.perf_counter()
            key = (self.name, dtype, *devices)
            if key not in _trainings:
                _trainings[key] = Training(strategy_over(devices), devices, self.name, dtype, False, len(devices))
                self.cold["network"] = time.perf_counter() - started
            self.training = _trainings[key]
            if parameters.get("guard") and devices[0].startswith("/CPU"):
                _limit_growth(parameters["guard"])
            _forget_peak(devices)
            started = time.perf_counter()
            self.data = self._data()
            synchronise(self.training.tensors()[-1:])
            self.cold["to devices"] = time.perf_counter() - started

    def _data(self) -> tuple[Any, Any]:
        """Images and labels, `each` on every replica; those of each replica are its own."""
        import numpy as np

        def shard(which: int) -> Any:
            def make(index: int) -> Any:
                few = batch(self.name, min(self.each, DISTINCT), 100 + index)[which]
                return np.resize(few, (self.each, *few.shape[1:]))

            return make

        strategy = self.training.strategy
        return place(strategy, self.devices, shard(0)), place(strategy, self.devices, shard(1))

    def sample(self, steps: int) -> float:
        """Seconds of `steps` training steps, from the first call to the end on the last device.

        Raises NoRoomError: there is no memory for them.
        """
        with room_for(f"a batch of {self.each}"):
            started = time.perf_counter()
            for _ in range(steps):
                self.losses = self.training.step(*self.data)
            synchronise(self.training.tensors()[-1:])
            return time.perf_counter() - started

    def verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Train some steps from the initial weights: the full batch, and few images here and elsewhere."""
        several, few = len(self.devices) > 1, min(FEW, self.largest)
        with room_for(f"a batch of {self.each}"):
            losses = self._train(self.data)
        compared = self._train(self.training.data(few))
        dtype, device = (self.dtype, self.devices[0]) if several else ("float64", "/CPU:0")
        expected, _ = train_apart(self.name, dtype, device, few, len(self.devices), STEPS)
        self.verified = True
        return {
            "losses": numbers(sum(step) / len(step) for step in losses),
            "compared": numbers(loss for step in compared for loss in step),
            "expected": numbers(loss for step in expected for loss in step),
            "replicas": len(self.devices),
        }

    def _train(self, data: tuple[Any, ...]) -> list[list[float]]:
        """Some steps from the initial weights: the losses of each replica, for each step."""
        self.training.reset()
        return [[float(loss) for loss in self.training.step(*data)] for _ in range(STEPS)]

    def recheck(self) -> dict[str, Any] | None:
        """None while the last losses are finite, or nothing was verified yet."""
        losses = numbers(float(loss) for loss in self.losses)
        return {"losses": losses} if self.verified and None in losses else None

    def figures(self) -> dict[str, Any]:
        """No figures beside the samples; for a search: "peak", bytes since this batch was put on the devices."""
        return {"figures": [], "peak": peak(self.devices)}

    def placed_on(self) -> list[str]:
        """The device of each replica's loss."""
        return on_devices(self.losses)

    def misplaced(self) -> str | None:
        """What was computed elsewhere than asked for; None when nothing was."""
        graph = self.training.step.get_concrete_function(*self.data).graph
        return misplaced(self.devices, self.placed_on(), graph)


def peak(devices: list[str]) -> int | None:
    """Most bytes at a time: of the fullest GPU by TensorFlow's allocator, or of this process; None where not known."""
    if devices[0].startswith("/CPU"):
        return _resident_peak()
    import tensorflow as tf

    with suppress(AttributeError, ValueError):  # before TensorFlow 2.5
        return max(int(tf.config.experimental.get_memory_info(device[1:])["peak"]) for device in devices)
    return None


def _forget_peak(devices: list[str]) -> None:
    """Let the peak begin anew, where the system lets one; otherwise it is that of all batches so far."""
    import tensorflow as tf

    if devices[0].startswith("/CPU"):
        with suppress(OSError):  # proc(5): 5 resets the peak of the resident set
            Path("/proc/self/clear_refs").write_text("5")
        return
    with suppress(AttributeError, ValueError):
        for device in devices:
            tf.config.experimental.reset_memory_stats(device[1:])


def _status(name: str) -> int | None:
    """Bytes that Linux tells of this process under `name` ("VmHWM"); None elsewhere."""
    with suppress(OSError, ValueError):
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith(name + ":"):
                return 1024 * int(line.split()[1])
    return None


def _resident_peak() -> int | None:
    if (known := _status("VmHWM")) is not None:
        return known
    if sys.platform == "win32":
        return None  # unknown: it has no getrusage
    import resource

    unit = 1 if sys.platform == "darwin" else 1024  # getrusage(2)
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _limit_growth(guard: int) -> None:
    """Refuse this process more than `guard` bytes beside what it has, so that the system never runs out of memory.

    An allocation that is refused is TensorFlow's ResourceExhaustedError, or the end of this process. Linux only: other
    systems count otherwise.
    """
    have = _status("VmData")
    if have is None or sys.platform == "win32":
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if soft != resource.RLIM_INFINITY:
        return  # set already, by us or by the user
    limit = have + guard
    resource.setrlimit(resource.RLIMIT_DATA, (limit if hard < 0 else min(limit, hard), hard))
