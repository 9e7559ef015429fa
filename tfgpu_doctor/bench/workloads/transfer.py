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
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from .. import statistics
from .judgement import Check, Judgement, short

UNIT = "B/s"
DTYPES = ("float32",)
SEED = 11
SETS = 2
BUFFERS = 3 * SETS + 2  # of the size sent: sources, what they are compared with, results, and what a reduction needs
METHOD = "every sample: what arrived against what was sent, by checksum and one by one, two sets of numbers in turns"


def work(route: str, count: int, devices: int) -> float:
    """Bytes that one step counts, of `count` bytes on each device."""
    if route in (ALL_REDUCE, ALL_REDUCE_ONE):
        return 2.0 * count * (devices - 1) / devices
    return float(count)


def bytes_moved(route: str, count: int) -> float | None:
    """Bytes that the memory of the devices reads and writes at least; None where that depends on the algorithm."""
    if route in (ALL_REDUCE, ALL_REDUCE_ONE):
        return None
    return float(count) * (2 if route in (WITHIN, PEER, PEER_BACK) else 1)


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
        self.ends = ends(self.route, devices)
        reduces = self.route in (ALL_REDUCE, ALL_REDUCE_ONE)
        started = time.perf_counter()
        sets = [
            [make(self.bytes, index, replica, reduces) for replica in range(len(self.ends.origin))]
            for index in range(SETS)
        ]
        # for each set the array that must arrive, at every target
        self.expected = [np.sum(one, axis=0, dtype=np.float32) if reduces else one[0] for one in sets]
        self.cold = {"inputs": time.perf_counter() - started}
        started = time.perf_counter()
        self.step = step(self.route, devices, sets)
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

        with tf.device(HOST):
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
        others = [device for device in found if device != HOST]
        return list(dict.fromkeys(found if HOST in self.devices else others))

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
        if self.route not in (ALL_REDUCE, ALL_REDUCE_ONE) or not self.times:
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


# ---------------------------------------------------------------------------------------------------------------------
# Ways on which TensorFlow moves bytes, each as one step that cannot be elided. Worker side.
#
# TensorFlow avoids copies where it can, and each of these would measure nothing:
#   tf.identity on the same device, or from one CPU device to another, hands over the buffer
#       (TensorHandle::CopyToDevice, is_same_device, in core/common_runtime/eager/tensor_handle.cc): 10 TB/s here;
#   an eager operation on the GPU keeps the copy of its CPU argument as a mirror, and uses that the next time;
#   `.numpy()` keeps the copy that it made of a GPU tensor.
# So: within a device, and between CPU devices, the op DeepCopy, which always copies; eagerly a new handle of the same
# memory for each step, which has no mirrors yet; compiled, an argument on one device and a result on another.
#
# Which memory of the host is used follows from the way, by TensorFlow's source; no call tells. An eager copy goes to
# and from ordinary memory (CopyToDevice asks for no attributes). A compiled function receives from a GPU into pinned
# memory, and what it computes on the CPU for a GPU lies in pinned memory (ImmutableExecutorState, InferAllocAttr in
# core/common_runtime/immutable_executor_state.cc: set_gpu_compatible). Ordinary memory may be staged through pinned
# memory by TensorFlow or by the driver.


HOST = "/CPU:0"
WITHIN = "memory copy"
TO_DEVICE, TO_DEVICE_PINNED = "host to device", "host to device, pinned"
FROM_DEVICE, FROM_DEVICE_PINNED = "device to host", "device to host, pinned"
PEER = "peer"  # from the first device to the second
PEER_BACK = "peer, back"
ALL_REDUCE, ALL_REDUCE_ONE = "all-reduce", "all-reduce by one device"
ROUTES = (
    *(WITHIN, TO_DEVICE, TO_DEVICE_PINNED, FROM_DEVICE, FROM_DEVICE_PINNED),
    *(PEER, PEER_BACK, ALL_REDUCE, ALL_REDUCE_ONE),
)


class Ends(NamedTuple):
    """Where the bytes lie before and after, each in the order of the tensors."""

    origin: tuple[str, ...]
    target: tuple[str, ...]


def ends(route: str, devices: Sequence[str]) -> Ends:
    """The devices at both ends of a route over the devices of a case."""
    first = devices[0]
    if route == WITHIN:
        return Ends((first,), (first,))
    if route in (TO_DEVICE, TO_DEVICE_PINNED):
        return Ends((HOST,), (first,))
    if route in (FROM_DEVICE, FROM_DEVICE_PINNED):
        return Ends((first,), (HOST,))
    if route == PEER:
        return Ends((first,), (devices[1],))
    if route == PEER_BACK:
        return Ends((devices[1],), (first,))
    return Ends(tuple(devices), tuple(devices))


class Step(NamedTuple):
    """One way of moving bytes, ready to be called."""

    sources: tuple[Any, ...]  # what is sent, one for each set of numbers
    fresh: Callable[[Any], Any]  # another handle of the same memory, without mirrors; copies nothing
    move: Callable[[Any], Sequence[Any]]  # the tensors that arrive, one for each target
    how: str  # what TensorFlow is asked to do


def step(route: str, devices: Sequence[str], sets: Sequence[Sequence[Any]]) -> Step:
    """Put the numbers at the origin and say how they are moved.

    Args:
        sets: for each set of numbers an array for each origin, float32 [n].
    """
    where = ends(route, devices)
    if route in (ALL_REDUCE, ALL_REDUCE_ONE):
        return _all_reduce(route, devices, sets)
    origin, target = where.origin[0], where.target[0]
    placed = [_placed(one[0], origin, HOST) for one in sets]
    if route == WITHIN:
        return _deep_copy(placed, target)
    if route in (TO_DEVICE, FROM_DEVICE):
        return _eager(placed, target)
    if origin.startswith("/CPU") and target.startswith("/CPU"):
        return _deep_copy(placed, target)
    if route == TO_DEVICE_PINNED:
        return _compiled([_pinned(one, target) for one in placed], target)
    return _compiled(placed, target)


def _placed(array: Any, origin: str, host: str) -> Any:
    """The array in the memory of `origin`, in a buffer of its own."""
    import tensorflow as tf

    with tf.device(host):
        there = tf.constant(array)
    with tf.device(origin):
        return tf.raw_ops.DeepCopy(x=there) if origin != host else there


def _handle(tensor: Any) -> Any:
    """Another handle of the same memory."""
    import tensorflow as tf

    with tf.device(short(tensor.backing_device)):
        return tf.identity(tensor)


def _deep_copy(sources: Sequence[Any], target: str) -> Step:
    import tensorflow as tf

    def move(source: Any) -> Sequence[Any]:
        with tf.device(target):
            return (tf.raw_ops.DeepCopy(x=source),)

    return Step(tuple(sources), _handle, move, "DeepCopy, into newly allocated memory")


def _eager(sources: Sequence[Any], target: str) -> Step:
    """An operation on `target` with an argument elsewhere: what feeding an array, and `.numpy()`, do."""
    import tensorflow as tf

    def move(source: Any) -> Sequence[Any]:
        with tf.device(target):
            return (tf.identity(source),)

    return Step(tuple(sources), _handle, move, "eager copy, ordinary host memory")


def _compiled(sources: Sequence[Any], target: str) -> Step:
    """A compiled function with its argument on one device and its result on another."""
    import tensorflow as tf

    def identity(source: Any) -> Any:
        with tf.device(target):
            return tf.identity(source)

    function = tf.function(identity, autograph=False)
    pinned = target.startswith("/CPU") or short(sources[0].backing_device).startswith("/CPU")
    how = "compiled copy, " + ("host memory that TensorFlow pins" if pinned else "send and receive")
    return Step(tuple(sources), lambda source: source, lambda source: (function(source),), how)


def _pinned(source: Any, target: str) -> Any:
    """The same numbers in host memory that TensorFlow allocated for a GPU to read."""
    import tensorflow as tf

    def pin(one: Any) -> Any:
        with tf.device(HOST):
            here = tf.raw_ops.DeepCopy(x=one)
        with tf.device(target):
            return here, tf.identity(here)  # that a GPU reads it is why it is pinned

    return tf.function(pin, autograph=False)(source)[0]


def _all_reduce(route: str, devices: Sequence[str], sets: Sequence[Sequence[Any]]) -> Step:
    """The sum over all devices, on all devices, as MirroredStrategy computes it."""
    import tensorflow as tf

    strategy = _strategy(route, tuple(devices))

    def place(arrays: Sequence[Any]) -> Any:
        def value(context: Any) -> Any:
            index = int(context.replica_id_in_sync_group)
            return _placed(arrays[index], devices[index], HOST)

        return strategy.experimental_distribute_values_from_function(value)

    def reduce_one(one: Any) -> Any:
        return tf.distribute.get_replica_context().all_reduce("SUM", one)

    def reduce_all(one: Any) -> Any:
        return strategy.run(reduce_one, args=(one,))

    function = tf.function(reduce_all, autograph=False)
    sources = tuple(place(arrays) for arrays in sets)

    def move(source: Any) -> Sequence[Any]:
        return tuple(strategy.experimental_local_results(function(source)))

    return Step(sources, lambda source: source, move, implementation(function.get_concrete_function(sources[0]).graph))


@lru_cache
def _strategy(route: str, devices: tuple[str, ...]) -> Any:
    """One for all sizes: the collectives of a second strategy in a process take those of the first for their own."""
    import tensorflow as tf

    operations = tf.distribute.ReductionToOneDevice() if route == ALL_REDUCE_ONE else None
    return tf.distribute.MirroredStrategy(list(devices), cross_device_ops=operations)


def implementation(graph: Any) -> str:
    """Name what a graph of tf.distribute sums over devices with, by its operations."""
    for op in graph.get_operations():
        if op.type.startswith("CollectiveReduce"):
            hint = op.get_attr("communication_hint")
            return {b"nccl": "NCCL", b"ring": "ring"}.get(hint, hint.decode() or "auto") + f" ({op.type})"
        if op.type.startswith("Nccl"):
            return f"NCCL ({op.type})"
    return "reduction to one device, and a copy to each"
