"""Rules over what a pasted text says of the GPUs themselves."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.gpu import CUDA_GPUS, VISIBLE_DEVICES
from tfgpu_doctor.findings.gpu_health import COOL_DOWN, MIG_GUIDE
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.records.facts import CallResult, Gpu, PciGpu, SmiResult, value_or
from tfgpu_doctor.records.report import Fix, Severity

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


@rule(
    "gpu.none",
    Severity.ERROR,
    "This machine has no NVIDIA GPU",
    needs=("derived.told",),
    wants=("host.pci_gpus", "gpus", "driver.version"),
    docs=CUDA_GPUS,
)
def none(
    context: Context, said: Said, pci: tuple[PciGpu, ...] | None, gpus: tuple[Gpu, ...] | None, driver: str | None
) -> Problem | None:
    """Only other makers' cards are named, or lspci shows none of NVIDIA's."""
    seen = said.all("no-gpu-present")
    if gpus or driver or pci or not (pci == () or seen) or said.has("gpu-created"):
        return None
    stated = evidence(context.source("host.pci_gpus"), "the text", "an NVIDIA GPU") if pci == () else None
    missing_dll = any("routine failed" not in m.text for m in said.all("dll-load-failed"))
    return Problem(
        # a GPU build for Windows cannot be loaded without the driver's nvcuda.dll
        severity=Severity.WARNING if said.stops_import and not missing_dll else None,
        cause="TensorFlow's GPU builds use NVIDIA GPUs only; on this machine it runs on the CPU",
        evidence=(*heard(*seen), *((stated,) if stated else ())),
        fixes=(
            Fix(text="Run this on a machine with an NVIDIA GPU"),
            Fix(
                text="An AMD GPU needs ROCm and tensorflow-rocm on Linux; Apple's needs tensorflow-metal; "
                "Intel's the extension intel-extension-for-tensorflow"
            ),
        ),
    )


@rule(
    "gpu.hidden",
    Severity.ERROR,
    "The GPU is hidden from TensorFlow",
    needs=("derived.said",),
    wants=("variables", "driver.cuda_init"),
    requires=("container.no-gpu", "wsl.setup", "driver.version-mismatch", "driver.missing", "gpu.none", "gpu.mig"),
    docs=VISIBLE_DEVICES,
)
def hidden(context: Context, said: Said, variables: dict[str, str] | None, init: CallResult | None) -> Problem | None:
    """The program, TensorFlow or the scheduler says that a GPU is left out."""
    seen = said.all("hides-every-gpu", "hidden-by-variable", "slurm-no-gpu")
    if said.from_text or "CUDA_VISIBLE_DEVICES" in (variables or {}):  # on a machine, unset is known to be unset
        seen = (*seen, *said.all("invalid-visible-device"))
    # the driver is there, as far as is said, and CUDA counts no device
    none = said.all("no-cuda-device") if said.from_text and not said.has(*_NOT_HIDDEN) else ()
    if init is not None and init.code not in (0, 100, 101):
        none = ()  # cuInit has another reason
    if said.has("gpu-created") and not said.has("hides-every-gpu"):
        return None
    if not seen and not none:
        return None
    return Problem(
        title=None if seen else "CUDA finds no device: most likely it is hidden from this process",
        cause="CUDA and TensorFlow use only the devices that they are told to see, up to the first that does not exist",
        evidence=heard(*seen, *none, *said.all("kernel-version")),
        fixes=(
            Fix(
                text="See what is set, and unset it where it is set: shell profile, scheduler, notebook, program",
                commands=("env | grep VISIBLE_DEVICES", "unset CUDA_VISIBLE_DEVICES"),
            ),
        ),
    )


@rule(
    "gpu.fault",
    Severity.ERROR,
    "A GPU is faulty",
    needs=("derived.said",),
    wants=("driver.nvidia_smi",),
    docs=XID_GUIDE,
)
def fault(context: Context, said: Said, smi: SmiResult | None) -> Problem | None:
    """Xid, ECC, a GPU that is lost or has fallen off the bus."""
    xids = said.all("xid")
    hard = [m for m in xids if m.values.get("number") not in _SOFTWARE_XIDS]
    seen = (*hard, *said.all("gpu-lost", "ecc"), *xids)
    if not seen:
        return None
    numbers = ", ".join(dict.fromkeys(m.values["number"] for m in xids if "number" in m.values))
    software = bool(xids) and not hard and not said.has("gpu-lost", "ecc")
    return Problem(
        title=f"The driver reports Xid {numbers}" if numbers else None,
        cause="a program's kernel went wrong (Xid 13, 31, 43 and 45 mostly mean that), or the card's memory did"
        if software
        else "the card, its power, its slot or its memory reports an error; results and uptime cannot be relied on",
        evidence=heard(*seen),
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


@rule(
    "gpu.throttled",
    Severity.WARNING,
    "A GPU runs slower than it could",
    needs=("derived.told",),
    docs="https://docs.nvidia.com/deploy/nvml-api/group__nvmlClocksEventReasons.html",
)
def throttled(context: Context, said: Said) -> Problem | None:
    """nvidia-smi -q shows a slowdown."""
    seen = said.all("slowdown") or (said.all("power-capped") if not said.complains else ())
    if not seen:
        return None
    return Problem(
        cause="heat, power or a degraded PCIe link costs speed",
        evidence=heard(*seen),
        fixes=COOL_DOWN,
    )


@rule(
    "gpu.mig",
    Severity.ERROR,
    "MIG limits what this process can use",
    needs=("derived.told",),
    wants=("gpus", "variables"),
    requires=("container.no-gpu", "driver.version-mismatch"),
    docs=MIG_GUIDE,
)
def mig(context: Context, said: Said, gpus: tuple[Gpu, ...] | None, variables: dict[str, str] | None) -> Problem | None:
    """A MIG device is asked for in a way that CUDA does not follow, or several are."""
    spoken = said.all("mig", "mig-empty")
    listed = sum(len(value_or(gpu.mig_instances, ())) for gpu in gpus or ())
    several = len(said.values("mig", "device")) >= 2 or listed >= 2 or bool(said.values("mig", "count"))
    fails = said.has(
        "no-cuda-device", "cuinit-failed", "invalid-visible-device", "cuda-error", "nccl-error", "nccl-warning"
    )
    on = any(value_or(gpu.mig_mode, False) for gpu in gpus or ())
    if not said.has("mig-empty") and (not (spoken or on) or not (fails or (several and not said.complains))):
        return None
    visible = (variables or {}).get("CUDA_VISIBLE_DEVICES")
    seen = evidence(f"CUDA_VISIBLE_DEVICES={visible}", context.source("variables")) if visible else None
    return Problem(
        severity=None if fails or said.has("mig-empty") else Severity.WARNING,
        title="MIG mode is on, but there is no MIG instance" if said.has("mig-empty") else None,
        cause="a CUDA process sees one MIG instance at most, named by its UUID; an index of another, or of "
        "the whole GPU, is no device to it",
        evidence=(*heard(*spoken, *said.all("no-cuda-device", "cuinit-failed")), *((seen,) if seen else ())),
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
