"""A TensorFlow that came out after this matrix, of which therefore little can be said."""

from __future__ import annotations

from packaging.version import Version

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.records.report import Fix, Severity

NEWER = finding(
    "tf.newer-than-matrix",
    layer="TensorFlow",
    severity=Severity.NOTE,
    title="This TensorFlow is newer than the compatibility matrix",
    docs="https://github.com/tensorflow/tensorflow/releases",
)


@NEWER.sign
def newer_minor_version(context: Context, tensorflow_version: str) -> Problem | None:
    """A minor version later than that of any row, nightly builds included; its checks are left out."""
    rows = (row.version for row in context.matrix.data.tensorflow if row.package in ("tensorflow", "tf-nightly"))
    newest = max(map(Version, rows), default=None)
    try:
        have = Version(tensorflow_version)
    except ValueError:
        return None
    if newest is None or have.release[:2] <= newest.release[:2]:
        return None
    return Problem(
        cause="its CUDA, cuDNN, kernels and known bugs are not in the matrix; checks that need them are left out",
        evidence=(
            evidence(
                f"TensorFlow {tensorflow_version}",
                context.source("tensorflow.version"),
                f"{newest} or earlier",
                f"compat_matrix.yaml of {context.matrix.revision}",
            ),
        ),
        fixes=(Fix("Update tfgpu, whose matrix may have this release by then"),),
    )
