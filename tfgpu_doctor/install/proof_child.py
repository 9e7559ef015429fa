"""Runs alone in the environment that is verified: imports TensorFlow and trains a model, or opens libraries.

    python proof_child.py tensorflow            python proof_child.py libraries PATH...

Each line of the answer begins with MARK, since TensorFlow prints, too. Python 3.6 reads this file.
"""

import sys

MARK = "tfgpu-proof "


def say(name: "str", text: "str") -> "None":
    """Write one line of the answer; the next step may end the process."""
    sys.stdout.write(MARK + name + " " + " ".join(text.split())[:300] + "\n")
    sys.stdout.flush()


def train() -> "None":
    """Import TensorFlow, and fit a Keras model on the CPU."""
    import tensorflow as tf

    say("import", tf.__version__)
    import numpy as np

    features = np.arange(64, dtype="float32").reshape(16, 4) / 64
    model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
    model.compile(optimizer="adam", loss="mse")
    model.fit(features, features.sum(axis=1), batch_size=8, epochs=2, verbose=0)
    loss = float(np.ravel(model.evaluate(features, features.sum(axis=1), verbose=0))[0])
    if loss != loss:
        raise ArithmeticError("the loss is not a number")
    say("keras", f"loss {loss:.3g}")


def open_libraries(paths: "list[str]") -> "None":
    """Open libraries in the order in which TensorFlow opens them, so that each finds what the earlier ones loaded."""
    import ctypes

    for path in paths:
        ctypes.CDLL(path)
        say("library", path)


if __name__ == "__main__":
    if sys.argv[1:2] == ["tensorflow"]:
        train()
    else:
        open_libraries(sys.argv[2:])
