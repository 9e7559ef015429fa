"""Facts that follow from other facts and the matrix; rules name them ``derived.NAME``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.message_log import MessageLog
from tfgpu_doctor.matrix.compatibility import capability, published_row
from tfgpu_doctor.matrix.library_names import known_library
from tfgpu_doctor.matrix.loader import CudnnRelease, Release
from tfgpu_doctor.records.facts import NOT_ASKED, Fact, Known, Soname, Unknown, value_or

# DT_NEEDED of nothing, opened when first used: absent is harmless for listing and using a GPU
OPTIONAL_COMPONENTS = frozenset({"nvinfer", "tensorrt", "nccl", "cupti", "nvshmem", "driver"})


# answers of a driver that has a GPU but cannot serve it. NVML (nvml.h): 18 library and kernel module differ, 15 GPU is
# lost. CUDA (cuda.h): 101 invalid device, 802 not yet initialised, 803 and 804 mismatch, 999 unknown
COMPLAINTS = frozenset({15, 18, 101, 802, 803, 804, 999})
MISMATCH = "driver/library version mismatch"
_GPU_NODE = re.compile(r"/nvidia\d+$")


@dataclass(frozen=True)
class Card:
    """A GPU model in this machine and where its compute capability was read."""

    name: str
    compute_capability: str  # "8.9"
    source: str

    @property
    def version(self) -> tuple[int, int]:
        """Compute capability as numbers."""
        return capability(self.compute_capability)


def release(context: Context) -> Fact[Release]:
    """The matrix row of the TensorFlow under test."""
    facts = context.facts
    package = value_or(facts.tensorflow.distribution, "tensorflow")
    return published_row(context.matrix, facts.tensorflow.version, facts.python.wheel_platform, package)


def gpu_release(context: Context) -> Fact[Release]:
    """The same row, for a build that can use a GPU at all."""
    row = release(context)
    if isinstance(row, Known) and not row.value.gpu:
        return Unknown(f"{row.value.package} {row.value.version} on {row.value.platform} is a CPU build")
    return row


def driver_speaks(context: Context) -> Fact[bool]:
    """Whether the driver of a GPU answers here, be it with a complaint; a stub does not, nor one without a device."""
    facts = context.facts
    if value_or(facts.gpus, ()):
        return Known(True, "GPUs")
    answers = [answer for answer in (facts.driver.nvml_init, facts.driver.cuda_init) if isinstance(answer, Known)]
    mismatch = isinstance(facts.driver.nvidia_smi, Known) and MISMATCH in facts.driver.nvidia_smi.value.output.lower()
    return Known(mismatch or any(answer.value.code in COMPLAINTS for answer in answers), "the driver's answers")


def has_gpu(context: Context) -> Fact[bool]:
    """Whether an NVIDIA GPU is in this machine, by the driver's word or by the PCI bus.

    A driver that complains about itself has a GPU below it: its kernel module stays loaded only with one. A sandbox
    or a virtual machine may show no PCI bus, so that the bus alone says "no" only when the driver is silent.
    """
    facts = context.facts
    driver = facts.driver
    if value_or(facts.host.dxg_device, False):
        return Known(True, "/dev/dxg")
    if value_or(driver.kernel_module_loaded, False) or any(
        _GPU_NODE.search(n) for n in value_or(driver.device_nodes, ())
    ):
        return Known(True, "the driver's kernel module and device nodes")
    speaks = driver_speaks(context)
    if isinstance(speaks, Known) and speaks.value:
        return speaks
    pci = facts.host.pci_gpus
    return Known(bool(pci.value), pci.source) if isinstance(pci, Known) else Unknown(pci.reason)


def cards(context: Context) -> Fact[tuple[Card, ...]]:
    """The different GPU models with their compute capability, from NVML or else from TensorFlow."""
    found: dict[str, Card] = {}
    gpus = context.facts.gpus
    for gpu in value_or(gpus, ()):
        if isinstance(gpu.compute_capability, Known):
            name = value_or(gpu.name, f"GPU {gpu.index}")
            found[name] = Card(name, gpu.compute_capability.value, gpu.compute_capability.source)
    for device in value_or(context.facts.tensorflow.devices, ()):
        if device.compute_capability and device.device_name not in found:
            name = device.device_name or device.name
            found[name] = Card(name, device.compute_capability, "tf.config.experimental.get_device_details")
    if not found:
        found = {card.name: card for card in _by_name(context)}
    if found:
        return Known(tuple(found.values()), "GPUs")
    return Unknown(gpus.reason if isinstance(gpus, Unknown) else "no GPU tells its compute capability")


def _by_name(context: Context) -> Iterator[Card]:
    """The cards that are known by name alone: nvidia-smi's table, the PCI bus, what somebody states."""
    names = [gpu.name.value for gpu in value_or(context.facts.gpus, ()) if isinstance(gpu.name, Known)]
    for name in names or [pci.name for pci in value_or(context.facts.host.pci_gpus, ()) if pci.name]:
        if model := context.matrix.gpu(name):
            yield Card(name, model.compute_capability, f"compat_matrix.yaml, GPU {model.name}")


def _components(context: Context, wanted: Callable[[str], bool]) -> Fact[tuple[Soname, ...]]:
    sonames = context.facts.loader.sonames
    if isinstance(sonames, Unknown):
        return sonames
    chosen = tuple(s for s in sonames.value if s.component not in OPTIONAL_COMPONENTS and wanted(s.component))
    return Known(chosen, sonames.source) if chosen else Unknown("this TensorFlow opens no such library")


def cuda_sonames(context: Context) -> Fact[tuple[Soname, ...]]:
    """The CUDA libraries (without cuDNN) that this TensorFlow opens by soname."""
    return _components(context, lambda component: component != "cudnn")


def cudnn_sonames(context: Context) -> Fact[tuple[Soname, ...]]:
    """The cuDNN library that this TensorFlow opens by soname."""
    return _components(context, lambda component: component == "cudnn")


def cudnn_release(context: Context) -> Fact[CudnnRelease]:
    """The matrix row of the cuDNN that was loaded, or else of the first one on disk."""
    runtime, installed = context.facts.cudnn.runtime, context.facts.cudnn.installed
    on_disk = next((file.version for file in value_or(installed, ()) if file.version), None)
    version = value_or(runtime, on_disk)
    if version is None:
        return Unknown(runtime.reason if isinstance(runtime, Unknown) else "no cuDNN is installed")
    row = context.matrix.cudnn(version)
    return Known(row, "compat_matrix.yaml") if row else Unknown(f"the matrix has no row for cuDNN {version}")


def gpus_usable(context: Context) -> Fact[int]:
    """How many GPUs TensorFlow lists; how many the driver lists, when TensorFlow was not started."""
    devices, gpus = context.facts.tensorflow.devices, context.facts.gpus
    if isinstance(devices, Known):
        return Known(sum(device.kind == "GPU" for device in devices.value), devices.source)
    if isinstance(gpus, Known):
        return Known(len(gpus.value), gpus.source)
    has = has_gpu(context)
    if isinstance(has, Known) and not has.value:
        return Known(0, has.source)
    return Unknown(devices.reason)


def required_gpus(context: Context) -> Fact[int]:
    """The number given with --require-gpus."""
    if context.require_gpus is None:
        return NOT_ASKED
    return Known(context.require_gpus, "--require-gpus")


def messages(context: Context) -> Fact[MessageLog]:
    """What programs printed, in a live run or in a pasted text."""
    found = context.facts.messages
    if isinstance(found, Unknown):
        return NOT_ASKED  # a report of an older version; every question has another sign for it
    return Known(MessageLog(found.value, from_text=not context.probed), found.source)


def cuda_in_use(context: Context) -> Fact[str]:
    """The CUDA whose runtime is loaded or wanted: what was opened tells it, else the release."""
    printed = messages(context)
    log = printed.value if isinstance(printed, Known) else MessageLog((), from_text=False)
    for name, message in log.libraries("library-opened", "library-not-opened"):
        cuda = library.cuda_version if (library := known_library(name)) else None
        if cuda and "." in cuda:
            return Known(cuda, f"line {message.line}: {name}")
    row = gpu_release(context)
    if isinstance(row, Known) and row.value.cuda:
        return Known(row.value.cuda, row.source)
    wanted = log.values("driver-insufficient", "cuda") + log.values("container-hook-failed", "cuda")
    return Known(wanted[0], "the text") if wanted else Unknown("neither the release nor the log tells its CUDA")


DERIVED: dict[str, Callable[[Context], Any]] = {
    "release": release,
    "gpu_release": gpu_release,
    "driver_speaks": driver_speaks,
    "has_gpu": has_gpu,
    "cards": cards,
    "cuda_sonames": cuda_sonames,
    "cudnn_sonames": cudnn_sonames,
    "cudnn_release": cudnn_release,
    "gpus_usable": gpus_usable,
    "required_gpus": required_gpus,
    "cuda_in_use": cuda_in_use,
    "messages": messages,
}
