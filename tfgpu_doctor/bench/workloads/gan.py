"""Training steps of a small GAN: the DCGAN of TensorFlow's tutorial, 28×28 grey images out of 100 random numbers.

Two networks learn against each other, so that a step is more than that of a classifier: transposed convolutions, one
network's gradient through the other, two optimisers. Source of the networks, the losses and the optimisers:
https://www.tensorflow.org/tutorials/generative/dcgan. Two things differ, so that a step can be computed again and
compared: noise and dropout are drawn from the number of the step and of the shard (Philox, the same on CPU and GPU),
and kernels start from NumPy's numbers.

Work: images of a step. Each replica has its own batch (weak scaling) and the optimisers add up the gradients.
FLOP of a step and image: both networks forward (the discriminator on a real and a made image), the gradients of the
discriminator's loss for both images, and those of the generator's loss through the discriminator.

Verified (docs/measuring.md): the first steps, by the function that is measured; Adam's moments are the gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .models import policy, same_weights
from .training import Check, Judgement, Training, TrainingWorkload, copies, judge_training, place, variables_of

UNIT = "images/s"
LEARNING_RATE = 1e-4  # of both Adams, the tutorial's
DEFAULT_BATCH = 128  # images on each device; the tutorial's 256 takes a CPU seconds

# 2 FLOP a multiply-add of dense layers, convolutions and transposed convolutions; tests/bench/test_gan.py compares
# these with the real networks.
GENERATOR_FLOP = 103_488_000
GENERATOR_FIRST_FLOP = 2_508_800
DISCRIMINATOR_FLOP = 20_710_144
DISCRIMINATOR_FIRST_FLOP = 627_200

METHODS = (
    "the gradients of the first steps against a training in float64 on the CPU",
    "the gradients of the first steps against one device that computes all batches one after the other",
)
# Relative rms distance of Adam's first moments, which after a step are a tenth of the gradients. An input of a leaky
# ReLU that rounding moves across 0 changes its gradient by the whole kink, so that a share p of such inputs makes about
# √p. Measured with TensorFlow 2.21 on a CPU at batches of 8 to 128, after one step and two: float32 6e-7 to 2e-4,
# float16 1.2e-2 to 3.7e-2, bfloat16 1.6e-2 to 5.2e-2; tf32 rounds as float16 does. A step that forgets to divide by the
# number of replicas, or one that adds up nothing, is 1 away.
# The losses, which have no such kinks, differ by 1.4e-7, 9e-5 and 1.8e-4. A limit for each: of losses and of moments.
TOLERANCE = {
    "float32": (5e-6, 2e-3),
    "tf32": (1e-3, 1e-1),
    "mixed_float16": (1e-3, 1e-1),
    "mixed_bfloat16": (2e-3, 2e-1),
}


def training_flop() -> int:
    """Return the FLOP of one step for one image: see the head of this file."""
    generator = 3 * GENERATOR_FLOP - GENERATOR_FIRST_FLOP
    return generator + 7 * DISCRIMINATOR_FLOP - 2 * DISCRIMINATOR_FIRST_FLOP


def judge(answer: dict[str, Any], dtype: str, _parameters: dict[str, Any]) -> Judgement:
    """Say whether the losses are finite, losses and gradients right, the weights moving and the replicas alike."""

    def learns() -> Check:
        still = [name for name, moved in zip(("generator", "discriminator"), answer["moved"]) if not moved > 0]
        return Check("both networks learn", not still, f"no change: {', '.join(still)}" if still else "")

    found = judge_training(answer, TOLERANCE[dtype], ("same gradients", "gradients"), learns, METHODS)
    return found if "block" in answer else replace(found, residual=answer["update"], tolerance=TOLERANCE[dtype][1])


class Dcgan(Training):
    """A training of generator and discriminator; `networks` are these two."""

    count = 0  # steps done

    def make(self) -> list[tuple[Any, Any]]:
        import tensorflow as tf

        return [(network, tf.keras.optimizers.Adam(LEARNING_RATE)) for network in networks(self.dtype)]

    def data(self, each: int) -> tuple[Any, ...]:
        import numpy as np

        def stacked(index: int) -> Any:
            return np.concatenate([images(each, index * self.shards + shard) for shard in range(self.shards)])

        return (place(self.strategy, self.devices, stacked),)

    def run(self, *data: Any) -> Any:
        """Queue one step; its number decides what is drawn."""
        import tensorflow as tf

        self.count += 1
        return self.step(*data, tf.constant(self.count - 1))

    def reset(self) -> None:
        """Go back to the initial weights, and to step 0."""
        super().reset()
        self.count = 0

    def fetched(self, losses: Sequence[Any]) -> list[float]:
        """Return the generator's loss and the discriminator's, over all images."""
        import numpy as np

        both = np.concatenate([np.reshape(loss.numpy(), (-1, 2)) for loss in losses])
        return [float(value) for value in both.mean(axis=0)]

    def gradients(self, *data: Any) -> tuple[Any, list[Any]]:
        *images, self.number = data  # of the step, while this is traced
        return super().gradients(*images)

    def losses(self, shard: int, *data: Any) -> list[Any]:
        """Return the losses of generator and discriminator."""
        import tensorflow as tf

        (images,) = data
        generator, discriminator = self.networks
        kind, count = generator.compute_dtype, images.shape[0]
        replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.int32)
        seed = tf.stack([self.number, replica + shard])

        def logits(made: Any, number: Any) -> Any:
            left = kept(count, HALF, number, kind), kept(count, QUARTER, number + 10, kind)
            return discriminator([made, *left], training=True)

        made = generator(tf.cast(tf.random.stateless_normal([count, NOISE], seed), kind), training=True)
        real, fake = logits(images, seed + 100), logits(made, seed + 200)
        return [_entropy(real=True, logits=fake), _entropy(real=True, logits=real) + _entropy(real=False, logits=fake)]

    def state(self) -> list[Any]:
        """Return Adam's first moments of both networks: what the gradients so far have been."""
        import numpy as np

        found: list[Any] = []
        for optimizer, network in zip(self.optimizers, self.networks):
            # in every Keras: all first moments in the weights' order, then all second ones; or in pairs. A second one
            # is called "k_velocity" (Keras 3), "v/k:0" or "Adam/k/v:0" (Keras 2)
            named = [("/" + one.name.replace(":0", "/"), one) for one in variables_of(optimizer) if len(one.shape)]
            moments = [one for name, one in named if "velocity" not in name and "/v/" not in name]
            assert [tuple(one.shape) for one in moments] == [tuple(one.shape) for one in network.trainable_variables]
            found += [np.float64(copies(self.strategy, one)[0].numpy()) for one in moments]
        return found


class Workload(TrainingWorkload):
    """A training over the devices of a case."""

    kind = Dcgan
    compared = 2

    def verify(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compare the first steps; also how far the weights of each network have moved."""
        answer = super().verify(request)
        added, count = Training.state(self.training), len(self.training.networks[0].trainable_variables)
        moved = [sum(float(abs(one).sum()) for one in part) for part in (added[:count], added[count:])]
        return {**answer, "moved": moved}

    def graph(self) -> Any:
        import tensorflow as tf

        return self.training.step.get_concrete_function(*self.data, tf.constant(0)).graph


def _entropy(*, real: bool, logits: Any) -> Any:
    """The mean of the cross entropies of a batch against "real" or "made", in float32 at least."""
    import tensorflow as tf

    logits = logits if logits.dtype == tf.float64 else tf.cast(logits, tf.float32)
    wanted = tf.ones_like(logits) if real else tf.zeros_like(logits)
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits))


# ---------------------------------------------------------------------------------------------------------------------
# The networks, and the images that they learn from.

SEED = 7
NOISE = 100  # random numbers for an image
DROPOUT = 0.3
HALF, QUARTER = (14, 14, 64), (7, 7, 128)  # what the discriminator's convolutions give, behind which dropout is


def _generator(keras: Any) -> Any:
    layers = keras.layers

    def activated(x: Any) -> Any:
        return layers.LeakyReLU()(layers.BatchNormalization()(x))

    noise = keras.Input((NOISE,))
    x = activated(layers.Dense(7 * 7 * 256, use_bias=False)(noise))
    x = layers.Reshape((7, 7, 256))(x)
    x = activated(layers.Conv2DTranspose(128, 5, strides=1, padding="same", use_bias=False)(x))
    x = activated(layers.Conv2DTranspose(64, 5, strides=2, padding="same", use_bias=False)(x))
    image = layers.Conv2DTranspose(1, 5, strides=2, padding="same", use_bias=False, activation="tanh")(x)
    return keras.Model(noise, image)


def _discriminator(keras: Any) -> Any:
    """Build it; what dropout lets through is an input, so that it can be drawn again."""
    layers = keras.layers
    image, half, quarter = keras.Input((28, 28, 1)), keras.Input(HALF), keras.Input(QUARTER)
    x = layers.LeakyReLU()(layers.Conv2D(64, 5, strides=2, padding="same")(image))
    x = layers.Multiply()([x, half])
    x = layers.LeakyReLU()(layers.Conv2D(128, 5, strides=2, padding="same")(x))
    x = layers.Multiply()([x, quarter])
    return keras.Model([image, half, quarter], layers.Dense(1)(layers.Flatten()(x)))


def kept(count: int, shape: tuple[int, ...], seed: Any, dtype: str) -> Any:
    """Draw what dropout leaves of the values of `count` images: 0 for a share of them, and the others scaled up."""
    import tensorflow as tf

    drawn = tf.random.stateless_uniform((count, *shape), seed) >= DROPOUT
    return tf.cast(drawn, dtype) * (1.0 / (1.0 - DROPOUT))


def networks(dtype: str) -> tuple[Any, Any]:
    """Build generator and discriminator in the policy of `dtype`, with weights that are always the same."""
    import tensorflow as tf

    keras = tf.keras
    with policy(keras, dtype):
        found = _generator(keras), _discriminator(keras)
    for network in found:
        network.set_weights(same_weights(network.get_weights()))
    return found


def images(count: int, index: int) -> Any:
    """The batch of shard `index`: float32 [count, 28, 28, 1] from -1 to 1, a coarse bright pattern in each image."""
    import numpy as np

    rng = np.random.default_rng([SEED, index])
    coarse = rng.standard_normal((count, 7, 7, 1), dtype=np.float32)
    return np.tanh(2 * coarse).repeat(4, axis=1).repeat(4, axis=2)
