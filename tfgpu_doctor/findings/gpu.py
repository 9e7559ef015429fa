"""Findings about gpu."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import CallResult, Gpu, PciGpu, TfDevice, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity

VISIBLE_DEVICES = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars"


CUDA_GPUS = "https://developer.nvidia.com/cuda-gpus"


TENSORFLOW_GPU = "https://www.tensorflow.org/install/pip"


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


# what says that the driver, or the access to it, is the trouble, and no variable
_NOT_HIDDEN = (
    "out-of-memory",
    "devices-busy",
    "kernel-driver-not-running",
    "smi-no-driver",
    "smi-no-devices",
    "driver-versions-differ",
    "nvml-mismatch",
    "mig",
    "gpu-lost",
    "container-hook-failed",
    "docker-no-gpu-driver",
)


XID_GUIDE = "https://docs.nvidia.com/deploy/xid-errors/index.html"


# Xids that a program causes, most of the time; every other one speaks of the card, its slot or the driver (XID_GUIDE)
_SOFTWARE_XIDS = {"13", "31", "43", "45", "68", "69"}


HIDDEN = finding(
    "gpu.hidden",
    layer="Devices",
    severity=Severity.ERROR,
    title="An environment variable hides the GPU",
    pointless_after=("container.no-gpu",),
    docs="https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",
)


@HIDDEN.sign
def hidden(
    context: Context, variables: dict[str, str], gpus: tuple[Gpu, ...] | None = None, messages: MessageLog | None = None
) -> Problem | None:
    """CUDA_VISIBLE_DEVICES leaves no device, or NVIDIA_VISIBLE_DEVICES is void in a container."""
    if messages is not None and messages.has("gpu-created"):
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


@HIDDEN.sign(unless=("wsl.setup", "driver.version-mismatch", "driver.missing", "gpu.none", "gpu.mig"))
def hidden_reported(
    messages: MessageLog, variables: dict[str, str] | None = None, cuda_init: CallResult | None = None
) -> Problem | None:
    """The program, TensorFlow or the scheduler says that a GPU is left out."""
    seen = messages.all("hides-every-gpu", "hidden-by-variable", "slurm-no-gpu")
    if messages.from_text or "CUDA_VISIBLE_DEVICES" in (variables or {}):  # on a machine, unset is known to be unset
        seen = (*seen, *messages.all("invalid-visible-device"))
    # the driver is there, as far as is said, and CUDA counts no device
    none = messages.all("no-cuda-device") if messages.from_text and not messages.has(*_NOT_HIDDEN) else ()
    if cuda_init is not None and cuda_init.code not in (0, 100, 101):
        none = ()  # cuInit has another reason
    if messages.has("gpu-created") and not messages.has("hides-every-gpu"):
        return None
    if not seen and not none:
        return None
    return Problem(
        title=None if seen else "CUDA finds no device: most likely it is hidden from this process",
        cause="CUDA and TensorFlow use only the devices that they are told to see, up to the first that does not exist",
        evidence=message_evidence(*seen, *none, *messages.all("kernel-version")),
        fixes=(
            Fix(
                text="See what is set, and unset it where it is set: shell profile, scheduler, notebook, program",
                commands=("env | grep VISIBLE_DEVICES", "unset CUDA_VISIBLE_DEVICES"),
            ),
        ),
    )


NOT_VISIBLE = finding(
    "gpu.not-visible",
    layer="Devices",
    severity=Severity.ERROR,
    title="TensorFlow lists no GPU",
    explained_by=(
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
    ),
    docs="https://www.tensorflow.org/install/pip",
)


@NOT_VISIBLE.sign
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


FEWER_THAN_REQUIRED = finding(
    "gpu.fewer-than-required",
    layer="Devices",
    severity=Severity.ERROR,
    title="Fewer usable GPUs than required",
    explained_by=(
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
    ),
    docs="https://www.tensorflow.org/install/pip",
)


@FEWER_THAN_REQUIRED.sign
def fewer_than_required(
    required_gpus: int, gpus_usable: int, pci_gpus: tuple[PciGpu, ...] | None = None
) -> Problem | None:
    """--require-gpus N was given, and fewer can be used."""
    if gpus_usable >= required_gpus:
        return None
    on_bus = f"; {len(pci_gpus)} NVIDIA devices on the PCI bus" if pci_gpus else ""
    return Problem(
        title=f"{required_gpus} GPUs are required, {gpus_usable} can be used",
        cause=f"--require-gpus {required_gpus} was given{on_bus}",
        evidence=(evidence(f"{gpus_usable} GPUs", "TensorFlow's device list", str(required_gpus), "--require-gpus"),),
    )
