"""Findings about runs."""

from __future__ import annotations

from tfgpu_doctor.findings.build import _LATER, _is_wrong
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.phases import how_it_ended, last_lines
from tfgpu_doctor.records.facts import ComputeCheck, Phase
from tfgpu_doctor.records.report import Fix, Severity

RUN_FAILED = finding(
    "tf.run-failed",
    layer="Compute",
    severity=Severity.ERROR,
    title="TensorFlow imports, but fails when it is used",
    explained_by=(
        "driver.*",
        "gpu.arch-*",
        "gpu.fault",
        "gpu.mig",
        "cuda.*",
        "cudnn.*",
        "tf.import-avx",
        "compute.*",
        "memory.*",
        "xla.*",
        "env.gpu-thread-mode",
        "tf.shadowed",
    ),
    docs="https://www.tensorflow.org/install/errors",
)


@RUN_FAILED.sign
def run_failed(
    context: Context, phases: tuple[Phase, ...], checks: tuple[ComputeCheck, ...] | None = None
) -> Problem | None:
    """A phase after the import raised, hung or ended the process, or a computation raised."""
    bad = [p for p in phases if p.name in _LATER and p.outcome in ("raised", "died", "timeout")]
    seen = [
        item
        for p in bad
        for item in (evidence(f"phase {p.name}: {how_it_ended(p)}", "the child process"), *last_lines(p))
    ]
    raised = [check for check in checks or () if check.error and not _is_wrong(check)]
    seen += [evidence(f"{c.kind} on {c.device}: {c.error}", "the child process") for c in raised]
    if not seen:
        return None
    names = ", ".join(p.name for p in bad) or "compute"
    phase = "phases" if len(bad) > 1 else "phase"
    return Problem(
        title=f"TensorFlow imports, but fails in the {phase} {names}",
        cause="the driver, CUDA or cuDNN failed underneath; its last words are the evidence",
        evidence=tuple(seen),
        fixes=(
            Fix(
                text="See the whole report, with TensorFlow's own log",
                commands=(context.remedies.doctor("--format json"),),
            ),
        ),
    )
