"""Training a classifier of models.py: the step that is measured, and the same steps by other means to compare it with.

The step: forward, softmax cross-entropy, gradients, their sum over all replicas, SGD with momentum. Under XLA the
forward and backward pass are compiled in every case, the sum and the update in none: so one device and several run the
same code, where compiling all of it fails under MirroredStrategy (InvalidArgumentError, TensorFlow 2.21).
float16 has its loss scaled by a fixed factor, taken out of the gradients again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .models import MODELS, batch, build
from .replicas import copies, place, synchronise

MOMENTUM = 0.9
SCALE = {"mixed_float16": 1024.0}  # of the loss, so that small gradients do not vanish in float16
DATA_SEED = 1


class Training:
    """A network, its optimiser, and the compiled step over the devices of a strategy.

    Args:
        replicas: of all machines; the loss is averaged over them.
        first: the number of this machine's first replica.
    """

    def __init__(
        self, strategy: Any, devices: list[str], name: str, dtype: str, xla: bool, replicas: int, first: int = 0
    ) -> None:
        """Build it; nothing is computed yet."""
        import tensorflow as tf

        self.strategy, self.devices, self.name, self.dtype = strategy, devices, name, dtype
        self.replicas, self.first, self.xla = replicas, first, xla
        with lenient(), strategy.scope():
            self.model = build(name, dtype)
            self.optimizer = sgd(tf, MODELS[name].learning_rate)
            if hasattr(self.optimizer, "build"):  # its variables cannot be made within the step
                self.optimizer.build(self.model.trainable_variables)
        self.initial = self.model.get_weights()
        passes = tf.function(self._gradients, jit_compile=True, autograph=False) if xla else self._gradients
        self.passes = passes
        self.step = tf.function(self._step, autograph=False)

    def data(self, each: int) -> tuple[Any, ...]:
        """Images and labels, `each` on every replica, on the devices."""
        import numpy as np

        images, labels = batch(self.name, each * self.replicas, DATA_SEED)
        labels = labels.astype(np.int64)  # int32 lies on the host even where its device is a GPU

        def shard(values: Any) -> Any:
            return lambda index: np.ascontiguousarray(values[(self.first + index) * each :][:each])

        return tuple(place(self.strategy, self.devices, shard(values), self.first) for values in (images, labels))

    def reset(self) -> None:
        """Go back to the initial weights, and to an optimiser that has seen nothing."""
        self.model.set_weights(self.initial)
        variables = self.optimizer.variables
        for variable in variables() if callable(variables) else variables:
            if len(variable.shape):  # not the count of steps, nor the learning rate
                for copy in copies(self.strategy, variable):
                    copy.assign(copy * 0)

    def weights(self) -> list[Any]:
        """Trained weights of this machine's first replica, NumPy arrays."""
        return [copies(self.strategy, weight)[0].numpy() for weight in self.model.trainable_variables]

    def wait(self, results: Sequence[Any] = ()) -> None:
        """Wait until this machine's devices have done what was queued: a step, or what gave `results`."""
        synchronise(results or self.tensors()[-1:], self.devices if self.replicas > len(self.devices) else ())

    def gradient_bytes(self) -> int:
        """What every step has to sum over the replicas: float32 for each trained weight."""
        return sum(4 * int(weight.shape.num_elements()) for weight in self.tensors())

    def tensors(self) -> list[Any]:
        """The variables of the first replica."""
        return [copies(self.strategy, weight)[0] for weight in self.model.trainable_variables]

    def _gradients(self, images: Any, labels: Any) -> tuple[Any, list[Any]]:
        """Loss of one replica's images, and its part of the gradients, in float32."""
        return gradients_of(self.model, images, labels, SCALE.get(self.dtype, 1.0), self.replicas)

    def _replica_step(self, images: Any, labels: Any) -> Any:
        loss, gradients = self.passes(images, labels)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))  # sums over the replicas first
        return loss

    def _step(self, images: Any, labels: Any) -> Any:
        """Losses, one for each of this machine's replicas."""
        losses = self.strategy.run(self._replica_step, args=(images, labels))
        return self.strategy.experimental_local_results(losses)


@contextmanager
def lenient() -> Iterator[None]:
    """Let TensorFlow itself place what has no kernel on a GPU, while a network is built and its weights are made.

    What is measured runs without this.
    """
    import tensorflow as tf

    before = tf.config.get_soft_device_placement()
    tf.config.set_soft_device_placement(True)
    try:
        yield
    finally:
        tf.config.set_soft_device_placement(before)


def gradients_of(model: Any, images: Any, labels: Any, scale: float, replicas: int) -> tuple[Any, list[Any]]:
    """The mean loss of a batch, and the gradients of that loss divided by the number of replicas."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        logits = model(images, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        loss = tf.reduce_mean(losses)
        scaled = loss * (scale / replicas)
    gradients = tape.gradient(scaled, model.trainable_variables)
    return loss, gradients if scale == 1.0 else [gradient * (1.0 / scale) for gradient in gradients]


def sgd(tf: Any, rate: float) -> Any:
    """Keras's SGD with momentum, not compiled on its own: Keras 2.11 to 2.15 would compile it on a GPU alone."""
    try:
        return tf.keras.optimizers.SGD(rate, momentum=MOMENTUM, jit_compile=False)
    except (TypeError, ValueError):  # other Keras know no such argument
        return tf.keras.optimizers.SGD(rate, momentum=MOMENTUM)


def train_apart(
    name: str, dtype: str, device: str, each: int, shards: int, steps: int
) -> tuple[list[list[float]], list[Any]]:
    """The same training without strategy and without Keras's optimiser: one device, the replicas' batches in turn.

    Returns:
        for every step the loss of each shard, and the trained weights, NumPy arrays.
    """
    import numpy as np
    import tensorflow as tf

    images, labels = batch(name, each * shards, DATA_SEED)
    kind = np.float64 if dtype == "float64" else np.float32
    rate, scale = MODELS[name].learning_rate, SCALE.get(dtype, 1.0)
    with lenient(), tf.device(device):
        model = build(name, dtype)
        weights = model.trainable_variables
        velocity = [tf.zeros_like(tf.convert_to_tensor(weight)) for weight in weights]
        parts = [
            (tf.constant(images[first : first + each].astype(kind)), tf.constant(labels[first : first + each]))
            for first in range(0, each * shards, each)
        ]
        passes = tf.function(lambda one, other: gradients_of(model, one, other, scale, shards), autograph=False)
        losses = []
        for _ in range(steps):
            found = [passes(*part) for part in parts]
            losses.append([float(loss) for loss, _ in found])
            for index, weight in enumerate(weights):
                total = tf.add_n([gradients[index] for _, gradients in found])
                velocity[index] = MOMENTUM * velocity[index] - rate * total
                weight.assign_add(velocity[index])
        return losses, [weight.numpy() for weight in weights]
