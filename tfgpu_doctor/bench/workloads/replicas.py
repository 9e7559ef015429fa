"""Training on one device or on several: the strategy, values on each device, waiting, and where things were computed.

For workloads that train with tf.distribute. Worker side: TensorFlow is imported inside the functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .judgement import short

# What convolutional networks compute; where these stand is where the training happens.
PRODUCTS = frozenset(
    {"MatMul", "BatchMatMulV2", "Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "DepthwiseConv2dNative"}
)


def strategy_over(devices: Sequence[str]) -> Any:
    """OneDeviceStrategy for one device, MirroredStrategy for several."""
    import tensorflow as tf

    if len(devices) == 1:
        return tf.distribute.OneDeviceStrategy(devices[0])
    return tf.distribute.MirroredStrategy(list(devices))


def place(strategy: Any, devices: Sequence[str], make: Callable[[int], Any]) -> Any:
    """What `make` returns for each replica's number, on that replica's device, to be given to `strategy.run`."""
    import tensorflow as tf

    def value(context: Any) -> Any:
        index = int(context.replica_id_in_sync_group)
        with tf.device(devices[index]):
            return tf.nest.map_structure(lambda one: tf.identity(tf.constant(one)), make(index))

    return strategy.experimental_distribute_values_from_function(value)


def synchronise(results: Iterable[Any]) -> None:
    """Wait until every device has done what was queued; `results` are tensors or variables that come last."""
    import tensorflow as tf

    sync = getattr(tf.test.experimental, "sync_devices", None)
    if sync is not None:
        sync()
        return
    for result in results:  # TensorFlow before 2.12: fetching a number that depends on the result waits for it
        float(tf.reduce_sum(tf.cast(result, tf.float32)).numpy())


def on_devices(tensors: Iterable[Any]) -> list[str]:
    """The device whose memory holds each tensor, short: "/GPU:0"."""
    return [short(tensor.backing_device) for tensor in tensors]


def misplaced(devices: Sequence[str], found: Sequence[str], graph: Any) -> str | None:
    """Say what was computed elsewhere than asked for; None when nothing was.

    Args:
        found: where each replica's result lies.
        graph: of the compiled function, whose convolutions and products name their device.
    """
    for want, got in zip(devices, found):
        if want != got:
            return f"computed on {got} instead of {want}"
    inside = {short(op.device) for op in graph.get_operations() if op.type in PRODUCTS}
    if inside != set(devices):
        return f"products on {', '.join(sorted(inside))} instead of {', '.join(devices)}"
    return None
