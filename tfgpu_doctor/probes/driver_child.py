"""Child processes that ask NVML and CUDA everything, and write each answer as one line of JSON, as soon as it is known.

A call into a dead driver can block in the kernel for ever: what was known before is kept, and each call is announced
(``{"begin": "nvmlDeviceGetName of GPU 0"}``), so that the parent can name the one that hung. The other lines are facts
as a report has them: ``{"facts": {...}}`` of the driver, ``{"gpu": i, "facts": {...}}`` of a GPU.

They run as ``python -I -S -c BOOT nvml|cuda FOLDER...``: isolated from the user's site-packages and PYTHON* variables,
and started in 10 ms; the folders are where this package and pynvml lie.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any

BOOT = (
    "import sys; sys.path += sys.argv[2:]; from tfgpu_doctor.probes import driver_child as child; "
    "getattr(child, sys.argv[1])()"
)
NOT_SUPPORTED = 3  # NVML_ERROR_NOT_SUPPORTED
# every later call to such a GPU fails the same way
GONE = ("NVML_ERROR_GPU_IS_LOST", "NVML_ERROR_RESET_REQUIRED")
# nvmlClocksThrottleReasons (event reasons in newer headers), a bit each
THROTTLE_REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
COMPUTE_MODES = {0: "default", 1: "exclusive_thread", 2: "prohibited", 3: "exclusive_process"}


def say(**line: object) -> None:
    """Write one line and flush it: the next call may never return."""
    print(json.dumps(line), flush=True)


def known(value: object, source: str) -> dict[str, object]:
    """Return a known fact as it stands in a report."""
    return {"is": "known", "value": value, "source": source}


def unknown(reason: str) -> dict[str, object]:
    """Return an unknown fact as it stands in a report."""
    return {"is": "unknown", "reason": reason}


def mapped(stem: str) -> str | None:
    """The file behind a loaded library whose name begins with `stem`; None where there is no memory map to look at."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:  # noqa: PTH123 - pathlib costs 5 ms
            rows = [line.rstrip("\n").split(None, 5) for line in maps]
    except OSError:
        return None
    return next((row[5] for row in rows if len(row) == 6 and row[5].rpartition("/")[2].startswith(stem)), None)


def load(name: str, stem: str, fact: str, call: str) -> tuple[Any, str | None, str]:
    """Load a driver library; return it, its path, and the source of the answers to `call`."""
    say(begin="dlopen")
    try:
        library = ctypes.CDLL(name)
    except OSError as error:
        say(facts={fact: unknown(f"cannot load the library: {error}")})
        sys.exit()
    path = mapped(stem)
    say(begin=call, library=path)
    return library, path, f"{call} ({path})" if path else call


def result(code: int, name: str, message: str, library: str | None, source: str) -> dict[str, object]:
    """Return what an API answered to its first call, as a fact."""
    return known({"code": code, "message": message, "name": name, "library": library}, source)


def cuda_version(number: int) -> str:
    """CUDA's version number as people write it.

    >>> cuda_version(12020), cuda_version(11080)
    ('12.2', '11.8')
    """
    return f"{number // 1000}.{number % 1000 // 10}"


# --------------------------------------------------------------------------------------------------------------- NVML


def text(value: Any) -> str:
    """A char array or str."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def throttle_reasons(mask: int) -> list[str]:
    """Name the bits of a throttle mask; bits that are newer than this table are shown as numbers.

    >>> throttle_reasons(0x44), throttle_reasons(0), throttle_reasons(0x8000)
    (['sw_power_cap', 'hw_thermal_slowdown'], [], ['0x8000'])
    """
    bits = (1 << position for position in range(mask.bit_length()) if mask >> position & 1)
    return [THROTTLE_REASONS.get(bit, hex(bit)) for bit in bits]


# fields of Gpu, function, constants that it takes beside the GPU, conversion; the important ones first
QUESTIONS: tuple[tuple[str, str, str, Callable[[Any], Any]], ...] = (
    ("name", "GetName", "", text),
    ("uuid", "GetUUID", "", text),
    ("pci_bus_id", "GetPciInfo", "", lambda info: text(info.busId)),
    ("compute_capability", "GetCudaComputeCapability", "", lambda pair: f"{pair[0]}.{pair[1]}"),
    ("memory_total memory_used memory_free", "GetMemoryInfo", "", lambda info: (info.total, info.used, info.free)),
    ("mig_mode", "GetMigMode", "", lambda modes: bool(modes[0])),
    ("compute_mode", "GetComputeMode", "", lambda mode: COMPUTE_MODES.get(mode, f"mode {mode}")),
    ("persistence_mode", "GetPersistenceMode", "", bool),
    ("utilization", "GetUtilizationRates", "", lambda rates: rates.gpu),
    ("temperature", "GetTemperature", "TEMPERATURE_GPU", int),
    ("power", "GetPowerUsage", "", lambda milliwatts: milliwatts / 1000),
    ("power_limit", "GetEnforcedPowerLimit", "", lambda milliwatts: milliwatts / 1000),
    ("sm_clock", "GetClockInfo", "CLOCK_SM", int),
    ("sm_clock_max", "GetMaxClockInfo", "CLOCK_SM", int),
    ("memory_clock_max", "GetMaxClockInfo", "CLOCK_MEM", int),
    ("memory_bus_width", "GetMemoryBusWidth", "", int),
    # the name that every driver has; newer ones call the same answer "event reasons"
    ("throttle_reasons", "GetCurrentClocksThrottleReasons", "", throttle_reasons),
    ("ecc_mode", "GetEccMode", "", lambda modes: bool(modes[0])),
    ("ecc_uncorrected", "GetTotalEccErrors", "MEMORY_ERROR_TYPE_UNCORRECTED VOLATILE_ECC", int),
    ("remapped_rows_pending remapped_rows_failed", "GetRemappedRows", "", lambda rows: tuple(map(bool, rows[2:4]))),
    ("pcie_generation", "GetCurrPcieLinkGeneration", "", int),
    ("pcie_generation_max", "GetMaxPcieLinkGeneration", "", int),
    ("pcie_width", "GetCurrPcieLinkWidth", "", int),
    ("pcie_width_max", "GetMaxPcieLinkWidth", "", int),
)


class Nvml:
    """Calls NVML and reports each answer or error."""

    def __init__(self, bindings: Any, source: str) -> None:
        """`source` of the facts."""
        self.nvml, self.source = bindings, source
        self.failures = (bindings.NVMLError, AttributeError, ValueError)  # older bindings lack a call; not UTF-8
        self.names = {value: name for name, value in vars(bindings).items() if name.startswith("NVML_ERROR_")
                      and isinstance(value, int)}  # fmt: skip

    def described(self, error: Any) -> tuple[str, str]:
        """Name and message of an error, in the library's words rather than the bindings'."""
        if not isinstance(error, self.nvml.NVMLError):
            return type(error).__name__, str(error)
        try:
            message = text(self.nvml.nvmlErrorString(error.value))
        except self.nvml.NVMLError:  # the library has no such function
            message = str(error)
        return self.names.get(error.value, f"NVML error {error.value}"), message

    def ask(self, fields: str, work: Callable[[], Any], function: str, gpu: int | None = None) -> Any:
        """Do `work`, which calls `function`; report what it answers as the facts `fields`, and return it or None."""
        head = {} if gpu is None else {"gpu": gpu}
        say(begin=function if gpu is None else f"{function} of GPU {gpu}")
        try:
            answer = work()
        except self.failures as error:
            name, message = self.described(error)
            is_unsupported = getattr(error, "value", None) == NOT_SUPPORTED
            reason = "not supported by this GPU" if is_unsupported else f"{name}: {message}"
            facts = dict.fromkeys(fields.split(), unknown(reason))
            if name in GONE:
                facts["fault"] = known(reason, self.source)
            say(**head, facts=facts)
            return None
        values = dict(zip(fields.split(), answer if " " in fields else (answer,), strict=True))
        say(**head, facts={field: known(value, self.source) for field, value in values.items()})
        return answer

    def examine_gpu(self, index: int) -> None:
        """Report everything of one GPU."""
        nvml = self.nvml
        say(begin=f"nvmlDeviceGetHandleByIndex of GPU {index}")
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
        except nvml.NVMLError as error:
            say(gpu=index, facts={"fault": known(": ".join(self.described(error)), self.source)})
            return
        mig = None
        for fields, name, constants, to in QUESTIONS:
            function = f"nvmlDevice{name}"

            def work(function: str = function, constants: str = constants, to: Callable[[Any], Any] = to) -> Any:
                more = (getattr(nvml, f"NVML_{constant}") for constant in constants.split())
                return to(getattr(nvml, function)(handle, *more))

            answer = self.ask(fields, work, function, index)
            mig = answer if fields == "mig_mode" else mig
        self.ask("processes", lambda: self.processes(handle), "nvmlDeviceGetComputeRunningProcesses", index)
        if mig:
            self.ask("mig_instances", lambda: self.mig(handle), "nvmlDeviceGetMigDeviceHandleByIndex", index)
        else:
            reason = "MIG mode is off" if mig is False else "the MIG mode is not known"
            say(gpu=index, facts={"mig_instances": unknown(reason)})
        self.ask("nvlinks", lambda: self.nvlinks(handle), "nvmlDeviceGetNvLinkState", index)

    def processes(self, handle: Any) -> list[dict[str, object]]:
        """Those that compute and those that draw together; a process that does both is named once."""
        found = list(self.nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        with suppress(*self.failures):
            found += self.nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
        held = {one.pid: one.usedGpuMemory for one in reversed(found)}  # None where the driver does not tell
        return [{"pid": pid, "memory": size} for pid, size in sorted(held.items())]

    def mig(self, handle: Any) -> list[str]:
        """The names and UUIDs of the MIG devices of one GPU."""
        nvml, found = self.nvml, []
        for slot in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, slot)
                found.append(f"{text(nvml.nvmlDeviceGetName(device))} ({text(nvml.nvmlDeviceGetUUID(device))})")
            except nvml.NVMLError_NotFound:  # an empty slot
                continue
        return found

    def nvlinks(self, handle: Any) -> list[dict[str, object]]:
        """The NVLinks of one GPU, which are numbered without a gap."""
        nvml = self.nvml
        found: list[dict[str, object]] = []
        for link in range(nvml.NVML_NVLINK_MAX_LINKS):
            try:
                active = bool(nvml.nvmlDeviceGetNvLinkState(handle, link))
            except (nvml.NVMLError_NotSupported, nvml.NVMLError_InvalidArgument):
                if not found:
                    raise
                break  # past the last
            found.append({"link": link, "active": active})
        return found


def nvml() -> None:
    """Ask NVML everything; an error that it answers is an answer, too."""
    import pynvml

    path, source = None, "nvmlInit"
    if sys.platform == "win32":  # pynvml knows where it lies
        say(begin=source)
    else:  # pynvml hides the loader's words, which say what is wrong with the file
        _, path, source = load("libnvidia-ml.so.1", "libnvidia-ml.so", "nvml_init", source)
    asked = Nvml(pynvml, source.replace("nvmlInit", "NVML"))
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        say(facts={"nvml_init": result(error.value, *asked.described(error), path, source)})
        return
    say(facts={"nvml_init": result(0, "NVML_SUCCESS", "success", path, source)})
    asked.ask("version", lambda: text(pynvml.nvmlSystemGetDriverVersion()), "nvmlSystemGetDriverVersion")
    newest = "nvmlSystemGetCudaDriverVersion_v2"
    asked.ask("cuda_supported", lambda: cuda_version(getattr(pynvml, newest)()), newest)
    count = asked.ask("count", pynvml.nvmlDeviceGetCount, "nvmlDeviceGetCount") or 0
    for index in range(count):
        asked.examine_gpu(index)


# --------------------------------------------------------------------------------------------------------------- CUDA

MULTIPROCESSORS, CC_MAJOR, CC_MINOR = 16, 75, 76  # cuda.h, CUdevice_attribute


def described(library: Any, code: int) -> tuple[str, str]:
    """Name of a CUresult, and the library's own message where it has any."""
    from tfgpu_doctor.parsers.cuda_results import CURESULTS

    names = {number: name for name, number in CURESULTS.items()}
    name = names.get(code, "CUDA_SUCCESS" if not code else f"CUDA error {code}")
    pointer = ctypes.c_char_p()
    if hasattr(library, "cuGetErrorString"):  # a stub or a very old driver has no such function
        library.cuGetErrorString(code, ctypes.byref(pointer))
    return name, pointer.value.decode("utf-8", "replace") if pointer.value else name


def examine_device(library: Any, index: int, source: str) -> None:
    """Report name, PCI bus id, compute capability, multiprocessors and memory of one CUDA device."""
    device, size, buffer = ctypes.c_int(), ctypes.c_size_t(), ctypes.create_string_buffer(256)

    def attribute(which: int) -> int | None:
        number = ctypes.c_int()
        failed = library.cuDeviceGetAttribute(ctypes.byref(number), which, device)
        return None if failed else number.value

    found: dict[str, object] = {}
    say(begin=f"cuDeviceGet of GPU {index}")
    try:
        if library.cuDeviceGet(ctypes.byref(device), index):
            return
        if library.cuDeviceGetName(buffer, 256, device) == 0:
            found["name"] = buffer.value.decode("utf-8", "replace")
        if library.cuDeviceGetPCIBusId(buffer, 256, device) == 0:
            found["pci_bus_id"] = buffer.value.decode("ascii", "replace")
        if (number := attribute(MULTIPROCESSORS)) is not None:
            found["multiprocessors"] = number
        major, minor = attribute(CC_MAJOR), attribute(CC_MINOR)
        if major is not None and minor is not None:
            found["compute_capability"] = f"{major}.{minor}"
        if library.cuDeviceTotalMem_v2(ctypes.byref(size), device) == 0:
            found["memory_total"] = size.value
    except AttributeError:  # a stand-in or a very old driver lacks one of them; what is known is kept
        pass
    say(gpu=index, facts={field: known(value, source) for field, value in found.items()})


def cuda() -> None:
    """Call cuInit and ask a few questions; an error that CUDA answers is an answer, too."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    library, path, source = load(name, "libcuda.so", "cuda_init", "cuInit")
    if not hasattr(library, "cuInit"):
        say(facts={"cuda_init": unknown(f"cannot load the library: {path or name} has no function cuInit")})
        return
    answers, number = source.replace("cuInit", "CUDA"), ctypes.c_int()
    if hasattr(library, "cuDriverGetVersion") and library.cuDriverGetVersion(ctypes.byref(number)) == 0:
        say(facts={"cuda_supported": known(cuda_version(number.value), answers)})
    code = library.cuInit(0)
    say(facts={"cuda_init": result(code, *described(library, code), path, source)})
    if code:
        return
    say(begin="cuDeviceGetCount")
    if code := library.cuDeviceGetCount(ctypes.byref(number)):
        say(facts={"count": unknown(": ".join(described(library, code)))})
        return
    say(facts={"count": known(number.value, answers)})
    for index in range(number.value):
        examine_device(library, index, answers)
