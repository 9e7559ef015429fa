"""What was computed and verified outranks what lists of files and versions suggest (DESIGN, law 12). Pure.

Where every phase of the examination ended well, and a matrix product, a convolution and a function compiled by XLA were
verified, an error that says that TensorFlow cannot use the GPU is contradicted: it becomes a warning, with what was
verified as evidence. Findings that a small computation does not reach declare so (`despite_verified`).
"""

from __future__ import annotations

from dataclasses import replace

import msgspec

from tfgpu_doctor.diagnosis.arranging import Found
from tfgpu_doctor.findings.context import Context
from tfgpu_doctor.findings.declaration import evidence
from tfgpu_doctor.records.facts import Facts, value_or
from tfgpu_doctor.records.report import Evidence, Severity
from tfgpu_doctor.records.units import count

_PER_GPU = frozenset({"matmul", "conv2d"})


def contradicted_as_warnings(found: list[Found], context: Context) -> list[Found]:
    """Return the findings, with errors that verified computations contradict as warnings."""
    verified = _verified(context)
    return [_softened(one, verified) if verified else one for one in found]


def _softened(one: Found, verified: Evidence) -> Found:
    beyond = one.declared.despite_verified or one.problem.despite_verified
    if beyond or one.finding.severity is not Severity.ERROR:
        return one
    lines = (*one.finding.evidence, verified)
    return replace(one, finding=msgspec.structs.replace(one.finding, severity=Severity.WARNING, evidence=lines))


def _verified(context: Context) -> Evidence | None:
    """Return what was verified, as evidence; None unless it was everything, on all GPUs that are there or required."""
    facts = context.facts
    gpus = [one for one in value_or(facts.tensorflow.devices, ()) if one.kind == "GPU"]
    wanted = max(context.require_gpus or 1, value_or(facts.driver.cuda_device_count, 0))
    if not context.probed or len(gpus) < wanted or not _all_went_well(facts, len(gpus)):
        return None
    text = f"matmul, conv2d and XLA give correct results on {count(len(gpus), 'GPU')}"
    return evidence(text, context.source("tensorflow.checks"))


def _all_went_well(facts: Facts, gpus: int) -> bool:
    """True if no phase failed and no computation, and each kind was done where the probe does it."""
    checks = value_or(facts.tensorflow.checks, ())
    devices = {kind: {check.device for check in checks if check.kind == kind} for kind in (*_PER_GPU, "xla")}
    complete = all(len(devices[kind]) == gpus for kind in _PER_GPU) and bool(devices["xla"])
    phases_ok = all(phase.outcome in ("ok", "skipped") for phase in facts.tensorflow.phases)
    return complete and phases_ok and all(check.ok for check in checks)
