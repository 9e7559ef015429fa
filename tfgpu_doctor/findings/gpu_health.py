"""Rules about what a GPU says of its own state: faults, slowdowns, MIG."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.records.facts import Gpu, Known, TfDevice, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity

MIG_GUIDE = "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/index.html"
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
            seen.append(evidence(f"{name}: {errors} uncorrectable ECC errors", context.source("gpus"), "0"))
        if value_or(gpu.remapped_rows_failed, False):
            seen.append(evidence(f"{name}: row remapping failed", context.source("gpus"), "no failure"))
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
