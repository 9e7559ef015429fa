"""Findings about compute."""

from __future__ import annotations

import re

from tfgpu_doctor.findings.build import _is_wrong
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import Problem, evidence, finding
from tfgpu_doctor.findings.message_log import MessageLog, message_evidence
from tfgpu_doctor.records.facts import ComputeCheck
from tfgpu_doctor.records.report import Fix, Severity

WRONG_RESULT = finding(
    "compute.wrong-result",
    layer="Compute",
    severity=Severity.ERROR,
    title="A computation on the GPU gave a wrong result",
    docs="https://docs.nvidia.com/deploy/xid-errors/index.html",
)


@WRONG_RESULT.sign(conclusive=False)
def wrong_result(context: Context, checks: tuple[ComputeCheck, ...]) -> Problem | None:
    """The residual against float64 on the CPU is beyond its tolerance, or the result came from another device."""
    bad = [check for check in checks if _is_wrong(check)]
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
        cause="the card computes wrongly (memory errors, overclocking, a defect), or the work was done elsewhere",
        evidence=seen,
        fixes=(
            Fix(
                text="Look for memory errors",
                commands=("nvidia-smi -q -d ECC,ROW_REMAPPER", "sudo dmesg | grep -i xid"),
            ),
            Fix(text="Take back overclocking and run it again", commands=(context.remedies.doctor(),)),
        ),
    )


@WRONG_RESULT.sign(unless=("driver.*", "gpu.arch-*", "gpu.fault"))
def wrong_result_reported(messages: MessageLog) -> Problem | None:
    """Somebody compares CPU and GPU and finds another result."""
    # XLA's warning about an old ptxas and oneDNN's notice speak of wrong results, too, and report none
    seen = [m for m in messages.all("wrong-result") if not re.search(r"ptxas|miscompile|round-off|oneDNN", m.text)]
    lost = messages.all("nan-over-several-gpus")  # on their way from card to card, most likely
    if not (seen or lost) or messages.stops_import:
        return None
    alone = messages.speaks_only_of("wrong-result", "nan-result")
    return Problem(
        possible=not seen,
        severity=None if seen and alone else Severity.WARNING,
        cause="TF32 and other orders of summation differ in the last digits; a larger difference is a defect of the "
        "kernel, of the build, or of the card",
        evidence=message_evidence(*seen, *lost),
        fixes=(
            Fix(
                text="Verify matrix products and convolutions on this card",
                commands=("tfgpu doctor", "tfgpu bench matpow"),
            ),
            Fix(text="Rule TF32 out: tf.config.experimental.enable_tensor_float_32_execution(False)"),
        ),
    )
