"""Rules about the GPUs themselves: present, visible, listed, and as many as are required."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.message_log import Said
from tfgpu_doctor.records.facts import CallResult, Gpu, PciGpu, TfDevice, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity

VISIBLE_DEVICES = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars"
CUDA_GPUS = "https://developer.nvidia.com/cuda-gpus"
TENSORFLOW_GPU = "https://www.tensorflow.org/install/pip"


@rule(
    "gpu.none",
    Severity.ERROR,
    "This machine has no NVIDIA GPU",
    needs=("derived.has_gpu",),
    wants=("driver.cuda_init", "derived.told"),
    requires=("wsl.setup", "driver.unresponsive"),
    docs=CUDA_GPUS,
)
def none(context: Context, has_gpu: bool, init: CallResult | None, told: Said | None) -> Problem | None:
    """No display or 3D controller of NVIDIA on the PCI bus, and none that the driver knows."""
    if has_gpu or told is not None or (init is not None and init.code == 0):
        return None  # of a text, what is named in it decides (rules/said_gpu.py)
    return Problem(
        cause="TensorFlow runs on the CPU here, whatever is installed",
        evidence=(evidence("no NVIDIA device", context.source("host.pci_gpus"), "an NVIDIA GPU"),),
        fixes=(
            Fix(text="Run this on a machine with an NVIDIA GPU; in a cloud, choose an instance type with one"),
            Fix(text="In a virtual machine, pass the GPU through to it (vfio, or a vGPU profile)"),
        ),
    )


@rule(
    "gpu.hidden",
    Severity.ERROR,
    "An environment variable hides the GPU",
    needs=("variables",),
    wants=("gpus", "derived.told"),
    requires=("container.no-gpu",),
    docs=VISIBLE_DEVICES,
)
def hidden(
    context: Context, variables: dict[str, str], gpus: tuple[Gpu, ...] | None, told: Said | None
) -> Problem | None:
    """CUDA_VISIBLE_DEVICES leaves no device, or NVIDIA_VISIBLE_DEVICES is void in a container."""
    if told is not None and told.has("gpu-created"):
        return None  # set for another run, or it names the GPUs that are there
    where = context.source("variables")
    seen: list[Evidence] = []
    commands: list[str] = []
    cuda = variables.get("CUDA_VISIBLE_DEVICES")
    if cuda is not None and not visible_devices(cuda, gpus):
        seen.append(evidence(f"CUDA_VISIBLE_DEVICES={cuda!r}", where, "unset, or indices of GPUs that exist"))
        commands.append(
            "set CUDA_VISIBLE_DEVICES=" if context.remedies.os == "windows" else "unset CUDA_VISIBLE_DEVICES"
        )
    nvidia = variables.get("NVIDIA_VISIBLE_DEVICES")
    if nvidia in ("void", "none", "") and value_or(context.facts.host.container, "none") != "none":
        seen.append(evidence(f"NVIDIA_VISIBLE_DEVICES={nvidia!r}", where, "all"))
        commands.append("docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=all ...")
    if not seen:
        return None
    text = "Unset it where it is set: shell profile, scheduler, notebook, or os.environ in the program"
    return Problem(
        cause="CUDA shows a process only the devices that the variable names, up to the first that does not exist",
        evidence=tuple(seen),
        fixes=(Fix(text=text, commands=tuple(commands)),),
    )


def visible_devices(value: str, gpus: tuple[Gpu, ...] | None) -> tuple[str, ...]:
    """The entries of CUDA_VISIBLE_DEVICES that count: those before the first invalid one.

    An index is valid below the number of GPUs (any, when that is unknown); a UUID when a GPU's starts with it.
    Source: CUDA C++ Programming Guide, "CUDA Environment Variables".
    """
    counted: list[str] = []
    uuids = [value_or(gpu.uuid, "") for gpu in gpus or ()]
    for entry in (part.strip() for part in value.split(",")):
        if entry.startswith(("GPU-", "MIG-")):
            valid = not any(uuids) or entry.startswith("MIG-") or any(uuid.startswith(entry) for uuid in uuids)
        else:
            valid = entry.isdecimal() and (not gpus or int(entry) < len(gpus))
        if not valid:
            break
        counted.append(entry)
    return tuple(counted)


EVERY_CAUSE = (
    "driver.*",
    "gpu.none",
    "gpu.hidden",
    "gpu.arch-*",
    "gpu.fault",
    "gpu.mig",
    "container.*",
    "wsl.*",
    "cuda.*",
    "cudnn.*",
    "tf.*",
    "memory.*",
)


@rule(
    "gpu.not-visible",
    Severity.ERROR,
    "TensorFlow lists no GPU",
    needs=("tensorflow.devices",),
    explained_by=EVERY_CAUSE,
    docs=TENSORFLOW_GPU,
)
def not_visible(context: Context, devices: tuple[TfDevice, ...]) -> Problem | None:
    """The symptom that brings most people here."""
    if any(device.kind == "GPU" for device in devices):
        return None
    return Problem(
        cause="tf.config.list_physical_devices('GPU') is empty, and nothing that was examined explains it",
        evidence=(evidence("no GPU", context.source("tensorflow.devices"), "at least one"),),
        fixes=(
            Fix(
                text="Ask TensorFlow to say more, and read the lines about dso_loader, cudart_stub and cuInit",
                commands=(
                    f"TF_CPP_MAX_VLOG_LEVEL=3 {context.remedies.python} -c "
                    '"import tensorflow as tf; tf.config.list_physical_devices()" 2>&1'
                    " | grep -iE 'dso_loader|cudart|cuda|cudnn' | head -n 50",
                ),
            ),
        ),
    )


@rule(
    "gpu.fewer-than-required",
    Severity.ERROR,
    "Fewer usable GPUs than required",
    needs=("derived.required_gpus", "derived.gpus_usable"),
    wants=("host.pci_gpus",),
    explained_by=EVERY_CAUSE,
    docs=TENSORFLOW_GPU,
)
def fewer_than_required(context: Context, required: int, usable: int, pci: tuple[PciGpu, ...] | None) -> Problem | None:
    """--require-gpus N was given, and fewer can be used."""
    if usable >= required:
        return None
    on_bus = f"; {len(pci)} NVIDIA devices on the PCI bus" if pci else ""
    return Problem(
        title=f"{required} GPUs are required, {usable} can be used",
        cause=f"--require-gpus {required} was given{on_bus}",
        evidence=(evidence(f"{usable} GPUs", "TensorFlow's device list", str(required), "--require-gpus"),),
    )
