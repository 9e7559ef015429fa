"""The GPUs: faults, hidden ones, their compute capability against the build."""

from __future__ import annotations

import re
import shlex

from tfgpu_doctor.facts.facts import CallResult, Gpu, Gpus, Known, Message, lists_gpu, value_or
from tfgpu_doctor.facts.report import Alternative, Evidence, Fix, Severity
from tfgpu_doctor.facts.units import MIB, count
from tfgpu_doctor.facts.versions import at_least, capability, major, numbers
from tfgpu_doctor.findings import inputs, symptoms
from tfgpu_doctor.findings.declaration import Context, MessageLog, Problem, evidence, finding, message_evidence
from tfgpu_doctor.findings.inputs import Card, Cards, Devices, PciGpus, Toolkits, Variables
from tfgpu_doctor.matrix.compatibility import cudnn_bound, runs_on
from tfgpu_doctor.matrix.loader import CudnnRelease, Release
from tfgpu_doctor.matrix.names import known_library

TOO_NEW = ("no-kernels-for-gpu", "invalid-ptx")  # messages about a GPU that is newer than the build


_COUNTERS = Fix("Check the error counters", ("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",))
_RESTART = Fix(
    "Restart the machine, if need be by switching it off and on; if the error returns, reseat the GPU and its power "
    "cables, see whether power supply and cooling are sufficient, or replace the GPU",
    ("sudo reboot",),
)


def _after_fault(context: Context) -> tuple[Fix, ...]:
    """A GPU that has left the bus answers no query: first it has to be there again."""
    lost = context.log.has("gpu-lost") or "79" in context.log.values("xid", "number")
    return (_RESTART, inputs.KERNEL_LOG, _COUNTERS) if lost else (_COUNTERS, inputs.KERNEL_LOG, _RESTART)


FAULT = finding(
    "gpu.fault",
    layer="GPU",
    title="A GPU is faulty",
    despite_verified=True,
    cause="the GPU, its memory, its slot or its power supply reports a hardware error; results are not reliable",
    fixes=_after_fault,
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)


@FAULT.sign(conclusive=False)
def error_counters(context: Context, gpus: Gpus) -> Problem | None:
    """Fallen off the bus, uncorrectable ECC errors, a row remapping that failed."""
    source = context.source("gpus")
    found = []
    for gpu in gpus:
        if (fault := value_or(gpu.fault, None)) is not None:
            found.append(evidence(f"{inputs.gpu_name(gpu)}: {fault}", source, "an answer"))
        if errors := value_or(gpu.ecc_uncorrected, 0):
            found.append(evidence(f"{inputs.gpu_name(gpu)}: {errors} uncorrectable ECC errors", source, "0"))
        if value_or(gpu.remapped_rows_failed, False):
            found.append(evidence(f"{inputs.gpu_name(gpu)}: row remapping failed", source, "no failure"))
    return Problem(evidence=tuple(found))


# Xids that a program causes, most of the time; all others are about the GPU, its slot or the driver (see `docs`)
_SOFTWARE_XIDS = {"13", "31", "43", "45", "68", "69"}
# NVIDIA's "GPU Memory Error Management": a row is remapped at the next reset, until which the GPU can be used; of a
# contained error, only the program that met it has to be started anew
_CONTAINED, _REMAPPED = "94", "63"
_AFTER_CONTAINED = Fix("Start the program again that the line names: the error reached no other")


def _memory_repaired_itself(numbers: set[str]) -> tuple[str | None, tuple[Fix, ...]]:
    """Why and what to do where the GPU has dealt with the error of its memory; nothing where there are others."""
    if not numbers or not numbers <= {_CONTAINED, _REMAPPED}:
        return None, ()
    again = (_AFTER_CONTAINED,) if _CONTAINED in numbers else ()
    why = "the GPU found an error in its memory, and keeps to itself what it spoilt; a reset puts spare memory in place"
    return why, (*again, inputs.RESET_GPU, Fix("If it comes back, check the error counters", _COUNTERS.commands))


@FAULT.sign()
def fault_message(messages: MessageLog) -> Problem | None:
    """Xid, ECC, a GPU that is lost or has fallen off the bus."""
    xids = [m for m in messages.all("xid") if m.values.get("number") not in inputs.FIRMWARE_XIDS]
    faults = messages.all("gpu-lost", "ecc")
    hardware = [m for m in xids if m.values.get("number") not in _SOFTWARE_XIDS]
    numbers = ", ".join(dict.fromkeys(m.values["number"] for m in xids if "number" in m.values))
    software = "Xid 13, 31, 43 and 45 usually mean a bug in the program, and sometimes that the GPU's memory is faulty"
    why, fixes = _memory_repaired_itself({m.values.get("number", "") for m in hardware} if not faults else set())
    return Problem(
        title=f"The driver reports Xid {numbers}" if numbers else None,
        cause=why if hardware or faults else software,
        evidence=message_evidence(*hardware, *faults, *xids),
        fixes=fixes or None,
    )


_MIG_UUID = re.compile(r"\bMIG-[\w/-]{8,}")


def _in_mig_mode(gpus: Gpus) -> Gpus:
    return tuple(gpu for gpu in gpus if value_or(gpu.mig_mode, False))


def _choose_instance(context: Context) -> tuple[Fix, ...]:
    """Fixes: create an instance where there is none, else choose one; or use the whole GPU."""
    gpus: Gpus = value_or(context.facts.gpus, ())
    divided = _in_mig_mode(gpus) or (Gpu(index=0),)
    found = (_MIG_UUID.search(name) for gpu in gpus for name in value_or(gpu.mig_instances, ()))
    uuid = next((one[0] for one in found if one), "MIG-UUID-OF-ONE-INSTANCE")
    commands = ("nvidia-smi -L", f"export CUDA_VISIBLE_DEVICES={uuid}")
    first = Fix("List the instances, and assign one to each process by its UUID", commands)
    if context.log.has("mig-empty") or any(value_or(gpu.mig_instances, None) == () for gpu in divided):
        create = ("nvidia-smi mig -lgip", "sudo nvidia-smi mig -cgi 0 -C")
        first = Fix("Create an instance, and start the program or the service again", create)
    off = tuple(f"sudo nvidia-smi -i {gpu.index} -mig 0" for gpu in divided)
    return (first, Alternative("Disable MIG while nothing uses it, to use the whole GPU", off))


MIG = finding(
    "gpu.mig",
    layer="GPU",
    title="MIG mode is on: a process can use one MIG instance at most",
    cause="a process sees one MIG instance, named by its UUID, with its share of the memory and the multiprocessors; "
    "to CUDA, the index of another instance or of the whole GPU is no device",
    fixes=_choose_instance,
    docs="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html",
)
_NO_INSTANCE = "MIG mode is on, but the GPU has no MIG instance"


@MIG.sign(conclusive=False)
def instances(context: Context, gpus: Gpus, devices: Devices = ()) -> Problem | None:
    """A GPU in MIG mode is no CUDA device until instances are created; then a process gets one of them."""
    source = context.source("gpus")
    divided = _in_mig_mode(gpus)
    if empty := [gpu for gpu in divided if value_or(gpu.mig_instances, None) == ()]:
        seen = (evidence(f"GPU {gpu.index}: MIG on, no instance", source, "an instance") for gpu in empty)
        return Problem(title=_NO_INSTANCE, evidence=tuple(seen))
    found = [evidence(f"GPU {one.index}: {mig}", source) for one in divided for mig in value_or(one.mig_instances, ())]
    used = (evidence(f"{one.name}: {one.device_name}", "TensorFlow's device list") for one in devices)
    return Problem(evidence=(*found, *(one for one in used if " MIG " in one.saw)), severity=Severity.WARNING)


_MIG_FAILS = ("no-cuda-device", "cuinit-failed", "invalid-visible-device", "cuda-error", "nccl-error", "nccl-warning")


@MIG.sign(unless=("container.no-gpu", "driver.version-mismatch"))
def mig_message(messages: MessageLog, gpus: Gpus = ()) -> Problem | None:
    """A MIG instance is requested in a way that CUDA does not support, or several are."""
    reported, empty = messages.all("mig", "mig-empty"), messages.has("mig-empty")
    small = messages.has("out-of-memory") and bool(messages.values("mig", "profile"))  # a slice's memory
    fails = messages.has(*_MIG_FAILS) or small
    listed = sum(len(value_or(gpu.mig_instances, ())) for gpu in gpus)
    several = max(listed, len(messages.values("mig", "device"))) >= 2 or bool(messages.values("mig", "count"))
    is_problem = (fails or (several and not messages.complains)) and (reported or _in_mig_mode(gpus))
    if not empty and not is_problem:
        return None
    found = message_evidence(*reported, *messages.all("no-cuda-device", "cuinit-failed", "out-of-memory"))
    severity = None if fails or empty else Severity.WARNING
    return Problem(title=_NO_INSTANCE if empty else None, evidence=found, severity=severity)


THROTTLED = finding(
    "gpu.throttled",
    layer="GPU",
    severity=Severity.WARNING,
    title="A GPU runs slower than it could",
    cause="heat, power or a degraded PCIe link reduces its speed",
    fixes=lambda _: (
        Fix("Watch it under load", ("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",)),
        Fix("Check air flow, fans, power cables and the PCIe slot of the GPU"),
    ),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)
_BUSY = 50  # percent; an idle GPU lowers the speed of its link to save power
_THROTTLES = {
    "hw_thermal_slowdown": "the hardware reduces the clocks because of heat",
    "sw_thermal_slowdown": "the driver reduces the clocks because of heat",
    "hw_power_brake_slowdown": "the power supply or the board requests less power",
    "hw_slowdown": "the hardware halves the clocks (heat, power brake)",
}


@THROTTLED.sign(conclusive=False)
def slowdown(context: Context, gpus: Gpus) -> Problem | None:
    """Heat or power brake slow it down, or its PCIe link has fewer lanes than it could."""
    found, source = [], context.source("gpus")
    for gpu in gpus:
        degrees = f" at {gpu.temperature.value} °C" if isinstance(gpu.temperature, Known) else ""
        for reason in (one for one in value_or(gpu.throttle_reasons, ()) if one in _THROTTLES):
            found.append(evidence(f"{inputs.gpu_name(gpu)}: {reason}{degrees}", source, f"none; {_THROTTLES[reason]}"))
        width, widest = value_or(gpu.pcie_width, None), value_or(gpu.pcie_width_max, None)
        if width and widest and width < widest and width <= 4:
            found.append(evidence(f"{inputs.gpu_name(gpu)}: PCIe x{width}", source, f"x{widest}"))
        generation, newest = value_or(gpu.pcie_generation, None), value_or(gpu.pcie_generation_max, None)
        if generation and newest and generation < newest and value_or(gpu.utilization, 0) >= _BUSY:
            text = f"{inputs.gpu_name(gpu)}: PCIe generation {generation} under load"
            found.append(evidence(text, source, f"generation {newest}"))
    return Problem(evidence=tuple(found))


THROTTLED.printed(
    "slower-with-time",
    cause="a GPU that gets hot lowers its clocks; a program that adds to its graph slows down as well",
    possible=True,
)
THROTTLED.printed("slowdown")  # in the output of nvidia-smi -q


def _show(context: Context) -> str:
    return "cmd /c set CUDA_VISIBLE_DEVICES" if context.remedies.os == "windows" else "env | grep VISIBLE_DEVICES"


def _unset(context: Context) -> tuple[Fix, ...]:
    where = "Unset the variable where it is set: shell profile, scheduler, notebook, or os.environ in the program"
    return (Fix(where, (_show(context), context.remedies.unset("CUDA_VISIBLE_DEVICES"))),)


# https://slurm.schedmd.com/gres.html; what Slurm sets where a job has no GPU
_NO_GPU_OF_SLURM = "NoDevFiles"
_NONE_GIVEN = "The scheduler has given this job no GPU"
_NONE_REQUESTED = "Slurm shows a job the GPUs that it requests, and this one requests none"
_REQUEST_OF_SLURM = "--gres=gpu:1, or --gpus=1"
_ASKED_OF_SLURM = Fix("Ask Slurm for one, on a line below the first of the job's script", ("#SBATCH --gres=gpu:1",))
_NAMES_OF_SLURM = Fix("See which GPUs Slurm has, by their names and nodes", ("sinfo -o '%P %G %N'",))


HIDDEN = finding(
    "gpu.hidden",
    layer="Devices",
    title="An environment variable hides the GPU",
    cause="CUDA shows a process only the devices that the variable names, up to the first that does not exist",
    fixes=_unset,
    pointless_after=("container.no-gpu",),
    docs="https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars",
)


_COUNT_GPUS = Fix("To decide, count the GPUs: the first one has the number 0", ("nvidia-smi -L",))


def _of_another_run(messages: MessageLog) -> bool:
    """Whether it names GPUs that exist, or compares with the CPU, or is of a program that ends before it asks."""
    others = ("gpu-created", "gpu-found", "native-traceback", "wrong-result", "time-on-both", "out-of-memory")
    return messages.stops_import or messages.has(*others)


_SECOND = re.compile(r"\s*[1-9]\d?\s*")


def _was_for_another_run(context: Context, messages: MessageLog | None, devices: Devices | None) -> bool:
    of_text = lists_gpu(devices) and not context.probed
    return of_text or (messages is not None and _of_another_run(messages))


@HIDDEN.sign()
def no_device_named(
    context: Context,
    variables: Variables,
    gpus: Gpus | None = None,
    host_container: str = "none",
    messages: MessageLog | None = None,
    pci_gpus: PciGpus = (),
    devices: Devices | None = None,
) -> Problem | None:
    """CUDA_VISIBLE_DEVICES leaves no device, or NVIDIA_VISIBLE_DEVICES is void in a container."""
    if _was_for_another_run(context, messages, devices):
        return None
    if variables.get("CUDA_VISIBLE_DEVICES") == _NO_GPU_OF_SLURM:
        shown = evidence(f"CUDA_VISIBLE_DEVICES={_NO_GPU_OF_SLURM}", context.source("variables"), _REQUEST_OF_SLURM)
        return Problem(title=_NONE_GIVEN, cause=_NONE_REQUESTED, evidence=(shown,), fixes=(_ASKED_OF_SLURM,))
    found: list[Evidence] = []
    fixes: list[Fix] = []
    cuda, nvidia = variables.get("CUDA_VISIBLE_DEVICES"), variables.get("NVIDIA_VISIBLE_DEVICES")
    where = context.source("variables")
    alone = len(pci_gpus) == 1 or (not pci_gpus and devices is not None and not context.probed)
    second = gpus is None and alone and _SECOND.fullmatch(cuda or "")
    if cuda is not None and (second or not inputs.visible_devices(cuda, gpus)):
        found.append(evidence(f"CUDA_VISIBLE_DEVICES={cuda!r}", where, "unset, or indices of GPUs that exist"))
        fixes += _unset(context)
    if nvidia in ("void", "none", "") and host_container != "none":
        found.append(evidence(f"NVIDIA_VISIBLE_DEVICES={nvidia!r}", where, "all"))
        fixes.append(Fix("Start it with all GPUs", ("docker run --gpus all -e NVIDIA_VISIBLE_DEVICES=all ...",)))
    unsure = bool(second) and len(found) == 1  # a second GPU need not be named
    fixes = [*[_COUNT_GPUS] * unsure, *fixes]
    return Problem(evidence=tuple(found), fixes=tuple(fixes), possible=unsure)


# Ray's guide, "Accelerator support"
_RAY_HIDES = "Ray sets CUDA_VISIBLE_DEVICES of each worker, and empties it for one that requests no GPU"
_BY_RAY = Fix(
    "Request a GPU for it: @ray.remote(num_gpus=1), in Tune resources_per_trial={'gpu': 1}, in RLlib num_gpus=1, in "
    "another program its option for the GPUs of a trial; ray status shows whether Ray knows of the GPU"
)
# messages that show that the driver, or the access to it, is the reason, and not a variable
_OTHER_REASONS = (
    *("out-of-memory", "devices-busy", "kernel-driver-not-running", "smi-no-driver", "smi-no-devices", "nvml-mismatch"),
    *("module-not-loaded", "device-permission", "driver-versions-differ", "mig", "gpu-lost", "container-hook-failed"),
    "docker-no-gpu-driver",
)


@HIDDEN.sign(unless=("wsl.setup", "driver.version-mismatch", "driver.missing", "gpu.none", "gpu.mig"))
def hidden_message(context: Context, messages: MessageLog, cuda_init: CallResult | None = None) -> Problem | None:
    """The program, TensorFlow or the scheduler reports that a GPU is left out, or CUDA finds none over a driver."""
    if messages.has("gpu-created", "cudnn-loaded") and not messages.has("hides-every-gpu"):
        return None  # another run than that which finds none
    hidden = messages.all("hides-every-gpu", "hidden-by-variable", "slurm-no-gpu", "invalid-visible-device")
    other = messages.has(*_OTHER_REASONS) or (cuda_init is not None and cuda_init.code not in (0, 100, 101))
    no_device = () if other else messages.all("no-cuda-device")
    if not hidden and not no_device:
        return None
    seen = message_evidence(*hidden, *no_device, *messages.all("kernel-version"))
    if hidden and all(message.kind == "slurm-no-gpu" for message in hidden):
        return _without_a_request(hidden)
    if worker := messages.all("ray-worker"):
        return _hidden_by_ray(seen, worker, hidden, no_device)
    if hidden:
        return Problem(evidence=seen)
    what = (
        "To decide, look at the variable where the program starts; if it is -1, or names no GPU that exists, unset it"
    )
    return Problem(
        title="CUDA finds no device: the GPU may be hidden from this process",
        evidence=seen,
        fixes=(Fix(what, (_show(context),)),),
        possible=not messages.has("kernel-version", "smi-version"),
    )


def _without_a_request(hidden: tuple[Message, ...]) -> Problem:
    """A job of Slurm that requests no GPU, or one that the cluster does not have."""
    refused = "specification" in hidden[0].text
    in_script, on_login_node = hidden[0].text.lstrip().startswith("#SBATCH"), "login" in hidden[0].text
    ask = _ASKED_OF_SLURM if in_script else Fix("Ask Slurm for one", ("srun --gres=gpu:1 nvidia-smi -L",))
    return Problem(
        title=_NONE_GIVEN if not on_login_node else "This is the login node of a cluster, whose GPUs are those of jobs",
        cause="Slurm has no GPU of the name that the job requests" if refused else _NONE_REQUESTED,
        evidence=message_evidence(*hidden, need=_REQUEST_OF_SLURM),
        fixes=(_NAMES_OF_SLURM,) if refused else (ask, *((_NAMES_OF_SLURM,) if on_login_node else ())),
    )


def _hidden_by_ray(
    seen: tuple[Evidence, ...],
    worker: tuple[Message, ...],
    hidden: tuple[Message, ...],
    no_device: tuple[Message, ...],
) -> Problem:
    """In a worker of Ray, certain where the variable is told of, or the worker prints that it has no GPU."""
    in_one = hidden or {one.line for one in worker} & {one.line for one in no_device}
    title = None if hidden else "Ray has probably started this worker without a GPU"
    return Problem(title=title, cause=_RAY_HIDES, evidence=seen, fixes=(_BY_RAY,), possible=not in_one)


_EVERY_CAUSE = (
    *("driver.*", "gpu.none", "gpu.hidden", "gpu.arch-*", "gpu.fault", "gpu.mig", "container.*", "wsl.*"),
    # files and packages that are missing (tf.install-damaged) hide a GPU only through CUDA, cuDNN or the import
    *("cuda.*", "cudnn.*", "tf.[!i]*", "tf.import-*", "memory.*"),
    "env.address-space-limit",
)

NOT_VISIBLE = finding(
    "gpu.not-visible",
    layer="Devices",
    title="TensorFlow lists no GPU",
    cause="tf.config.list_physical_devices('GPU') is empty, and nothing that was examined explains it",
    explained_by=_EVERY_CAUSE,
    docs="https://www.tensorflow.org/install/pip",
)


@NOT_VISIBLE.sign()
def no_gpu_listed(context: Context, devices: Devices) -> Problem | None:
    """The symptom that brings most users here."""
    if lists_gpu(devices):
        return None
    variable = 'set "TF_CPP_MAX_VLOG_LEVEL=3" &' if context.remedies.os == "windows" else "TF_CPP_MAX_VLOG_LEVEL=3"
    is_old = at_least(value_or(context.facts.tensorflow.version, None), "2.1") is False
    call = "tf.test.is_gpu_available()" if is_old else "tf.config.list_physical_devices()"
    start = f'{context.remedies.python} -c "import tensorflow as tf; '
    logged = f'{variable} {start}{call}" 2>&1'
    command = context.remedies.filtered(logged, "dso_loader", "cudart", "cuda", "cudnn", most=50)
    of_gpus = call if is_old else "tf.config.list_physical_devices('GPU')"
    see = Fix("See whether its list of GPUs is empty", (f'{start}print({of_gpus})"',))
    more = Fix("Let TensorFlow log more, and read the lines about libraries and cuInit", (command,))
    said = context.is_stated("tensorflow.devices")
    return Problem(
        title="TensorFlow uses no GPU, according to this text" if said else None,
        cause="the text says so, and nothing in it explains it" if said else None,
        evidence=(evidence("no GPU", context.source("tensorflow.devices"), "at least one"),),
        fixes=(see, Fix("If it is, find out why", ("tfgpu doctor",))) if said else (more,),  # first it is decided
    )


FEWER_THAN_REQUIRED = finding(
    "gpu.fewer-than-required",
    layer="Devices",
    title="Fewer usable GPUs than required",
    despite_verified=True,
    explained_by=_EVERY_CAUSE,
    docs="https://www.tensorflow.org/install/pip",
)


@FEWER_THAN_REQUIRED.sign()
def too_few(required_gpus: int, gpus_usable: int, pci_gpus: PciGpus = ()) -> Problem | None:
    """--require-gpus N was given, and fewer can be used."""
    if gpus_usable >= required_gpus:
        return None
    on_bus = f"; on the PCI bus: {count(len(pci_gpus), 'NVIDIA device')}" if pci_gpus else ""
    return Problem(
        title=f"{count(required_gpus, 'GPU')} required, {gpus_usable} can be used",
        cause=f"--require-gpus {required_gpus} was given{on_bus}",
        evidence=(
            evidence(count(gpus_usable, "GPU"), "TensorFlow's device list", str(required_gpus), "--require-gpus"),
        ),
    )


_WHICH_BUILD = Fix(
    "See which GPU it is; tfgpu plan --gpu NAME lists the builds with kernels for it",
    ("nvidia-smi --query-gpu=name,compute_cap --format=csv",),
)


def _is_stated(context: Context) -> bool:
    """Whether a person wrote the GPU's name or the release, or the release is inferred from the text around it."""
    release, gpus = context.facts.tensorflow.version, context.facts.gpus
    by_name = context.is_stated("host.pci_gpus") and not value_or(gpus, ())
    return by_name or (isinstance(release, Known) and release.grade != "observed")


def _other_release(context: Context, why: str) -> tuple[Fix, ...]:
    return context.remedies.reinstall_best(why) or context.remedies.beside_the_wheels(why)


def _older_release(context: Context) -> tuple[Fix, ...]:
    oldest = sorted(value_or(inputs.fetch("cards", context), ()), key=lambda card: card.version)[:1]
    names = [card.name for card in oldest if card.name and context.matrix.gpu(card.name)]
    look = tuple(f"tfgpu matrix gpu {shlex.quote(name)}" for name in names)
    see = Fix("See which releases have kernels for this GPU, or build TensorFlow for it", look)
    if not context.remedies.knows_gpu:
        return (_WHICH_BUILD,)
    if oldest and context.log.has("source-build"):
        setting = f"export TF_CUDA_COMPUTE_CAPABILITIES={oldest[0].compute_capability}"
        return (Fix("Build it anew for the compute capability of this GPU, and install it", (setting, "./configure")),)
    return _other_release(context, "the newest release with kernels for this GPU") or (see,)


ARCH_TOO_OLD = finding(
    "gpu.arch-too-old",
    layer="GPU",
    title="The GPU is older than this TensorFlow or its cuDNN supports",
    despite_verified=True,
    cause="the build contains no kernel that this GPU can run",
    fixes=_older_release,
    docs="https://developer.nvidia.com/cuda-gpus",
)


@ARCH_TOO_OLD.sign(conclusive=False)
def below_every_release(cards: Cards) -> Problem | None:
    """Compute capability below the kernels of every wheel, so that the release need not be known."""
    if not inputs.below_every_wheel(cards):
        return None
    number = cards[0].compute_capability
    return Problem(
        title=f"No release of TensorFlow has kernels for compute capability {number}{'.x' * ('.' not in number)}",
        evidence=tuple(inputs.needs(card, "3.0 or higher", "the oldest kernels of all wheels") for card in cards),
        fixes=(Fix("Use the CPU, or another GPU; nothing that is installed makes TensorFlow use this one"),),
        sure=True,
    )


@ARCH_TOO_OLD.sign(conclusive=False)
def below_every_kernel(
    context: Context,
    gpu_release: Release,
    cards: Cards,
    cudnn_release: CudnnRelease | None = None,
    messages: MessageLog | None = None,
) -> Problem | None:
    """Compute capability below every kernel in the wheel, or below what the installed cuDNN still supports."""
    kernels = (*gpu_release.sass, *gpu_release.ptx)
    # older than all of them, or in a gap, as 5.0 is in the wheels of 2.3
    unable = [gpu for gpu in cards if runs_on(gpu_release, gpu.compute_capability) == "no"]
    old = [gpu for gpu in unable if any(gpu.version < capability(kernel) for kernel in kernels)]
    if not old:
        return _dropped_by_cudnn(context, gpu_release, cards, cudnn_release)
    wheel = f"TensorFlow {gpu_release.version} (wheel)"
    softened = messages is not None and messages.complains and _is_stated(context)
    return Problem(
        cause=f"the wheel of TensorFlow {gpu_release.version} contains no kernel that this GPU can run",
        evidence=tuple(inputs.needs(gpu, f"{kernels[0]} or higher", wheel) for gpu in old),
        severity=Severity.WARNING if softened and not inputs.below_every_wheel(old) else None,
    )


_SINCE_1_5 = (3, 5)  # compute capability of the wheels after 1.4 (compat_matrix.yaml)
_CONTEXT = 100 * MIB  # of CUDA alone, without TensorFlow's pool
_ANOTHER_GPU = Fix("Use a GPU of compute capability 3.5 or higher (on AWS g4dn in place of g2), or the CPU on purpose")


@ARCH_TOO_OLD.sign(conclusive=False)
def left_idle(
    context: Context, messages: MessageLog, cards: Cards, gpus: Gpus = (), tensorflow_version: str | None = None
) -> Problem | None:
    """A GPU older than all wheels but the first ones idles, and its memory holds no more than CUDA itself."""
    idles, used = messages.all("low-utilization", "slow"), [value_or(one.memory_used, _CONTEXT) for one in gpus]
    if context.probed or tensorflow_version or not idles or max(card.version for card in cards) >= _SINCE_1_5:
        return None
    return Problem(
        title="TensorFlow leaves this GPU out: its wheels after 1.4 need compute capability 3.5",
        cause="TensorFlow reserves nearly all memory of a GPU that it uses; this one holds little more than CUDA's own",
        evidence=(
            *(inputs.needs(one, "3.5 or higher", "wheels after 1.4") for one in cards),
            *message_evidence(*idles),
        ),
        fixes=(_ANOTHER_GPU,),
        possible=max(used, default=_CONTEXT) >= _CONTEXT,
    )


_XLA_NEEDS = (3, 5)  # xla/service/platform_util.cc; it ends the program where no GPU is left


@ARCH_TOO_OLD.sign(conclusive=False)
def refused_by_xla(messages: MessageLog, cards: Cards) -> Problem | None:
    """XLA finds no device that it supports, and the card is older than those."""
    refused = [one for one in messages.all("no-cuda-device") if "no supported devices found" in one.text]
    if not refused or not cards or any(card.version >= _XLA_NEEDS for card in cards):
        return None
    seen = (*(inputs.needs(card, "3.5 or higher", "XLA") for card in cards), *message_evidence(*refused))
    cause = "where it sees no GPU of compute capability 3.5 or higher, XLA, TensorFlow's compiler, ends the program"
    hide = Fix("Hide the GPU, so that the program uses the CPU", ("export CUDA_VISIBLE_DEVICES=-1",))
    return Problem(evidence=seen, cause=cause, fixes=(hide,), sure=True)


def _dropped_by_cudnn(context: Context, release: Release, cards: Cards, cudnn: CudnnRelease | None) -> Problem | None:
    if cudnn is None or cudnn.min_compute_capability is None:
        return None
    lowest = cudnn.min_compute_capability_by_cuda.get(major(release.cuda), cudnn.min_compute_capability)
    old = [gpu for gpu in cards if gpu.version < capability(lowest)]
    if not old:
        return None
    bound = cudnn_bound(context.matrix, release, [gpu.compute_capability for gpu in cards])
    hold = context.remedies.installing("Install the last cuDNN that supports this GPU", bound) if bound else None
    expected = f"{lowest} or higher for cuDNN {cudnn.version}"
    return Problem(
        cause=f"TensorFlow supports this GPU, but the installed cuDNN {cudnn.version} does not support it any more",
        evidence=tuple(inputs.needs(gpu, expected, "compat_matrix.yaml, cuDNN") for gpu in old),
        fixes=hold,
    )


_NO_KERNEL = ("kernel-image-invalid", "no-kernel-image", "invalid-device-function")
_REFUSED = frozenset({*_NO_KERNEL, "invalid-ptx", "invalid-handle"})  # the driver compiled nothing to keep


@ARCH_TOO_OLD.sign()
def refused_by_cudnn(context: Context, messages: MessageLog, gpu_release: Release, cards: Cards) -> Problem | None:
    """TensorFlow has kernels for the GPU, as has the cuDNN of its release; the one that is loaded has none."""
    refused = [one for one in messages.all("cudnn-status") if "ARCH_MISMATCH" in one.text]
    bound = cudnn_bound(context.matrix, gpu_release, [card.compute_capability for card in cards])
    if not refused or not bound or any(runs_on(gpu_release, one.compute_capability) == "no" for one in cards):
        return None
    fixes = context.remedies.installing("Install the last cuDNN that supports this GPU", bound)
    cause = "TensorFlow supports this GPU, but the cuDNN that is loaded does not support it any more"
    return Problem(cause=cause, evidence=message_evidence(*refused), fixes=fixes, sure=True)


@ARCH_TOO_OLD.sign()
def left_out_message(messages: MessageLog, cards: Cards = (), gpu_release: Release | None = None) -> Problem | None:
    """TensorFlow leaves the GPU out, or finds no kernel for it and the GPU is an old one."""
    ignored, no_kernel = messages.all("gpu-ignored"), messages.all(*_NO_KERNEL)
    mismatch = [m for m in messages.all("cudnn-status", "cublas-handle") if "ARCH_MISMATCH" in m.text]
    known, required = inputs.capabilities_of(messages, cards), inputs.required_by(ignored)
    old = known and not messages.has(*TOO_NEW) and not any(_is_newer(one, gpu_release) for one in known)
    if not (ignored or mismatch or (no_kernel and old)) or _is_of_pytorch(messages):
        return None
    newest, lowest = (max(map(capability, known), default=(0, 0)), min(map(capability, required), default=(99, 0)))
    if messages.has("gpu-created") and newest >= lowest:
        return None  # another GPU is used
    expected = f"compute capability {required[0]} or higher" if required else None
    gap = "the build contains no kernel that this GPU can run; its list may have a gap, as that of 2.3 at 5.0"
    found = (*message_evidence(*ignored, *no_kernel, *mismatch, need=expected), *inputs.of_card(messages, cards))
    return Problem(cause=None if ignored else gap, evidence=found)


def _is_of_pytorch(messages: MessageLog) -> bool:
    """Whether PyTorch is what fails: that says nothing of TensorFlow's build."""
    return "PyTorch" in messages.values("another-program", "program")


def _is_newer(gpu: str, release: Release | None) -> bool:
    """Whether a GPU is newer than the build; where the build is unknown, whether it is Ampere or later."""
    kernels = (*release.sass, *release.ptx) if release else ()
    if release is None or not kernels:
        return capability(gpu) >= (8, 0)
    return runs_on(release, gpu) != "sass" and all(capability(gpu) > capability(kernel) for kernel in kernels)


def _newer_release(context: Context) -> tuple[Fix, ...]:
    """A build with kernels for the GPU; where nothing tells which one it is, how to see that."""
    keep = Fix("Keep what the driver compiles for later runs", ("export CUDA_CACHE_MAXSIZE=4294967296",))
    kept = () if context.log.has(*_REFUSED) else (keep,)
    if not context.remedies.knows_gpu:
        return (_WHICH_BUILD, *kept)
    others = _other_release(context, "it has kernels for this GPU")
    of_image = None if others else context.remedies.for_image()
    return (*others, *kept) if of_image is None else of_image


ARCH_TOO_NEW = finding(
    "gpu.arch-too-new",
    layer="GPU",
    title="The GPU is newer than the kernels in this TensorFlow",
    despite_verified=True,
    cause="the build has no machine code (SASS) for this GPU: the driver compiles its PTX at first use, which takes "
    "up to half an hour, or rejects it with INVALID_PTX",
    fixes=_newer_release,
    symptoms=(symptoms.NO_KERNELS_IN_CUBLAS,),
    docs="https://developer.nvidia.com/cuda-gpus",
)


# what PTX does that is compiled at the first use, or that the driver refuses
_OF_COMPILING = (
    *("job-hangs", "slow", "slow-start", "time-on-both", "nan-result", "invalid-handle", "launch-failed"),
    *TOO_NEW,
)


def _of_ptx(context: Context, messages: MessageLog | None, gpus: Cards) -> Severity | None:
    """A note in a text where a device was made and nothing fails, or on a card before Ampere, for which little is
    compiled, and nothing is slow; a warning for what is stated, not printed."""
    if messages is None:
        return None
    works = messages.has("memory-left") and symptoms.nothing_fails(messages, None)
    brief = all(gpu.version < symptoms.AMPERE for gpu in gpus) and not messages.has(*_OF_COMPILING, *_NO_KERNEL)
    calm = not context.probed and (works or brief)
    return Severity.NOTE if calm else Severity.WARNING if _is_stated(context) else None


@ARCH_TOO_NEW.sign(conclusive=False)
def no_machine_code(
    context: Context, gpu_release: Release, cards: Cards, messages: MessageLog | None = None
) -> Problem | None:
    """No SASS for the GPU: PTX is compiled at first use, or there is none that it can run."""
    kernels = (*gpu_release.sass, *gpu_release.ptx)
    ways = {gpu: runs_on(gpu_release, gpu.compute_capability) for gpu in cards if kernels}
    newest = max(map(capability, kernels), default=(0, 0))
    if newer := _newer_than_cublas(gpu_release, cards, messages):
        return newer
    new = [gpu for gpu, way in ways.items() if way == "ptx" or (way != "sass" and gpu.version > newest)]
    if not new:
        return None
    ptx = f" and PTX {', '.join(gpu_release.ptx)}" if gpu_release.ptx else ""
    expected = f"SASS for it; the wheel has {', '.join(gpu_release.sass)}{ptx}"
    found = tuple(inputs.needs(gpu, expected, f"TensorFlow {gpu_release.version} (wheel)") for gpu in new)
    if all(ways[gpu] == "ptx" for gpu in new):
        severity = _of_ptx(context, messages, tuple(new))
        if severity is Severity.NOTE:
            title = "The driver compiles this TensorFlow's kernels for the GPU, once"
            nothing = Fix("Nothing has to be done: the first start takes longer, and later ones use what was compiled")
            return Problem(title=title, evidence=found, severity=severity, fixes=(nothing,))
        return Problem(evidence=found, severity=severity)
    return Problem(
        cause="the wheel contains neither SASS nor PTX that this GPU can run",
        evidence=found,
        fixes=_other_release(context, "it has kernels for this GPU"),
    )


_WITHOUT_TURING = "cuBLAS and cuDNN of CUDA 9 have no kernels for Turing: they fail when they are first used"


def _newer_than_cublas(release: Release, cards: Cards, messages: MessageLog | None) -> Problem | None:
    """Turing runs the SASS of Volta, but not the cuBLAS and cuDNN of CUDA 9 (CUDA 10.0 release notes)."""
    turing = [gpu for gpu in cards if gpu.version == (7, 5)]
    fails = messages and (messages.complains or messages.has("trouble-said", "failure-said"))
    if not (fails and turing and major(release.cuda) == "9"):
        return None
    return Problem(
        title=f"TensorFlow {release.version} has CUDA {release.cuda}, and this GPU needs CUDA 10.0 or later",
        cause=_WITHOUT_TURING,
        evidence=tuple(inputs.needs(gpu, "7.0 or lower", f"CUDA {release.cuda}") for gpu in turing),
    )


@ARCH_TOO_NEW.sign(unless=("gpu.arch-too-old",))
def no_kernels_message(
    context: Context,
    messages: MessageLog,
    cards: Cards = (),
    gpu_release: Release | None = None,
    toolkits: Toolkits = (),
) -> Problem | None:
    """TensorFlow reports that it has no kernels for the GPU, or the driver rejects what it has."""
    if compiler := messages.all("nvcc-too-old"):
        return Problem(
            title="This CUDA compiler does not support the GPU's architecture",
            cause="each CUDA compiles for the architectures of its time: a newer GPU needs a newer CUDA",
            evidence=message_evidence(*compiler),
            fixes=(Fix("Find the CUDA that supports the GPU, and build with it", ("tfgpu matrix cuda",)),),
        )
    if messages.has("ptx-too-new-for-driver") and not messages.has("no-kernels-for-gpu"):
        return None
    known = inputs.capabilities_of(messages, cards)
    reported, no_kernel = messages.all(*TOO_NEW), messages.all(*_NO_KERNEL)
    # these alone are evidence for a GPU that is newer only: a cuBLAS without kernels for it launches nothing
    failed = symptoms.failed_launches(messages) if gpu_release else ()
    rejected = (*no_kernel, *messages.all("invalid-handle"), *failed)
    newer = any(_is_newer(one, gpu_release) for one in known)
    compiled = _opened_before_gpu(context, messages, known) or _wrong_in_old_cuda(context, messages, toolkits, known)
    if not (reported or compiled or (rejected and newer)) or _is_of_pytorch(messages):
        return None
    seen = (*message_evidence(*reported, *rejected, compiled), *inputs.of_card(messages, cards))
    return Problem(evidence=seen, sure=compiled is not None and compiled.kind == "cudnn-version-differs")


def _first_with_libraries(context: Context, card: Card) -> str | None:
    """The first CUDA whose cuBLAS and cuDNN have kernels for it: Turing runs the SASS of Volta, they do not."""
    return "10.0" if card.version == (7, 5) else _first_cuda(context, card.compute_capability)


@ARCH_TOO_NEW.sign(unless=("gpu.arch-too-old", "cuda.version-mismatch"))
def older_cuda_stated(
    context: Context, messages: MessageLog, cards: Cards, toolkits: Toolkits, tensorflow_version: str | None = None
) -> Problem | None:
    """A text names a CUDA without kernels for its GPU, and no release that could bring another one."""
    first = [*filter(None, (_first_with_libraries(context, card) for card in cards))]
    older = [kit for kit in toolkits if first and all(at_least(kit.version, major(one)) is False for one in first)]
    if context.probed or tensorflow_version or not older or len(older) < len(toolkits) or _is_of_pytorch(messages):
        return None
    seen = (evidence(f"CUDA {kit.version}", kit.source, f"CUDA {first[0]} or later for this GPU") for kit in older)
    failed = messages.all("cudnn-status", "cudnn-handle", "cublas-handle")  # its libraries, that is
    return Problem(
        cause=_WITHOUT_TURING if failed and first == ["10.0"] else None,
        possible=not failed,
        evidence=(*seen, *message_evidence(*failed)),
        sure=bool(failed),
    )


def _opened_before_gpu(context: Context, log: MessageLog, known: list[str]) -> Message | None:
    """The line in which a CUDA is opened that cannot compile for the GPU at all, so that the driver has to."""
    first = [*filter(None, (_first_cuda(context, gpu) for gpu in known))]
    for name, message in log.libraries("library-opened"):
        library = known_library(name)
        newest = library.cuda_version if library else None
        # libcudart.so.11.0 belongs to 11.0 and to 11.8 alike: from 11 on the name shows the major version only
        if newest and at_least(newest, "11") is not False:
            newest = f"{major(newest)}.99"
        if newest and first and all(at_least(newest, one) is False for one in first):
            return message
    too_early = first and all(at_least(one, "11") for one in first)  # CUDA 11 came with cuDNN 8
    compared = log.all("cudnn-version-differs") if too_early else ()
    return next((one for one in compared if one.values.get("compiled", "8")[0] in "4567"), None)


def _first_cuda(context: Context, gpu: str) -> str | None:
    """The first CUDA that compiles SASS which the GPU runs: for its capability, or a lower one of the same major."""
    rows = [row for row in context.matrix.data.architectures if major(row.compute_capability) == major(gpu)]
    able = (row.min_cuda for row in rows if capability(row.compute_capability) <= capability(gpu))
    return min(filter(None, able), key=numbers, default=None)


def _wrong_in_old_cuda(context: Context, log: MessageLog, toolkits: Toolkits, known: list[str]) -> Message | None:
    """A cuBLAS without kernels for the GPU computes wrong values, or its launches fail, though its handle exists.

    Only in a text: toolkits that probes find on a disk need not be the ones that are used.
    """
    stated = [kit.version for kit in toolkits if kit.version]
    first = {row.compute_capability: row.min_cuda for row in context.matrix.data.architectures}
    pairs = [(have, cuda) for have in stated for one in known if (cuda := first.get(one))]
    if context.probed or not pairs or any(at_least(*pair) is not False for pair in pairs):
        return None
    return log.first("nan-result", "wrong-result") or next(iter(symptoms.failed_launches(log)), None)
