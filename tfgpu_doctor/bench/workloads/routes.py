"""Ways on which TensorFlow moves bytes, each as one step that cannot be elided. Worker side.

TensorFlow avoids copies where it can, and each of these would measure nothing:
  tf.identity on the same device, or from one CPU device to another, hands over the buffer
      (TensorHandle::CopyToDevice, is_same_device, in core/common_runtime/eager/tensor_handle.cc): 10 TB/s here;
  an eager operation on the GPU keeps the copy of its CPU argument as a mirror, and uses that the next time;
  `.numpy()` keeps the copy that it made of a GPU tensor.
So: within a device, and between CPU devices, the op DeepCopy, which always copies; eagerly a new handle of the same
memory for each step, which has no mirrors yet; compiled, an argument on one device and a result on another.

Which memory of the host is used follows from the way, by TensorFlow's source; no call tells. An eager copy goes to and
from ordinary memory (CopyToDevice asks for no attributes). A compiled function receives from a GPU into pinned memory,
and what it computes on the CPU for a GPU lies in pinned memory (ImmutableExecutorState, InferAllocAttr in
core/common_runtime/immutable_executor_state.cc: set_gpu_compatible). Ordinary memory may be staged through pinned
memory by TensorFlow or by the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from .judgement import short

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
