"""Child process: asks NVML everything and writes each answer as one line of JSON, as soon as it is known.

A call into a dead driver can block in the kernel for ever: what was known before is kept, and each call is
announced (``{"begin": "nvmlDeviceGetName", "gpu": 0}``), so that the parent can name the one that hung.

Lines: ``{"load": path | null, "error": text}``, ``{"init": [code, name, message]}``,
``{"system": true, "key": k, "value": v}``, ``{"gpu": i, "key": k, "value": v}`` and
``{"pair": [a, b], "key": k, "value": v}``;
instead of ``value`` an ``"error": [code, name, message]``; at last ``{"end": true}``.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any

from tfgpu_doctor.probes.child import mapped, say

PAIRS = 32  # GPUs; more than that would ask for thousands of pairs


class Asker:
    """Calls NVML and reports each result or error under the same heading."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.names = {
            value: name
            for name, value in vars(nvml).items()
            if name.startswith("NVML_ERROR_") and isinstance(value, int)
        }

    def describe(self, error: Any) -> list[Any]:
        """Code, name and message of an NVMLError, in the library's words rather than the bindings'."""
        try:
            message = text(self.nvml.nvmlErrorString(error.value))
        except self.nvml.NVMLError:  # the library has no such function
            message = str(error)
        return [error.value, self.names.get(error.value, f"NVML error {error.value}"), message]

    def ask(self, heading: dict[str, Any], key: str, function: str, *arguments: Any, to: Callable[[Any], Any]) -> Any:
        """Call ``nvml.function(*arguments)``; report and return `to` (result), or report the error and return None."""
        say(begin=function, **heading)
        try:
            value = to(getattr(self.nvml, function)(*arguments))
        except self.nvml.NVMLError as error:
            say(**heading, key=key, error=self.describe(error))
            return None
        except (AttributeError, ValueError) as error:  # older bindings lack the call; a name that is not UTF-8
            say(**heading, key=key, error=[-1, type(error).__name__, str(error)])
            return None
        say(**heading, key=key, value=value)
        return value


def same(value: Any) -> Any:
    """Pass a plain number or string on."""
    return value


def memory(info: Any) -> list[int]:
    """Total, used and free bytes."""
    return [info.total, info.used, info.free]


def processes(found: Any) -> list[list[int | None]]:
    """Process id and bytes (None where the driver does not tell)."""
    return [[one.pid, one.usedGpuMemory] for one in found]


def text(value: Any) -> str:
    """A char array or str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def questions(nvml: Any) -> list[tuple[str, str, tuple[Any, ...], Callable[[Any], Any]]]:
    """Key, function, further arguments and conversion of every question for one GPU, the important ones first."""
    return [
        ("name", "nvmlDeviceGetName", (), text),
        ("uuid", "nvmlDeviceGetUUID", (), text),
        ("pci_bus_id", "nvmlDeviceGetPciInfo", (), lambda info: text(info.busId)),
        ("compute_capability", "nvmlDeviceGetCudaComputeCapability", (), list),
        ("memory", "nvmlDeviceGetMemoryInfo", (), memory),
        ("mig_mode", "nvmlDeviceGetMigMode", (), lambda modes: modes[0]),
        ("compute_mode", "nvmlDeviceGetComputeMode", (), same),
        ("persistence_mode", "nvmlDeviceGetPersistenceMode", (), same),
        ("display_active", "nvmlDeviceGetDisplayActive", (), same),
        ("compute_processes", "nvmlDeviceGetComputeRunningProcesses", (), processes),
        ("graphics_processes", "nvmlDeviceGetGraphicsRunningProcesses", (), processes),
        ("utilization", "nvmlDeviceGetUtilizationRates", (), lambda rates: rates.gpu),
        ("temperature", "nvmlDeviceGetTemperature", (nvml.NVML_TEMPERATURE_GPU,), same),
        ("power", "nvmlDeviceGetPowerUsage", (), same),
        ("power_limit", "nvmlDeviceGetEnforcedPowerLimit", (), same),
        ("sm_clock", "nvmlDeviceGetClockInfo", (nvml.NVML_CLOCK_SM,), same),
        ("sm_clock_max", "nvmlDeviceGetMaxClockInfo", (nvml.NVML_CLOCK_SM,), same),
        ("memory_clock", "nvmlDeviceGetClockInfo", (nvml.NVML_CLOCK_MEM,), same),
        ("memory_clock_max", "nvmlDeviceGetMaxClockInfo", (nvml.NVML_CLOCK_MEM,), same),
        ("memory_bus_width", "nvmlDeviceGetMemoryBusWidth", (), same),
        # the name that every driver has; newer ones call the same answer "event reasons"
        ("throttle_reasons", "nvmlDeviceGetCurrentClocksThrottleReasons", (), same),
        ("performance_state", "nvmlDeviceGetPerformanceState", (), same),
        ("ecc_mode", "nvmlDeviceGetEccMode", (), lambda modes: modes[0]),
        (
            "ecc_uncorrected",
            "nvmlDeviceGetTotalEccErrors",
            (nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC),
            same,
        ),
        ("remapped_rows", "nvmlDeviceGetRemappedRows", (), list),
        ("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", (), same),
        ("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", (), same),
        ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), same),
        ("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth", (), same),
        ("numa_node", "nvmlDeviceGetNumaNodeId", (), same),
    ]


def examine_gpu(asker: Asker, index: int) -> Any:
    """Report everything of one GPU; return its handle, None when it cannot be opened."""
    nvml = asker.nvml
    heading: dict[str, Any] = {"gpu": index}
    say(begin="nvmlDeviceGetHandleByIndex", **heading)
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except nvml.NVMLError as error:
        say(**heading, key="handle", error=asker.describe(error))
        return None
    mig = None
    for key, function, arguments, to in questions(nvml):
        answer = asker.ask(heading, key, function, handle, *arguments, to=to)
        mig = answer if key == "mig_mode" else mig
    if mig:
        mig_instances(asker, heading, handle)
    nvlinks(asker, heading, handle)
    return handle


def mig_instances(asker: Asker, heading: dict[str, Any], handle: Any) -> None:
    """Report the names and UUIDs of the MIG devices of one GPU."""
    nvml = asker.nvml
    count = asker.ask(heading, "mig_slots", "nvmlDeviceGetMaxMigDeviceCount", handle, to=same) or 0
    found = []
    for slot in range(count):
        try:
            device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
            found.append(f"{text(nvml.nvmlDeviceGetName(device))} ({text(nvml.nvmlDeviceGetUUID(device))})")
        except nvml.NVMLError_NotFound:  # an empty slot
            continue
        except nvml.NVMLError as error:
            say(**heading, key="mig_instances", error=asker.describe(error))
            return
    say(**heading, key="mig_instances", value=found)


def nvlinks(asker: Asker, heading: dict[str, Any], handle: Any) -> None:
    """Report the NVLinks of one GPU; its links are numbered without a gap."""
    nvml = asker.nvml
    found: list[list[Any]] = []
    say(begin="nvmlDeviceGetNvLinkState", **heading)
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            active = bool(nvml.nvmlDeviceGetNvLinkState(handle, link))
        except nvml.NVMLError as error:
            past_the_last = isinstance(error, (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument))
            if found and past_the_last:
                break
            say(**heading, key="nvlinks", error=asker.describe(error))
            return
        found.append([link, active, remote(nvml, handle, link) if active else None])
    say(**heading, key="nvlinks", value=found)


def remote(nvml: Any, handle: Any, link: int) -> str | None:
    """PCI bus id at the other end of a link; None where NVML does not tell (as in many virtual machines)."""
    try:
        return text(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link).busId)
    except nvml.NVMLError:
        return None


def pairs(asker: Asker, handles: list[Any]) -> None:
    """Report topology and peer-to-peer status of every pair of GPUs that could be opened."""
    nvml = asker.nvml
    read = nvml.NVML_P2P_CAPS_INDEX_READ
    read = read[0] if isinstance(read, tuple) else read  # a stray comma in the bindings made it a tuple
    opened = [index for index, handle in enumerate(handles[:PAIRS]) if handle is not None]
    for a in opened:
        for b in (other for other in opened if other > a):
            both = handles[a], handles[b]
            asker.ask({"pair": [a, b]}, "topology", "nvmlDeviceGetTopologyCommonAncestor", *both, to=same)
            asker.ask({"pair": [a, b]}, "p2p_read", "nvmlDeviceGetP2PStatus", *both, read, to=same)


def main() -> None:
    """Ask everything; an error that NVML answers is an answer, too."""
    import pynvml

    if sys.platform != "win32":
        say(begin="dlopen")
        try:
            ctypes.CDLL("libnvidia-ml.so.1")  # pynvml hides the loader's words, which say what is wrong with the file
        except OSError as error:
            say(load=None, error=str(error))
            return
    say(load=mapped("libnvidia-ml.so"))
    asker = Asker(pynvml)
    say(begin="nvmlInit")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        say(init=asker.describe(error))
        return
    say(init=[0, "NVML_SUCCESS", "success"])
    system: dict[str, Any] = {"system": True}
    asker.ask(system, "driver_version", "nvmlSystemGetDriverVersion", to=text)
    asker.ask(system, "cuda_version", "nvmlSystemGetCudaDriverVersion_v2", to=same)
    count = asker.ask(system, "count", "nvmlDeviceGetCount", to=same) or 0
    pairs(asker, [examine_gpu(asker, index) for index in range(count)])
    say(end=True)
