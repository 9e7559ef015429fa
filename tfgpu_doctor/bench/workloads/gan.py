"""Training steps of a small GAN: the DCGAN of TensorFlow's tutorial, 28×28 grey images out of 100 random numbers.

Two networks learn against each other, so that a step is more than that of a classifier: transposed convolutions, one
network's gradient through the other, two optimisers. Source of the networks, the losses and the optimisers:
https://www.tensorflow.org/tutorials/generative/dcgan. Two things differ, so that a step can be computed again and
compared: noise and dropout are drawn from the number of the step and of the shard (Philox, the same on CPU and GPU),
and kernels start from NumPy's numbers.

Work: images of a step. Each replica has its own batch (weak scaling) and the optimisers add up the gradients.
FLOP of a step and image: both networks forward (the discriminator on a real and a made image), the gradients of the
discriminator's loss for both images, and those of the generator's loss through the discriminator.

Verified: the first steps, by the function that is measured. One device: Adam's moments, which are the gradients,
against a training in float64 on the CPU. Several replicas: against one device that computes their batches one after the
other and adds up the gradients; their weights must be the same bit by bit. Every loss must be finite.
"""

from __future__ import annotations

import math
import time
from typing import Any

from .judgement import Check, Judgement, finite, judged, numbers
from .models import policy, same_weights
from .training import copies, count_identical, misplaced, on_devices, place, room_for, strategy_over, synchronise

UNIT = "images/s"
DTYPES = ("float32", "tf32", "mixed_float16", "mixed_bfloat16")
LEARNING_RATE = 1e-4  # of both Adams, the tutorial's
SCALE = {"mixed_float16": 1024.0}  # of the losses, so that their gradients do not vanish in float16; taken out again
DEFAULT_BATCH = 128  # images on each device; the tutorial's 256 takes a CPU seconds
REFERENCE_STEPS = 2  # of the warm-up, which are compared

# 2 FLOP a multiply-add of dense layers, convolutions and transposed convolutions; tests/bench/test_gan.py compares
# these with the real networks.
GENERATOR_FLOP = 103_488_000
GENERATOR_FIRST_FLOP = 2_508_800
DISCRIMINATOR_FLOP = 20_710_144
DISCRIMINATOR_FIRST_FLOP = 627_200

METHOD_ONE = "the gradients of the first steps against a training in float64 on the CPU"
METHOD_SEVERAL = "the gradients of the first steps against one device that computes all batches one after the other"
# Relative rms distance of Adam's first moments, which after a step are a tenth of the gradients. An input of a leaky
# ReLU that rounding moves across 0 changes its gradient by the whole kink, so that a share p of such inputs makes about
# √p. Measured with TensorFlow 2.21 on a CPU at batches of 8 to 128, after one step and two: float32 6e-7 to 2e-4,
# float16 1.2e-2 to 3.7e-2, bfloat16 1.6e-2 to 5.2e-2; tf32 rounds as float16 does. A step that forgets to divide by the
# number of replicas, or one that adds up nothing, is 1 away.
TOLERANCE = {"float32": 2e-3, "tf32": 1e-1, "mixed_float16": 1e-1, "mixed_bfloat16": 2e-1}
# Relative distance of the losses, which have no such kinks: measured 1.4e-7, 9e-5 and 1.8e-4.
LOSS_TOLERANCE = {"float32": 5e-6, "tf32": 1e-3, "mixed_float16": 1e-3, "mixed_bfloat16": 2e-3}


def training_flop() -> int:
    """FLOP of one step for one image: see the head of this file."""
    generator = 3 * GENERATOR_FLOP - GENERATOR_FIRST_FLOP
    return generator + 7 * DISCRIMINATOR_FLOP - 2 * DISCRIMINATOR_FIRST_FLOP


def judge(answer: dict[str, Any], dtype: str, _parameters: dict[str, Any]) -> Judgement:
    """Say whether the losses are finite, losses and gradients right, the weights moving and the replicas alike."""
    losses = [math.nan if loss is None else loss for loss in answer["losses"]]
    finite = all(math.isfinite(loss) for loss in losses)
    checks = [Check("finite losses", finite, f"{losses[0]:.3g} and {losses[1]:.3g}")]
    several = answer.get("replicas", 1) > 1
    if "residual" in answer:
        checks += _compared(answer, losses, dtype, "one device" if several else "float64")
        checks += [Check("replicas identical", answer["identical"], f"all {answer['replicas']}")] if several else []
    return judged(
        METHOD_SEVERAL if several else METHOD_ONE,
        checks,
        residual=answer.get("residual"),
        tolerance=TOLERANCE[dtype] if "residual" in answer else None,
    )


def _compared(answer: dict[str, Any], losses: list[float], dtype: str, other: str) -> list[Check]:
    """What the state after the first steps says beside that of `other`; the gradients are the residual."""
    residual, moved = answer["residual"], answer["moved"]
    apart = max(abs(found - right) / abs(right) for found, right in zip(losses, answer["expected_losses"]))
    close = residual is not None and residual <= TOLERANCE[dtype]
    learns = all(distance > 0 for distance in moved)  # not a number is no distance
    return [
        Check(f"losses as in {other}", apart <= LOSS_TOLERANCE[dtype], f"{apart:.1g} relative difference"),
        Check(f"gradients as in {other}", close, "" if close else f"{residual} relative difference"),
        Check("learning of both networks", learns, "" if learns else "their weights did not change"),
    ]


def reference(parameters: dict[str, Any], file: str) -> None:
    """Train in float64 on the CPU, and write the gradients' moments after each of the first steps to `file` (.npz)."""
    import numpy as np

    training = Training(["/CPU:0"], "float64", parameters["batch"])
    states = {}
    for step in range(1, REFERENCE_STEPS + 1):
        training.run_step()
        states[f"moments {step}"] = training.moments()
        states[f"losses {step}"] = training.total_losses()
    np.savez(file, **states)


class Training:
    """Both networks, their optimisers and a step; over several devices, or one that computes several batches.

    Args:
        shards: batches that one device computes one after the other; for the comparison with as many replicas.
    """

    def __init__(self, devices: list[str], dtype: str, batch: int, shards: int = 1) -> None:
        """Build the networks and put the images on the devices; nothing is computed yet."""
        import tensorflow as tf

        self.devices, self.batch, self.shards, self.dtype = devices, batch, shards, dtype
        self.strategy = strategy_over(devices)
        self.images_in_all = batch * shards * len(devices)
        with self.strategy.scope():
            self.generator, self.discriminator = networks(dtype)
            self.optimisers = [_adam(tf.keras, net.trainable_variables) for net in self.networks()]
        self.initial = [net.get_weights() for net in self.networks()]
        self.cold = {}
        started = time.perf_counter()
        self.images = place(self.strategy, devices, lambda index: _stacked(batch, shards, index))
        synchronise(self.last())
        self.cold["to devices"] = time.perf_counter() - started
        self.function = tf.function(self._step, autograph=False)
        self.count = 0  # steps done
        self.losses: Any = None

    def networks(self) -> tuple[Any, Any]:
        """Generator and discriminator, as things with weights."""
        return self.generator, self.discriminator.model

    def last(self) -> list[Any]:
        """What a step changes last, on every device."""
        return copies(self.strategy, self.discriminator.model.trainable_variables[-1])

    def run_step(self) -> None:
        """Queue one step."""
        import tensorflow as tf

        self.losses = self.function(self.images, tf.constant(self.count))
        self.count += 1

    def _step(self, images: Any, number: Any) -> Any:
        return self.strategy.run(self._replica_step, args=(images, number))

    def _replica_step(self, images: Any, number: Any) -> Any:
        """What each replica does: gradients of its batch, and their sum over all replicas applied."""
        import tensorflow as tf

        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        losses: Any = 0.0
        gradients: list[Any] = []
        for shard, part in enumerate(tf.split(images, self.shards)):
            seed = tf.stack([number, tf.cast(replica, tf.int32) + shard])
            loss, found = self._gradients(part, seed)
            losses += loss
            gradients = [a + b for a, b in zip(gradients, found)] if gradients else found
        count = len(self.generator.trainable_variables)
        for optimiser, net, part in zip(self.optimisers, self.networks(), (gradients[:count], gradients[count:])):
            optimiser.apply_gradients(zip(part, net.trainable_variables))
        return losses

    def _gradients(self, images: Any, seed: Any) -> tuple[Any, list[Any]]:
        """Losses [generator, discriminator] of one batch, and their gradients; both by the images of all replicas."""
        import tensorflow as tf

        count, scale = tf.shape(images)[0], SCALE.get(self.dtype, 1.0) / self.images_in_all
        noise = tf.random.stateless_normal([count, NOISE], seed)
        with tf.GradientTape() as of_generator, tf.GradientTape() as of_discriminator:
            made = self.generator(tf.cast(noise, self.generator.compute_dtype), training=True)
            real, fake = self.discriminator(images, seed + 100), self.discriminator(made, seed + 200)
            generator = scale * _entropy(real=True, logits=fake)
            discriminator = scale * (_entropy(real=True, logits=real) + _entropy(real=False, logits=fake))
        gradients = [
            *of_generator.gradient(generator, self.generator.trainable_variables),
            *of_discriminator.gradient(discriminator, self.discriminator.model.trainable_variables),
        ]
        taken_out = 1.0 / SCALE.get(self.dtype, 1.0)
        losses = tf.stack([generator, discriminator]) * taken_out
        return losses, gradients if taken_out == 1.0 else [taken_out * gradient for gradient in gradients]

    def total_losses(self) -> list[float]:
        """Of the last step, over all images: generator's, discriminator's."""
        found = [loss.numpy() for loss in self.strategy.experimental_local_results(self.losses)]
        return [float(value) for value in sum(found)]

    def moments(self) -> Any:
        """Adam's first moments of both networks, one float64 vector: what the gradients so far have been."""
        import numpy as np

        flat = []
        for optimiser, net in zip(self.optimisers, self.networks()):
            variables = optimiser.variables() if callable(optimiser.variables) else optimiser.variables
            # in every Keras: all first moments in the weights' order, then all second ones; or in pairs
            state = [one for one in variables if len(one.shape) and not _is_second(one)]
            assert [tuple(one.shape) for one in state] == [tuple(one.shape) for one in net.trainable_variables]
            flat += [np.asarray(one.numpy(), np.float64).ravel() for one in state]
        return np.concatenate(flat)

    def moved(self) -> list[float]:
        """How far the trained weights of each network are from where they began, relative rms."""
        import numpy as np

        found = []
        for net, initial in zip(self.networks(), self.initial):
            began = dict(zip([id(one) for one in net.weights], initial))
            pairs = [(one.numpy(), began[id(one)]) for one in net.trainable_variables]
            apart = sum(float(np.square(now - then, dtype=np.float64).sum()) for now, then in pairs)
            size = sum(float(np.square(then, dtype=np.float64).sum()) for _, then in pairs)
            found.append(math.sqrt(apart / size))
        return found

    def identical(self) -> bool:
        """True if all replicas hold the same weights, bit by bit."""
        weights = [weight for net in self.networks() for weight in net.trainable_variables]
        return count_identical(self.strategy, weights) == len(weights)


class Workload:
    """A training over the devices of a case."""

    def __init__(self, parameters: dict[str, Any], dtype: str, devices: list[str], _spread: str) -> None:
        """Build it; nothing is computed yet."""
        self.dtype, self.batch, self.verified = dtype, parameters["batch"], False
        started = time.perf_counter()
        self.training = Training(devices, dtype, self.batch)
        self.cold = {**self.training.cold, "networks": time.perf_counter() - started}
        self.cold["networks"] -= self.cold["to devices"]

    def sample(self, steps: int) -> float:
        """Seconds of `steps` training steps, from the first call to the end on the last device."""
        started = time.perf_counter()
        with room_for(f"a batch of {self.batch}"):
            for _ in range(steps):
                self.training.run_step()
            self.synchronise()
        return time.perf_counter() - started

    def synchronise(self) -> None:
        """Wait until every device has done what was queued."""
        synchronise(self.training.last())

    def verify(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compare the state after the warm-up with a reference: `request["file"]`, or for replicas one device."""
        training, devices = self.training, self.training.devices
        if len(devices) > 1:  # all of their batches on the first of them, in turn: little memory beside its own
            alone = Training(devices[:1], self.dtype, self.batch, shards=len(devices))
            for _ in range(training.count):
                alone.run_step()
            expected, losses = alone.moments(), alone.total_losses()
        else:
            expected, losses = _saved(request["file"], training.count)
        self.verified = True
        return {
            "losses": numbers(training.total_losses()),
            "expected_losses": losses,
            "residual": _relative(training.moments(), expected),
            "steps": training.count,
            "moved": training.moved(),
            "replicas": len(devices),
            "identical": training.identical(),
        }

    def recheck(self) -> dict[str, Any] | None:
        """None while the losses are finite numbers, or nothing was verified yet."""
        losses = self.training.total_losses()
        if not self.verified or all(math.isfinite(loss) for loss in losses):
            return None
        return {"losses": numbers(losses)}

    def placed_on(self) -> list[str]:
        """The device of each replica's losses."""
        return on_devices(self.training.strategy.experimental_local_results(self.training.losses))

    def misplaced(self) -> str | None:
        """What was computed elsewhere than asked for; None when nothing was."""
        import tensorflow as tf

        training = self.training
        graph = training.function.get_concrete_function(training.images, tf.constant(0)).graph
        return misplaced(training.devices, self.placed_on(), graph)


def _stacked(batch: int, shards: int, index: int) -> Any:
    import numpy as np

    return np.concatenate([images(batch, index * shards + shard) for shard in range(shards)])


def _adam(keras: Any, variables: list[Any]) -> Any:
    """The tutorial's optimiser; its state is made at once where Keras can, so that replicas need not in a step."""
    adam = keras.optimizers.Adam(LEARNING_RATE)
    if hasattr(adam, "build"):
        adam.build(variables)
    return adam


def _entropy(*, real: bool, logits: Any) -> Any:
    """The sum of the cross entropies of a batch against "real" or "made", in float32 at least."""
    import tensorflow as tf

    logits = logits if logits.dtype == tf.float64 else tf.cast(logits, tf.float32)
    wanted = tf.ones_like(logits) if real else tf.zeros_like(logits)
    return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=wanted, logits=logits))


def _is_second(variable: Any) -> bool:
    """Whether a variable of Adam's state is a second moment: "k_velocity" (Keras 3), "v/k:0" or "Adam/k/v:0" (2)."""
    name = "/" + variable.name.replace(":0", "/")
    return "velocity" in name or "/v/" in name


def _saved(file: str, step: int) -> tuple[Any, list[float]]:
    import numpy as np

    with np.load(file) as states:
        return states[f"moments {step}"], [float(loss) for loss in states[f"losses {step}"]]


def _relative(found: Any, expected: Any) -> float | None:
    """Relative rms distance; None where it is no number."""
    import numpy as np

    apart = float(np.sqrt(np.square(found - expected).sum() / np.square(expected).sum()))
    return finite(apart)


# ---------------------------------------------------------------------------------------------------------------------
# The networks of the GAN, the DCGAN of TensorFlow's tutorial, and the images that it learns from.
#
# Source: https://www.tensorflow.org/tutorials/generative/dcgan. Dropout is drawn from a seed and kernels start from
# numbers of NumPy's, so that a step can be computed again and compared.


SEED = 7
NOISE = 100  # random numbers for an image
DROPOUT = 0.3


class Discriminator:
    """Two convolutions and a dense layer; dropout between them is drawn from a seed, so that it can be drawn again."""

    def __init__(self, keras: Any) -> None:
        """Build it in the global policy."""
        layers = keras.layers
        image = keras.Input((28, 28, 1))
        first = layers.LeakyReLU()(layers.Conv2D(64, 5, strides=2, padding="same")(image))
        self._first = keras.Model(image, first)
        half = keras.Input((14, 14, 64))
        second = layers.LeakyReLU()(layers.Conv2D(128, 5, strides=2, padding="same")(half))
        self._second = keras.Model(half, second)
        quarter = keras.Input((7, 7, 128))
        self._head = keras.Model(quarter, layers.Dense(1)(layers.Flatten()(quarter)))
        self.model = keras.Model(image, self._head(self._second(self._first(image))))  # all weights under one name

    def __call__(self, images: Any, seed: Any) -> Any:
        """Logits [n, 1] of images [n, 28, 28, 1]."""
        half = _dropout(self._first(images, training=True), seed)
        return self._head(_dropout(self._second(half, training=True), seed + 10), training=True)


def _dropout(values: Any, seed: Any) -> Any:
    """Set a share of the values to 0 and scale the others up, as Keras's Dropout does with seeds of its own."""
    import tensorflow as tf

    kept = tf.random.stateless_uniform(tf.shape(values), seed) >= DROPOUT
    return tf.where(kept, values * (1.0 / (1.0 - DROPOUT)), tf.zeros_like(values))


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


def networks(dtype: str) -> tuple[Any, Discriminator]:
    """Generator and discriminator in the policy of `dtype`, with weights that are always the same."""
    import tensorflow as tf

    keras = tf.keras
    with policy(keras, dtype):
        generator, discriminator = _generator(keras), Discriminator(keras)
    generator.set_weights(same_weights(generator.get_weights()))
    discriminator.model.set_weights(same_weights(discriminator.model.get_weights()))
    return generator, discriminator


def images(count: int, index: int) -> Any:
    """The batch of shard `index`: float32 [count, 28, 28, 1] from -1 to 1, a coarse bright pattern in each image."""
    import numpy as np

    rng = np.random.default_rng([SEED, index])
    coarse = rng.standard_normal((count, 7, 7, 1), dtype=np.float32)
    return np.tanh(2 * coarse).repeat(4, axis=1).repeat(4, axis=2)
