"""Findings about gpu health."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import Gpu, Known, TfDevice, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity

MIG_GUIDE = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html"


_SOFTWARE_XIDS = {"13", "31", "43", "45", "68", "69"}
COOL_DOWN = (
    Fix(text="Watch it under load", commands=("nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",)),
    Fix(text="Check airflow, fans, power cables and the slot the card sits in"),
)


_BUSY = 50  # per cent


_THROTTLES = {
    "hw_thermal_slowdown": "the hardware slows down because of heat",
    "sw_thermal_slowdown": "the driver slows down because of heat",
    "hw_power_brake_slowdown": "the power supply or the board asks for less power",
    "hw_slowdown": "the hardware halves the clocks (heat, power brake)",
}


def _slice(context: Context, gpus: tuple[Gpu, ...], devices: tuple[TfDevice, ...]) -> Problem | None:
    """CUDA enumerates a single compute instance, whatever else is there (MIG user guide, "CUDA Device Enumeration")."""
    seen = [
        evidence(f"GPU {gpu.index}: {name}", context.source("gpus"))
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


FAULT = finding(
    "gpu.fault",
    layer="GPU",
    severity=Severity.ERROR,
    title="A GPU is faulty",
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)


@FAULT.sign(conclusive=False)
def fault(context: Context, gpus: tuple[Gpu, ...], xid_events: tuple[str, ...] | None = None) -> Problem | None:
    """Fallen off the bus, uncorrectable ECC errors, a row remapping that failed, Xid events."""
    seen: list[Evidence] = []
    for gpu in gpus:
        name = f"GPU {gpu.index} ({value_or(gpu.name, 'unknown model')})"
        if (lost := value_or(gpu.fault, None)) is not None:
            seen.append(evidence(f"{name}: {lost}", context.source("gpus"), "an answer"))
        if errors := value_or(gpu.ecc_uncorrected, 0):
            seen.append(evidence(f"{name}: {errors} uncorrectable ECC errors", context.source("gpus"), "0"))
        if value_or(gpu.remapped_rows_failed, False):
            seen.append(evidence(f"{name}: row remapping failed", context.source("gpus"), "no failure"))
    if not seen:
        return None
    seen += [evidence(line, context.source("driver.xid_events")) for line in (xid_events or ())[-3:]]
    return Problem(
        cause="the card or its slot reports a hardware error; results and uptime cannot be relied on",
        evidence=tuple(seen),
        fixes=(
            Fix(text="See what the card says", commands=("nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",)),
            Fix(text="Restart the machine; reseat or replace the card if it comes back", commands=("sudo reboot",)),
        ),
    )


@FAULT.sign
def fault_reported(messages: MessageLog) -> Problem | None:
    """Xid, ECC, a GPU that is lost or has fallen off the bus."""
    xids = messages.all("xid")
    hard = [m for m in xids if m.values.get("number") not in _SOFTWARE_XIDS]
    seen = (*hard, *messages.all("gpu-lost", "ecc"), *xids)
    if not seen:
        return None
    numbers = ", ".join(dict.fromkeys(m.values["number"] for m in xids if "number" in m.values))
    software = bool(xids) and not hard and not messages.has("gpu-lost", "ecc")
    return Problem(
        title=f"The driver reports Xid {numbers}" if numbers else None,
        cause="a program's kernel went wrong (Xid 13, 31, 43 and 45 mostly mean that), or the card's memory did"
        if software
        else "the card, its power, its slot or its memory reports an error; results and uptime cannot be relied on",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="See what the card and the kernel say",
                commands=(
                    "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
                    "sudo dmesg | grep -iE 'NVRM|Xid' | tail -n 20",
                ),
            ),
            Fix(
                text="Restart the machine; reseat or replace the card, and test its power supply, if it comes back",
                commands=("sudo reboot",),
            ),
        ),
    )


MIG = finding(
    "gpu.mig",
    layer="GPU",
    severity=Severity.ERROR,
    title="MIG mode is on, but the GPU has no MIG instance",
    docs="https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html",
)


@MIG.sign(conclusive=False)
def mig(context: Context, gpus: tuple[Gpu, ...], devices: tuple[TfDevice, ...] | None = None) -> Problem | None:
    """A GPU in MIG mode offers CUDA nothing until instances are created, and then one slice to a process."""
    empty = [gpu for gpu in gpus if value_or(gpu.mig_mode, False) and value_or(gpu.mig_instances, None) == ()]
    if not empty:
        return _slice(context, gpus, devices or ())
    source = context.source("gpus")
    return Problem(
        cause="a GPU in MIG mode can be used only through its instances, and there are none",
        evidence=tuple(evidence(f"GPU {gpu.index}: MIG on, no instance", source, "an instance") for gpu in empty),
        fixes=(
            Fix(text="Create an instance", commands=("nvidia-smi mig -lgip", "sudo nvidia-smi mig -cgi 0 -C")),
            Fix(text="Or turn MIG off", commands=tuple(f"sudo nvidia-smi -i {gpu.index} -mig 0" for gpu in empty)),
        ),
    )


@MIG.sign(unless=("container.no-gpu", "driver.version-mismatch"))
def mig_reported(
    context: Context, messages: MessageLog, gpus: tuple[Gpu, ...] | None = None, variables: dict[str, str] | None = None
) -> Problem | None:
    """A MIG device is asked for in a way that CUDA does not follow, or several are."""
    spoken = messages.all("mig", "mig-empty")
    listed = sum(len(value_or(gpu.mig_instances, ())) for gpu in gpus or ())
    several = len(messages.values("mig", "device")) >= 2 or listed >= 2 or bool(messages.values("mig", "count"))
    fails = messages.has(
        "no-cuda-device", "cuinit-failed", "invalid-visible-device", "cuda-error", "nccl-error", "nccl-warning"
    )
    on = any(value_or(gpu.mig_mode, False) for gpu in gpus or ())
    if not messages.has("mig-empty") and (not (spoken or on) or not (fails or (several and not messages.complains))):
        return None
    visible = (variables or {}).get("CUDA_VISIBLE_DEVICES")
    seen = evidence(f"CUDA_VISIBLE_DEVICES={visible}", context.source("variables")) if visible else None
    return Problem(
        severity=None if fails or messages.has("mig-empty") else Severity.WARNING,
        title="MIG mode is on, but there is no MIG instance" if messages.has("mig-empty") else None,
        cause="a CUDA process sees one MIG instance at most, named by its UUID; an index of another, or of "
        "the whole GPU, is no device to it",
        evidence=(
            *message_evidence(*spoken, *messages.all("no-cuda-device", "cuinit-failed")),
            *((seen,) if seen else ()),
        ),
        fixes=(
            Fix(
                text="Give every process its own instance by UUID",
                commands=("nvidia-smi -L", "export CUDA_VISIBLE_DEVICES=MIG-UUID-OF-ONE-INSTANCE"),
            ),
            Fix(
                text="To train over the whole card or over several, turn MIG off", commands=("sudo nvidia-smi -mig 0",)
            ),
        ),
    )


THROTTLED = finding(
    "gpu.throttled",
    layer="GPU",
    severity=Severity.WARNING,
    title="A GPU runs slower than it could",
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)


@THROTTLED.sign(conclusive=False)
def throttled(context: Context, gpus: tuple[Gpu, ...]) -> Problem | None:
    """Heat or power brake slow it down, or its PCIe link has lost lanes."""
    source = context.source("gpus")
    seen: list[Evidence] = []
    for gpu in gpus:
        name = f"GPU {gpu.index} ({value_or(gpu.name, 'unknown model')})"
        for reason in value_or(gpu.throttle_reasons, ()):
            if reason in _THROTTLES:
                hot = f" at {gpu.temperature.value} °C" if isinstance(gpu.temperature, Known) else ""
                seen.append(evidence(f"{name}: {reason}{hot}", source, f"none; {_THROTTLES[reason]}"))
        width, widest = value_or(gpu.pcie_width, None), value_or(gpu.pcie_width_max, None)
        if width and widest and width < widest and width <= 4:
            seen.append(evidence(f"{name}: PCIe x{width}", source, f"x{widest}"))
        generation, newest = value_or(gpu.pcie_generation, None), value_or(gpu.pcie_generation_max, None)
        # an idle card lowers the speed of its link to save power
        if generation and newest and generation < newest and value_or(gpu.utilization, 0) >= _BUSY:
            seen.append(evidence(f"{name}: PCIe generation {generation} under load", source, f"generation {newest}"))
    if not seen:
        return None
    return Problem(
        cause="heat, power or a degraded PCIe link costs speed",
        evidence=tuple(seen),
        fixes=COOL_DOWN,
    )


@THROTTLED.sign
def slower_with_time(messages: MessageLog) -> Problem | None:
    """A job that is slower the longer it runs: heat, or a graph to which every step adds."""
    seen = messages.all("slower-with-time")
    if not seen:
        return None
    return Problem(
        possible=True,
        cause="a card that grows hot lowers its clocks; a program that adds to its graph, or keeps what it computed, "
        "slows down as well",
        evidence=message_evidence(*seen),
        fixes=(
            Fix(
                text="To decide, watch temperature and clocks while it runs",
                commands=(
                    "nvidia-smi --query-gpu=temperature.gpu,clocks.sm,clocks.max.sm,utilization.gpu --format=csv -l 5",
                ),
            ),
        ),
    )


@THROTTLED.sign
def throttled_reported(messages: MessageLog) -> Problem | None:
    """nvidia-smi -q shows a slowdown."""
    seen = messages.all("slowdown") or (messages.all("power-capped") if not messages.complains else ())
    if not seen:
        return None
    return Problem(
        cause="heat, power or a degraded PCIe link costs speed",
        evidence=message_evidence(*seen),
        fixes=COOL_DOWN,
    )
