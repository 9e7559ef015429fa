"""Where the time of several replicas goes: the sum of the gradients, and replicas that keep one another waiting.

Measured by functions of their own beside the step, each run in blocks that are waited for once:
  all-reduce   the sum over all replicas of as many float32 as a step sums, in the same pieces
  alone        forward and backward pass of the first replica, while the others rest
  together     the same of all replicas, without sum and update
A step may do the sum while it computes the next gradients, so that these do not add up to the step.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from ..statistics import median, median_interval
from .judgement import short
from .replicas import place
from .training import Training

BLOCKS = 7
BLOCK = 0.05  # seconds that a block shall take


def shares(
    training: Training, data: tuple[Any, ...], announce: Callable[[int], None] = lambda _: None
) -> list[dict[str, Any]]:
    """The figures "gradients alone", "gradients together", "all-reduce" (s a step) and its bus bandwidth (B/s).

    Args:
        announce: called before each block of so many all-reduces, for other machines to take part.
    """
    alone = timed(training, _passes(training, data, only_first=True))
    together = timed(training, _passes(training, data, only_first=False))
    call, by = all_reduce(training)
    reduce = timed(training, call, announce)
    size, count = training.gradient_bytes(), training.replicas
    seconds = median(reduce)
    bus = {
        "name": "all-reduce bus bandwidth",
        "value": size / seconds * 2 * (count - 1) / count,
        "unit": "B/s",
        "note": f"{size} bytes of gradients / time × 2(n-1)/n, {by}",
    }
    return [
        _figure("gradients alone", alone, "one replica computes, the others rest"),
        _figure("gradients together", together, "all replicas compute; no sum, no update"),
        _figure("all-reduce", reduce, f"sum of the gradients, {by}"),
        bus,
    ]


def _figure(name: str, seconds: list[float], note: str) -> dict[str, Any]:
    low, high = median_interval(seconds)
    return {"name": name, "value": median(seconds), "unit": "s", "ci95": [low, high], "note": note}


def timed(training: Training, call: Callable[[], Any], announce: Callable[[int], None] = lambda _: None) -> list[float]:
    """Seconds of a call, each the mean over a block that is waited for once."""

    def one(count: int) -> float:
        announce(count)
        return block(training, call, count)

    one(1)  # traces
    count = max(1, min(round(BLOCK / max(one(1), 1e-5)), 500))
    return [one(count) for _ in range(BLOCKS)]


def block(training: Training, call: Callable[[], Any], count: int) -> float:
    """Seconds of a call, of `count` that are waited for once."""
    started = time.perf_counter()
    for _ in range(count):
        last = call()
    training.wait(last)
    return (time.perf_counter() - started) / count


def _passes(training: Training, data: tuple[Any, ...], *, only_first: bool) -> Callable[[], Any]:
    """Forward and backward pass, all gradients summed up to one number so that none is left out."""
    import tensorflow as tf

    strategy = training.strategy

    def replica(images: Any, labels: Any) -> Any:
        nothing = tf.zeros([])  # its device tells the replicas apart: their number is no number while this is traced
        if only_first and short(nothing.device) != short(training.devices[0]):
            return nothing
        loss, gradients = training.passes(images, labels)
        return loss + tf.add_n([tf.reduce_sum(gradient) for gradient in gradients])

    def run(images: Any, labels: Any) -> Any:
        return strategy.experimental_local_results(strategy.run(replica, args=(images, labels)))

    function = tf.function(run, autograph=False)
    return lambda: function(*data)


def all_reduce(training: Training) -> tuple[Callable[[], Any], str]:
    """The sum of what has the shapes of the gradients; and who does it, by the compiled graph."""
    import tensorflow as tf

    strategy = training.strategy
    shapes = [tuple(weight.shape) for weight in training.tensors()]
    values = [place(strategy, training.devices, partial(_ones, shape), training.first) for shape in shapes]

    def replica(*parts: Any) -> Any:
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, [tf.identity(part) for part in parts])

    def run(*parts: Any) -> Any:
        summed = strategy.run(replica, args=parts)
        return [one for value in summed for one in strategy.experimental_local_results(value)]

    function = tf.function(run, autograph=False)
    return lambda: function(*values), implementation(function.get_concrete_function(*values).graph)


def _ones(shape: tuple[int, ...], _index: int) -> Any:
    import tensorflow as tf

    return tf.ones(shape)


def implementation(graph: Any) -> str:
    """Who sums, by the operations of a compiled graph: "NCCL", "TensorFlow's ring", "reduction to one device"."""
    for op in graph.get_operations():
        if op.type.startswith("CollectiveReduce"):
            hint = op.get_attr("communication_hint").decode()
            return "NCCL" if hint == "nccl" else "TensorFlow's ring"  # which "auto" is, too
        if op.type.startswith("Nccl"):
            return "NCCL"
    return "reduction to one device"
