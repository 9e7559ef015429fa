"""The loop in seconds: the same faults as in `rows.py` in environments of made-up wheels."""

from __future__ import annotations

import sys
from typing import Any

from tests.loop.environments import Row
from tests.loop.faults import delete, plant, plugin, put_over, uninstall
from tests.loop.made_up import WORKS

HERE = f"{sys.version_info[0]}.{sys.version_info[1]}"
WHOLE = "tensorflow[and-cuda]==2.20.0"
DAMAGED = "tf.install-damaged"
MISSING = "cuda.missing|cuda.version-mismatch"  # the latter where the CUDA of this machine cannot be hidden


def row(name: str, finding: str | None, *broken: Any, packages: tuple[str, ...] = (WHOLE,), **more: Any) -> Row:
    """A row whose name says what is broken."""
    return Row(name, name, finding, packages, broken, python=HERE, check=WORKS, **more)


MADE_UP = (
    row("nothing is broken", None, rounds=0),
    row("no CUDA", MISSING, packages=("tensorflow==2.20.0",)),
    row("cuDNN 8", "cudnn.version-mismatch", put_over("nvidia-cudnn-cu12==8.9.7.29")),
    row("no __init__.py", DAMAGED, delete("tensorflow/__init__.py")),
    row("no keras and no wrapt", DAMAGED, uninstall("keras", "wrapt")),
    row("cuSOLVER of CUDA 11 on top", DAMAGED, put_over("nvidia-cusolver-cu11==11.4.1.48")),
    row("tensorflow-cpu removed again", DAMAGED, put_over("tensorflow-cpu==2.20.0"), uninstall("tensorflow-cpu")),
    row("tensorflow-cpu on top", "tf.package-conflict", put_over("tensorflow-cpu==2.20.0")),
    row("tensorflow.py here", "tf.shadowed", plant("{work}/tensorflow.py", "raise ImportError('not this one')\n")),
    row("random.py here", "tf.shadowed", plant("{work}/random.py", "print('a game of dice')\n")),
    row("a plugin of another TensorFlow", "tf.package-conflict", plugin("other-device-plugin", "1.0")),
    row("hidden GPU", "gpu.hidden", variables={"CUDA_VISIBLE_DEVICES": "-1"}),
)
