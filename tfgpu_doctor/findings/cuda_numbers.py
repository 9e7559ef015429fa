"""Finding about a question: nvidia-smi and nvcc show different CUDA versions, and which one does TensorFlow use?"""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.records.facts import Nvcc
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.versions import at_least, major, minor

DIFFER = finding(
    "cuda.versions-differ",
    layer="CUDA",
    severity=Severity.NOTE,
    answers=True,
    title="nvidia-smi and nvcc show different CUDA versions, and TensorFlow uses neither number",
    pointless_after=("cuda.version-mismatch", "cuda.missing", "cuda.lib-path", "driver.too-old"),
    docs="https://docs.nvidia.com/deploy/cuda-compatibility/",
)
_LOADED = (
    "TensorFlow loads the CUDA that it was built for{}, from pip's packages or from where the loader finds it; from a "
    "toolkit it uses at most ptxas and libdevice"
)
_MINOR_COMPATIBILITY = "11.0"  # from here on, a driver runs every CUDA of the major version that it supports


@DIFFER.sign
def asked_about(context: Context, messages: MessageLog, release: Release | None = None) -> Problem | None:
    """Somebody compares the two numbers in a sentence."""
    found = messages.first("cuda-versions-compared")
    if context.probed or found is None:
        return None
    smi, nvcc = found.values["smi"], found.values["nvcc"]
    if smi == nvcc:
        return None
    where = f"line {found.line}"
    return _answer(context, release, (smi, where), (nvcc, where))


@DIFFER.sign
def printed(
    context: Context, messages: MessageLog, cuda_supported: str, nvcc: Nvcc, release: Release | None = None
) -> Problem | None:
    """The outputs of both programs, in a text without a failure that could be the question."""
    if context.probed or messages.complains or minor(nvcc.version) == minor(cuda_supported):
        return None
    sources = context.source("driver.cuda_supported"), context.source("cuda.nvcc")
    return _answer(context, release, (cuda_supported, sources[0]), (minor(nvcc.version), sources[1]))


def _answer(context: Context, release: Release | None, smi: tuple[str, str], nvcc: tuple[str, str]) -> Problem:
    """Both numbers, each with where it was read, and what they mean."""
    meaning = f"{smi[0]} is the newest CUDA that the driver supports, {nvcc[0]} the toolkit on PATH; they may differ"
    loaded = _LOADED.format(f", CUDA {minor(release.cuda)}" if release and release.cuda else "")
    newest = _newest(context.matrix, smi[0])
    reach = f". The driver is new enough for TensorFlow up to {newest.version} (CUDA {newest.cuda})" if newest else ""
    command = "import tensorflow as tf; print(tf.sysconfig.get_build_info())"
    python = "python" if context.remedies.os == "windows" else "python3"
    return Problem(
        title=f"TensorFlow {release.version} uses CUDA {minor(release.cuda)}, whatever nvidia-smi and nvcc show"
        if release and release.cuda
        else None,
        cause=f"{meaning}. {loaded}{reach}",
        evidence=tuple(evidence(f"CUDA {version}", where) for version, where in (smi, nvcc)),
        fixes=(
            Fix("Change neither; see which CUDA this TensorFlow was built for", (f'{python} -c "{command}"',)),
            Fix("See whether it finds that CUDA", ("tfgpu doctor",)),
        ),
    )


def _newest(matrix: Matrix, supported: str) -> Release | None:
    """The newest release whose CUDA a driver runs that supports this one."""
    for row in matrix.stable(platform="linux_x86_64", package="tensorflow"):
        if row.cuda is None:
            continue
        by_major = at_least(supported, _MINOR_COMPATIBILITY) and major(row.cuda) == major(supported)
        if by_major or at_least(supported, minor(row.cuda)):
            return row
    return None
