"""What was computed and verified outranks lists of files: on the reports of a real H100, edited."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.healthy import MATRIX, known, spoil
from tests.tables import each
from tfgpu_doctor.facts.facts import CallResult, ComputeCheck, DamagedPackage, Facts, value_or
from tfgpu_doctor.facts.report import Report, Severity, load_report
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.plan.diagnosis import make_report

H100 = Path(__file__).parents[1] / "captures" / "h100" / "doctor"
SITE = "/home/user/tf/lib/python3.12/site-packages"
Edit = Callable[[Facts], Facts]


def saved(name: str) -> Report:
    return load_report((H100 / name).read_bytes(), name)


def judged(facts: Facts, **options: Any) -> Report:
    return make_report(facts, MATRIX, source="report", timings={}, **options)


def _damaged(facts: Facts, name: str, version: str, path: str) -> Facts:
    record = f"{SITE}/{name.replace('-', '_')}-{version}.dist-info/RECORD"
    one = DamagedPackage(name=name, version=version, record=record, missing=(path,), files=1)
    return spoil(facts, {"python.damaged": known((one,), "RECORD of the installed packages")})


def cudnn_ops_gone(facts: Facts) -> Facts:
    """libcudnn_ops.so.9 of the wheel was moved away; that of the machine's own cuDNN 9.14 was loaded."""
    ours, theirs = f"{SITE}/nvidia/cudnn/lib/libcudnn_ops.so.9", "/usr/lib/x86_64-linux-gnu/libcudnn_ops.so.9.14.0"
    before = value_or(facts.loader.loaded, ())
    assert ours in before
    loaded = tuple(theirs if path == ours else path for path in before)
    facts = spoil(facts, {"loader.loaded": known(loaded, facts.loader.loaded.source)})
    return _damaged(facts, "nvidia-cudnn-cu12", "9.28.0.42", "nvidia/cudnn/lib/libcudnn_ops.so.9")


def ptxas_gone(facts: Facts) -> Facts:
    """The wheel's ptxas was moved away; XLA used the toolkit's."""
    return _damaged(facts, "nvidia-cuda-nvcc-cu12", "12.9.86", "nvidia/cuda_nvcc/bin/ptxas")


def nvml_mismatch(facts: Facts) -> Facts:
    """The driver was updated under a running kernel module: NVML refuses, and CUDA computes."""
    answer = CallResult(code=18, message="Driver/library version mismatch", name="NVML_ERROR_LIB_RM_VERSION_MISMATCH")
    return spoil(facts, {"driver.nvml_init": known(answer, "nvmlInit")})


@each(
    ("edit", "finding", "seen"),
    [
        (cudnn_ops_gone, "tf.install-damaged", "nvidia/cudnn/lib/libcudnn_ops.so.9 is missing"),
        (ptxas_gone, "tf.install-damaged", "nvidia/cuda_nvcc/bin/ptxas is missing"),
        (nvml_mismatch, "driver.version-mismatch", "matmul, conv2d and XLA give correct results on 1 GPU"),
    ],
)
def test_a_verified_computation_makes_it_a_warning(edit: Edit, finding: str, seen: str) -> None:
    report = judged(edit(saved("fixed.json").facts))
    first = report.findings[0]
    assert (report.verdict, first.id, first.severity) == ("degraded", finding, Severity.WARNING)
    assert any(line.saw.startswith(seen) for line in first.evidence), first.evidence


@each("kind", ["matmul", "conv2d", "xla"])
def test_a_failed_computation_leaves_it_an_error(kind: str) -> None:
    facts = saved("fixed.json").facts
    failed = tuple(
        ComputeCheck(one.device, one.kind, ok=False, error="InternalError: no kernel") if one.kind == kind else one
        for one in value_or(facts.tensorflow.checks, ())
    )
    report = judged(cudnn_ops_gone(spoil(facts, {"tensorflow.checks": known(failed)})))
    assert (report.verdict, report.findings[0].id) == ("broken", "tf.install-damaged")


def test_gpus_that_are_missing_stay_an_error() -> None:
    report = judged(cudnn_ops_gone(saved("fixed.json").facts), require_gpus=2)
    errors = {one.id for one in report.findings if one.severity is Severity.ERROR}
    assert report.verdict == "broken" and "gpu.fewer-than-required" in errors


def test_what_a_small_computation_does_not_reach_is_declared() -> None:
    layers = {one.layer for one in DECLARATIONS.values() if one.despite_verified and one.severity is Severity.ERROR}
    assert layers <= {"GPU", "Driver", "Devices", "Compute"}  # never what files and packages suggest


def test_the_saved_reports_judge_as_the_machine_did() -> None:
    installed, fixed = (judged(saved(name).facts) for name in ("as-installed.json", "fixed.json"))
    assert (installed.verdict, installed.findings[0].id) == ("broken", "cuda.lib-path")
    assert (fixed.verdict, fixed.findings) == ("ok", ())
