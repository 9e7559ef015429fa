"""The finding about a machine that has no NVIDIA GPU."""

from __future__ import annotations

from tfgpu_doctor.findings import driver_answers as answers
from tfgpu_doctor.findings import symptoms
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import CallResult, Gpu, PciGpu, TfDevice
from tfgpu_doctor.records.report import Fix, Severity

_NVIDIA_GPU = Fix(text="Run this on a machine with an NVIDIA GPU; in a cloud, choose an instance type with one")
_CPU_ONLY = Fix(
    text="If this machine is to run on the CPU only, require no GPU", commands=("tfgpu doctor --require-gpus 0",)
)
_OTHER_HARDWARE = (
    Fix(text="In a virtual machine, pass the GPU through to it (vfio, or a vGPU profile)"),
    Fix(
        text="For an AMD GPU, use ROCm and tensorflow-rocm on Linux; for Apple's, tensorflow-metal; for Intel's, "
        "intel-extension-for-tensorflow"
    ),
)


def _fixes(context: Context) -> tuple[Fix, ...]:
    """The second is shown on the first screen; a text is judged elsewhere, where no option applies."""
    live = (_CPU_ONLY,) if context.probed and context.require_gpus is None else ()
    return (_NVIDIA_GPU, *live, *_OTHER_HARDWARE)


GPU_NONE = finding(
    "gpu.none",
    layer="GPU",
    severity=Severity.ERROR,
    title="This machine has no NVIDIA GPU",
    cause="TensorFlow's GPU builds use NVIDIA GPUs only; without one, TensorFlow runs on the CPU",
    fixes=_fixes,
    pointless_after=("wsl.setup", "driver.unresponsive"),
    symptoms=(symptoms.NO_DEVICE,),
    docs="https://developer.nvidia.com/cuda-gpus",
)


@GPU_NONE.sign
def no_device_on_bus(context: Context, has_gpu: bool, cuda_init: CallResult | None = None) -> Problem | None:
    """No display or 3D controller of NVIDIA on the PCI bus, and none that the driver knows."""
    if has_gpu or not context.probed or answers.has_code(cuda_init, 0):  # a text need not show the whole bus
        return None
    return Problem(evidence=(evidence("no NVIDIA device", context.source("host.pci_gpus"), "an NVIDIA GPU"),))


@GPU_NONE.sign
def other_graphics_message(
    context: Context,
    messages: MessageLog,
    pci_gpus: tuple[PciGpu, ...] | None = None,
    gpus: tuple[Gpu, ...] | None = None,
    driver_version: str | None = None,
    devices: tuple[TfDevice, ...] | None = None,
) -> Problem | None:
    """A text names GPUs of other vendors only, or lspci shows none of NVIDIA's."""
    reported = messages.all("no-gpu-present")
    driver = driver_version and not context.is_stated("driver.version")  # one that a person names may be a left-over
    if gpus or driver or pci_gpus or not (pci_gpus == () or reported) or messages.has("gpu-created"):
        return None
    found = message_evidence(*reported)
    if pci_gpus == ():
        found += (evidence("no NVIDIA GPU", context.source("host.pci_gpus"), "an NVIDIA GPU"),)
    missed = devices is not None or messages.complains or messages.has("gpu-fails-said")
    if context.is_stated("host.pci_gpus") and not missed:  # the field of a form, and nobody misses a GPU
        return Problem(evidence=found, severity=Severity.WARNING)
    return Problem(evidence=found, severity=_severity(messages, said=bool(reported)))


def _severity(messages: MessageLog, *, said: bool) -> Severity | None:
    """A warning where something else stops TensorFlow; a note for somebody who says that there is no GPU."""
    # what TensorFlow misses on such a machine
    misses = ("library-not-opened", "loader-error")
    if said and messages.has(*misses) and messages.speaks_only_of(*misses):
        return Severity.NOTE
    # a GPU build for Windows cannot be loaded without the driver's nvcuda.dll
    missing_dll = any("routine failed" not in m.text for m in messages.all("dll-load-failed"))
    dies = messages.stops_import or messages.has("illegal-instruction")
    return Severity.WARNING if dies and not missing_dll else None
