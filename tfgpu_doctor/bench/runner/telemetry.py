"""What NVML says of the GPUs while blocks are timed: clocks, power, utilisation, throttling; sampled by a thread."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any

import psutil

from tfgpu_doctor.bench.results import GpuTelemetry
from tfgpu_doctor.bench.speeds import POWER_CAP
from tfgpu_doctor.probes.driver_child import THROTTLE_REASONS

PERIOD = 0.05  # seconds between looks; NVML averages the utilisation over 1/6 to 1 s itself (nvml.h)
PATIENCE = 2.0  # seconds that the thread may take to end; a driver that hangs keeps it
HARMLESS = frozenset({"gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"})
# "Created device /job:localhost/replica:0/task:0/device:GPU:0 with 13775 MB memory:  -> device: 0, name: Tesla T4,
# pci bus id: 0000:00:04.0, compute capability: 7.5" (tensorflow/core/common_runtime/gpu/gpu_device.cc)
_CREATED = re.compile(r"Created (?:TensorFlow )?device \(?\S*/device:(GPU:\d+) .*pci bus id: ([0-9A-Fa-f:.]+)")
# NVML's utilization is the share of its own window, 1/6 to 1 s (nvml.h), in which any kernel ran, with the pauses
# between samples: an H100 at 75 % of its peak read 0 % behind samples of 49 ms, and 67 % at 620 of 700 W. It is a
# statement about the work only where that went on without a pause for longer than the window; elsewhere it is unknown.
WINDOW = 1.0  # seconds
GAPLESS = 0.95  # share of the time that the samples have to cover


Reading = dict[str, Any]  # one look at a GPU at the time "t", by the names of GpuTelemetry; None: it does not tell


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
        self._readings: dict[str, list[Reading]] = {bus_id: [] for bus_id in self._devices}
        self._names: dict[str, str] = {}
        self._block: set[str] = set()  # throttle reasons since the last start
        self._on = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nvml", daemon=True)
        if self._devices:
            self._thread.start()

    def start(self) -> None:
        """A timed block begins."""
        self._block = set()
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
                reading = _read(pynvml, handle)
                if self._on.is_set():  # the block may have ended while NVML answered
                    self._readings[bus_id].append(reading)
                    self._block |= reading["throttled"]
            self._end.wait(PERIOD)
        pynvml.nvmlShutdown()

    def summary(self, sampled: float) -> tuple[GpuTelemetry, ...]:
        """Return a record of each GPU, in TensorFlow's order; `sampled` are the seconds of all samples."""
        found = []
        for bus_id, device in sorted(self._devices.items(), key=lambda pair: pair[1]):
            readings = list(self._readings[bus_id])
            known = {
                name: [value for one in readings if (value := one[name]) is not None]
                for name in ("power_w", "sm_clock_mhz", "temperature_c")
            }
            found.append(
                GpuTelemetry(
                    device=device,
                    name=self._names.get(bus_id),
                    pci_bus_id=bus_id,
                    samples=len(readings),
                    throttled=tuple(sorted(set().union(*(one["throttled"] for one in readings)))),
                    utilization=utilization(readings, sampled),
                    **{name: median(values) for name, values in known.items() if values},
                )
            )
        return tuple(found)


def utilization(readings: Sequence[Reading], sampled: float) -> float | None:
    """Return the median of the readings whose window lies within the samples; None where samples leave pauses."""
    began = readings[0]["t"] if readings else 0.0
    time = readings[-1]["t"] - began if readings else 0.0
    if time < 2 * WINDOW or not GAPLESS <= sampled / time <= 1 / GAPLESS:
        return None
    found = [one["utilization"] for one in readings if one["t"] - began > WINDOW and one["utilization"] is not None]
    return median(found) if found else None


def _read(nvml: Any, handle: Any) -> Reading:
    """Look at one GPU."""

    def ask(call: Callable[[], Any]) -> Any:
        try:
            return call()
        except nvml.NVMLError:
            return None

    mask = ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) or 0
    return {
        "t": time.monotonic(),
        "utilization": ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu),
        "power_w": ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000.0),  # given in mW
        "sm_clock_mhz": ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "temperature_c": ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        "throttled": {name for bit, name in THROTTLE_REASONS.items() if mask & bit} - HARMLESS,
    }


# ---------------------------------------------------------------------------------------------------------------------
# What else the machine does while samples are taken: CPU time of everybody, less that of the worker.


def busy_seconds() -> float:
    """Return the CPU seconds of all programs since the machine started, waiting for disks left out."""
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)  # counted in user and nice, too
    return float(sum(times) - idle - guests)
