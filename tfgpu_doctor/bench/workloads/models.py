"""The networks of the benchmarks that train or infer: how they are built, what they compute, and data that they learn.

Read on both sides: the parent reads MODELS and `training_flop`, the worker builds. Weights come from NumPy with a
fixed seed, so that they are the same on every device, on every replica and in every TensorFlow. Data are made, not
downloaded: a coarse pattern for each class under noise, which any of the networks learns within a few steps.

FLOP are counted as 2 for each multiply-add of a convolution or dense layer; normalisation, activations and pooling are
not counted, as nobody does. tests/bench/test_cnn.py walks the real Keras models and compares the constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

SEED = 7
NOISE = 0.5  # standard deviation around patterns of standard deviation 1
# Each residual branch starts small, as Goyal et al. 2017 (arXiv 1706.02677, section 5.1) have it, there with 0: with
# 1 a ResNet-50's first gradients are so steep that float32 and float64 part within three steps (updates 58 % apart
# instead of 0.7 %, 8 images), and no result could be told right from wrong. Not 0, so that all gradients are looked at.
BRANCH = 0.1
LAST = ("_3_bn", "_last")  # how the names of the last normalisations of the branches end
POLICIES = {
    "float64": "float64",  # what the others are compared with; no type of a benchmark
    "float32": "float32",
    "tf32": "float32",  # how the device multiplies float32, not what the model stores
    "mixed_float16": "mixed_float16",
    "mixed_bfloat16": "mixed_bfloat16",
}


class Model(NamedTuple):
    """What is known of a network before TensorFlow is imported."""

    image: tuple[int, int, int]  # height, width, channels
    classes: int
    forward_flop: int  # of one image: 2 for each multiply-add of convolutions and dense layers
    first_flop: int  # of the first layer among them, whose input gradient is not computed
    default_batch: int  # images on each device
    learning_rate: float  # of plain SGD with momentum 0.9, at which the loss falls from the first steps


MODELS = {
    # the three-convolution network of TensorFlow's CNN tutorial
    "mnist": Model((28, 28, 1), 10, 5_588_480, 389_376, default_batch=256, learning_rate=0.02),
    # ResNet-20 of He et al. 2015 (arXiv 1512.03385, section 4.2)
    "cifar": Model((32, 32, 3), 10, 81_102_080, 884_736, default_batch=128, learning_rate=0.02),
    # keras.applications.ResNet50 without weights
    "resnet50": Model((224, 224, 3), 1000, 7_715_946_496, 236_027_904, default_batch=32, learning_rate=0.002),
}


def training_flop(name: str) -> int:
    """FLOP of one training step for one image: forward, and both gradients of every layer but the first's input's."""
    model = MODELS[name]
    return 3 * model.forward_flop - model.first_flop


def build(name: str, dtype: str) -> Any:
    """A tf.keras.Model from images [n, h, w, c] to logits [n, classes] in float32, in the policy of `dtype`.

    Its weights are always the same. Call it within a strategy's scope to have them there.

    Raises KeyError: no such network or type.
    """
    import tensorflow as tf

    keras = tf.keras
    with policy(keras, dtype):
        image = keras.Input(MODELS[name].image)
        features = _NETWORKS[name](keras, image)
        model = keras.Model(image, keras.layers.Activation("linear", dtype="float32")(features), name=name)
    model.set_weights(same_weights(model.get_weights()))
    for layer in model.layers:
        if layer.name.endswith(LAST):
            layer.gamma.assign(layer.gamma * BRANCH)
    return model


@contextmanager
def policy(keras: Any, dtype: str) -> Iterator[None]:
    """Build networks in the policy of `dtype`, whatever a user's keras.json says. Raises KeyError: no such type."""
    keras.backend.set_image_data_format("channels_last")
    keras.backend.set_floatx("float32")
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(POLICIES[dtype])
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(before)


def batch(name: str, count: int, seed: int) -> tuple[Any, Any]:
    """Images, float32 [count, h, w, c], and their labels, int32 [count]; the same for the same seed."""
    import numpy as np

    (height, width, channels), classes = MODELS[name].image, MODELS[name].classes
    cell = 32 if height > 32 else height // 4  # patterns of 7×7 or 4×4 cells
    shape = (classes, height // cell, width // cell, channels)
    patterns = np.random.default_rng(SEED).standard_normal(shape, dtype=np.float32)
    rng = np.random.default_rng([SEED, seed])
    labels = rng.integers(0, classes, count, dtype=np.int32)
    images = rng.standard_normal((count, height, width, channels), dtype=np.float32)
    images *= np.float32(NOISE)
    images += patterns[labels].repeat(cell, axis=1).repeat(cell, axis=2)
    return images, labels


def same_weights(initial: list[Any]) -> list[Any]:
    """The same shapes: kernels uniform as Glorot and Bengio 2010 say, the rest as Keras initialises it: 0 and 1."""
    import numpy as np

    weights = []
    for index, old in enumerate(initial):
        if old.ndim < 2:
            weights.append(old)
            continue
        receptive = int(np.prod(old.shape[:-2]))
        limit = np.float32((6.0 / (receptive * (old.shape[-2] + old.shape[-1]))) ** 0.5)
        weights.append(np.random.default_rng([SEED, index]).uniform(-limit, limit, old.shape).astype(np.float32))
    return weights


def _mnist(keras: Any, image: Any) -> Any:
    layers = keras.layers
    x = layers.Conv2D(32, 3, activation="relu")(image)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(64, 3, activation="relu")(x)
    x = layers.MaxPooling2D()(x)
    x = layers.Conv2D(64, 3, activation="relu")(x)
    x = layers.Flatten()(x)
    x = layers.Dense(64, activation="relu")(x)
    return layers.Dense(MODELS["mnist"].classes)(x)


def _cifar(keras: Any, image: Any) -> Any:
    """6n+2 layers with n = 3, and shortcuts without parameters (option A there)."""
    import tensorflow as tf

    layers = keras.layers

    def narrowed(x: Any) -> Any:
        """Take every other pixel, and add as many channels of zeros as there are."""
        return tf.pad(x[:, ::2, ::2], [[0, 0], [0, 0], [0, 0], [0, x.shape[-1]]])

    def convolution(x: Any, filters: int, stride: int, name: str | None = None) -> Any:
        x = layers.Conv2D(filters, 3, strides=stride, padding="same", use_bias=False)(x)
        return layers.BatchNormalization(name=name)(x)

    x = layers.ReLU()(convolution(image, 16, 1))
    for filters in (16, 32, 64):
        for block in range(3):
            narrower = block == 0 and filters > 16
            shortcut = layers.Lambda(narrowed)(x) if narrower else x
            x = layers.ReLU()(convolution(x, filters, 2 if narrower else 1))
            x = layers.ReLU()(layers.Add()([convolution(x, filters, 1, f"block{filters}_{block}_last"), shortcut]))
    return layers.Dense(MODELS["cifar"].classes)(layers.GlobalAveragePooling2D()(x))


def _resnet50(keras: Any, image: Any) -> Any:
    network = keras.applications.ResNet50(weights=None, classifier_activation=None, input_tensor=image)
    return network.output


_NETWORKS = {"mnist": _mnist, "cifar": _cifar, "resnet50": _resnet50}
