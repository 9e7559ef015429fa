"""What NVML says of the GPUs while blocks are timed: clocks, power, utilisation, throttling; sampled by a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tfgpu_doctor.bench.results import GpuTelemetry
from tfgpu_doctor.bench.statistics import median
from tfgpu_doctor.probes.gpus import THROTTLE_REASONS

PERIOD = 0.05  # seconds between looks; NVML averages the utilisation over 1/6 to 1 s itself (nvml.h)
PATIENCE = 2.0  # seconds that the thread may take to end; a driver that hangs keeps it
HARMLESS = frozenset({"gpu_idle", "applications_clocks_setting", "display_clock_setting", "sync_boost"})


class Telemetry:
    """Watches GPUs, named by PCI bus id, between :meth:`start` and :meth:`pause`; gathers over all such spans."""

    def __init__(self, bus_ids: Sequence[str]) -> None:
        """Nothing is asked yet."""
        self._bus_ids = tuple(bus_ids)
        self._readings: dict[str, list[dict[str, Any]]] = {bus_id: [] for bus_id in bus_ids}
        self._names: dict[str, str] = {}
        self._on = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="nvml", daemon=True)
        if self._bus_ids:
            self._thread.start()

    def start(self) -> None:
        """A timed block begins."""
        self._on.set()

    def pause(self) -> None:
        """The timed block has ended."""
        self._on.clear()

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
            handles = {bus_id: pynvml.nvmlDeviceGetHandleByPciBusId(bus_id) for bus_id in self._bus_ids}
            self._names = {bus_id: pynvml.nvmlDeviceGetName(handle) for bus_id, handle in handles.items()}
        except pynvml.NVMLError:
            return  # no NVML: the figures stay None
        while not self._end.is_set():
            if not self._on.wait(PERIOD):
                continue
            for bus_id, handle in handles.items():
                self._readings[bus_id].append(_read(pynvml, handle))
            self._end.wait(PERIOD)
        pynvml.nvmlShutdown()

    def summary(self, devices: Sequence[str]) -> tuple[GpuTelemetry, ...]:
        """One record for each GPU; `devices` are TensorFlow's names, in the order of the bus ids."""
        return tuple(self._summarise(device, bus_id) for device, bus_id in zip(devices, self._bus_ids, strict=False))

    def _summarise(self, device: str, bus_id: str) -> GpuTelemetry:
        readings = list(self._readings[bus_id])

        def middle(name: str) -> float | None:
            values = [reading[name] for reading in readings if reading[name] is not None]
            return median(values) if values else None

        reasons = {reason for reading in readings for reason in reading["throttled"]} - HARMLESS
        return GpuTelemetry(
            device=device,
            name=self._names.get(bus_id),
            samples=len(readings),
            utilization=middle("utilization"),
            power_w=middle("power"),
            sm_clock_mhz=middle("clock"),
            temperature_c=middle("temperature"),
            throttled=tuple(sorted(reasons)),
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
        "temperature": ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        "throttled": [name for bit, name in THROTTLE_REASONS.items() if mask & bit],
    }
