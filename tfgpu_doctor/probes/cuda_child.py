"""Child process: cuInit and a few device questions through libcuda, each answer one line of JSON.

Each call is announced before it is made (``{"begin": "cuInit"}``), because a dead driver may never answer.

Lines: ``{"load": path | null, "error": text}``, ``{"init": [code, name, message]}``,
``{"system": true, "key": k, "value": v}`` (instead of ``value`` an ``"error": [code, name, message]``),
``{"device": i, "name": ...}``.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from tfgpu_doctor.probes.child import mapped, say

# cuda.h, CUresult; used when the library has no cuGetErrorName (as a stub or a very old driver)
NAMES = {
    0: "CUDA_SUCCESS",
    1: "CUDA_ERROR_INVALID_VALUE",
    2: "CUDA_ERROR_OUT_OF_MEMORY",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    34: "CUDA_ERROR_STUB_LIBRARY",
    36: "CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER",
    46: "CUDA_ERROR_DEVICE_UNAVAILABLE",
    100: "CUDA_ERROR_NO_DEVICE",
    101: "CUDA_ERROR_INVALID_DEVICE",
    102: "CUDA_ERROR_DEVICE_NOT_LICENSED",
    214: "CUDA_ERROR_ECC_UNCORRECTABLE",
    304: "CUDA_ERROR_OPERATING_SYSTEM",
    800: "CUDA_ERROR_NOT_PERMITTED",
    801: "CUDA_ERROR_NOT_SUPPORTED",
    802: "CUDA_ERROR_SYSTEM_NOT_READY",
    803: "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
    804: "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE",
    805: "CUDA_ERROR_MPS_CONNECTION_FAILED",
    806: "CUDA_ERROR_MPS_RPC_FAILURE",
    807: "CUDA_ERROR_MPS_SERVER_NOT_READY",
    999: "CUDA_ERROR_UNKNOWN",
}
MULTIPROCESSORS, CC_MAJOR, CC_MINOR = 16, 75, 76  # cuda.h, CUdevice_attribute


def described(library: Any, code: int) -> list[Any]:
    """Code, name and message of a CUresult, in the library's own words where it has any."""
    name = NAMES.get(code, f"CUDA error {code}")
    words = []
    for function in ("cuGetErrorName", "cuGetErrorString"):
        pointer = ctypes.c_char_p()
        try:
            answered = getattr(library, function)(code, ctypes.byref(pointer)) == 0
        except AttributeError:
            answered = False
        words.append(pointer.value.decode("utf-8", "replace") if answered and pointer.value else None)
    return [code, words[0] or name, words[1] or words[0] or name]


def examine_device(library: Any, index: int) -> None:
    """Report name, PCI bus id, compute capability, multiprocessors and memory of one CUDA device."""
    device, number, size = ctypes.c_int(), ctypes.c_int(), ctypes.c_size_t()
    buffer = ctypes.create_string_buffer(256)
    line: dict[str, Any] = {"device": index}
    say(begin="cuDeviceGet", gpu=index)
    try:
        if library.cuDeviceGet(ctypes.byref(device), index):
            return
        if library.cuDeviceGetName(buffer, 256, device) == 0:
            line["name"] = buffer.value.decode("utf-8", "replace")
        if library.cuDeviceGetPCIBusId(buffer, 256, device) == 0:
            line["pci_bus_id"] = buffer.value.decode("ascii", "replace")
        if library.cuDeviceGetAttribute(ctypes.byref(number), MULTIPROCESSORS, device) == 0:
            line["multiprocessors"] = number.value
        minor = ctypes.c_int()
        if not (
            library.cuDeviceGetAttribute(ctypes.byref(number), CC_MAJOR, device)
            or library.cuDeviceGetAttribute(ctypes.byref(minor), CC_MINOR, device)
        ):
            line["compute_capability"] = f"{number.value}.{minor.value}"
        if library.cuDeviceTotalMem_v2(ctypes.byref(size), device) == 0:
            line["memory_total"] = size.value
    except AttributeError:  # a stand-in or a very old driver lacks one of them; what is known is kept
        pass
    say(**line)


def main() -> None:
    """Ask everything; an error that CUDA answers is an answer, too."""
    say(begin="dlopen")
    try:
        library: Any = ctypes.CDLL("nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1")
    except OSError as error:
        say(load=None, error=str(error))
        return
    say(load=mapped("libcuda.so"))
    try:
        ask(library)
    except AttributeError as error:  # not a CUDA driver at all
        say(load=None, error=str(error))


def ask(library: Any) -> None:
    """Report version, cuInit, the number of devices, and each device."""
    number = ctypes.c_int()
    if hasattr(library, "cuDriverGetVersion") and library.cuDriverGetVersion(ctypes.byref(number)) == 0:
        say(system=True, key="version", value=number.value)
    say(begin="cuInit")
    code = library.cuInit(0)
    say(init=described(library, code))
    if code:
        return
    say(begin="cuDeviceGetCount")
    if code := library.cuDeviceGetCount(ctypes.byref(number)):
        say(system=True, key="count", error=described(library, code))
        return
    say(system=True, key="count", value=number.value)
    for index in range(number.value):
        examine_device(library, index)
    say(end=True)
