"""What `model.fit` gives with the same network, data and batch: what people use, shown beside the custom loop.

As its users have it: data from tf.data, loss and no further metric, TensorFlow places what needs the CPU there (soft
placement). XLA as in the case, never "auto", which would be another compiler on each kind of device.
"""

from __future__ import annotations

import time
from typing import Any

from ..statistics import median, median_interval
from .models import MODELS, batch
from .training import DATA_SEED, Training, lenient, sgd

EPOCH = 0.3  # seconds that the steps of an epoch shall take together
EPOCHS = 6  # that are timed, behind one that traces
SLOW = 5.0  # seconds of a step above which fit is not tried: it would keep the user waiting for minutes


def fit(training: Training, each: int, step_s: float) -> tuple[list[dict[str, Any]], list[str]]:
    """The figure "fit", images/s of all replicas, or why there is none.

    Args:
        each: images on each replica.
        step_s: seconds of a step of the custom loop, for how many steps an epoch shall have.
    """
    if training.xla and training.replicas > 1:
        return [], ["model.fit not measured: with XLA it fails under MirroredStrategy (InvalidArgumentError)"]
    if step_s > SLOW:
        return [], [f"model.fit not measured: a step takes {step_s:.0f} s"]
    import tensorflow as tf

    steps = max(1, min(round(EPOCH / max(step_s, 1e-4)), 200))
    try:
        with lenient():
            seconds = _epochs(tf, training, each, steps)
    except (tf.errors.OpError, ValueError, TypeError, RuntimeError) as error:  # Keras's, on whose fit nothing depends
        reason = str(error).strip().splitlines()[:1]
        return [], [": ".join([f"model.fit not measured: {type(error).__name__}", *reason])[:200]]
    work = each * training.replicas * steps
    low, high = median_interval(seconds)
    note = f"model.fit, {steps} steps an epoch, {len(seconds)} epochs, batches from tf.data"
    figure = {"name": "fit", "value": work / median(seconds), "unit": "images/s", "note": note}
    return [{**figure, "ci95": [work / high, work / low]}], []


def _epochs(tf: Any, training: Training, each: int, steps: int) -> list[float]:
    """Seconds of each epoch of `steps` steps, but the first, which traces."""
    images, labels = batch(training.name, each * training.replicas, DATA_SEED)
    with tf.device("/CPU:0"):
        data = tf.data.Dataset.from_tensors((images, labels)).repeat().prefetch(2)
    with training.strategy.scope():
        _compile(tf, training)
    watch = _watch(tf)
    training.model.fit(data, epochs=EPOCHS + 1, steps_per_epoch=steps, verbose=0, callbacks=[watch])
    seconds: list[float] = watch.seconds[1:]
    return seconds


def _compile(tf: Any, training: Training) -> None:
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    settings = {"optimizer": sgd(tf, MODELS[training.name].learning_rate), "loss": loss}
    try:
        training.model.compile(**settings, jit_compile=training.xla)
    except TypeError:  # Keras before 2.6 knows no such argument, and compiles nothing
        training.model.compile(**settings)


def _watch(tf: Any) -> Any:
    """A callback that notes how long each epoch took. `fit` fetches the loss at its end, which waits for the steps."""

    class Watch(tf.keras.callbacks.Callback):  # type: ignore[misc]  # Keras is not there when types are checked
        def __init__(self) -> None:
            super().__init__()
            self.seconds: list[float] = []
            self.began = 0.0

        def on_epoch_begin(self, _epoch: int, _logs: Any = None) -> None:
            self.began = time.perf_counter()

        def on_epoch_end(self, _epoch: int, _logs: Any = None) -> None:
            self.seconds.append(time.perf_counter() - self.began)

    return Watch()
