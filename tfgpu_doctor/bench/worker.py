"""The process that measures one case: started in the interpreter under test, told what to do line by line.

Standard library, NumPy and TensorFlow only, since that interpreter need not have tfgpu. Requests are JSON objects,
one a line on standard input; each gets one JSON object, with its "do" as "to", on what was standard output when the
process started.
Everything that TensorFlow prints goes to standard error. The process ends with standard input, and with its parent.

Requests, as keys beside "do" (workloads/__init__.py says what a workload answers):
    hello                                versions, and the GPUs that TensorFlow lists
    prepare workload parameters dtype devices gpus spread virtual …    inputs on their devices
    sample count steps                   seconds of each; answers to `recheck` for results unlike the verified one; how
                                         long threads of this process waited for a CPU meanwhile
    verify …                             what is needed to judge the last result; what it means is the parent's to say
    farewell                             lets the workload check what only the end shows, and other machines go
    follow                               on one of several machines: one piece of work that the first one leads
    reference workload parameters …      what the function `reference` of the workload's file says
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
import types
from contextlib import suppress
from pathlib import Path
from typing import Any

# launch.py leaves the search path of the user's `python -c` here, and takes the current directory off sys.path.
if "PATH" not in globals():
    PATH = sys.path
CLEAN = list(sys.path)
HERE = os.path.dirname(os.path.abspath(__file__))
OWN = ("hello", "prepare", "sample", "reference")  # requests that the worker answers itself; the workload does others
PACKAGE = "tfgpu_bench"  # what this folder is called here, where the package around it need not exist


def load(name: str) -> Any:
    """Import a workload's file, which may import others of this folder relatively."""
    if PACKAGE not in sys.modules:
        package = types.ModuleType(PACKAGE)
        package.__path__ = [HERE]
        sys.modules[PACKAGE] = package
    return importlib.import_module(f"{PACKAGE}.workloads.{name}")


class Worker:
    """State of the process between requests."""

    def __init__(self) -> None:
        """Nothing is imported yet."""
        self.tf: Any = None
        self.work: Any = None
        self.cold: dict[str, float] = {}

    def hello(self, _request: dict[str, Any]) -> dict[str, Any]:
        """Import TensorFlow and list the GPUs, without touching them."""
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"  # the log is where TensorFlow tells the bus ids of its GPUs
        os.environ["KERAS_BACKEND"] = "tensorflow"  # Keras 3 may have been set to another
        started = time.perf_counter()
        # The TensorFlow that is measured is the one that the user's own `python -c` imports and the doctor examines: it
        # may lie in the current directory. Afterwards that comes last, so that no module of Python's own is from there.
        sys.path[:] = PATH
        try:
            import tensorflow as tf  # before NumPy: what is missing first is what the user hears of

            import numpy as np  # isort: skip
        finally:
            sys.path.sort(key=lambda entry: entry not in CLEAN)
        self.tf = tf
        self.cold["import"] = time.perf_counter() - started
        started = time.perf_counter()
        gpus = tf.config.list_physical_devices("GPU")
        self.cold["list devices"] = time.perf_counter() - started
        return {
            "tensorflow": tf.__version__,
            "numpy": np.__version__,
            "python": ".".join(map(str, sys.version_info[:3])),
            "gpus": [self._describe(gpu) for gpu in gpus],
        }

    def _describe(self, gpu: Any) -> dict[str, Any]:
        details = {}
        with suppress(AttributeError, ValueError, RuntimeError):  # before 2.4, or a device that does not say
            details = self.tf.config.experimental.get_device_details(gpu)
        capability = details.get("compute_capability")
        return {
            "name": details.get("device_name") or gpu.name,
            "compute_capability": ".".join(map(str, capability)) if capability else None,
        }

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Put the inputs on the devices, which the first call makes visible and splits if they are virtual."""
        self.tf.config.experimental.enable_tensor_float_32_execution(request["dtype"] == "tf32")
        if "devices" not in self.cold:
            self._configure(request)
        self.work = None  # the old inputs must not stand beside the new ones
        self.work = load(request["workload"]).Workload(
            request["parameters"], request["dtype"], request["devices"], request["spread"]
        )
        return {"cold": {**self.cold, **self.work.cold}}

    def _configure(self, request: dict[str, Any]) -> None:
        tf = self.tf
        physical = tf.config.list_physical_devices("GPU")
        tf.config.set_visible_devices([physical[index] for index in request["gpus"]], "GPU")
        tf.config.set_soft_device_placement(False)
        if request["virtual"] and request["spread"] != "workers":
            gpus = [physical[index] for index in request["gpus"]]
            limit = {"memory_limit": request["virtual_memory_mib"]} if gpus else {}
            part = tf.config.LogicalDeviceConfiguration(**limit)
            whole = (gpus or tf.config.list_physical_devices("CPU"))[0]
            tf.config.set_logical_device_configuration(whole, [part] * len(request["devices"]))
        else:  # a whole card reserved by one case would leave nothing to the case beside it
            for index in request["gpus"]:
                tf.config.experimental.set_memory_growth(physical[index], True)
        if request["spread"] == "workers":  # other machines must be known before the devices are made
            return
        started = time.perf_counter()
        tf.config.list_logical_devices()
        self.cold["devices"] = time.perf_counter() - started

    def sample(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take samples; also how many CPUs this process kept busy in each.

        Once a result has been verified, every other one must be the same, or is looked at itself.
        """
        samples, rechecked = [], []
        began, busy_before, waited = time.perf_counter(), time.process_time(), waited_for_cpus()
        for _ in range(request["count"]):
            busy = time.process_time()
            seconds = self.work.sample(request["steps"])
            if seconds <= 0:
                raise RuntimeError("the clock of this process stood still or went back, so that its times mean nothing")
            samples.append((seconds, (time.process_time() - busy) / seconds))
            found = self.work.recheck()
            if found is not None:
                rechecked.append(found)
        ended, after = time.perf_counter(), waited_for_cpus()
        return {
            "samples": samples,
            "waited": None if waited is None or after is None else max(after - waited, 0.0) / max(ended - began, 1e-9),
            "placed_on": self.work.placed_on(),
            "misplaced": self.work.misplaced(),
            "rechecked": rechecked,
            "busy": time.process_time() - busy_before,  # CPU seconds of this process, looking at results included
        }

    def reference(self, request: dict[str, Any]) -> Any:
        """Let the workload's file compute what results are compared with."""
        arguments = {name: value for name, value in request.items() if name not in ("do", "workload")}
        return load(request["workload"]).reference(**arguments) or {}


def waited_for_cpus() -> Any:
    """Seconds in which threads of this process were ready to run and had no CPU; None where the kernel does not tell.

    The second number of /proc/*/schedstat, in nanoseconds (Documentation/scheduler/sched-stats.rst of Linux). That it
    grows means that something else ran, or that the process has more threads at work than there are CPUs.
    """
    total = 0
    try:
        for thread in Path("/proc/self/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
                total += int((thread / "schedstat").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return total / 1e9


def main() -> None:
    """Serve requests until standard input ends."""
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != HERE]
    answers = os.fdopen(os.dup(1), "w")  # no program inherits it
    if hasattr(os, "register_at_fork"):  # nor does a process that TensorFlow forks off; Windows forks none
        os.register_at_fork(after_in_child=answers.close)
    os.dup2(2, 1)
    worker = Worker()
    for line in sys.stdin:
        request = json.loads(line)
        verb = request["do"]
        try:
            answer = getattr(worker if verb in OWN else worker.work, verb)(request)
        except Exception as error:  # whatever TensorFlow raises is the answer; the parent decides
            answer = {"error": f"{type(error).__name__}: {str(error)[:2000]}"}
        answers.write(json.dumps({"to": verb, **answer}) + "\n")
        answers.flush()
    os._exit(0)  # TensorFlow's own clean-up can hang or crash; there is nothing left to save


if __name__ == "__main__":
    main()
