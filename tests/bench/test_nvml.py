"""What is read from NVML beside the timed blocks, with a stand-in for the bindings."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from tfgpu_doctor.bench.runner.telemetry import Telemetry, bus_ids, utilization

LOG = """\
I0000 00:00:1731000000.1 4242 gpu_device.cc:2022] Created device /job:localhost/replica:0/task:0/device:GPU:0 with \
139000 MB memory:  -> device: 0, name: NVIDIA H200, pci bus id: 0000:65:00.0, compute capability: 9.0
I0000 00:00:1731000000.2 4242 gpu_device.cc:2022] Created device /job:localhost/replica:0/task:0/device:GPU:1 with \
139000 MB memory:  -> device: 1, name: NVIDIA H200, pci bus id: 0000:E1:00.0, compute capability: 9.0
"""
OLD = (
    "2021-02-03 01:02:03.4: I tensorflow/core/common_runtime/gpu/gpu_device.cc:1406] Created TensorFlow device "
    "(/job:localhost/replica:0/task:0/device:GPU:0 with 10175 MB memory) -> physical GPU (device: 0, name: Tesla T4, "
    "pci bus id: 0000:00:07.0, compute capability: 7.5)\n"
)


def test_bus_ids_stand_in_tensorflows_log() -> None:
    assert bus_ids(LOG) == {"/GPU:0": "0000:65:00.0", "/GPU:1": "0000:E1:00.0"}
    assert bus_ids(OLD) == {"/GPU:0": "0000:00:07.0"}
    assert bus_ids("Created device with nothing\npci bus id: 0000:00:07.0\n") == {}


class Nvml(ModuleType):
    """A stand-in for pynvml: one GPU, whose fourth and later looks are throttled."""

    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    class NVMLError(Exception):
        """As in pynvml."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__("pynvml")
        self.broken = broken
        self.looks = 0
        self.seen = threading.Event()

    def nvmlInit(self) -> None:
        if self.broken:
            raise self.NVMLError("Driver/library version mismatch")

    def nvmlShutdown(self) -> None:
        return None

    def nvmlDeviceGetHandleByPciBusId(self, bus_id: str) -> str:
        return bus_id

    def nvmlDeviceGetName(self, _handle: str) -> str:
        return "NVIDIA H200"

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, _handle: str) -> int:
        self.looks += 1
        return 0x041 if self.looks > 3 else 0x001

    def nvmlDeviceGetPowerUsage(self, _handle: str) -> int:
        return 612_500

    def nvmlDeviceGetUtilizationRates(self, _handle: str) -> Any:
        raise self.NVMLError("Not Supported")

    def nvmlDeviceGetClockInfo(self, _handle: str, _which: int) -> int:
        return 1830

    def nvmlDeviceGetTemperature(self, _handle: str, _which: int) -> int:
        if self.looks > 5:
            self.seen.set()
        return 61


def test_figures_are_gathered_while_a_block_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    watch = Telemetry({"/GPU:0": "0000:65:00.0"})
    watch.start()
    assert nvml.seen.wait(30)
    assert watch.pause() == ("hw_thermal_slowdown",)
    watch.close()
    (found,) = watch.summary(1.0)
    assert (found.device, found.name, found.pci_bus_id) == ("/GPU:0", "NVIDIA H200", "0000:65:00.0")
    assert (found.power_w, found.sm_clock_mhz, found.temperature_c, found.utilization) == (612.5, 1830, 61, None)
    assert found.throttled == ("hw_thermal_slowdown",)
    assert found.samples >= 5
    assert found.power_max_w == 612.5


def test_utilization_is_known_only_of_work_without_a_pause() -> None:
    rows = [
        (60, 0.05, 96.0),  # three seconds without a pause: what the window holds is the work
        (60, 0.06, None),  # as many samples in 3.6 s: pauses between them
        (20, 0.05, None),  # one second: no longer than the window
        (60, 0.02, None),  # samples of two results, and the readings of one
    ]
    for count, period, shown in rows:
        times = [place * period for place in range(count)]
        readings = [{"t": t, "utilization": 10.0 if t <= 1 else 96.0} for t in times]
        assert utilization(readings, 0.05 * count) == shown


def test_logical_devices_of_one_gpu_are_one_and_no_nvml_gives_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", Nvml(broken=True))
    watch = Telemetry({"/GPU:0": "0000:65:00.0", "/GPU:1": "0000:65:00.0"})
    watch.start()
    watch._thread.join(30)
    watch.close()
    (found,) = watch.summary(1.0)
    assert (found.device, found.samples, found.power_w, found.name) == ("/GPU:0", 0, None, None)
