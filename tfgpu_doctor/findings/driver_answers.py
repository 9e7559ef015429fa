"""What programs report of the driver, and fixes: shared by the findings about the driver and the machine below it."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import evidence
from tfgpu_doctor.findings.message_log import MessageLog
from tfgpu_doctor.records.facts import CallResult, Message, SmiResult
from tfgpu_doctor.records.report import Evidence, Fix

# CUresult (cuda.h); a crash is minus the number of its signal, and TensorFlow 1.0 prints -1 of the stub
STUB_LIBRARY = (34, -1)
OUT_OF_MEMORY = 2  # of the machine or of addresses: cuInit allocates nothing on a GPU
# what TensorFlow gives for cuInit when it cannot open libcuda (CUDA_ERROR_SHARED_OBJECT_INIT_FAILED)
LIBCUDA_NOT_OPENED = 303
COMPATIBILITY_REFUSED = 804
# CUDA_ERROR_NOT_FOUND: NVIDIA/nvidia-container-toolkit issue 520, Docker Desktop's release notes of 4.31
SYMBOL_NOT_FOUND = 500
NOT_MOUNTED = (
    "from branch 555 on, the driver of Windows needs libnvdxgdmal.so.1, which Docker Desktop before 4.31 and the "
    "NVIDIA Container Toolkit before 1.14.4 do not mount into a container under WSL2"
)
UPDATE_TOOLKIT = Fix(
    text="Update Docker Desktop to 4.31 or later; with Docker Engine inside WSL, the NVIDIA Container Toolkit to "
    "1.14.4 or later; then start the container anew"
)

RUN_ON_HOST = Fix(text="To decide, run this on the host, outside any container", commands=("nvidia-smi",))
KERNEL_LOG = Fix(
    text="Look for errors of the GPU in the kernel log",
    commands=("sudo dmesg | grep -iE 'NVRM|nvidia|Xid' | tail -n 20",),
)
DEVICE_NODES = Fix(
    text="Load the module nvidia-uvm, which CUDA requires, and check the device nodes and their permissions",
    commands=("sudo modprobe nvidia-uvm", "ls -l /dev/nvidia*", "id"),
)
RELOAD_UVM = Fix(
    text="After suspend, an update or a crash in the driver: reload nvidia-uvm while nothing uses the GPU",
    commands=("sudo rmmod nvidia_uvm; sudo modprobe nvidia_uvm",),
)
MEMORY_OF_PROCESS = Fix(
    text="See the limit of the address space, which must be unlimited, and the free memory, in the shell or job that "
    "starts the program",
    commands=("ulimit -v", "free -m"),
)
FABRIC_MANAGER = Fix(
    text="On a machine with NVSwitch: start the Fabric Manager of exactly the driver's version",
    commands=("sudo systemctl enable --now nvidia-fabricmanager", "systemctl status nvidia-fabricmanager"),
)
RESTART = Fix(text="Restart the machine", commands=("sudo reboot",))
_LIBCUDA = re.compile(r"libcuda\.so|nvcuda\.dll", re.IGNORECASE)
_NO_DRIVER = ("cuinit-failed", "kernel-driver-not-running", "libcuda-not-loaded", "nvml-not-found", "smi-no-driver")
_UNUSABLE = (
    *("kernel-driver-not-running", "no-cuda-device", "cuinit-failed", "ngc-no-driver", "smi-no-driver", "nvml-blocked"),
    *("libcuda-not-loaded", "nvml-not-found"),
)


def has_code(result: CallResult | None, *codes: int) -> bool:
    """Whether a call into the driver returned one of these codes."""
    return result is not None and result.code in codes


def returned(call: str, result: CallResult, path: str, context: Context) -> Evidence:
    """A failed call into the driver as evidence, in a text by its line; `path` is that of its fact."""
    found = f"{call}: {result.message} ({result.code})" if context.probed else result.message
    return evidence(found, context.source(path), "success (0)")


def smi_works(nvidia_smi: SmiResult | None) -> bool:
    """Whether nvidia-smi printed its table."""
    return nvidia_smi is not None and nvidia_smi.exit_code == 0


def hook_failures(log: MessageLog, reason: str) -> tuple[Message, ...]:
    """Failures of NVIDIA's container tool whose reason matches a pattern."""
    hooks = log.all("container-hook-failed")
    return tuple(m for m in hooks if re.search(reason, m.values.get("why", m.text), re.IGNORECASE))


def libcuda_not_opened(log: MessageLog) -> tuple[Message, ...]:
    """Lines in which the loader does not open libcuda itself; cuDNN asks for a libcuda.so without a number."""
    of_cudnn = {message.line for message in log.all("cudnn-part-missing")}
    named = log.libraries("library-not-opened", "loader-error")
    return tuple(message for name, message in named if _LIBCUDA.search(name) and message.line not in of_cudnn)


def no_libcuda(log: MessageLog) -> bool:
    """Whether any line reports that the driver's libraries are not found."""
    return bool(libcuda_not_opened(log)) or log.has("libcuda-not-loaded", "nvml-not-found")


def driver_unusable(log: MessageLog, cuda_init: CallResult | None) -> bool:
    """Whether the driver could not be used at all, for whatever reason."""
    return bool(libcuda_not_opened(log)) or log.has(*_UNUSABLE) or (cuda_init is not None and cuda_init.code != 0)


def driver_messages(log: MessageLog) -> tuple[Message, ...]:
    """Lines that report that the driver is not found or not usable."""
    return (*libcuda_not_opened(log), *log.all(*_NO_DRIVER, "smi-not-found", "smi-no-libcuda", "ngc-no-driver"))
