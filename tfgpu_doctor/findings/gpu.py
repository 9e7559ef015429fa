"""Findings about the GPUs that TensorFlow lists: none, hidden ones, fewer than required."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.manifest_signs import in_manifests
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.visible_devices import visible_devices
from tfgpu_doctor.plan.file_edits import remove_setting
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.facts import CallResult, Gpu, PciGpu, TfDevice, lists_gpu
from tfgpu_doctor.records.report import Evidence, Fix, Severity


def _unset(context: Context) -> tuple[Fix, ...]:
    show = "cmd /c set CUDA_VISIBLE_DEVICES" if context.remedies.os == "windows" else "env | grep VISIBLE_DEVICES"
    where = "shell profile, scheduler, notebook, or os.environ in the program"
    return (
        Fix(
            text=f"Unset the variable where it is set: {where}",
            commands=(show, context.remedies.unset("CUDA_VISIBLE_DEVICES")),
        ),
    )


HIDDEN = finding(
    "gpu.hidden",
    layer="Devices",
    severity=Severity.ERROR,
    title="An environment variable hides the GPU",
    cause="CUDA shows a process only the devices that the variable names, up to the first that does not exist",
    fixes=_unset,
    pointless_after=("container.no-gpu",),
    docs="https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",
)


def _without_quotes(value: str) -> tuple[Fix, ...]:
    """cmd keeps quotes behind the sign as part of the value, and CUDA knows no such device."""
    plain = value.strip("\"'")
    text = "Write the value without quotes, which cmd makes part of it"
    return (Fix(text=text, commands=(f"set CUDA_VISIBLE_DEVICES={plain}",)),) if plain != value else ()


def _does_not_matter(messages: MessageLog) -> bool:
    """Whether a variable was set for another run, or names GPUs that exist; or the program ends before it asks."""
    return messages.stops_import or messages.has("gpu-created", "native-traceback")


@HIDDEN.sign
def no_device_named(
    context: Context,
    variables: dict[str, str],
    gpus: tuple[Gpu, ...] | None = None,
    host_container: str | None = None,
    messages: MessageLog | None = None,
    pci_gpus: tuple[PciGpu, ...] | None = None,
) -> Problem | None:
    """CUDA_VISIBLE_DEVICES leaves no device, or NVIDIA_VISIBLE_DEVICES is void in a container."""
    if messages is not None and _does_not_matter(messages):
        return None
    found: list[Evidence] = []
    fixes: list[Fix] = []
    cuda, nvidia = variables.get("CUDA_VISIBLE_DEVICES"), variables.get("NVIDIA_VISIBLE_DEVICES")
    where = context.source("variables")
    second = gpus is None and len(pci_gpus or ()) == 1 and re.fullmatch(r"[1-9]\d?", (cuda or "").strip())
    if cuda is not None and (second or not visible_devices(cuda, gpus)):
        found.append(evidence(f"CUDA_VISIBLE_DEVICES={cuda!r}", where, "unset, or indices of GPUs that exist"))
        fixes += (*_without_quotes(cuda), *_unset(context))
    if nvidia in ("void", "none", "") and (host_container or "none") != "none":
        found.append(evidence(f"NVIDIA_VISIBLE_DEVICES={nvidia!r}", where, "all"))
        command = "docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=all ..."
        fixes.append(Fix(text="Start the container with all GPUs", commands=(command,)))
    unsure = bool(second) and len(found) == 1  # a second GPU need not be named
    return Problem(evidence=tuple(found), fixes=tuple(fixes), possible=unsure) if found else None


# messages that show that the driver, or the access to it, is the reason, and not a variable
_OTHER_REASONS = (
    *("out-of-memory", "devices-busy", "kernel-driver-not-running", "smi-no-driver", "smi-no-devices"),
    *("module-not-loaded", "module-not-built", "device-node-closed", "device-permission", "driver-versions-differ"),
    *("nvml-mismatch", "mig", "gpu-lost", "container-hook-failed", "docker-no-gpu-driver"),
)


@HIDDEN.sign(unless=("wsl.setup", "driver.version-mismatch", "driver.missing", "gpu.none", "gpu.mig"))
def hidden_message(messages: MessageLog, cuda_init: CallResult | None = None) -> Problem | None:
    """The program, TensorFlow or the scheduler reports that a GPU is left out, or CUDA finds none over a driver."""
    if messages.has("gpu-created") and not messages.has("hides-every-gpu"):
        return None
    hidden = messages.all("hides-every-gpu", "hidden-by-variable", "slurm-no-gpu", "invalid-visible-device")
    other = messages.has(*_OTHER_REASONS) or (cuda_init is not None and cuda_init.code not in (0, 100, 101))
    no_device = () if other else messages.all("no-cuda-device")
    if not hidden and not no_device:
        return None
    seen = message_evidence(*hidden, *no_device, *messages.all("kernel-version"))
    if hidden and all(message.kind == "slurm-no-gpu" for message in hidden):
        return Problem(
            title="The scheduler has given this job no GPU",
            cause="a job sees only the GPUs that it asks for, whatever the node or the partition has",
            evidence=seen,
            fixes=(Fix(text="Ask for one, in Slurm", commands=("srun --gres=gpu:1 nvidia-smi -L",)),),
        )
    title = None if hidden else "CUDA finds no device: most likely it is hidden from this process"
    return Problem(title=title, evidence=seen)


@in_manifests(HIDDEN)
def set_in_manifest(view: PlannedEnvironment) -> Iterator[Problem]:
    """A line of the file sets a variable that hides every GPU."""
    hiding = {
        "NVIDIA_VISIBLE_DEVICES": ("none", "void", ""),
        "CUDA_VISIBLE_DEVICES": ("-1", "", "none", "nodevfiles"),
    }
    for setting in view.environment.settings if view.wants_gpu else ():
        if setting.value.strip().lower() in hiding.get(setting.name, ()):
            place = str(setting.place)
            yield Problem(
                title=f"{setting.name} hides all GPUs",
                cause="TensorFlow will list no GPU, and run on the CPU",
                evidence=(evidence(f"{setting.name}={setting.value}", place, "unset, or all"),),
                fixes=(remove_setting(setting),),
            )


_EVERY_CAUSE = (
    *("driver.*", "gpu.none", "gpu.hidden", "gpu.arch-*", "gpu.fault", "gpu.mig", "container.*", "wsl.*"),
    # files and packages that are missing (tf.install-damaged) hide a GPU only through CUDA, cuDNN or the import
    *("cuda.*", "cudnn.*", "tf.[!i]*", "tf.import-*", "memory.*"),
    "env.address-space-limit",
)

NOT_VISIBLE = finding(
    "gpu.not-visible",
    layer="Devices",
    severity=Severity.ERROR,
    title="TensorFlow lists no GPU",
    cause="tf.config.list_physical_devices('GPU') is empty, and nothing that was examined explains it",
    explained_by=_EVERY_CAUSE,
    docs="https://www.tensorflow.org/install/pip",
)


@NOT_VISIBLE.sign
def no_gpu_listed(context: Context, devices: tuple[TfDevice, ...]) -> Problem | None:
    """The symptom that brings most users here."""
    if lists_gpu(devices):
        return None
    variable = 'set "TF_CPP_MAX_VLOG_LEVEL=3" &' if context.remedies.os == "windows" else "TF_CPP_MAX_VLOG_LEVEL=3"
    devices_of = f'{context.remedies.python} -c "import tensorflow as tf; tf.config.list_physical_devices()" 2>&1'
    command = context.remedies.filtered(f"{variable} {devices_of}", "dso_loader", "cudart", "cuda", "cudnn", most=50)
    more = Fix(text="Let TensorFlow log more, and read the lines about libraries and cuInit", commands=(command,))
    found = evidence("no GPU", context.source("tensorflow.devices"), "at least one")
    said = context.is_stated("tensorflow.devices")
    return Problem(
        title="TensorFlow uses no GPU, according to this text" if said else None,
        cause="the text says so, and nothing in it explains it" if said else None,
        evidence=(found,),
        fixes=(more,),
    )


FEWER_THAN_REQUIRED = finding(
    "gpu.fewer-than-required",
    layer="Devices",
    severity=Severity.ERROR,
    title="Fewer usable GPUs than required",
    despite_verified=True,
    explained_by=_EVERY_CAUSE,
    docs="https://www.tensorflow.org/install/pip",
)


@FEWER_THAN_REQUIRED.sign
def too_few(required_gpus: int, gpus_usable: int, pci_gpus: tuple[PciGpu, ...] | None = None) -> Problem | None:
    """--require-gpus N was given, and fewer can be used."""
    if gpus_usable >= required_gpus:
        return None
    on_bus = f"; {len(pci_gpus)} NVIDIA devices are on the PCI bus" if pci_gpus else ""
    return Problem(
        title=f"{required_gpus} GPUs are required, {gpus_usable} can be used",
        cause=f"--require-gpus {required_gpus} was given{on_bus}",
        evidence=(evidence(f"{gpus_usable} GPUs", "TensorFlow's device list", str(required_gpus), "--require-gpus"),),
    )
