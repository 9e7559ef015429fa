"""The process that measures one case: started in the interpreter under test, told what to do line by line.

Standard library, NumPy and TensorFlow only, since that interpreter need not have tfgpu. Requests are JSON objects,
one a line on standard input; each gets one JSON object on what was standard output when the process started.
Everything that TensorFlow prints goes to standard error. When the parent goes away, standard input ends and so does
the process.

Requests, as keys beside "do":
    hello                                versions, and the GPUs that TensorFlow lists
    prepare workload size power dtype devices gpus spread virtual …    inputs on their devices
    sample count                         seconds of each; residuals of results that differ from the verified one
    reference workload size power terms file    writes what the powers must be, in float64
    verify file                          residuals of the last result; what they mean is the parent's to say
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))


def load(name: str) -> Any:
    """Import a file beside this one by its path, without putting its folder on sys.path."""
    path = os.path.join(HERE, name + ".py")
    spec = importlib.util.spec_from_file_location("tfgpu_worker_" + name.replace("/", "_"), path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Worker:
    """State of the process between requests."""

    def __init__(self) -> None:
        """Nothing is imported yet."""
        self.tf: Any = None
        self.work: Any = None
        self.verification: Any = None
        self.expected: Any = None  # float64 [terms, size, vectors], once a result has been verified
        self.cold: dict[str, float] = {}

    def hello(self, request: dict[str, Any]) -> dict[str, Any]:
        """Import TensorFlow and list the GPUs, without touching them."""
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"  # the log is where TensorFlow tells the bus ids of its GPUs
        started = time.perf_counter()
        import tensorflow as tf  # before NumPy: what is missing first is what the user hears of

        import numpy as np  # isort: skip

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
        self.work = self.expected = None  # the old inputs must not stand beside the new ones
        self.work = load("workloads/" + request["workload"]).Workload(
            request["size"], request["power"], request["dtype"], request["devices"], request["spread"]
        )
        self.cold["inputs"] = self.work.make_s
        self.cold["to devices"] = self.work.transfer_s
        return {"cold": self.cold}

    def _configure(self, request: dict[str, Any]) -> None:
        tf = self.tf
        physical = tf.config.list_physical_devices("GPU")
        tf.config.set_visible_devices([physical[index] for index in request["gpus"]], "GPU")
        if request["virtual"]:
            self._split(physical, request)
        else:  # a whole card reserved by one case would leave nothing to the case beside it
            for index in request["gpus"]:
                tf.config.experimental.set_memory_growth(physical[index], True)
        tf.config.set_soft_device_placement(False)
        started = time.perf_counter()
        tf.config.list_logical_devices()
        self.cold["devices"] = time.perf_counter() - started

    def _split(self, physical: list[Any], request: dict[str, Any]) -> None:
        tf, count = self.tf, len(request["devices"])
        if request["gpus"]:
            limit = request["virtual_memory_mib"]
            parts = [tf.config.LogicalDeviceConfiguration(memory_limit=limit) for _ in range(count)]
            tf.config.set_logical_device_configuration(physical[request["gpus"][0]], parts)
        else:
            cpu = tf.config.list_physical_devices("CPU")[0]
            tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)

    def sample(self, request: dict[str, Any]) -> dict[str, Any]:
        """Take samples; also how many CPUs this process kept busy in each.

        Once a result has been verified, every other one must be the same bit by bit, or is verified itself.
        """
        samples, loads, residuals = [], [], []
        for _ in range(request["count"]):
            busy = time.process_time()
            seconds = self.work.sample()
            loads.append((time.process_time() - busy) / seconds)
            samples.append(seconds)
            if self.expected is not None and not self.work.unchanged():
                residuals.append(self._residual())
        return {
            "samples": samples,
            "loads": loads,
            "placed_on": self.work.placed_on(),
            "misplaced": self.work.misplaced(),
            "residuals": residuals,
        }

    def reference(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compute what the powers of the first `terms` matrices must be, in float64, and write it to a file.

        A file, because the numbers of a large matrix are more than a line of text should carry.
        """
        self.verification = self.verification or load("verification")
        make_matrix = load("workloads/" + request["workload"]).make_matrix
        with Path(request["file"]).open("wb") as file:
            for index in range(request["terms"]):
                powers = self.verification.reference(make_matrix(request["size"], index), request["power"])
                file.write(powers.tobytes())
        return {}

    def verify(self, request: dict[str, Any]) -> dict[str, Any]:
        """Compare the result of the last sample with the reference."""
        import numpy as np

        self.verification = self.verification or load("verification")
        self.expected = np.fromfile(request["file"]).reshape(-1, self.work.size, self.verification.VECTORS)
        self.work.trust()
        return self._residual()

    def _residual(self) -> dict[str, Any]:
        """The worst of all powers; None where it is no number."""
        computed = self.work.results()
        assert len(computed) <= len(self.expected), "the reference holds too few powers"
        found = [self.verification.residual(one, expected) for one, expected in zip(computed, self.expected)]
        return {
            "rms": _finite(max((one.rms for one in found), key=_nan_last)),
            "worst_row": _finite(max((one.worst_row for one in found), key=_nan_last)),
        }


def _nan_last(value: float) -> float:
    return float("inf") if value != value else value


def _finite(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


def main() -> None:
    """Serve requests until standard input ends."""
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != HERE]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker()
    verbs = {name: getattr(worker, name) for name in ("hello", "prepare", "sample", "reference", "verify")}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = verbs[request["do"]](request)
        except Exception as error:  # whatever TensorFlow raises is the answer; the parent decides
            answer = {"error": f"{type(error).__name__}: {str(error)[:2000]}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    os._exit(0)  # TensorFlow's own clean-up can hang or crash; there is nothing left to save


if __name__ == "__main__":
    main()
