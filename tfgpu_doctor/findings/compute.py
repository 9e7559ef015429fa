"""Computations on the GPU whose result is wrong."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.findings.phases import is_wrong
from tfgpu_doctor.records.facts import ComputeCheck
from tfgpu_doctor.records.report import Fix, Severity

WRONG_RESULT = finding(
    "compute.wrong-result",
    layer="Compute",
    severity=Severity.ERROR,
    title="A computation on the GPU gave a wrong result",
    despite_verified=True,
    cause="results may differ in the last digits (TF32, another order of summation); a larger difference is a "
    "defect of the kernel, of the build or of the GPU",
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)


@WRONG_RESULT.sign(conclusive=False)
def verification_failed(context: Context, checks: tuple[ComputeCheck, ...]) -> Problem | None:
    """The residual against float64 on the CPU exceeds its tolerance, or the result came from another device."""
    bad = [check for check in checks if is_wrong(check)]
    if not bad:
        return None
    seen = tuple(
        evidence(
            f"{c.kind} on {c.device}: {c.error or f'residual {c.residual}'}"
            + (f", computed on {c.placed_on}" if c.placed_on else ""),
            "verified in float64",
            f"at most {c.tolerance} on {c.device}",
        )
        for c in bad
    )
    return Problem(
        cause="the GPU computes incorrectly (memory errors, overclocking, a hardware fault), or another device did it",
        evidence=seen,
        fixes=(
            Fix(
                text="Check for memory errors",
                commands=("nvidia-smi -q -d ECC,ROW_REMAPPER", "sudo dmesg | grep -i xid"),
            ),
            Fix(text="Undo overclocking, and run it again", commands=(context.remedies.doctor(),)),
        ),
    )


@WRONG_RESULT.sign(unless=("driver.*", "gpu.arch-*", "gpu.fault"))
def different_results_message(context: Context, messages: MessageLog) -> Problem | None:
    """The results of CPU and GPU differ."""
    # XLA's warning about an old ptxas and oneDNN's notice mention wrong results, too, and report none
    seen = [m for m in messages.all("wrong-result") if not re.search(r"ptxas|miscompile|round-off|oneDNN", m.text)]
    corrupted = messages.all("nan-over-several-gpus")  # between the GPUs, most likely
    if not (seen or corrupted) or messages.stops_import:
        return None
    alone = messages.speaks_only_of("wrong-result", "nan-result")
    return Problem(
        possible=not seen,
        severity=None if seen and alone else Severity.WARNING,
        evidence=message_evidence(*seen, *corrupted),
        fixes=(
            Fix(
                text="Verify matrix products and convolutions on this GPU",
                commands=(context.remedies.doctor(), "tfgpu bench matpow"),
            ),
            Fix(text="Rule out TF32: tf.config.experimental.enable_tensor_float_32_execution(False)"),
        ),
    )
