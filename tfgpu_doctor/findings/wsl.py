"""The finding about WSL2: whether Windows' GPU and driver are passed in."""

from __future__ import annotations

from tfgpu_doctor.findings import driver_answers as answers
from tfgpu_doctor.findings.container_fixes import REMOVE_LINUX_DRIVER, UPDATE_WSL, WSL_LIBRARIES_FIRST
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import CallResult, LibraryFile, value_or
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.versions import at_least

SETUP = finding(
    "wsl.setup",
    layer="Machine",
    severity=Severity.ERROR,
    title="WSL2 is not set up for the GPU",
    cause="WSL2 takes libcuda from /usr/lib/wsl/lib and uses the GPU through /dev/dxg; one of them is missing, old or "
    "shadowed",
    fixes=lambda _: (UPDATE_WSL, REMOVE_LINUX_DRIVER, WSL_LIBRARIES_FIRST),
    docs="https://docs.nvidia.com/cuda/wsl-user-guide/index.html",
    about_gpus=True,
)


_TO_WSL_2 = Fix(
    text="Convert the distribution to WSL 2, from Windows", commands=("wsl -l -v", "wsl --set-version NAME 2")
)


def _hand_in_gpu(context: Context) -> tuple[Fix, ...]:
    """Update what makes /dev/dxg; the kernel of WSL 2 names itself, so that it is no WSL 1."""
    kernel = value_or(context.facts.host.kernel, "")
    return (UPDATE_WSL,) if "microsoft-standard" in kernel or context.probed else (UPDATE_WSL, _TO_WSL_2)


_NO_GPU_FROM_WINDOWS = "Windows provides no GPU to WSL2: its driver or the WSL kernel is too old"


@SETUP.sign
def no_wsl_driver(
    context: Context, os: str, libcuda: tuple[LibraryFile, ...], dxg_device: bool | None = None
) -> Problem | None:
    """Windows passes no GPU through, or the loader does not find Windows' libcuda first."""
    if os != "wsl2":
        return None
    if dxg_device is False:
        return Problem(
            cause=_NO_GPU_FROM_WINDOWS,
            evidence=(evidence("no /dev/dxg", context.source("host.dxg_device"), "/dev/dxg"),),
            fixes=_hand_in_gpu(context),
        )
    first = libcuda[0].path if libcuda else "no libcuda.so.1"
    if "/wsl/" in first:
        return None
    return Problem(
        cause="the loader does not find Windows' libcuda: a Linux driver hides it, or its folder is not searched",
        evidence=(evidence(first, context.source("driver.libcuda"), "/usr/lib/wsl/lib/libcuda.so.1"),),
        fixes=(REMOVE_LINUX_DRIVER, WSL_LIBRARIES_FIRST),
    )


def _is_not_mounted(cuda_init: CallResult | None, driver: str | None) -> bool:
    return answers.has_code(cuda_init, answers.SYMBOL_NOT_FOUND) and at_least(driver, "555") is not False


_FAILURES_IN_WSL = ("container-hook-failed", "driver-insufficient", "nvml-failed", "smi-no-libcuda")
# Windows 10 21H2, the first that is not a preview (Microsoft, "Enable NVIDIA CUDA on WSL")
_FIRST_WITH_GPU = 19044


def _windows_without_gpus(messages: MessageLog) -> Problem | None:
    old = [m for m in messages.all("windows-build") if int(m.values["build"]) < _FIRST_WITH_GPU]
    if not old:
        return None
    return Problem(
        title="This version of Windows does not support GPUs in WSL2",
        cause="Windows 10 supports them from 21H2 (build 19044) on; before that, only its preview builds did",
        evidence=message_evidence(*old, need=f"build {_FIRST_WITH_GPU} or newer"),
        fixes=(Fix(text="Update Windows to 21H2 or later, then WSL", commands=("wsl.exe --update",)),),
    )


def _without_device(context: Context, messages: MessageLog) -> Problem | None:
    """WSL 1, a WSL 2 without the device, or a Windows that never had it."""
    first, missing = messages.all("wsl-1"), messages.all("no-dxg")
    if not first and not missing:
        return _windows_without_gpus(messages)
    return Problem(
        title="This is WSL 1, which has no GPU" if first else None,
        cause="WSL 1 runs no Linux kernel, and has no /dev/dxg; Windows' own nvidia-smi.exe works there all the same"
        if first
        else _NO_GPU_FROM_WINDOWS,
        evidence=message_evidence(*first, *missing),
        fixes=(_TO_WSL_2, UPDATE_WSL) if first else _hand_in_gpu(context),
    )


@SETUP.sign
def wsl_message(
    context: Context,
    messages: MessageLog,
    os: str,
    cuda_init: CallResult | None = None,
    host_container: str | None = None,
    driver_version: str | None = None,
) -> Problem | None:
    """Under WSL2 the driver is that of Windows: what fails there is how it is made available."""
    if os != "wsl2" or messages.has("nvml-mismatch", "hidden-by-variable", "stub-library"):
        return None
    if old := _without_device(context, messages):
        return old
    linux_driver = messages.all("linux-driver-in-wsl")
    failures = messages.all("container-hook-failed", "smi-no-libcuda", *(() if driver_version else ("smi-not-found",)))
    unusable = messages.has(*_FAILURES_IN_WSL) or answers.driver_unusable(messages, cuda_init)
    if not (linux_driver or failures or unusable):
        return None
    cause = "a Linux driver inside WSL hides the libcuda of Windows' driver" if linux_driver else None
    docker = Fix(text="Update Docker Desktop, or the NVIDIA Container Toolkit inside WSL, which mounts the driver")
    in_container = host_container or messages.has("container-hook-failed")
    steps = (REMOVE_LINUX_DRIVER, UPDATE_WSL) if linux_driver else (UPDATE_WSL, REMOVE_LINUX_DRIVER)
    if in_container and _is_not_mounted(cuda_init, driver_version):
        cause, docker = answers.NOT_MOUNTED, answers.UPDATE_TOOLKIT
    return Problem(
        cause=cause,
        evidence=message_evidence(*linux_driver, *failures, *answers.driver_messages(messages)),
        fixes=(*((docker,) if in_container else ()), *steps, WSL_LIBRARIES_FIRST),
    )
