"""Training on one device or on several: the strategy, values on each device, waiting, and where things were computed.

For workloads that train with tf.distribute. Worker side: TensorFlow is imported inside the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .judgement import short

# What convolutional networks compute; where these stand is where the training happens.
PRODUCTS = frozenset(
    {"MatMul", "BatchMatMulV2", "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "DepthwiseConv2dNative"}
)

CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})

# What TensorFlow, cuDNN, cuBLAS and XLA say beside ResourceExhaustedError when memory is what they lack: as
# InternalError, UnknownError or NotFoundError (tensorflow/python/framework/errors_impl.py).
NO_MEMORY = (
    *("RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "OOM when allocating", "CUDA_ERROR_OUT_OF_MEMORY"),
    *("CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED", "Failed to allocate", "failed to allocate"),
)


class NoRoomError(Exception):
    """The memory of a device does not hold what a step needs; the message says what there was no room for."""


@contextmanager
def room_for(what: str) -> Iterator[None]:
    """Turn TensorFlow's ways to say that memory is missing into one. Raises NoRoomError: memory is missing."""
    import tensorflow as tf

    try:
        yield
    except (MemoryError, tf.errors.OpError) as error:
        lacking = isinstance(error, (MemoryError, tf.errors.ResourceExhaustedError))
        if not lacking and not any(word in str(error) for word in NO_MEMORY):
            raise
        raise NoRoomError(f"not enough memory for {what}: try a smaller --batch-size") from error


def limit_memory(more: int) -> None:
    """Refuse this process more than `more` bytes beside what it has, so that the system never runs out of memory.

    An allocation that is refused is TensorFlow's ResourceExhaustedError, or the end of this process. Linux only: other
    systems count otherwise.
    """
    import resource

    status = Path("/proc/self/status").read_text().split()
    have = 1024 * int(status[status.index("VmData:") + 1])
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = have + more
    resource.setrlimit(resource.RLIMIT_DATA, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def strategy_over(devices: Sequence[str]) -> Any:
    """OneDeviceStrategy for one device, MirroredStrategy for several."""
    import tensorflow as tf

    if len(devices) == 1:
        return tf.distribute.OneDeviceStrategy(devices[0])
    return tf.distribute.MirroredStrategy(list(devices))


def place(strategy: Any, devices: Sequence[str], make: Callable[[int], Any], first: int = 0) -> Any:
    """What `make` returns for each replica's number, on that replica's device, to be given to `strategy.run`.

    Args:
        first: the number of the replica on the first of `devices`, where there are others on other machines.
    """
    import tensorflow as tf

    def value(context: Any) -> Any:
        index = int(context.replica_id_in_sync_group) - first
        with tf.device(devices[index]):
            return tf.nest.map_structure(lambda one: tf.identity(tf.constant(one)), make(index))

    return strategy.experimental_distribute_values_from_function(value)


def synchronise(results: Iterable[Any], only: Sequence[str] = ()) -> None:
    """Wait until every device has done what was queued; `results` are tensors or variables that come last.

    Args:
        only: this machine's devices, where there are others on other machines, which cannot be waited for.
    """
    import tensorflow as tf

    sync = getattr(getattr(tf.test, "experimental", None), "sync_devices", None)
    if sync is None:  # TensorFlow before 2.12: fetching a number that depends on the result waits for it
        for result in results:
            float(tf.reduce_sum(tf.cast(result, tf.float32)).numpy())
    elif only:
        for device in only:
            with tf.device(device):
                tf.raw_ops.SyncDevice()
    else:
        sync()


def copies(strategy: Any, weight: Any) -> list[Any]:
    """What each replica holds of a Keras weight, in the order of the replicas."""
    held = weight if callable(weight.value) else weight.value  # Keras 3 wraps the variable
    return list(strategy.experimental_local_results(held))


def on_devices(tensors: Iterable[Any]) -> list[str]:
    """The device whose memory holds each tensor, short: "/GPU:0"."""
    return [short(tensor.backing_device) for tensor in tensors]


def misplaced(devices: Sequence[str], found: Sequence[str], graph: Any, *, compiled: bool = False) -> str | None:
    """Say what was computed elsewhere than asked for; None when nothing was.

    Args:
        found: where each replica's result lies.
        graph: of the compiled function, whose convolutions and products name their device.
        compiled: they are inside a function that XLA compiles, and its call names the device.
    """
    for want, got in zip(devices, found):
        if want != got:
            return f"computed on {got} instead of {want}"
    kinds = CALLS if compiled else PRODUCTS
    inside = {short(op.device) for op in graph.get_operations() if op.type in kinds}
    if inside != set(devices):
        return f"products on {', '.join(sorted(inside))} instead of {', '.join(devices)}"
    return None
