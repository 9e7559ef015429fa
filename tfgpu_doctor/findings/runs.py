"""A TensorFlow that imports and fails later."""

from __future__ import annotations

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.phases import how_it_ended, is_wrong, last_lines, was_cut_short
from tfgpu_doctor.records.facts import ComputeCheck, Phase
from tfgpu_doctor.records.report import Fix, Severity

_LATER = ("keras", "build", "devices", "details", "compute", "xla")

RUN_FAILED = finding(
    "tf.run-failed",
    layer="Compute",
    severity=Severity.ERROR,
    title="TensorFlow can be imported, but fails when it is used",
    despite_verified=True,
    cause="the driver, CUDA or cuDNN failed; their last messages are the evidence",
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
        "env.address-space-limit",
        "env.tmpdir-unwritable",
        "env.disk-full",
        "tf.shadowed",
        "tf.install-damaged",
        "tf.package-conflict",
        "tf.abi-*",
        "env.pythonpath",
        "env.keras-backend",
        "env.legacy-keras",
    ),
    docs="https://www.tensorflow.org/install/errors",
)


@RUN_FAILED.sign
def later_phase_failed(
    context: Context, phases: tuple[Phase, ...], checks: tuple[ComputeCheck, ...] | None = None
) -> Problem | None:
    """A phase after the import raised, hung or ended the process, or a computation raised."""
    bad = [p for p in phases if p.name in _LATER and _is_bad(p)]
    seen = [
        item
        for p in bad
        for item in (evidence(f"phase {p.name}: {how_it_ended(p)}", "the child process"), *last_lines(p))
    ]
    raised = [check for check in checks or () if check.error and not is_wrong(check)]
    seen += [evidence(f"{c.kind} on {c.device}: {c.error}", "the child process") for c in raised]
    if not seen:
        return None
    names = ", ".join(p.name for p in bad) or "compute"
    phase = "phases" if len(bad) > 1 else "phase"
    return Problem(
        title=f"TensorFlow can be imported, but fails in the {phase} {names}",
        evidence=tuple(seen),
        fixes=(
            Fix(
                text="See the whole report, with TensorFlow's own log",
                commands=(context.remedies.doctor("--format json"),),
            ),
        ),
    )


def _is_bad(phase: Phase) -> bool:
    return phase.outcome in ("raised", "died", "timeout") and not was_cut_short(phase)


@RUN_FAILED.sign
def later_phase_cut_short(context: Context, phases: tuple[Phase, ...]) -> Problem | None:
    """A phase after the import had less time than it may need."""
    phase = next((one for one in phases if one.name in _LATER and was_cut_short(one)), None)
    return _not_finished(context, phase) if phase else None


def _not_finished(context: Context, phase: Phase) -> Problem:
    return Problem(
        title=f"The phase {phase.name} was not finished in {phase.seconds or 0:.0f} s",
        cause="the time limit of this run was shorter than the phase may take; what follows it is unknown",
        evidence=(evidence(how_it_ended(phase), "the child process"),),
        fixes=(Fix(text="Allow more time", commands=(context.remedies.doctor(),)),),
        severity=Severity.NOTE,
    )
