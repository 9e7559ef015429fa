"""Rules over what XLA, TensorFlow's compiler, says: libdevice and ptxas."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, rule
from tfgpu_doctor.findings.message_log import Said, heard
from tfgpu_doctor.records.report import Fix, Severity

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


@rule(
    "xla.libdevice-missing",
    Severity.ERROR,
    "XLA does not find libdevice",
    needs=("derived.said",),
    docs=_DOCS,
)
def libdevice_missing(context: Context, said: Said) -> Problem | None:
    """XLA compiles mathematical functions with NVIDIA's libdevice.10.bc, which comes with nvcc."""
    seen = said.all("libdevice-not-found")
    failed = [m for m in said.all("jit-failed") if "PTX" not in m.text]
    # "JIT compilation failed" is how this reaches Python, where the line with the reason was not pasted
    possible = (
        not seen and bool(failed) and not said.has("ptxas-refused", "ptxas-not-found", "ptxas-failed", *_OTHERWISE)
    )
    if not seen and not possible:
        return None
    return Problem(
        possible=possible,
        severity=Severity.WARNING if possible else None,
        cause="the file libdevice.10.bc, which XLA links into its kernels, lies in none of the folders where it looks",
        evidence=heard(*seen, *failed),
        fixes=(_nvcc(context), _cuda_data_dir(context)),
    )


@rule(
    "env.xla-flags",
    Severity.ERROR,
    "XLA refuses what the environment sets",
    needs=("derived.said",),
    docs=_DOCS,
)
def flags_refused(context: Context, said: Said) -> Problem | None:
    """An unknown flag ends the process; a value that cannot be read is passed over."""
    seen = said.all("xla-flags-refused")
    if not seen:
        return None
    fatal = any("Unknown flag" in m.text for m in seen)
    clear = "set XLA_FLAGS= & set TF_XLA_FLAGS=" if context.remedies.os == "windows" else "unset XLA_FLAGS TF_XLA_FLAGS"
    return Problem(
        severity=None if fatal else Severity.WARNING,
        cause="flags come and go with releases, and XLA_FLAGS and TF_XLA_FLAGS each know their own; an unknown one "
        "ends the process",
        evidence=heard(*seen),
        fixes=(
            Fix(
                text="Take it out where it is set: shell profile, notebook, or os.environ in the program",
                commands=(clear,),
            ),
        ),
    )


@rule(
    "xla.ptxas-missing",
    Severity.WARNING,
    "XLA finds no ptxas that it can use",
    needs=("derived.said",),
    explained_by=("xla.libdevice-missing", "gpu.arch-*"),
    docs=_DOCS,
)
def ptxas_missing(context: Context, said: Said) -> Problem | None:
    """ptxas is missing, older than XLA allows, or of a version that XLA refuses."""
    refused = said.all("ptxas-refused", "no-arch-in-ptxas")
    absent = said.all("ptx-provider-missing", "ptxas-not-found")
    if not (refused or absent):
        return None
    version = next(iter(said.values("ptxas-refused", "version")), None)
    relies = said.has("driver-compiles-ptx")  # slower, and it goes on
    fatal = (
        said.has("ptx-provider-missing")
        or (said.has("ptxas-failed") and not relies)
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
        evidence=heard(*refused, *absent, *said.all("ptxas-failed", "driver-compiles-ptx")),
        fixes=(_nvcc(context), _cuda_data_dir(context)),
    )
