"""`tfgpu bench` in this process, and one real worker for many tests (tests/conftest.py): a start takes seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from click.testing import CliRunner, Result

from tfgpu_doctor.bench.runner import process
from tfgpu_doctor.bench.runner.process import WorkerProcess
from tfgpu_doctor.cli.bench import command

WORKER_PROCESS = (process, "WorkerProcess")  # what `tfgpu bench` starts
SCRIPT = Path(__file__).with_name("shared_worker.py")
LOGICAL = 3  # CPU devices of the shared process; a case may use fewer
BEGIN = """
import numpy as np
import tensorflow as tf
TWO = ['/CPU:0', '/CPU:1']

def flops(layers):
    '''Return the FLOP of one image in each layer that multiplies.'''
    for layer in layers:
        kernel = 2 * int(np.prod(layer.get_weights()[0].shape)) if layer.get_weights() else 0
        if isinstance(layer, tf.keras.layers.Conv2DTranspose):  # each input pixel meets the whole kernel
            yield kernel * layer.input.shape[1] * layer.input.shape[2]
        elif isinstance(layer, tf.keras.layers.Conv2D):
            yield kernel * layer.output.shape[1] * layer.output.shape[2]
        elif isinstance(layer, tf.keras.layers.Dense):
            yield kernel
"""


def bench(*arguments: str, **environ: str) -> Result:
    """Call the command with 80 columns, no GPUs and no other machines."""
    plain = {"COLUMNS": "80", "CUDA_VISIBLE_DEVICES": "-1", "TF_CONFIG": "", "TFGPU_MATRIX": ""}
    return CliRunner().invoke(command, arguments, prog_name="tfgpu bench", env={**plain, **environ})


def refuses(arguments: list[str], message: str, **environ: str) -> None:
    """Assert that a command line is wrong usage, and that the message says why."""
    done = bench(*arguments, **environ)
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.stderr.split())
    assert done.stdout == ""


class Shared:
    """The one process, as something that starts workers."""

    def __init__(self, process: WorkerProcess) -> None:
        self.process, self.numbers = process, count(1)
        self.hello = process.ask(120, do="hello", number=0)

    def __call__(self, *_: object) -> Any:
        """Start a worker, whichever the interpreter; the process lives on when it is closed."""
        ask = partial(self._ask, next(self.numbers))
        return SimpleNamespace(ask=ask, log=self.process.log, close=lambda: None)

    def _ask(self, number: int, timeout: float, **request: Any) -> dict[str, Any]:
        return self.hello if request["do"] == "hello" else self.process.ask(timeout, number=number, **request)

    def run(self, code: str) -> Any:
        """Run code in the process, with `load` of the worker; what it leaves under the name `answers`."""
        return self.process.ask(240, do="reference", code=BEGIN + code)["answers"]


@contextmanager
def share(python: str) -> Iterator[Shared]:
    """One process that acts as many workers, with LOGICAL logical CPU devices."""
    with WorkerProcess(python, {**os.environ, "CUDA_VISIBLE_DEVICES": "-1"}, SCRIPT) as process:
        shared = Shared(process)
        devices = [f"/CPU:{index}" for index in range(LOGICAL)]
        first = {"workload": "matpow", "parameters": {"size": 16, "power": 2}, "dtype": "float32", "spread": "rows"}
        process.ask(120, do="prepare", number=0, **first, devices=devices, gpus=[], virtual=True)
        yield shared


def in_python(python: str, code: str) -> Any:
    """Run code as `Shared.run` does, in a process of its own."""
    with share(python) as shared:
        return shared.run(code)
