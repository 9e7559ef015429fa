"""Bytes moved between host and devices, between devices, and summed over all of them.

Work: B/s. A copy of n bytes counts n. An all-reduce of n bytes on each of g devices counts 2n(g-1)/g, which every
algorithm has to send and receive at least on each device: that is the bus bandwidth (busbw) of NVIDIA's nccl-tests
(doc/PERFORMANCE.md there), comparable with what a link carries. Steps are queued in blocks, and waited for once where
the way of copying allows it.

Verified: two sets of random numbers are sent in turns, so that what an earlier copy left behind is never taken for the
new one. The bytes that arrive are compared with those that were sent, by checksum and one by one; after that each
sample's last result is compared where it lies. Sums are over whole numbers that float32 adds exactly in any order.

TensorFlow avoids copies where it can, and each of these would measure nothing:
  tf.identity on the same device, or from one CPU device to another, hands over the buffer
      (TensorHandle::CopyToDevice, is_same_device, in core/common_runtime/eager/tensor_handle.cc): 10 TB/s here;
  an eager operation on the GPU keeps the copy of its CPU argument as a mirror, and uses that the next time;
  `.numpy()` keeps the copy that it made of a GPU tensor.
So: within a device, and between CPU devices, the op DeepCopy, which always copies; eagerly a new handle of the same
memory for each step, which has no mirrors yet; compiled, an argument on one device and a result on another.

Which memory of the host is used follows from the way, by TensorFlow's source; no call tells. An eager copy goes to
and from ordinary memory (CopyToDevice asks for no attributes). A compiled function receives from a GPU into pinned
memory, and what it computes on the CPU for a GPU lies in pinned memory (ImmutableExecutorState, InferAllocAttr in
core/common_runtime/immutable_executor_state.cc: set_gpu_compatible). Ordinary memory may be staged through pinned
memory by TensorFlow or by the driver.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from .training import (
    BaseWorkload,
    Check,
    Judgement,
    judged,
    on_devices,
    place,
    short,
    strategy_over,
    summing,
    synchronise,
    unchanged,
)

UNIT = "B/s"
SEED = 11
SETS = 2
BUFFERS = 3 * SETS + 2  # of the size sent: sources, what they are compared with, results, and what a reduction needs
METHOD = "every sample: what arrived against what was sent, by checksum and one by one, two sets of numbers in turns"

HOST = "/CPU:0"
WITHIN = "memory copy"
TO_DEVICE, TO_DEVICE_PINNED = "host to device", "host to device, pinned"
FROM_DEVICE, FROM_DEVICE_PINNED = "device to host", "device to host, pinned"
PEER, PEER_BACK = "peer", "peer, back"  # from the first device to the second, and back
ALL_REDUCE = "all-reduce"
ROUTES = (WITHIN, TO_DEVICE, TO_DEVICE_PINNED, FROM_DEVICE, FROM_DEVICE_PINNED, PEER, PEER_BACK, ALL_REDUCE)


def work(route: str, count: int, devices: int) -> float:
    """Return the bytes that one step counts, of `count` bytes on each device."""
    return 2.0 * count * (devices - 1) / devices if route == ALL_REDUCE else float(count)


def bytes_moved(route: str, count: int) -> float | None:
    """Return the bytes that the memory of the devices reads and writes at least; None where the algorithm decides."""
    if route == ALL_REDUCE:
        return None
    return float(count) * (2 if route in (WITHIN, PEER, PEER_BACK) else 1)


def ends(route: str, devices: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return where the bytes lie before and after, each in the order of the tensors."""
    first, second = devices[:1], devices[-1:]
    origin, target = {
        WITHIN: (first, first),
        **dict.fromkeys((TO_DEVICE, TO_DEVICE_PINNED), ([HOST], first)),
        **dict.fromkeys((FROM_DEVICE, FROM_DEVICE_PINNED), (first, [HOST])),
        PEER: (first, second),
        PEER_BACK: (second, first),
        ALL_REDUCE: (devices, devices),
    }[route]
    return tuple(origin), tuple(target)


def judge(answer: dict[str, Any], _dtype: str, _parameters: dict[str, Any]) -> Judgement:
    """Say whether all bytes arrived."""
    wrong, arrived = answer["wrong"], answer["arrived"]
    checks = (
        Check("numbers", wrong == 0, f"{wrong} of {answer['elements']} differ from those sent"),
        Check("checksum", answer["sent"] == arrived, ", ".join(f"{one:08x}" for one in arrived)),
        Check("by", True, answer["how"]),
    )
    return judged(METHOD, checks)


def make(count: int, index: int, replica: int, whole: bool) -> Any:
    """Make `count` bytes of float32: all mantissas and signs of ±[1, 2), or whole numbers that add up exactly."""
    import numpy as np

    rng = np.random.default_rng([SEED, index, replica])
    if whole:
        return rng.integers(-1000, 1001, count // 4).astype(np.float32)
    bits = rng.integers(0, 2**32, count // 4, dtype=np.uint32)
    bits &= np.uint32(0x807FFFFF)
    bits |= np.uint32(0x3F800000)
    return bits.view(np.float32)


class Workload(BaseWorkload):
    """Numbers at their origin, and a way to move them."""

    def __init__(self, parameters: dict[str, Any], dtype: str, devices: list[str], spread: str) -> None:
        import numpy as np

        super().__init__(parameters, dtype, devices, spread)
        route, self.turn = parameters["route"], 0
        self.origin, self.target = ends(route, devices)
        reduces = route == ALL_REDUCE
        with self.starting("inputs"):
            replicas = range(len(self.origin))
            sets = [[make(parameters["bytes"], index, one, reduces) for one in replicas] for index in range(SETS)]
            # for each set the array that must arrive, at every target
            self.expected = [np.sum(one, axis=0, dtype=np.float32) if reduces else one[0] for one in sets]
        with self.starting("to devices"):
            self.step = _all_reduce(devices, sets) if reduces else _copy(route, self.origin[0], self.target[0], sets)
            self.trusted = [[_placed(array, target) for target in self.target] for array in self.expected]
            synchronise(devices)

    def sample(self, steps: int) -> float:
        """Return the seconds of `steps` moves, one after the other, until the last device is done."""
        last = self.turn = (self.turn + 1) % SETS
        sources = [self.step.fresh(self.step.sources[(last + back) % SETS]) for back in range(1 - steps, 1)]
        self.outputs = ()
        started = time.perf_counter()
        for source in sources:
            self.outputs = self.step.move(source)
        synchronise(self.devices, (output[:1] for output in self.outputs))
        return time.perf_counter() - started

    def placed_on(self) -> list[str]:
        """Return the devices of the case whose memory holds what was sent or what arrived."""
        found = dict.fromkeys([*self._origins(), *on_devices(self.outputs)])
        return [device for device in found if device != HOST or HOST in self.devices]

    def _origins(self) -> list[str]:
        source = self.step.sources[0]
        return on_devices(getattr(source, "values", (source,)))  # values: of several devices

    def misplaced(self) -> str | None:
        """Say where bytes lay before and after, where they should not; None when they should."""
        found, wanted = [*self._origins(), *on_devices(self.outputs)], [*self.origin, *self.target]
        return None if found == wanted else f"moved over {', '.join(found)} instead of {', '.join(wanted)}"

    def verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Return the checksums of what was sent and of what arrived at each target, and how many numbers differ."""
        self.verified = True
        return self.compare()

    def unchanged(self) -> bool:
        return unchanged(self.target, self.outputs, self.trusted[self.turn])

    def compare(self) -> dict[str, Any]:
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


class Step(NamedTuple):
    """One way of moving bytes that cannot be elided, ready to be called."""

    sources: tuple[Any, ...]  # what is sent, one for each set of numbers
    fresh: Callable[[Any], Any]  # another handle of the same memory, without mirrors; copies nothing
    move: Callable[[Any], Sequence[Any]]  # the tensors that arrive, one for each target
    how: str  # what TensorFlow is asked to do


def _copy(route: str, origin: str, target: str, sets: Sequence[Sequence[Any]]) -> Step:
    """Put the numbers at the origin, and copy them to the target."""
    import tensorflow as tf

    sources = tuple(_placed(one[0], origin) for one in sets)

    def handle(tensor: Any) -> Any:
        with tf.device(short(tensor.backing_device)):
            return tf.identity(tensor)

    def deep_copy(source: Any) -> Sequence[Any]:
        with tf.device(target):
            return (tf.raw_ops.DeepCopy(x=source),)

    def identity(source: Any) -> Any:
        with tf.device(target):
            return tf.identity(source)

    if route == WITHIN or (origin.startswith("/CPU") and target.startswith("/CPU")):
        return Step(sources, handle, deep_copy, "DeepCopy, into newly allocated memory")
    if route in (TO_DEVICE, FROM_DEVICE):  # what feeding an array, and `.numpy()`, do
        return Step(sources, handle, lambda source: (identity(source),), "eager copy, ordinary host memory")
    if route == TO_DEVICE_PINNED:
        sources = tuple(_pinned(one, target) for one in sources)
    function = tf.function(identity, autograph=False)
    how = "host memory that TensorFlow pins" if HOST in (origin, target) else "send and receive"
    return Step(sources, lambda source: source, lambda source: (function(source),), f"compiled copy, {how}")


def _placed(array: Any, device: str) -> Any:
    """Put an array into the memory of a device, in a buffer of its own; by another way than those under test."""
    import tensorflow as tf

    with tf.device(HOST):
        here = tf.constant(array)
    with tf.device(device):
        return tf.raw_ops.DeepCopy(x=here)


def _pinned(source: Any, target: str) -> Any:
    """Put the same numbers into host memory that TensorFlow allocated for a GPU to read."""
    import tensorflow as tf

    def pin(one: Any) -> Any:
        with tf.device(HOST):
            here = tf.raw_ops.DeepCopy(x=one)
        with tf.device(target):
            return here, tf.identity(here)  # that a GPU reads it is why it is pinned

    return tf.function(pin, autograph=False)(source)[0]


# One for all sizes: the collectives of a second one in a process take those of the first for their own.
_strategy = lru_cache(strategy_over)


def _all_reduce(devices: Sequence[str], sets: Sequence[Sequence[Any]]) -> Step:
    """Sum over all devices, on all devices, as MirroredStrategy computes it."""
    strategy = _strategy(tuple(devices))

    def put(arrays: Sequence[Any]) -> Any:
        return place(strategy, devices, lambda index: _placed(arrays[index], devices[index]))

    sources, function = tuple(map(put, sets)), summing(strategy)
    how = _implementation(function.get_concrete_function(sources[0]).graph)
    return Step(sources, lambda source: source, lambda source: tuple(function(source)), how)


def _implementation(graph: Any) -> str:
    """Name what a graph of tf.distribute sums over devices with, by its operations."""
    for op in graph.get_operations():
        if op.type.startswith("Nccl"):
            return "NCCL"
        if op.type.startswith("CollectiveReduce"):  # "auto" is TensorFlow's ring, too
            return "NCCL" if op.get_attr("communication_hint") == b"nccl" else "TensorFlow's ring"
    return "reduction to one device"
