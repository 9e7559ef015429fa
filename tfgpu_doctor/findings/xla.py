"""Findings about xla."""

from __future__ import annotations

import shlex

from packaging.version import InvalidVersion, Version

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.derived import Card
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.records.facts import ComputeCheck, XlaFile
from tfgpu_doctor.records.report import Fix, Severity

KERAS_SINCE = "2.11"  # Keras' optimizers, and from 2.16 on (Keras 3) whole models, are compiled by XLA on a GPU


SEARCH = "https://github.com/openxla/xla/blob/main/xla/tsl/platform/default/cuda_root_path.cc"


SUBPROCESS = "https://github.com/openxla/xla/blob/main/xla/stream_executor/cuda/subprocess_compilation.cc"


_NEEDS = ("derived.gpu_release", "derived.gpus_usable")


_WANTS = ("cuda.xla_roots", "tensorflow.checks")


def _asks(release: Release, usable: int, checks: tuple[ComputeCheck, ...] | None, word: str) -> Severity | None:
    """How much it matters: an error where XLA has already failed for it, nothing without a GPU or before 2.11."""
    if any(check.kind == "xla" and word in (check.error or "") for check in checks or ()):
        return Severity.ERROR
    works = any(check.kind == "xla" and check.ok for check in checks or ())
    return Severity.WARNING if usable and not works and _since(release.version, KERAS_SINCE) else None


def _since(version: str, first: str) -> bool:
    try:
        return Version(version) >= Version(first)
    except InvalidVersion:
        return True


def _looked(roots: tuple[XlaFile, ...] | None) -> str:
    return ", ".join(root.path for root in roots or ()) or "CUDA's folders"


def _install(context: Context, release: Release) -> tuple[Fix, ...]:
    """The wheel of nvcc brings both, and TensorFlow from 2.14 on looks into it; before that, a toolkit."""
    if _since(release.version, "2.14") and release.cuda:
        major = release.cuda.split(".")[0]
        package = f"nvidia-cuda-nvcc-cu{major}" if int(major) < 13 else "nvidia-cuda-nvcc"
        own = next((f"{package}{need}" for name, need in release.pip_nvidia.items() if name == package), package)
        return (Fix(text="Install NVIDIA's wheel, which brings both", commands=context.remedies.pip_install(own)),)
    named = "export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda"
    text = f"Install the CUDA {release.cuda} toolkit (its nvcc brings both), and name its folder"
    return (Fix(text=text, commands=(named,)),)


def _in_the_way(files: tuple[XlaFile, ...], why: str, severity: Severity) -> Problem:
    """A folder without the file comes first, wherever else the file may be."""
    first = files[0]
    good = next((file for file in files if file.problem is None), None)
    root = good.path.removesuffix("/nvvm/libdevice/libdevice.10.bc") if good else "/path/to/cuda"
    return Problem(
        title=f"XLA looks for libdevice.10.bc in {first.path.rsplit('/', 1)[0]}, where it is not",
        cause=f"the first folder that has nvvm/libdevice counts, by {first.via}. So {why}",
        evidence=(evidence(str(first.problem), first.path, good.path if good else "libdevice.10.bc"),),
        fixes=(
            Fix(
                text="Name a toolkit that has it",
                commands=(f"export XLA_FLAGS={shlex.quote(f'--xla_gpu_cuda_data_dir={root}')}",),
            ),
        ),
        severity=severity,
    )


_DOCS = "https://openxla.org/xla/flags_guidance"


_FATAL = ("jit-failed", "exception", "ptxas-failed", "aborted")


_OTHERWISE = ("out-of-memory", "invalid-ptx", "no-kernel-image", "cuda-error")  # why a compilation fails, too


def _cuda_data_dir(context: Context) -> Fix:
    """Where XLA is told to look."""
    if context.remedies.os == "windows":
        return Fix(
            text="Point XLA to the CUDA folder", commands=('set XLA_FLAGS=--xla_gpu_cuda_data_dir="%CUDA_PATH%"',)
        )
    return Fix(
        text="Point XLA to the folder that holds nvvm/libdevice and bin/ptxas (with conda: $CONDA_PREFIX)",
        commands=("export XLA_FLAGS=--xla_gpu_cuda_data_dir=/usr/local/cuda",),
    )


def _nvcc(context: Context) -> Fix:
    return Fix(
        text="Install NVIDIA's compiler package into the environment (conda: conda install -c nvidia cuda-nvcc)",
        commands=context.remedies.pip_install("nvidia-cuda-nvcc-cu12"),
    )


LIBDEVICE_MISSING = finding(
    "xla.libdevice-missing",
    layer="CUDA",
    severity=Severity.WARNING,
    title="XLA does not find libdevice.10.bc",
    docs="https://github.com/openxla/xla/blob/main/xla/tsl/platform/default/cuda_root_path.cc",
)


@LIBDEVICE_MISSING.sign(conclusive=False)
def libdevice_missing(
    context: Context,
    gpu_release: Release,
    gpus_usable: int,
    libdevice: tuple[XlaFile, ...],
    xla_roots: tuple[XlaFile, ...] | None = None,
    checks: tuple[ComputeCheck, ...] | None = None,
) -> Problem | None:
    """The first folder with nvvm/libdevice decides, even when the file is not in it."""
    severity = _asks(gpu_release, gpus_usable, checks, "libdevice")
    if severity is None or (libdevice and libdevice[0].problem is None):
        return None
    why = "functions that XLA compiles fail as soon as they use exp, pow, sin...: Keras' optimizers and models do"
    if libdevice:
        return _in_the_way(libdevice, why, severity)
    return Problem(
        cause=why,
        evidence=(evidence("no nvvm/libdevice/libdevice.10.bc", _looked(xla_roots), "in one of these folders"),),
        fixes=_install(context, gpu_release),
        severity=severity,
    )


@LIBDEVICE_MISSING.sign
def libdevice_missing_reported(context: Context, messages: MessageLog) -> Problem | None:
    """XLA compiles mathematical functions with NVIDIA's libdevice.10.bc, which comes with nvcc."""
    seen = messages.all("libdevice-not-found")
    failed = [m for m in messages.all("jit-failed") if "PTX" not in m.text]
    # "JIT compilation failed" is how this reaches Python, where the line with the reason was not pasted
    possible = (
        not seen and bool(failed) and not messages.has("ptxas-refused", "ptxas-not-found", "ptxas-failed", *_OTHERWISE)
    )
    if not seen and not possible:
        return None
    return Problem(
        possible=possible,
        severity=Severity.WARNING if possible else Severity.ERROR,
        cause="the file libdevice.10.bc, which XLA links into its kernels, lies in none of the folders where it looks",
        evidence=message_evidence(*seen, *failed),
        fixes=(_nvcc(context), _cuda_data_dir(context)),
    )


PTXAS_MISSING = finding(
    "xla.ptxas-missing",
    layer="CUDA",
    severity=Severity.WARNING,
    title="XLA finds no ptxas that it accepts",
    explained_by=("xla.libdevice-missing", "gpu.arch-*"),
    docs="https://github.com/openxla/xla/blob/main/xla/stream_executor/cuda/subprocess_compilation.cc",
)


@PTXAS_MISSING.sign(conclusive=False)
def ptxas_missing(
    context: Context,
    gpu_release: Release,
    gpus_usable: int,
    ptxas: tuple[XlaFile, ...],
    xla_roots: tuple[XlaFile, ...] | None = None,
    checks: tuple[ComputeCheck, ...] | None = None,
    cards: tuple[Card, ...] | None = None,
) -> Problem | None:
    """None is there, or the one that comes first is refused or known to compile wrongly (the matrix says which)."""
    severity = _asks(gpu_release, gpus_usable, checks, "ptxas")
    if severity is None:
        return None
    if not ptxas:
        return Problem(
            cause="what XLA compiles cannot be turned into machine code: Keras' optimizers and models are compiled",
            evidence=(
                evidence("no ptxas", f"PATH and the bin folders of {_looked(xla_roots)}", "an executable ptxas"),
            ),
            fixes=_install(context, gpu_release),
            severity=severity,
        )
    capabilities = [card.compute_capability for card in cards or ()]
    for file in ptxas:
        issues = [
            issue
            for issue in context.matrix.issues_for(gpu_release, ptxas=file.version, compute_capabilities=capabilities)
            if issue.condition.ptxas and issue.affects == "run"
        ]
        if not issues:
            return None
        passed_over = all("passes over" in issue.title for issue in issues)
        if passed_over and file is not ptxas[-1]:
            continue  # XLA goes on to the next one
        issue = issues[0]
        commands = tuple(c.replace("python3 -m pip", f"{context.remedies.python} -m pip") for c in issue.commands)
        return Problem(
            title=f"ptxas {file.version}: {issue.title}",
            cause=issue.symptom,
            evidence=(evidence(f"ptxas {file.version} ({file.via})", file.path, "another version", issue.source),),
            fixes=(Fix(text=issue.fix, commands=commands),),
            severity=severity if issue.severity == "warning" else Severity.ERROR,
        )
    return None


@PTXAS_MISSING.sign
def ptxas_missing_reported(context: Context, messages: MessageLog) -> Problem | None:
    """ptxas is missing, older than XLA allows, or of a version that XLA refuses."""
    refused = messages.all("ptxas-refused", "no-arch-in-ptxas")
    absent = messages.all("ptx-provider-missing", "ptxas-not-found")
    if not (refused or absent):
        return None
    version = next(iter(messages.values("ptxas-refused", "version")), None)
    relies = messages.has("driver-compiles-ptx")  # slower, and it goes on
    fatal = (
        messages.has("ptx-provider-missing")
        or (messages.has("ptxas-failed") and not relies)
        or any("F " in m.text[:40] for m in (*refused, *absent))
    )
    title = (
        f"XLA refuses ptxas {version}"
        if version
        else "The ptxas that XLA finds is too old"
        if refused and not absent
        else None
    )
    return Problem(
        title=title,
        severity=Severity.ERROR if fatal else None,
        cause="XLA compiles with ptxas, and takes the first one that it finds; without a usable one it leaves the work "
        "to the driver, or stops",
        evidence=message_evidence(*refused, *absent, *messages.all("ptxas-failed", "driver-compiles-ptx")),
        fixes=(_nvcc(context), _cuda_data_dir(context)),
    )
