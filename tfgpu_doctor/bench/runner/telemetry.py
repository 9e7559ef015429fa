"""What NVML says of the GPUs while blocks are timed: clocks, power, utilisation, throttling; sampled by a thread."""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import psutil

from tfgpu_doctor.bench.results import GpuTelemetry, Reading
from tfgpu_doctor.bench.speeds import POWER_CAP
from tfgpu_doctor.bench.statistics import median
from tfgpu_doctor.probes.driver_child import THROTTLE_REASONS

PERIOD = 0.05  # seconds between looks; NVML averages the utilisation over 1/6 to 1 s itself (nvml.h)
KEPT = 400  # readings of a GPU that a result holds at most
PATIENCE = 2.0  # seconds that the thread may take to end; a driver that hangs keeps it
HARMLESS = frozenset({"gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"})
# "Created device /job:localhost/replica:0/task:0/device:GPU:0 with 13775 MB memory:  -> device: 0, name: Tesla T4,
# pci bus id: 0000:00:04.0, compute capability: 7.5" (tensorflow/core/common_runtime/gpu/gpu_device.cc)
_CREATED = re.compile(r"Created (?:TensorFlow )?device \(?\S*/device:(GPU:\d+) .*pci bus id: ([0-9A-Fa-f:.]+)")


def bus_ids(log: str) -> dict[str, str]:
    """Read from TensorFlow's log which PCI device each of its GPUs is: {"/GPU:0": "0000:65:00.0"}.

    The order of its GPUs is CUDA's, which is not NVML's, and no call of TensorFlow tells the bus id without making
    the devices anew.
    """
    return {f"/{name}": bus_id for name, bus_id in _CREATED.findall(log)}


class Telemetry:
    """Watches GPUs, given as device → PCI bus id, between :meth:`start` and :meth:`pause`; gathers all such spans."""

    def __init__(self, devices: Mapping[str, str]) -> None:
        """Start the thread that asks; logical devices of one GPU are watched once."""
        self._devices = {bus_id: device for device, bus_id in reversed(tuple(devices.items()))}
        self._readings: dict[str, list[dict[str, Any]]] = {bus_id: [] for bus_id in self._devices}
        self._names: dict[str, str] = {}
        self._block: set[str] = set()  # throttle reasons since the last start
        self._began: float | None = None
        self._on = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nvml", daemon=True)
        if self._devices:
            self._thread.start()

    def start(self) -> None:
        """A timed block begins."""
        self._block = set()
        self._began = self._began or time.monotonic()
        self._on.set()

    def pause(self) -> tuple[str, ...]:
        """The timed block has ended; returns why a GPU was slowed down in it, its power limit aside."""
        self._on.clear()
        return tuple(sorted(self._block - {POWER_CAP}))

    def close(self) -> None:
        """Stop watching."""
        self._end.set()
        self._on.set()
        if self._thread.is_alive():
            self._thread.join(PATIENCE)

    def _watch(self) -> None:
        import pynvml

        try:
            pynvml.nvmlInit()
            handles = {bus_id: pynvml.nvmlDeviceGetHandleByPciBusId(bus_id) for bus_id in self._devices}
            self._names = {bus_id: pynvml.nvmlDeviceGetName(handle) for bus_id, handle in handles.items()}
        except pynvml.NVMLError:
            return  # no NVML: the figures stay None
        while self._on.wait() and not self._end.is_set():
            for bus_id, handle in handles.items():
                reading = {"t": time.monotonic() - (self._began or 0.0), **_read(pynvml, handle)}
                if self._on.is_set():  # the block may have ended while NVML answered
                    self._readings[bus_id].append(reading)
                    self._block |= reading["throttled"]
            self._end.wait(PERIOD)
        pynvml.nvmlShutdown()

    def summary(self) -> tuple[GpuTelemetry, ...]:
        """One record for each GPU, in TensorFlow's order."""
        return tuple(self._summarise(bus_id) for bus_id in sorted(self._devices, key=lambda key: self._devices[key]))

    def _summarise(self, bus_id: str) -> GpuTelemetry:
        readings = list(self._readings[bus_id])

        def middle(name: str) -> float | None:
            values = [reading[name] for reading in readings if reading[name] is not None]
            return median(values) if values else None

        return GpuTelemetry(
            device=self._devices[bus_id],
            name=self._names.get(bus_id),
            pci_bus_id=bus_id,
            samples=len(readings),
            utilization=middle("utilization"),
            power_w=middle("power"),
            sm_clock_mhz=middle("clock"),
            temperature_c=middle("temperature"),
            throttled=tuple(sorted({reason for reading in readings for reason in reading["throttled"]})),
            readings=tuple(_kept(reading) for reading in readings[:: -(-len(readings) // KEPT) or 1]),
        )


def _kept(reading: dict[str, Any]) -> Reading:
    return Reading(
        t=round(reading["t"], 3),
        utilization=reading["utilization"],
        power_w=reading["power"],
        sm_clock_mhz=reading["clock"],
        temperature_c=reading["temperature"],
        memory_used=reading["memory"],
    )


def _read(nvml: Any, handle: Any) -> dict[str, Any]:
    """One look at one GPU; None for what it does not tell."""

    def ask(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except nvml.NVMLError:
            return None

    mask = ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) or 0
    power = ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))  # mW
    return {
        "utilization": ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        "power": None if power is None else power / 1000.0,
        "clock": ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "memory": ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used),
        "temperature": ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        "throttled": {name for bit, name in THROTTLE_REASONS.items() if mask & bit} - HARMLESS,
    }


# ---------------------------------------------------------------------------------------------------------------------
# What else the machine does while samples are taken: CPU time of everybody, less that of the worker.


def load_average() -> float | None:
    """Threads that ran or waited for a CPU or a disk, over the last minute; None where nobody counts them."""
    if sys.platform == "win32":
        return None
    try:
        return round(os.getloadavg()[0], 2)
    except OSError:
        return None


def busy_seconds() -> float:
    """CPU seconds that all programs of the machine have used since it started, waiting for disks left out."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user and nice, too
    return float(sum(times) - idle - guests)


class OtherPrograms:
    """Gathers, over many spans, the CPUs that programs beside the worker kept busy."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._seconds = 0.0  # of wall time
        self._busy = 0.0  # CPU seconds of others

    def add(self, wall: float, everybody: float, worker: float) -> None:
        """One span of `wall` seconds: CPU seconds of the whole machine, and of the worker within it."""
        self._seconds += wall
        self._busy += everybody - worker  # may be a tick below zero; the ticks of 10 ms even out over the spans

    def cpus(self) -> float | None:
        """CPUs that others kept busy on average; None before a second was seen, in which ticks are too coarse."""
        return max(self._busy / self._seconds, 0.0) if self._seconds >= 1.0 else None
