"""Rules over what a pasted text says of a driver that is there: it does not answer, or CUDA cannot start over it."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.driver import BLOCKED, LOOK_FOR_XID, RESTART
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.findings.said_driver import UVM
from tfgpu_doctor.records.facts import CallResult, PciGpu, SmiResult
from tfgpu_doctor.records.report import Fix, Severity

_PERSIST = Fix(
    text="Where starting the driver takes long (many GPUs, nothing that keeps them awake): keep it loaded",
    commands=("sudo systemctl enable --now nvidia-persistenced", "sudo nvidia-smi -pm 1"),
)


@rule(
    "driver.unresponsive",
    Severity.ERROR,
    "The NVIDIA driver does not answer",
    needs=("derived.told",),
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)
def unresponsive(context: Context, said: Said) -> Problem | None:
    """nvidia-smi hangs, or the kernel reports a task that waits for the driver."""
    hung = [m for m in said.all("hung-task") if re.search(r"nvidia|python|cuda", m.values.get("task", ""))]
    slow = [m for m in said.all("container-hook-failed") if re.search("timed out|timeout", m.values.get("why", m.text))]
    seen = (*said.all("smi-hangs"), *hung, *slow)
    if not seen:
        return None
    return Problem(
        cause=BLOCKED,
        evidence=heard(*seen),
        fixes=(LOOK_FOR_XID, *((_PERSIST,) if slow else ()), RESTART),
    )


@rule(
    "driver.init-failed",
    Severity.ERROR,
    "The driver is loaded, but CUDA cannot be initialised",
    needs=("derived.told", "driver.cuda_init"),
    wants=("host.pci_gpus", "driver.nvidia_smi"),
    requires=("driver.*", "container.no-gpu", "wsl.setup", "gpu.hidden", "gpu.mig", "gpu.fault", "gpu.none"),
    docs="https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__TYPES.html",
)
def init_failed(
    context: Context, said: Said, init: CallResult, pci: tuple[PciGpu, ...] | None, smi: SmiResult | None
) -> Problem | None:
    """cuInit answered something for which the text gives no reason."""
    if init.code in (0, 34, -1, 100, 303, 803, 804, *UVM):
        return None
    hidden = Fix(
        text="See whether a variable hides the GPU, and whether the driver lists one",
        commands=("env | grep VISIBLE_DEVICES", "nvidia-smi -L"),
    )
    device = Fix(
        text="See whether the device nodes and the module nvidia-uvm are there",
        commands=("ls -l /dev/nvidia*", "sudo modprobe nvidia-uvm"),
    )
    reload = Fix(
        text="After suspend or an update: reload the module, or restart",
        commands=("sudo rmmod nvidia_uvm && sudo modprobe nvidia_uvm",),
    )
    why = {
        101: "a device is asked for that does not exist, or is a MIG instance that is gone",
        46: "the device is in use by another process, and in a mode that allows one only",
        2: "no memory of the GPU is left even to start; another process holds it",
    }.get(init.code, "the CUDA driver refuses to start; the kernel log may say more")
    return Problem(
        title=f"CUDA cannot be initialised: {init.name or f'error {init.code}'}",
        cause=why,
        evidence=heard(*said.all("cuinit-failed", "no-cuda-device")),
        fixes=(hidden, device) if init.code in (101, 46) else (reload, device),
    )
