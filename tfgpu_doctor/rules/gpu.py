"""Rules about the GPUs themselves: present, visible, healthy, and of an architecture that this build knows."""

from __future__ import annotations

from tfgpu_doctor.facts import CallResult, Gpu, Known, PciGpu, TfDevice, value_or
from tfgpu_doctor.fits import capability, cudnn_bound, runs_on
from tfgpu_doctor.matrix import CudnnRelease, Release
from tfgpu_doctor.report import Evidence, Fix, Severity
from tfgpu_doctor.rules.context import Context
from tfgpu_doctor.rules.derived import Card
from tfgpu_doctor.rules.engine import Problem, evidence, rule
from tfgpu_doctor.rules.said import Said

VISIBLE_DEVICES = "https://docs.nvidia.com/cuda/cuda-c-programming-guide/index.html#env-vars"
CUDA_GPUS = "https://developer.nvidia.com/cuda-gpus"
MIG_GUIDE = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html"
TENSORFLOW_GPU = "https://www.tensorflow.org/install/pip"
_BUSY = 50  # per cent
_THROTTLES = {
    "hw_thermal_slowdown": "the hardware slows down because of heat",
    "sw_thermal_slowdown": "the driver slows down because of heat",
    "hw_power_brake_slowdown": "the power supply or the board asks for less power",
    "hw_slowdown": "the hardware halves the clocks (heat, power brake)",
}


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


@rule(
    "gpu.arch-too-old",
    Severity.ERROR,
    "The GPU is older than this TensorFlow or its cuDNN supports",
    needs=("derived.gpu_release", "derived.cards"),
    wants=("cudnn.runtime", "derived.cudnn_release", "derived.told"),
    docs=CUDA_GPUS,
)
def arch_too_old(
    context: Context,
    release: Release,
    cards: tuple[Card, ...],
    runtime: str | None,
    cudnn: CudnnRelease | None,
    told: Said | None,
) -> Problem | None:
    """Compute capability below every kernel in the wheel, or below what the installed cuDNN still supports."""
    seen = [
        evidence(
            f"{card.name}: compute capability {card.compute_capability}",
            card.source,
            f"{release.sass[0] if release.sass else release.ptx[0]} or higher",
            f"TensorFlow {release.version} (wheel)",
        )
        for card in cards
        if (release.sass or release.ptx)
        and runs_on(release, card.compute_capability) == "no"
        # older than all of them, or in a gap, as 5.0 is in the wheels of 2.3
        and any(card.version < capability(one) for one in (*release.sass, *release.ptx))
    ]
    cause = f"the wheel of TensorFlow {release.version} holds no kernel that this card can run"
    if not seen and cudnn and cudnn.min_compute_capability:
        by_cuda = cudnn.min_compute_capability_by_cuda
        lowest = by_cuda.get((release.cuda or "").split(".")[0], cudnn.min_compute_capability)
        floor = capability(lowest)
        seen = [
            evidence(
                f"{card.name}: compute capability {card.compute_capability}",
                card.source,
                f"{lowest} or higher for cuDNN {runtime or cudnn.version}",
                "compat_matrix.yaml, cuDNN",
            )
            for card in cards
            if card.version < floor
        ]
        cause = f"TensorFlow would run on this card, but the installed cuDNN {cudnn.version} has dropped it"
        bound = cudnn_bound(context.matrix, release, [card.compute_capability for card in cards])
        if seen and bound:
            fix = Fix(
                text="Hold cuDNN back at the last one for this card", commands=context.remedies.pip_install(bound)
            )
            return Problem(cause, tuple(seen), (fix,))
    if not seen:
        return None
    why = "the newest release with kernels for this card"
    fixes = context.remedies.reinstall_best(why) or context.remedies.beside_the_wheels(why)
    # of a text, what is merely stated stands behind what a program complains of
    severity = Severity.WARNING if told is not None and told.complains else None
    return Problem(cause, tuple(seen), fixes, severity=severity)


@rule(
    "gpu.arch-too-new",
    Severity.ERROR,
    "The GPU is newer than the kernels in this TensorFlow",
    needs=("derived.gpu_release", "derived.cards"),
    wants=("derived.told",),
    docs=CUDA_GPUS,
)
def arch_too_new(context: Context, release: Release, cards: tuple[Card, ...], told: Said | None) -> Problem | None:
    """No SASS for the card: PTX is compiled at first use for up to half an hour, or does not run at all."""
    known = (*release.sass, *release.ptx)
    strangers = [
        card
        for card in cards
        if known
        and (how := runs_on(release, card.compute_capability)) != "sass"
        and (how == "ptx" or all(card.version > capability(one) for one in known))
    ]
    if not strangers:
        return None
    has = ", ".join(release.sass) + (f" and PTX {', '.join(release.ptx)}" if release.ptx else "")
    seen = tuple(
        evidence(
            f"{card.name}: compute capability {card.compute_capability}",
            card.source,
            f"SASS for it; the wheel has {has}",
            f"TensorFlow {release.version} (wheel)",
        )
        for card in strangers
    )
    jit = all(runs_on(release, card.compute_capability) == "ptx" for card in strangers)
    how = (
        "the driver must compile every kernel from PTX at first use: half an hour, or INVALID_PTX"
        if jit
        else "the wheel holds neither SASS nor PTX that this card can run"
    )
    cache = Fix(
        text="Until then, keep what the driver compiles, so that only the first run is slow",
        commands=("export CUDA_CACHE_MAXSIZE=4294967296", "export CUDA_CACHE_DISABLE=0"),
    )
    why = "it has kernels for this card"
    newer = context.remedies.reinstall_best(why) or context.remedies.beside_the_wheels(why)
    # of a text, a name and a version that somebody states weigh less than what a program says (rules/said_gpu.py)
    severity = Severity.WARNING if told is not None and jit else None
    return Problem(how, seen, (*newer, *((cache,) if jit else ())), severity=severity)


@rule(
    "gpu.fault",
    Severity.ERROR,
    "A GPU is faulty",
    needs=("gpus",),
    wants=("driver.xid_events",),
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)
def fault(context: Context, gpus: tuple[Gpu, ...], xids: tuple[str, ...] | None) -> Problem | None:
    """Fallen off the bus, uncorrectable ECC errors, a row remapping that failed, Xid events."""
    seen: list[Evidence] = []
    for gpu in gpus:
        name = f"GPU {gpu.index} ({value_or(gpu.name, 'unknown model')})"
        if (lost := value_or(gpu.fault, None)) is not None:
            seen.append(evidence(f"{name}: {lost}", context.source("gpus"), "an answer"))
        if errors := value_or(gpu.ecc_uncorrected, 0):
            seen.append(evidence(f"{name}: {errors} uncorrectable ECC errors", "NVML", "0"))
        if value_or(gpu.remapped_rows_failed, False):
            seen.append(evidence(f"{name}: row remapping failed", "NVML", "no failure"))
    if not seen:
        return None
    seen += [evidence(line, context.source("driver.xid_events")) for line in (xids or ())[-3:]]
    return Problem(
        cause="the card or its slot reports a hardware error; results and uptime cannot be relied on",
        evidence=tuple(seen),
        fixes=(
            Fix(text="See what the card says", commands=("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",)),
            Fix(text="Restart the machine; reseat or replace the card if it comes back", commands=("sudo reboot",)),
        ),
    )


@rule(
    "gpu.throttled",
    Severity.WARNING,
    "A GPU runs slower than it could",
    needs=("gpus",),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)
def throttled(context: Context, gpus: tuple[Gpu, ...]) -> Problem | None:
    """Heat or power brake slow it down, or its PCIe link has lost lanes."""
    seen: list[Evidence] = []
    for gpu in gpus:
        name = f"GPU {gpu.index} ({value_or(gpu.name, 'unknown model')})"
        for reason in value_or(gpu.throttle_reasons, ()):
            if reason in _THROTTLES:
                hot = f" at {gpu.temperature.value} °C" if isinstance(gpu.temperature, Known) else ""
                seen.append(evidence(f"{name}: {reason}{hot}", "NVML", f"none; {_THROTTLES[reason]}"))
        width, widest = value_or(gpu.pcie_width, None), value_or(gpu.pcie_width_max, None)
        if width and widest and width < widest and width <= 4:
            seen.append(evidence(f"{name}: PCIe x{width}", "NVML", f"x{widest}"))
        generation, newest = value_or(gpu.pcie_generation, None), value_or(gpu.pcie_generation_max, None)
        # an idle card lowers the speed of its link to save power
        if generation and newest and generation < newest and value_or(gpu.utilization, 0) >= _BUSY:
            seen.append(evidence(f"{name}: PCIe generation {generation} under load", "NVML", f"generation {newest}"))
    if not seen:
        return None
    return Problem(
        cause="heat, power or a degraded PCIe link costs speed",
        evidence=tuple(seen),
        fixes=(
            Fix(text="Watch it under load", commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",)),
            Fix(text="Check airflow, fans, power cables and the slot the card sits in"),
        ),
    )


@rule(
    "gpu.mig",
    Severity.ERROR,
    "MIG mode is on, but the GPU has no MIG instance",
    needs=("gpus",),
    wants=("tensorflow.devices",),
    docs=MIG_GUIDE,
)
def mig(context: Context, gpus: tuple[Gpu, ...], devices: tuple[TfDevice, ...] | None) -> Problem | None:
    """A GPU in MIG mode offers CUDA nothing until instances are created, and then one slice to a process."""
    empty = [gpu for gpu in gpus if value_or(gpu.mig_mode, False) and value_or(gpu.mig_instances, None) == ()]
    if not empty:
        return _slice(gpus, devices or ())
    return Problem(
        cause="a GPU in MIG mode can be used only through its instances, and there are none",
        evidence=tuple(evidence(f"GPU {gpu.index}: MIG on, no instance", "NVML", "an instance") for gpu in empty),
        fixes=(
            Fix(text="Create an instance", commands=("nvidia-smi mig -lgip", "sudo nvidia-smi mig -cgi 0 -C")),
            Fix(text="Or turn MIG off", commands=tuple(f"sudo nvidia-smi -i {gpu.index} -mig 0" for gpu in empty)),
        ),
    )


def _slice(gpus: tuple[Gpu, ...], devices: tuple[TfDevice, ...]) -> Problem | None:
    """CUDA enumerates a single compute instance, whatever else is there (MIG user guide, "CUDA Device Enumeration")."""
    seen = [
        evidence(f"GPU {gpu.index}: {name}", "NVML")
        for gpu in gpus
        for name in value_or(gpu.mig_instances, ())
        if value_or(gpu.mig_mode, False)
    ]
    seen += [
        evidence(f"{device.name}: {device.device_name}", "TensorFlow's device list")
        for device in devices
        if " MIG " in (device.device_name or "")
    ]
    if not seen:
        return None
    slices = (name.rpartition("(MIG-") for gpu in gpus for name in value_or(gpu.mig_instances, ()))
    uuid = next((tail.rstrip(")") for _, found, tail in slices if found), None)
    choose = (f"export CUDA_VISIBLE_DEVICES=MIG-{uuid}",) if uuid else ()
    return Problem(
        title="A process gets one MIG slice, not the whole GPU",
        cause="a process sees one slice, with its share of the memory and the multiprocessors; a second needs another",
        evidence=tuple(seen),
        fixes=(
            Fix(text="See the slices, and choose one", commands=("nvidia-smi -L", *choose)),
            Fix(
                text="Or turn MIG off, while nothing uses the GPU",
                commands=tuple(
                    f"sudo nvidia-smi -i {gpu.index} -mig 0" for gpu in gpus if value_or(gpu.mig_mode, False)
                ),
            ),
        ),
        severity=Severity.WARNING,
    )


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
