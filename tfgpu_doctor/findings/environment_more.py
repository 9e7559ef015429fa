"""Environment variables whose effect depends on the machine: GPUs, libraries, packages."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, rule
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.environment import CUDA_VARIABLES, truth, unset
from tfgpu_doctor.findings.memory import how_many
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Candidate, Gpu, Package, Soname, TfDevice, value_or
from tfgpu_doctor.records.report import Evidence, Fix, Severity

LD_SO = "https://man7.org/linux/man-pages/man8/ld.so.8.html"
KERAS_2 = "https://keras.io/getting_started/"
TF32 = "https://docs.nvidia.com/cuda/cublas/index.html"
NCCL = "https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html"
AMPERE = (8, 0)  # the first compute capability with TF32
_SLOWER_TRANSPORTS = {
    "NCCL_P2P_DISABLE": "GPUs exchange data through the host's memory instead of NVLink or PCIe peer access",
    "NCCL_SHM_DISABLE": "GPUs without peer access exchange data through the network stack",
    "NCCL_IB_DISABLE": "machines exchange data over TCP instead of InfiniBand",
}


@rule(
    "env.ld-library-path",
    Severity.WARNING,
    "LD_LIBRARY_PATH puts another CUDA library before the one of the wheels",
    needs=("variables", "loader.sonames"),
    docs=LD_SO,
)
def ld_library_path(context: Context, variables: dict[str, str], libraries: tuple[Soname, ...]) -> Problem | None:
    """A folder on LD_LIBRARY_PATH wins over a wheel's file of another version."""
    seen: list[Evidence] = []
    folders: list[str] = []
    for library in libraries:
        winner = next((one for one in library.candidates if one.path == library.winner), None)
        wheel = next((one for one in library.candidates if _of_a_wheel(one)), None)
        if winner is None or wheel is None or winner.via != "LD_LIBRARY_PATH" or winner.version == wheel.version:
            continue
        if not (winner.version and wheel.version):
            continue
        folders.append(winner.path.rsplit("/", 1)[0])
        seen.append(evidence(f"{library.soname} {winner.version}", winner.path, wheel.version, wheel.path))
    if not seen:
        return None
    path = variables.get("LD_LIBRARY_PATH", "")
    kept = ":".join(part for part in path.split(":") if part and part.rstrip("/") not in folders)
    command = f"export LD_LIBRARY_PATH={context.remedies.quote(kept)}" if kept else "unset LD_LIBRARY_PATH"
    return Problem(
        cause="the loader searches LD_LIBRARY_PATH before the RUNPATH that leads to the wheels",
        evidence=tuple(seen),
        fixes=(Fix(text="Take these folders off it", commands=(command,)),),
    )


def _of_a_wheel(candidate: Candidate) -> bool:
    return (
        candidate.via in ("RUNPATH", "RPATH", "pip wheel")
        and candidate.problem is None
        and ("/nvidia/" in candidate.path)
    )


@rule(
    "env.legacy-keras",
    Severity.NOTE,
    "tf.keras is Keras 2",
    needs=("variables", "derived.release"),
    wants=("python.packages",),
    docs=KERAS_2,
)
def legacy_keras(
    context: Context, variables: dict[str, str], release: Release, packages: tuple[Package, ...] | None
) -> Problem | None:
    """TF_USE_LEGACY_KERAS sends tf.keras to the package tf-keras, from 2.16 on; without that package it fails."""
    value = variables.get("TF_USE_LEGACY_KERAS")
    if value not in ("1", "true", "True") or not _since(release.version, "2.16"):
        return None
    missing = packages is not None and not any(package.name == "tf-keras" for package in packages)
    seen = [evidence(f"TF_USE_LEGACY_KERAS={value}", context.source("variables"))]
    if missing:
        seen.append(evidence("no tf-keras", context.source("python.packages"), "tf-keras of the same minor version"))
        minor = ".".join(release.version.split(".")[:2])
        fix = Fix(text="Install it", commands=context.remedies.pip_install(f"tf-keras~={minor}.0"))
    else:
        fix = Fix(text="For Keras 3, take it away", commands=(unset(context, "TF_USE_LEGACY_KERAS"),))
    return Problem(
        title="tf.keras fails: Keras 2 is asked for, and not installed" if missing else None,
        cause="tf.keras is taken from the package tf-keras instead of Keras 3",
        evidence=tuple(seen),
        fixes=(fix,),
        severity=Severity.WARNING if missing else Severity.NOTE,
    )


def _since(version: str, first: str) -> bool:
    try:
        return Version(version) >= Version(first)
    except InvalidVersion:
        return True


@rule(
    "env.tf32-override",
    Severity.WARNING,
    "TF32 is switched off for every program",
    needs=("variables",),
    wants=("derived.cards",),
    docs=TF32,
)
def tf32_override(context: Context, variables: dict[str, str], cards: tuple[Card, ...] | None) -> Problem | None:
    """NVIDIA_TF32_OVERRIDE=0 matters on Ampere and newer only."""
    value = variables.get("NVIDIA_TF32_OVERRIDE")
    if value != "0" or (cards and all(card.version < AMPERE for card in cards)):
        return None
    return Problem(
        cause="float32 products and convolutions run without tensor cores, several times slower, whatever is asked for",
        evidence=(evidence("NVIDIA_TF32_OVERRIDE=0", context.source("variables"), "unset, unless it is meant"),),
        fixes=(
            Fix(text="Take it away where it is not meant", commands=(unset(context, "NVIDIA_TF32_OVERRIDE"),)),
            Fix(text="In one program: tf.config.experimental.enable_tensor_float_32_execution(False)"),
        ),
    )


@rule(
    "env.cuda-device-order",
    Severity.WARNING,
    "CUDA numbers the GPUs differently from nvidia-smi",
    needs=("variables", "gpus"),
    docs=CUDA_VARIABLES,
)
def device_order(context: Context, variables: dict[str, str], gpus: tuple[Gpu, ...]) -> Problem | None:
    """Unless CUDA_DEVICE_ORDER is PCI_BUS_ID, the fastest GPU is number 0; that differs with unlike GPUs only."""
    chosen = variables.get("CUDA_VISIBLE_DEVICES", "")
    names = {value_or(gpu.name, "") for gpu in gpus}
    by_number = any(part.strip().isdecimal() for part in chosen.split(","))
    if not by_number or len(names) < 2 or variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return None
    order = ", ".join(f"{gpu.index}: {value_or(gpu.name, 'unknown')}" for gpu in gpus)
    return Problem(
        cause="CUDA counts from the fastest GPU on, nvidia-smi along the PCI bus: the number may mean another card",
        evidence=(
            evidence(f"CUDA_VISIBLE_DEVICES={chosen}", context.source("variables"), "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
            evidence(order, context.source("gpus")),
        ),
        fixes=(Fix(text="Number them as nvidia-smi does", commands=("export CUDA_DEVICE_ORDER=PCI_BUS_ID",)),),
    )


@rule(
    "env.nccl",
    Severity.WARNING,
    "A variable keeps NCCL from the fast way between GPUs",
    needs=("variables",),
    wants=("gpus", "tensorflow.devices"),
    docs=NCCL,
)
def nccl(
    context: Context,
    variables: dict[str, str],
    gpus: tuple[Gpu, ...] | None,
    devices: tuple[TfDevice, ...] | None,
) -> Problem | None:
    """NCCL_*_DISABLE is set on a machine with several GPUs."""
    slow = {name: why for name, why in _SLOWER_TRANSPORTS.items() if truth(variables.get(name, "")) is True}
    if not slow or how_many(gpus, devices) < 2:
        return None
    where = context.source("variables")
    return Problem(
        cause="; ".join(slow.values()),
        evidence=tuple(evidence(f"{name}={variables[name]}", where, "unset, unless it is meant") for name in slow),
        fixes=(Fix(text="Take it away where it is not meant", commands=tuple(unset(context, name) for name in slow)),),
    )


@rule(
    "env.keras-backend",
    Severity.WARNING,
    "Keras does not run on TensorFlow",
    needs=("derived.told",),
    docs=KERAS_2,
)
def another_backend(context: Context, said: Said) -> Problem | None:
    """Keras says on import which framework it computes with."""
    seen = said.all("other-backend")
    if not seen:
        return None
    name = seen[0].values["backend"]
    return Problem(
        title=f"Keras computes with {name}, not with TensorFlow",
        cause="KERAS_BACKEND or ~/.keras/keras.json names it, so that what TensorFlow sees of the GPU does not matter",
        evidence=heard(*seen),
        fixes=(Fix(text="Name TensorFlow, before Python starts", commands=("export KERAS_BACKEND=tensorflow",)),),
    )
