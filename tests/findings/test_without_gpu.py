"""Machines without a GPU have one problem; where no GPU is required, they have none."""

from __future__ import annotations

from typing import Any

from tests.findings.rows_over_facts import NO_DRIVER, NO_GPU_LISTED, WHY, absent, phases
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.facts.facts import Facts, Known, Unknown
from tfgpu_doctor.facts.report import Report, Severity, exit_code, verdict_sentence
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.plan.diagnosis import make_report

NO_GPU: dict[str, Any] = {
    **NO_DRIVER,
    "host.pci_gpus": known(()),
    "driver.cuda_init": WHY,
    "tensorflow.devices": NO_GPU_LISTED,
    "tensorflow.checks": known(()),
}
# what is also wrong with machines that have no GPU
WORSE: dict[str, dict[str, Any]] = {
    "nothing else": {},
    "no CUDA": {"loader.sonames": absent()},
    "no cuDNN": {"loader.sonames": absent("cudnn"), "cudnn.installed": known(()), "cudnn.runtime": Unknown("none")},
    "hidden": {"variables": known({"CUDA_VISIBLE_DEVICES": "-1"})},
}


def report(facts: Facts, **options: Any) -> Report:
    return make_report(facts, MATRIX, source="live", timings={}, **options)


@each("name", WORSE)
def test_without_a_gpu_there_is_one_problem(name: str) -> None:
    found = report(spoil(healthy(), {**NO_GPU, **WORSE[name]}))
    problems = [one.id for one in found.findings if one.root_cause and one.severity is not Severity.NOTE]
    assert problems == ["gpu.none"] and found.verdict == "broken"
    about = [one.id for one in found.findings if DECLARATIONS[one.id].about_gpus]
    assert set(about) == {"gpu.none", "gpu.not-visible"}  # nobody without a GPU wants to know of its libraries


def test_the_first_screen_says_how_to_require_none() -> None:
    found = report(spoil(healthy(), NO_GPU)).findings[0]
    assert any("--require-gpus 0" in command for fix in found.fixes[:2] for command in fix.commands)


@each("name", WORSE)
def test_where_no_gpu_is_required_there_is_none(name: str) -> None:
    found = report(spoil(healthy(), {**NO_GPU, **WORSE[name]}), require_gpus=0)
    assert found.verdict == "ok" and exit_code(found, "error") == 0
    assert {one.id for one in found.findings} == {"gpu.none", "gpu.not-visible"}
    assert verdict_sentence(found) == "TensorFlow runs on the CPU; no GPU is required"


def test_what_stops_tensorflow_on_the_cpu_stays_a_problem() -> None:
    fails = {"tensorflow.phases": phases("import", "raised"), "tensorflow.devices": WHY, "tensorflow.checks": WHY}
    found = report(spoil(healthy(), {**NO_GPU, **fails}), require_gpus=0)
    assert found.verdict == "broken"
    assert [one.id for one in found.findings if one.severity is Severity.ERROR] == ["tf.import-failed"]


def test_an_environment_that_is_made_for_another_machine_is_judged_as_if_there_were_a_gpu() -> None:
    """`tfgpu install` makes images on machines that have none."""
    facts = spoil(healthy(), {**NO_GPU, **WORSE["no CUDA"]})
    found = report(facts, for_any_machine=True)
    missing = next(one for one in found.findings if one.id == "cuda.missing")
    assert missing.severity is Severity.ERROR and missing.fixes


def test_a_gpu_that_tensorflow_lists_is_judged_although_none_is_required() -> None:
    changes = {"tensorflow.checks": healthy().tensorflow.checks, "driver.version": Known("450.80.02", "NVML")}
    ids = [{one.id for one in report(spoil(healthy(), changes), require_gpus=n).findings} for n in (0, 1)]
    assert ids[0] == ids[1]
