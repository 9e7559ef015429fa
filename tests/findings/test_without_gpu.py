"""Machines without a GPU, GPUs that are required, and findings that are left out: --only, --skip, --list-checks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.cli.runner import tfgpu
from tests.findings.rows_over_facts import NO_DRIVER, NO_GPU_LISTED, WHY, absent, phases
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.facts.facts import Known, Phase, Unknown
from tfgpu_doctor.facts.report import Report, Severity, exit_code, verdict_sentence
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.engine import restrict
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


def report(changes: Mapping[str, Any] = {}, **options: Any) -> Report:
    """Judge a machine without a GPU."""
    return make_report(spoil(healthy(), {**NO_GPU, **changes}), MATRIX, source="live", timings={}, **options)


def ids(one: Report) -> list[str]:
    return [finding.id for finding in one.findings]


@each("name", WORSE)
def test_without_a_gpu_there_is_one_problem_and_none_where_no_gpu_is_required(name: str) -> None:
    found = report(WORSE[name])
    problems = [one.id for one in found.findings if one.root_cause and one.severity is not Severity.NOTE]
    assert problems == ["gpu.none"] and found.verdict == "broken"
    about = [one.id for one in found.findings if DECLARATIONS[one.id].about_gpus]
    assert set(about) == {"gpu.none", "gpu.not-visible"}  # nobody without a GPU wants to know of its libraries
    assert any("--require-gpus 0" in command for fix in found.findings[0].fixes[:2] for command in fix.commands)
    found = report(WORSE[name], require_gpus=0)
    assert found.verdict == "ok" and exit_code(found, "error") == 0
    assert set(ids(found)) == {"gpu.none", "gpu.not-visible"}
    assert verdict_sentence(found) == "TensorFlow runs on the CPU; no GPU is required"


def test_the_build_for_the_cpu_is_named_to_who_looks_for_a_gpu() -> None:
    for package, is_named in (("tensorflow-cpu", True), ("tensorflow", False)):
        first = report({"tensorflow.distribution": known(package)}).findings[0].fixes[0]
        assert ("tensorflow-cpu" in first.text) is is_named


def test_what_stops_tensorflow_on_the_cpu_stays_a_problem() -> None:
    unknown = {"tensorflow.devices": WHY, "tensorflow.checks": WHY}
    for phase, title in (("import", "TensorFlow cannot be imported"), ("devices", "TensorFlow fails to list its")):
        found = report({"tensorflow.phases": phases(phase, "raised"), **unknown}, require_gpus=0)
        errors = [one.id for one in found.findings if one.severity is Severity.ERROR]
        assert errors == [f"tf.{'import' if phase == 'import' else 'run'}-failed"] and title in verdict_sentence(found)


def test_an_environment_that_is_made_for_another_machine_is_judged_as_if_there_were_a_gpu() -> None:
    """`tfgpu install` makes images on machines that have none."""
    found = report(WORSE["no CUDA"], for_any_machine=True)
    missing = next(one for one in found.findings if one.id == "cuda.missing")
    assert missing.severity is Severity.ERROR and missing.fixes


def test_a_gpu_that_tensorflow_lists_is_judged_although_none_is_required() -> None:
    facts = spoil(healthy(), {"driver.version": Known("450.80.02", "NVML")})
    judged = [make_report(facts, MATRIX, source="live", timings={}, require_gpus=n) for n in (0, 1)]
    assert set(ids(judged[0])) == set(ids(judged[1]))


def test_a_skipped_cause_takes_its_consequences_along() -> None:
    whole = report()
    assert ids(whole)[0] == "gpu.none" and "gpu.not-visible" in ids(whole)
    without = restrict(whole, (), ("gpu.none",))
    assert not {"gpu.none", "gpu.not-visible"} & set(ids(without)) and without.verdict in ("degraded", "ok")
    kept = restrict(whole, ("gpu.none",), ())
    assert (ids(kept), kept.findings[0].consequences, kept.verdict) == (["gpu.none"], (), "broken")


def test_required_gpus_are_missing_whatever_else_is_left_out() -> None:
    one = report(require_gpus=1)
    (finding,) = restrict(one, (), ("gpu.none", "gpu.not-visible"), require_gpus=1).findings
    assert (finding.id, finding.root_cause) == ("gpu.fewer-than-required", True)
    assert restrict(one, (), ("gpu.none", "gpu.not-visible"), require_gpus=1).verdict == "broken"
    assert restrict(one, (), ("gpu.*",), require_gpus=1).findings == ()


def test_where_no_gpu_is_required_the_cpu_will_do() -> None:
    skipped = {"tensorflow.devices": WHY, "tensorflow.phases": (Phase("import", "skipped", 0.0),)}
    found = report(skipped, require_gpus=0)
    assert found.verdict == restrict(found, (), ("gpu.none",), require_gpus=0).verdict == "ok"


def test_list_checks_has_the_formats_of_a_list() -> None:
    document = json.loads(tfgpu("doctor", "--list-checks", "--format", "json").stdout)
    assert document["schema"] == "tfgpu.checks/1"
    listed = document["checks"]
    assert [one["id"] for one in listed] == sorted(DECLARATIONS)
    assert set(listed[0]) == {"id", "layer", "severity", "title"}
