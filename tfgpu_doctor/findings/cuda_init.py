"""The rule about cuInit: the driver is there, and CUDA cannot be initialised all the same."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.records.facts import CallResult
from tfgpu_doctor.records.report import Fix, Severity

# CUresult (cuda.h) → why, what to do. The codes with a finding of their own are left out: 34, -1, 803, 804.
_UVM = Fix(
    text="Load the module that CUDA needs besides the display driver, and see whether its device node is there",
    commands=("sudo modprobe nvidia-uvm", "ls -l /dev/nvidia-uvm"),
)
_RELOAD = Fix(
    text="After suspend or a crash in the driver: reload nvidia-uvm, while nothing uses the GPU",
    commands=("sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",),
)
_LOG = Fix(text="See what the kernel says", commands=("sudo dmesg | grep -iE 'NVRM|nvidia|Xid' | tail -n 20",))
_CRASH = (
    Fix(
        text="See which packages the driver's libraries come from",
        commands=("ldconfig -p | grep -E 'libcuda|nvidia-ml'",),
    ),
)
_KNOWN: dict[int, tuple[str, tuple[Fix, ...]]] = {
    3: (
        "the driver could not start: its device nodes or the module nvidia-uvm are missing or out of reach",
        (_UVM, _LOG),
    ),
    100: (
        "the driver lists a GPU, but CUDA gets none: no permission for /dev/nvidia*, or no nvidia-uvm",
        (Fix(text="See who may use the device nodes", commands=("ls -l /dev/nvidia*", "id")), _UVM),
    ),
    101: ("a device that was asked for does not exist, or is a MIG slice that is gone", (_LOG,)),
    802: (
        "the NVSwitch fabric is not up: a machine with NVSwitch needs the Fabric Manager of the driver's very version",
        (
            Fix(
                text="Start the Fabric Manager",
                commands=("sudo systemctl enable --now nvidia-fabricmanager", "systemctl status nvidia-fabricmanager"),
            ),
        ),
    ),
    999: (
        "the driver failed inside: mostly nvidia-uvm after suspend or an update, sometimes the hardware",
        (_RELOAD, Fix(text="Or restart the machine", commands=("sudo reboot",)), _LOG),
    ),
}


@rule(
    "driver.init-failed",
    Severity.ERROR,
    "The driver is loaded, but CUDA cannot be initialised",
    needs=("driver.cuda_init", "derived.has_gpu"),
    requires=(
        "driver.version-mismatch",
        "driver.stub-loaded",
        "driver.not-loaded",
        "driver.missing",
        "driver.unresponsive",
        "container.no-gpu",
        "wsl.setup",
        "gpu.hidden",
        "gpu.mig",
        "gpu.fault",
    ),
    docs="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
)
def init_failed(context: Context, init: CallResult, has_gpu: bool) -> Problem | None:
    """cuInit answered something that no other rule speaks about."""
    if init.code in (0, 34, -1, 803, 804) or not has_gpu:
        return None
    if init.code < 0:
        why = "the driver's own library crashes: its files are damaged or mixed from several versions"
        seen = evidence(init.message, context.source("driver.cuda_init"), "an answer")
        return Problem(f"{why}; TensorFlow dies with it", (seen,), (context.remedies.install_driver(), *_CRASH))
    why, fixes = _KNOWN.get(init.code, ("the CUDA driver refuses to start; the kernel log may say more", (_LOG,)))
    name = f"{init.name}: " if init.name else ""
    seen = evidence(f"cuInit: {name}{init.message} ({init.code})", context.source("driver.cuda_init"), "success (0)")
    return Problem(
        title=f"CUDA cannot be initialised: {init.message} ({init.code})", cause=why, evidence=(seen,), fixes=fixes
    )
