"""Bytes moved between host and devices, between devices, and summed over all of them.

Work: B/s. A copy of n bytes counts n. An all-reduce of n bytes on each of g devices counts 2n(g-1)/g, which every
algorithm has to send and receive at least on each device: that is the bus bandwidth (busbw) of NVIDIA's nccl-tests
(doc/PERFORMANCE.md there), comparable with what a link carries; n over the time, the algorithm bandwidth (algbw), is
given beside it. Steps are queued in blocks, and waited for once where the way of copying allows it.

Verified: two sets of random numbers are sent in turns, so that what an earlier copy left behind is never taken for the
new one. The bytes that arrive are compared with those that were sent, by checksum and one by one; after that each
sample's last result is compared where it lies. Sums are over whole numbers that float32 adds exactly in any order.
"""

from __future__ import annotations

import time
import zlib
from typing import Any

from .. import statistics
from . import routes
from .judgement import Check, Judgement, short

UNIT = "B/s"
DTYPES = ("float32",)
SEED = 11
SETS = 2
BUFFERS = 3 * SETS + 2  # of the size sent: sources, what they are compared with, results, and what a reduction needs
METHOD = "every sample: what arrived against what was sent, by checksum and one by one, two sets of numbers in turns"


def work(route: str, count: int, devices: int) -> float:
    """Bytes that one step counts, of `count` bytes on each device."""
    if route in (routes.ALL_REDUCE, routes.ALL_REDUCE_ONE):
        return 2.0 * count * (devices - 1) / devices
    return float(count)


def bytes_moved(route: str, count: int) -> float | None:
    """Bytes that the memory of the devices reads and writes at least; None where that depends on the algorithm."""
    if route in (routes.ALL_REDUCE, routes.ALL_REDUCE_ONE):
        return None
    return float(count) * (2 if route in (routes.WITHIN, routes.PEER, routes.PEER_BACK) else 1)


def judge(answer: dict[str, Any], _dtype: str, _parameters: dict[str, Any]) -> Judgement:
    """Say whether all bytes arrived."""
    wrong, elements = answer["wrong"], answer["elements"]
    right = wrong == 0 and answer["sent"] == answer["arrived"]
    why = f"{wrong} of {elements} numbers are not those that were sent" if wrong else "the checksums differ"
    return Judgement(
        ok=right,
        method=METHOD,
        why="" if right else why,
        checks=(
            Check(
                "checksum", answer["sent"] == answer["arrived"], ", ".join(f"{one:08x}" for one in answer["arrived"])
            ),
            Check("by", True, answer["how"]),
        ),
    )


def make(count: int, index: int, replica: int, whole: bool) -> Any:
    """`count` bytes of random float32: all mantissas and signs of ±[1, 2), or whole numbers that add up exactly."""
    import numpy as np

    rng = np.random.default_rng([SEED, index, replica])
    if whole:
        return rng.integers(-1000, 1001, count // 4).astype(np.float32)
    bits = rng.integers(0, 2**32, count // 4, dtype=np.uint32)
    bits &= np.uint32(0x807FFFFF)
    bits |= np.uint32(0x3F800000)
    return bits.view(np.float32)


class Workload:
    """Numbers at their origin, and a way to move them."""

    def __init__(self, parameters: dict[str, Any], _dtype: str, devices: list[str], _spread: str) -> None:
        """Put the numbers where they start; nothing is moved yet."""
        import numpy as np

        self.route, self.bytes, self.devices = parameters["route"], parameters["bytes"], devices
        self.ends = routes.ends(self.route, devices)
        reduces = self.route in (routes.ALL_REDUCE, routes.ALL_REDUCE_ONE)
        started = time.perf_counter()
        sets = [
            [make(self.bytes, index, replica, reduces) for replica in range(len(self.ends.origin))]
            for index in range(SETS)
        ]
        # for each set the array that must arrive, at every target
        self.expected = [np.sum(one, axis=0, dtype=np.float32) if reduces else one[0] for one in sets]
        self.cold = {"inputs": time.perf_counter() - started}
        started = time.perf_counter()
        self.step = routes.step(self.route, devices, sets)
        self.trusted = [[self._at(target, array) for target in self.ends.target] for array in self.expected]
        self._synchronise()
        self.cold["to devices"] = time.perf_counter() - started
        self.turn = 0
        self.outputs: Any = ()
        self.verified = False
        self.times: list[float] = []  # seconds a step, of the samples since the verification

    @staticmethod
    def _at(device: str, array: Any) -> Any:
        """The array on a device, by another way than the one under test."""
        import tensorflow as tf

        with tf.device(routes.HOST):
            here = tf.constant(array)
        with tf.device(device):
            return tf.raw_ops.DeepCopy(x=here)

    def _synchronise(self) -> None:
        import tensorflow as tf

        sync = getattr(getattr(tf.test, "experimental", None), "sync_devices", None)
        if sync is not None:
            sync()
        else:  # TensorFlow before 2.12: fetching a number of the result waits for it
            for output in getattr(self, "outputs", ()):
                float(output[0].numpy())

    def sample(self, steps: int) -> float:
        """Seconds of `steps` moves, one after the other, from the first call to the end on the last device."""
        last = self.turn = (self.turn + 1) % SETS
        sources = [self.step.fresh(self.step.sources[(last + back) % SETS]) for back in range(1 - steps, 1)]
        self.outputs = ()
        started = time.perf_counter()
        for source in sources:
            self.outputs = self.step.move(source)
        self._synchronise()
        seconds = time.perf_counter() - started
        if self.verified:
            self.times.append(seconds / steps)
        return seconds

    def placed_on(self) -> list[str]:
        """The devices of the case whose memory holds what was sent or what arrived."""
        found = self._origins() + [short(output.backing_device) for output in self.outputs]
        others = [device for device in found if device != routes.HOST]
        return list(dict.fromkeys(found if routes.HOST in self.devices else others))

    def _origins(self) -> list[str]:
        source = self.step.sources[0]
        values = getattr(source, "values", None)  # of several devices
        return [short(one.backing_device) for one in (values if isinstance(values, (list, tuple)) else [source])]

    def misplaced(self) -> str | None:
        """Say which bytes did not lie where they should, before or after; None when all did."""
        found = tuple(short(output.backing_device) for output in self.outputs)
        if found != self.ends.target:
            return f"arrived on {', '.join(found)} instead of {', '.join(self.ends.target)}"
        origins = tuple(self._origins())
        if origins != self.ends.origin:
            return f"sent from {', '.join(origins)} instead of {', '.join(self.ends.origin)}"
        return None

    def verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Checksums of what was sent and of what arrived at each target, and how many numbers differ."""
        self.verified = True
        return self._compare()

    def _compare(self) -> dict[str, Any]:
        import numpy as np

        expected = self.expected[self.turn]
        arrived = [output.numpy() for output in self.outputs]
        return {
            "sent": [zlib.crc32(expected)] * len(arrived),
            "arrived": [zlib.crc32(np.ascontiguousarray(one)) for one in arrived],
            "wrong": sum(int(np.count_nonzero(one != expected)) for one in arrived),
            "elements": sum(one.size for one in arrived),
            "how": self.step.how,
        }

    def recheck(self) -> dict[str, Any] | None:
        """None when the last result is right, compared where it lies."""
        import tensorflow as tf

        if not self.verified:
            return None
        same = []
        for target, output, trusted in zip(self.ends.target, self.outputs, self.trusted[self.turn]):
            with tf.device(target):
                same.append(tf.reduce_all(tf.equal(output, trusted)))
        return None if same and all(bool(one.numpy()) for one in same) else self._compare()

    def figures(self) -> dict[str, Any]:
        """The algorithm bandwidth of an all-reduce."""
        if self.route not in (routes.ALL_REDUCE, routes.ALL_REDUCE_ONE) or not self.times:
            return {"figures": []}
        low, high = statistics.median_interval(self.times)
        figure = {
            "name": "algbw",
            "value": self.bytes / statistics.median(self.times),
            "unit": UNIT,
            "ci95": [self.bytes / high, self.bytes / low],
            "note": "bytes on one device over the time; the throughput is busbw = algbw × 2(n-1)/n",
        }
        return {"figures": [figure]}
