"""Slows `tfgpu bench matpow` down in the worker, for compare_gate.py: real time passes, no number is touched.

Python runs this file at its start when its folder is on PYTHONPATH. Nothing happens until the worker imports its
workload; then TFGPU_PLANT decides: "sleep" sleeps for a share of what each sample took (TFGPU_PLANT_SHARE, a tenth by
default), "work" computes as many products more (of ten in the chain, with --power 11).

TFGPU_PRIORITY, a nice value, raises the priority of the worker's session on Linux, where autogroups make the nice value
of a process count within its session only: for machines that do other things meanwhile.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import os
import pathlib
import sys
import time
from typing import Any

TARGET = "tfgpu_bench.workloads.matpow"
SHARE = float(os.environ.get("TFGPU_PLANT_SHARE", "0.1"))  # how much longer
KIND = os.environ.get("TFGPU_PLANT", "")
PRIORITY = os.environ.get("TFGPU_PRIORITY", "")


def slow(workload: Any) -> None:
    """Let every sample of a class of workloads take longer."""
    fast = workload.sample

    def sleeping(self: Any, steps: int) -> float:
        started = time.perf_counter()
        time.sleep(SHARE * fast(self, steps))
        return time.perf_counter() - started

    def working(self: Any, steps: int) -> float:
        import tensorflow as tf

        started = time.perf_counter()
        fast(self, steps)
        for count in range(round(SHARE * len(self.inputs) * (self.power - 1))):
            part = count % len(self.inputs)
            with tf.device(self.parts()[part][0]):
                tf.matmul(self.outputs[part], self.inputs[part][1])
        tf.test.experimental.sync_devices()
        return time.perf_counter() - started

    workload.sample = {"sleep": sleeping, "work": working}[KIND]


class Loader(importlib.abc.Loader):
    """Loads the workload as always, and slows it down."""

    def __init__(self, loader: Any) -> None:
        """Wrap `loader`."""
        self.loader = loader

    def create_module(self, spec: Any) -> Any:
        """As always."""
        return self.loader.create_module(spec)

    def exec_module(self, module: Any) -> None:
        """As always, and then slow."""
        self.loader.exec_module(module)
        slow(module.Workload)


class Finder(importlib.abc.MetaPathFinder):
    """Finds one module."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        """The workload's spec with our loader; None for every other module."""
        if name != TARGET:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None:
            spec.loader = Loader(spec.loader)
        return spec


def hurry(priority: str) -> None:
    """Give the session of this process another priority."""
    with contextlib.suppress(OSError), pathlib.Path("/proc/self/autogroup").open("w") as stream:
        stream.write(priority)


if PRIORITY:
    hurry(PRIORITY)
if KIND:
    sys.meta_path.insert(0, Finder())
