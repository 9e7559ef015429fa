"""Environment variables whose effect depends on the machine: its GPUs, libraries and packages."""

from __future__ import annotations

import re
from collections.abc import Collection

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.library_fixes import off_library_path, on_library_path
from tfgpu_doctor.findings.phases import import_fails
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import Candidate, Gpu, Package, Phase, ShadowedModule, Soname, value_or
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.versions import at_least, minor

UNSET = "Unset it, unless you set it on purpose"
AMPERE = (8, 0)  # the first compute capability with TF32
_SLOWER_TRANSPORTS = {
    "NCCL_P2P_DISABLE": "GPUs exchange data through the host's memory instead of NVLink or PCIe peer access",
    "NCCL_SHM_DISABLE": "GPUs without peer access exchange data through the network stack",
    "NCCL_IB_DISABLE": "machines exchange data over TCP instead of InfiniBand",
}


LD_LIBRARY_PATH = finding(
    "env.ld-library-path",
    layer="Python",
    severity=Severity.WARNING,
    title="LD_LIBRARY_PATH puts another CUDA library before the one of the wheels",
    docs="https://man7.org/linux/man-pages/man8/ld.so.8.html",
)


def _of_a_wheel(candidate: Candidate) -> bool:
    by_runpath = candidate.via in ("RUNPATH", "RPATH", "pip wheel")
    return by_runpath and candidate.problem is None and "/nvidia/" in candidate.path


def _before_a_wheel(library: Soname) -> tuple[Candidate, Candidate] | None:
    """The file on LD_LIBRARY_PATH that is loaded instead of a wheel's of another version."""
    winner = next((file for file in library.candidates if file.path == library.winner), None)
    wheel = next((file for file in library.candidates if _of_a_wheel(file)), None)
    if winner is None or wheel is None or winner.via != "LD_LIBRARY_PATH":
        return None
    differ = winner.version and wheel.version and winner.version != wheel.version
    return (winner, wheel) if differ else None


@LD_LIBRARY_PATH.sign
def ld_library_path(context: Context, sonames: tuple[Soname, ...]) -> Problem | None:
    """A folder on LD_LIBRARY_PATH comes before a wheel's file of another version."""
    pairs = [(library, *pair) for library in sonames if (pair := _before_a_wheel(library))]
    if not pairs:
        return None
    return Problem(
        cause="the loader searches LD_LIBRARY_PATH before the RUNPATH that leads to the wheels",
        evidence=tuple(
            evidence(f"{library.soname} {winner.version}", winner.path, wheel.version, wheel.path)
            for library, winner, wheel in pairs
        ),
        fixes=off_library_path(context, on_library_path(winner for _, winner, _ in pairs)),
    )


PYTHONPATH = finding(
    "env.pythonpath",
    layer="Python",
    severity=Severity.WARNING,
    title="PYTHONPATH leads to the packages of another Python",
    cause="Python searches PYTHONPATH before the packages of its own environment; compiled modules of another Python "
    "version cannot be loaded",
    docs="https://docs.python.org/3/using/cmdline.html#envvar-PYTHONPATH",
)
_PACKAGES_OF = re.compile(r"[\\/]python(\d\.\d+)[\\/](?:site|dist)-packages[\\/]?$", re.IGNORECASE)


@PYTHONPATH.sign
def packages_of_another_python(
    context: Context, variables: dict[str, str], python_version: str, phases: tuple[Phase, ...] | None = None
) -> Problem | None:
    """A folder of PYTHONPATH belongs to an interpreter of another minor version."""
    separator = ";" if context.remedies.os == "windows" else ":"
    folders = variables.get("PYTHONPATH", "").split(separator)
    others = [folder for folder in folders if (of := _PACKAGES_OF.search(folder)) and of[1] != minor(python_version)]
    if not others:
        return None
    fails = import_fails(phases)
    return Problem(
        evidence=tuple(
            evidence(
                folder, "PYTHONPATH", f"folders of Python {minor(python_version)}", context.source("python.version")
            )
            for folder in others
        ),
        fixes=_off_pythonpath(context, variables, others),
        severity=Severity.ERROR if fails else None,
        rank_first=fails,
    )


def _off_pythonpath(context: Context, variables: dict[str, str], folders: Collection[str]) -> tuple[Fix, ...]:
    command = context.remedies.without_folders("PYTHONPATH", variables.get("PYTHONPATH", ""), folders)
    return (Fix(text="Remove these folders from PYTHONPATH", commands=(command,) if command else ()),)


@PYTHONPATH.sign
def other_packages_first(
    context: Context, variables: dict[str, str], modules_in_the_way: tuple[ShadowedModule, ...]
) -> Problem | None:
    """A folder of PYTHONPATH has a module that TensorFlow cannot use, and that the environment has, too."""
    found = [one for one in modules_in_the_way if one.via == "PYTHONPATH"]
    if not found:
        return None
    theirs = {re.sub(r"[\\/][^\\/]+$", "", one.path) for one in found}
    first = found[0]
    return Problem(
        title=f"PYTHONPATH puts {first.module} {first.version or 'of another folder'} before {first.package} "
        f"{first.package_version} of this environment",
        cause="Python searches PYTHONPATH before the packages of its own environment, and pip changes only the latter",
        evidence=tuple(
            evidence(f"{one.module} {one.version or ''}".strip(), one.path, f"{one.package} {one.package_version}")
            for one in found
        ),
        fixes=_off_pythonpath(context, variables, theirs),
        severity=Severity.ERROR,
        rank_first=True,
    )


LEGACY_KERAS = finding(
    "env.legacy-keras",
    layer="Python",
    severity=Severity.NOTE,
    title="tf.keras is Keras 2",
    docs="https://keras.io/getting_started/",
)


@LEGACY_KERAS.sign
def legacy_keras(
    context: Context,
    variables: dict[str, str],
    release: Release,
    packages: tuple[Package, ...] | None = None,
    phases: tuple[Phase, ...] | None = None,
) -> Problem | None:
    """TF_USE_LEGACY_KERAS sends tf.keras to the package tf-keras, from 2.16 on; without that package it fails."""
    value = variables.get("TF_USE_LEGACY_KERAS")
    if value not in ("1", "true", "True") or not at_least(release.version, "2.16"):
        return None
    missing = packages is not None and not any(package.name == "tf-keras" for package in packages)
    seen = [evidence(f"TF_USE_LEGACY_KERAS={value}", context.source("variables"))]
    if missing:
        seen.append(evidence("no tf-keras", context.source("python.packages"), "tf-keras of the same minor version"))
        package = f"tf-keras~={minor(release.version)}.0"
        fixes = context.remedies.installing("Install it", package)
    else:
        fixes = (Fix(text="Unset it to use Keras 3", commands=(context.remedies.unset("TF_USE_LEGACY_KERAS"),)),)
    return Problem(
        title="tf.keras fails: TF_USE_LEGACY_KERAS asks for Keras 2, which is not installed" if missing else None,
        cause="tf.keras is taken from the package tf-keras instead of Keras 3",
        evidence=tuple(seen),
        fixes=fixes,
        severity=Severity.NOTE if not missing else Severity.ERROR if import_fails(phases) else Severity.WARNING,
    )


TF32_OVERRIDE = finding(
    "env.tf32-override",
    layer="Python",
    severity=Severity.WARNING,
    title="NVIDIA_TF32_OVERRIDE turns off TF32 for every program",
    docs="https://docs.nvidia.com/cuda/cublas/index.html",
)


@TF32_OVERRIDE.sign
def tf32_override(context: Context, variables: dict[str, str], cards: tuple[Card, ...] | None = None) -> Problem | None:
    """NVIDIA_TF32_OVERRIDE=0 matters on Ampere and newer only."""
    value = variables.get("NVIDIA_TF32_OVERRIDE")
    if value != "0" or (cards and all(card.version < AMPERE for card in cards)):
        return None
    return Problem(
        cause="float32 products and convolutions run without tensor cores, several times slower than with TF32",
        evidence=(evidence("NVIDIA_TF32_OVERRIDE=0", context.source("variables"), "unset"),),
        fixes=(
            Fix(text=UNSET, commands=(context.remedies.unset("NVIDIA_TF32_OVERRIDE"),)),
            Fix(text="In one program: tf.config.experimental.enable_tensor_float_32_execution(False)"),
        ),
    )


CUDA_DEVICE_ORDER = finding(
    "env.cuda-device-order",
    layer="Python",
    severity=Severity.WARNING,
    title="CUDA numbers the GPUs differently from nvidia-smi",
    docs="https://docs.nvidia.com/cuda/cuda-programming-guide/05-appendices/environment-variables.html",
)


@CUDA_DEVICE_ORDER.sign
def device_order(context: Context, variables: dict[str, str], gpus: tuple[Gpu, ...]) -> Problem | None:
    """Unless CUDA_DEVICE_ORDER is PCI_BUS_ID, the fastest GPU is number 0; that differs with unlike GPUs only."""
    chosen = variables.get("CUDA_VISIBLE_DEVICES", "")
    names = {value_or(gpu.name, "") for gpu in gpus}
    by_number = any(part.strip().isdecimal() for part in chosen.split(","))
    if not by_number or len(names) < 2 or variables.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return None
    order = ", ".join(f"{gpu.index}: {value_or(gpu.name, 'unknown')}" for gpu in gpus)
    return Problem(
        cause="CUDA numbers GPUs from the fastest on, nvidia-smi by PCI bus: the same number can mean another GPU",
        evidence=(
            evidence(f"CUDA_VISIBLE_DEVICES={chosen}", context.source("variables"), "CUDA_DEVICE_ORDER=PCI_BUS_ID"),
            evidence(order, context.source("gpus")),
        ),
        fixes=(Fix(text="Number them as nvidia-smi does", commands=("export CUDA_DEVICE_ORDER=PCI_BUS_ID",)),),
    )


ENV_NCCL = finding(
    "env.nccl",
    layer="Python",
    severity=Severity.WARNING,
    title="An NCCL variable disables a fast transport between GPUs",
    docs="https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html",
)


@ENV_NCCL.sign
def nccl(
    context: Context,
    variables: dict[str, str],
    gpu_count: int | None = None,
) -> Problem | None:
    """NCCL_*_DISABLE is set on a machine with several GPUs."""
    slow = {name: why for name, why in _SLOWER_TRANSPORTS.items() if variables.get(name, "").lower() in ("1", "true")}
    if not slow or (gpu_count or 0) < 2:
        return None
    where = context.source("variables")
    return Problem(
        cause="; ".join(slow.values()),
        evidence=tuple(evidence(f"{name}={variables[name]}", where, "unset") for name in slow),
        fixes=(Fix(text=UNSET, commands=(context.remedies.unset(*slow),)),),
    )
