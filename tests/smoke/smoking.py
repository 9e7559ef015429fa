"""A smoke test without TensorFlow, processes or time: a made-up machine, workers that take their times from a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from tests.bench.fake_worker import Clock, FakeWorker
from tests.facts.test_report import report
from tests.findings.rows_over_facts import WHY, phases
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tfgpu_doctor.bench.runner.process import Worker, WorkerError
from tfgpu_doctor.facts.facts import Facts, TfDevice
from tfgpu_doctor.facts.report import Report
from tfgpu_doctor.smoke.records import Smoke
from tfgpu_doctor.smoke.running import SmokeOptions, Smoking

IMPORT = 2.0  # seconds
CREATED = "2026-11-21T08:00:00Z"


def machine(gpus: int = 1, **changes: Any) -> Facts:
    """A sound machine with so many H200s."""
    devices = [TfDevice(name="/physical_device:CPU:0", kind="CPU")]
    devices += [TfDevice(name=f"/physical_device:GPU:{n}", kind="GPU", device_name="NVIDIA H200") for n in range(gpus)]
    timed = (
        msgspec.structs.replace(phase, seconds=IMPORT) if phase.name == "import" else phase
        for phase in healthy().tensorflow.phases
    )
    several = {
        "tensorflow.devices": known(tuple(devices), "TensorFlow"),
        "gpus": known(tuple(gpu(index) for index in range(gpus)), "NVML"),
        "tensorflow.phases": tuple(timed),
    }
    without = {"tensorflow.checks": known(()), "host.pci_gpus": known((), "/sys/bus/pci/devices")}
    return spoil(healthy(), {**several, **({} if gpus else without), **changes})


def without_tensorflow(outcome: str = "raised", **how: Any) -> Facts:
    """A machine whose TensorFlow cannot be imported."""
    unknown = dict.fromkeys(("tensorflow.devices", "tensorflow.checks", "tensorflow.version"), WHY)
    return spoil(healthy(), {**unknown, "tensorflow.phases": phases("import", outcome, **how)})


class Machine:
    """Clock, doctor and workers of one made-up machine; `trouble` may answer a request, {"hang": True} among others."""

    def __init__(
        self,
        gpus: int = 1,
        *,
        facts: Facts | None = None,
        seconds: float = 0.05,
        trouble: Callable[[Machine, str, dict[str, Any]], dict[str, Any] | None] = lambda *_: None,
        lists: int | None = None,
    ) -> None:
        self.clock = Clock()
        self.facts = facts or machine(gpus)
        self.seconds = seconds
        self.trouble = trouble
        self.lists = gpus if lists is None else lists  # GPUs that the workers see
        self.required: int | None = None
        self.started: list[SmokeWorker] = []
        self.done: list[str] = []  # "matpow /GPU:0"

    def doctor(self, timeout: float) -> Report:
        """The diagnosis."""
        self.clock.now += min(6.0, timeout)
        return report(facts=self.facts, require_gpus=self.required)

    def worker(self) -> Worker:
        """One more process."""
        self.started.append(SmokeWorker(self))
        return self.started[-1]

    def smoke(self, **options: Any) -> Smoke:
        """Run the smoke test."""
        self.required = 0 if options.get("require_gpus") == 0 else None  # as cli/smoke.py does it
        return Smoking(SmokeOptions(**options), self.doctor, self.worker, MATRIX, clock=self.clock).run(CREATED)


class SmokeWorker(FakeWorker):
    """A fake worker that takes time to start, and hangs as a real one does."""

    def __init__(self, machine: Machine) -> None:
        super().__init__(machine.clock, machine.seconds, gpus=machine.lists)
        self.machine = machine

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Answer, or hang until the time is over."""
        if request["do"] == "prepare":
            self.machine.done.append(f"{request['workload']} {', '.join(request['devices'])}")
        found = self.machine.trouble(self.machine, request["do"], {**request, "of": self}) or {}
        if "hang" in found:
            self.clock.now += timeout
            raise WorkerError(f"no answer to {request['do']!r} within {timeout:.0f} s")
        if "error" in found:
            raise WorkerError(found["error"])
        if request["do"] == "hello":
            self.clock.now += IMPORT
        return {**super().ask(timeout, **request), **found}
