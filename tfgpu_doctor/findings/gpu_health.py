"""Findings about the state that a GPU reports of itself: faults, slowdowns, MIG."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.driver_answers import KERNEL_LOG
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import Gpu, Known, TfDevice, value_or
from tfgpu_doctor.records.report import Alternative, Fix, Severity


def _named(gpu: Gpu) -> str:
    return f"GPU {gpu.index} ({value_or(gpu.name, 'unknown model')})"


FAULT = finding(
    "gpu.fault",
    layer="GPU",
    severity=Severity.ERROR,
    title="A GPU is faulty",
    despite_verified=True,
    cause="the GPU, its memory, its slot or its power supply reports a hardware error; results are not reliable",
    fixes=lambda _: (
        Fix(text="Check the error counters", commands=("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",)),
        KERNEL_LOG,
        Fix(
            text="Restart the machine; if the error returns, reseat or replace the GPU and test its power supply",
            commands=("sudo reboot",),
        ),
    ),
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)


@FAULT.sign(conclusive=False)
def error_counters(
    context: Context, gpus: tuple[Gpu, ...], xid_events: tuple[str, ...] | None = None
) -> Problem | None:
    """Fallen off the bus, uncorrectable ECC errors, a row remapping that failed, Xid events."""
    source = context.source("gpus")
    found = []
    for gpu in gpus:
        if (fault := value_or(gpu.fault, None)) is not None:
            found.append(evidence(f"{_named(gpu)}: {fault}", source, "an answer"))
        if errors := value_or(gpu.ecc_uncorrected, 0):
            found.append(evidence(f"{_named(gpu)}: {errors} uncorrectable ECC errors", source, "0"))
        if value_or(gpu.remapped_rows_failed, False):
            found.append(evidence(f"{_named(gpu)}: row remapping failed", source, "no failure"))
    events = [evidence(line, context.source("driver.xid_events")) for line in (xid_events or ())[-3:]]
    return Problem(evidence=(*found, *events)) if found else None


# Xids that a program causes, most of the time; all others are about the GPU, its slot or the driver (see `docs`)
_SOFTWARE_XIDS = {"13", "31", "43", "45", "68", "69"}


@FAULT.sign
def fault_message(messages: MessageLog) -> Problem | None:
    """Xid, ECC, a GPU that is lost or has fallen off the bus."""
    xids, faults = messages.all("xid"), messages.all("gpu-lost", "ecc")
    hardware = [m for m in xids if m.values.get("number") not in _SOFTWARE_XIDS]
    if not xids and not faults:
        return None
    numbers = ", ".join(dict.fromkeys(m.values["number"] for m in xids if "number" in m.values))
    software = "Xid 13, 31, 43 and 45 usually mean a bug in the program, and sometimes that the GPU's memory is faulty"
    return Problem(
        title=f"The driver reports Xid {numbers}" if numbers else None,
        cause=None if hardware or faults else software,
        evidence=message_evidence(*hardware, *faults, *xids),
    )


_MIG_UUID = re.compile(r"\bMIG-[\w/-]{8,}")


def _turn_off(gpus: tuple[Gpu, ...]) -> Fix:
    commands = tuple(f"sudo nvidia-smi -i {gpu.index} -mig 0" for gpu in gpus)
    return Alternative(text="Disable MIG while nothing uses it, to use the whole GPU", commands=commands)


def _in_mig_mode(gpus: tuple[Gpu, ...] | None) -> tuple[Gpu, ...]:
    return tuple(gpu for gpu in gpus or () if value_or(gpu.mig_mode, False))


def _choose_instance(context: Context) -> tuple[Fix, ...]:
    gpus: tuple[Gpu, ...] = value_or(context.facts.gpus, ())
    names = [name for gpu in gpus for name in value_or(gpu.mig_instances, ())]
    uuid = next((found[0] for name in names if (found := _MIG_UUID.search(name))), "MIG-UUID-OF-ONE-INSTANCE")
    choose = Fix(
        text="List the instances, and assign one to each process by its UUID",
        commands=("nvidia-smi -L", f"export CUDA_VISIBLE_DEVICES={uuid}"),
    )
    return (choose, _turn_off(_in_mig_mode(gpus) or (Gpu(index=0),)))


MIG = finding(
    "gpu.mig",
    layer="GPU",
    severity=Severity.ERROR,
    title="MIG mode is on: a process can use one MIG instance at most",
    cause="a process sees one MIG instance, named by its UUID, with its share of the memory and the multiprocessors; "
    "to CUDA, the index of another instance or of the whole GPU is no device",
    fixes=_choose_instance,
    docs="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html",
)
_NO_INSTANCE = "MIG mode is on, but the GPU has no MIG instance"


@MIG.sign(conclusive=False)
def instances(context: Context, gpus: tuple[Gpu, ...], devices: tuple[TfDevice, ...] | None = None) -> Problem | None:
    """A GPU in MIG mode is no CUDA device until instances are created; then a process gets one of them."""
    source = context.source("gpus")
    divided = _in_mig_mode(gpus)
    if empty := tuple(gpu for gpu in divided if value_or(gpu.mig_instances, None) == ()):
        create = Fix(text="Create an instance", commands=("nvidia-smi mig -lgip", "sudo nvidia-smi mig -cgi 0 -C"))
        return Problem(
            title=_NO_INSTANCE,
            cause="a GPU in MIG mode can be used only through its instances, and there are none",
            evidence=tuple(evidence(f"GPU {gpu.index}: MIG on, no instance", source, "an instance") for gpu in empty),
            fixes=(create, _turn_off(empty)),
        )
    listed = [(gpu.index, name) for gpu in divided for name in value_or(gpu.mig_instances, ())]
    used = [device for device in devices or () if " MIG " in (device.device_name or "")]
    found = (
        *(evidence(f"GPU {index}: {name}", source) for index, name in listed),
        *(evidence(f"{device.name}: {device.device_name}", "TensorFlow's device list") for device in used),
    )
    return Problem(evidence=found, severity=Severity.WARNING) if found else None


_MIG_FAILURES = (
    *("no-cuda-device", "cuinit-failed", "invalid-visible-device", "cuda-error", "nccl-error", "nccl-warning"),
)


def _several(messages: MessageLog, gpus: tuple[Gpu, ...]) -> bool:
    listed = sum(len(value_or(gpu.mig_instances, ())) for gpu in gpus)
    return max(listed, len(messages.values("mig", "device"))) >= 2 or bool(messages.values("mig", "count"))


@MIG.sign(unless=("container.no-gpu", "driver.version-mismatch"))
def mig_message(
    context: Context, messages: MessageLog, gpus: tuple[Gpu, ...] | None = None, variables: dict[str, str] | None = None
) -> Problem | None:
    """A MIG instance is requested in a way that CUDA does not support, or several are."""
    reported = messages.all("mig", "mig-empty")
    small = messages.has("out-of-memory") and bool(messages.values("mig", "profile"))  # a slice's memory
    empty, fails = messages.has("mig-empty"), messages.has(*_MIG_FAILURES) or small
    is_problem = fails or (_several(messages, gpus or ()) and not messages.complains)
    if not empty and not (is_problem and (reported or _in_mig_mode(gpus))):
        return None
    found = message_evidence(*reported, *messages.all("no-cuda-device", "cuinit-failed", "out-of-memory"))
    if visible := (variables or {}).get("CUDA_VISIBLE_DEVICES"):
        found += (evidence(f"CUDA_VISIBLE_DEVICES={visible}", context.source("variables")),)
    severity = None if fails or empty else Severity.WARNING
    return Problem(title=_NO_INSTANCE if empty else None, evidence=found, severity=severity)


THROTTLED = finding(
    "gpu.throttled",
    layer="GPU",
    severity=Severity.WARNING,
    title="A GPU runs slower than it could",
    cause="heat, power or a degraded PCIe link reduces its speed",
    fixes=lambda _: (
        Fix(text="Watch it under load", commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",)),
        Fix(text="Check air flow, fans, power cables and the PCIe slot of the GPU"),
    ),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)
_THROTTLES = {
    "hw_thermal_slowdown": "the hardware reduces the clocks because of heat",
    "sw_thermal_slowdown": "the driver reduces the clocks because of heat",
    "hw_power_brake_slowdown": "the power supply or the board requests less power",
    "hw_slowdown": "the hardware halves the clocks (heat, power brake)",
}
# NVIDIA, nvidia-smi(1), "Performance State": P0 is the highest; CUDA runs in P0 or P2
_SAVES_POWER, _FULL, _HOT = 3, 90, 80  # performance state, per cent, °C
_BUSY = 50  # per cent; an idle GPU lowers the speed of its link to save power


@THROTTLED.sign(conclusive=False)
def slowdown(context: Context, gpus: tuple[Gpu, ...]) -> Problem | None:
    """Heat or power brake slow it down, or its PCIe link has fewer lanes than it could."""
    source = context.source("gpus")
    found = tuple(
        evidence(f"{_named(gpu)}: {state}", source, expected) for gpu in gpus for state, expected in _slowdowns(gpu)
    )
    return Problem(evidence=found) if found else None


def _slowdowns(gpu: Gpu) -> Iterator[tuple[str, str]]:
    """What a GPU reports, and what it should."""
    degrees = f" at {gpu.temperature.value} °C" if isinstance(gpu.temperature, Known) else ""
    for reason in value_or(gpu.throttle_reasons, ()):
        if reason in _THROTTLES:
            yield f"{reason}{degrees}", f"none; {_THROTTLES[reason]}"
    yield from _saving_power(gpu, degrees)
    width, widest = value_or(gpu.pcie_width, None), value_or(gpu.pcie_width_max, None)
    if width and widest and width < widest and width <= 4:
        yield f"PCIe x{width}", f"x{widest}"
    generation, newest = value_or(gpu.pcie_generation, None), value_or(gpu.pcie_generation_max, None)
    if generation and newest and generation < newest and value_or(gpu.utilization, 0) >= _BUSY:
        yield f"PCIe generation {generation} under load", f"generation {newest}"


@THROTTLED.sign
def slower_with_time_message(messages: MessageLog) -> Problem | None:
    """A job that gets slower the longer it runs: heat, or a graph to which every step adds."""
    query = "nvidia-smi --query-gpu=temperature.gpu,clocks.sm,clocks.max.sm,utilization.gpu --format=csv -l 5"
    watch = Fix(text="To decide, watch temperature and clocks while it runs", commands=(query,))
    found = message_evidence(*messages.all("slower-with-time"))
    cause = (
        "a GPU that gets hot lowers its clocks; a program that adds to its graph, or keeps results, slows down as well"
    )
    return Problem(cause=cause, evidence=found, fixes=(watch,), possible=True) if found else None


@THROTTLED.sign
def slowdown_message(messages: MessageLog) -> Problem | None:
    """nvidia-smi -q shows a slowdown; a power cap alone, where nothing fails, is one too."""
    capped = () if messages.complains else messages.all("power-capped")
    found = message_evidence(*(messages.all("slowdown") or capped))
    return Problem(evidence=found) if found else None


def _saving_power(gpu: Gpu, degrees: str) -> Iterator[tuple[str, str]]:
    state, load = value_or(gpu.performance_state, 0), value_or(gpu.utilization, 0)
    if state >= _SAVES_POWER and load >= _FULL and value_or(gpu.temperature, 0) >= _HOT:
        clock = f", {gpu.sm_clock.value} MHz" if isinstance(gpu.sm_clock, Known) else ""
        yield f"P{state} at {load} % load{clock}{degrees}", "P0 or P2; heat reduces the clocks"
