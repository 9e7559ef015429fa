"""The networks of the GAN, the DCGAN of TensorFlow's tutorial, and the images that it learns from.

Source: https://www.tensorflow.org/tutorials/generative/dcgan. Dropout is drawn from a seed and kernels start from
numbers of NumPy's, so that a step can be computed again and compared.
"""

from __future__ import annotations

from typing import Any

from .models import policy, same_weights

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
