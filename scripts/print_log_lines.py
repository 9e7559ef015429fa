"""Makes an installed TensorFlow print what its log can print without a GPU. Run by refresh_log_lines.py in a child.

Also by Pythons and releases of TensorFlow that are older than tfgpu's own: nothing here is newer than Python 3.6.
"""

import sys
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def attempt(name: str, call: Callable[[], Any]) -> None:
    """Call; what fails is the next attempt's business."""
    try:
        call()
    except Exception as failure:
        print(name + ": " + str(failure)[:200])


def tensorflow_1() -> None:
    """Devices and products in sessions, since there is no eager execution."""
    from tensorflow.python.client import device_lib

    attempt("devices", lambda: print(device_lib.list_local_devices()))
    attempt("product", lambda: session(tf.matmul(tf.ones([64, 64]), tf.ones([64, 64]))))
    attempt("memory", lambda: session(tf.reduce_sum(tf.ones([11000, 11000]))))
    image, kernel = tf.ones([1, 8, 8, 4]), tf.ones([3, 3, 4, 4])
    if "convolution" in sys.argv:
        attempt("convolution", lambda: session(tf.nn.conv2d(image, kernel, strides=[1, 1, 1, 1], padding="SAME")))


def session(result: Any) -> None:
    """Run it, its devices logged."""
    with tf.compat.v1.Session(config=tf.compat.v1.ConfigProto(log_device_placement=True)) as running:
        print(running.run(result).shape)


def tensorflow_2() -> None:
    """Devices, a product, a function, XLA, a tensor that does not fit; a convolution where it is asked for."""
    attempt("physical", lambda: print(tf.config.experimental.list_physical_devices()))
    attempt("placement", lambda: tf.debugging.set_log_device_placement(True))
    attempt("logical", lambda: print(tf.config.experimental.list_logical_devices()))
    attempt("product", lambda: print(tf.matmul(tf.ones([64, 64]), tf.ones([64, 64])).shape))
    side = 30000 if "full" in sys.argv else 11000
    attempt("memory", lambda: print(tf.ones([side, side]).shape))
    if "convolution" in sys.argv:
        image, kernel = tf.ones([1, 8, 8, 4]), tf.ones([3, 3, 4, 4])
        attempt("convolution", lambda: print(tf.nn.conv2d(image, kernel, strides=1, padding="SAME").shape))
    attempt("function", lambda: print(tf.function(lambda x: tf.matmul(x, x) + 1)(tf.ones([64, 64])).shape))
    data = tf.data.Dataset.from_tensor_slices(list(range(40))).map(lambda x: x + 1).batch(4)
    attempt("data", lambda: print(len(list(data.take(2)))))
    attempt("cached", lambda: print(len(list(data.cache().take(2)))))
    if "fit" in sys.argv:
        attempt("fit", fit)
    if "xla" in sys.argv:
        attempt("xla", lambda: print(compiled()(tf.ones([64, 64])).shape))


def compiled() -> Any:
    """A function for XLA."""
    try:
        return tf.function(lambda x: tf.matmul(x, x) + 1, jit_compile=True)
    except TypeError:
        return tf.function(lambda x: tf.matmul(x, x) + 1, experimental_compile=True)


def fit() -> None:
    """One epoch of one layer."""
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(tf.ones([8, 4]), tf.ones([8, 1]), verbose=0)


if __name__ == "__main__":
    print(tf.__version__)
    if tf.__version__.startswith("1."):
        tensorflow_1()
    else:
        tensorflow_2()
