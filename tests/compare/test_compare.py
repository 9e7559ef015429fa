"""What changed between two reports, in which words, and which change explains what is new: the machine of the tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import yaml
from msgspec.structs import replace

from tests.cli.runner import tfgpu
from tests.facts.test_report import report
from tests.findings.rows_over_facts import FIRES, NO_DRIVER, NO_GPU_USED, WHY, _Loader, _row, absent, env, packages
from tests.healthy import MATRIX, gpu, healthy, known
from tests.tables import each
from tests.tiers import usual
from tfgpu_doctor.compare.comparison import compare, exit_code
from tfgpu_doctor.compare.records import Comparison, Explanation
from tfgpu_doctor.facts.facts import Facts, Unknown, about, fact_paths
from tfgpu_doctor.facts.report import Report, load_report
from tfgpu_doctor.facts.schemas import FOLDER

ROWS = yaml.load(Path(__file__).with_name("rows.yaml").read_text(encoding="utf-8"), _Loader)
# what was done → before, after, the finding, what explains it, how
DONE: dict[str, tuple[dict[str, Any], dict[str, Any], str, set[str], str]] = {
    name: (_row(row["before"]), _row(row["after"]), row["finding"], {*row["changes"]}, row["how"])
    for name, row in ROWS["done"].items()
}


def compared(good: dict[str, Any], bad: dict[str, Any], **options: Any) -> Comparison:
    return compare(report(good), report(bad), MATRIX, "2026-11-21T00:00:00Z", **options)


def explained(comparison: Comparison, finding: str) -> Explanation:
    return next(one for one in comparison.explanations if one.finding == finding)


def texts(comparison: Comparison) -> list[str]:
    return [one.text for one in comparison.changes]


def statuses(comparison: Comparison) -> list[tuple[str, str]]:
    return [(one.id, one.status) for one in comparison.findings]


def gpus(*cards: Any) -> dict[str, Any]:
    return {"gpus": known(cards, "NVML")}


@each("name", DONE)
def test_the_change_that_explains_what_is_new_explains_what_is_gone(name: str) -> None:
    before, after, finding, changes, how = DONE[name]
    for comparison, status, code in ((compared(before, after), "new", 1), (compared(after, before), "gone", 0)):
        found = explained(comparison, finding)
        named = {change for one in comparison.explanations for change in one.changes}
        assert (finding, status) in statuses(comparison)
        assert changes <= set(found.changes) and found.how == how
        assert {one.id for one in comparison.changes if one.weight == "explains"} == named
        assert (exit_code(comparison, "error"), exit_code(comparison, "never")) == (code, 0)


def test_of_two_findings_each_has_its_change() -> None:
    """A Blackwell card, and an older driver beside it."""
    card = gpus(gpu(name="NVIDIA GeForce RTX 5090", compute_capability="12.0"))
    comparison = compared({}, {**card, "driver.version": known("450.80.02")})
    assert set(explained(comparison, "gpu.arch-too-new").changes) == {"gpus.0.name", "gpus.0.compute_capability"}
    assert explained(comparison, "driver.too-old").changes[0] == "driver.version"  # the card says how old is too old


def test_of_many_changes_the_one_is_named_and_the_others_can_matter() -> None:
    """Many packages and variables differ; the rules read all of them, and one of each matters."""
    many = {f"package_{number}": "1" for number in range(60)}
    variables = env(**{f"NCCL_{number}": "1" for number in range(20)}, CUDA_VISIBLE_DEVICES="-1")
    before, after, *_ = DONE["pip install numpy"]
    old = packages(tensorflow="2.15.1", numpy="1.26.4", **many)
    new = packages(tensorflow="2.15.1", numpy="2.1.0", **dict.fromkeys(many, "2"))
    comparison = compared({**before, "python.packages": old}, {**after, "python.packages": new, **variables})
    assert explained(comparison, "tf.abi-numpy").changes == ("python.packages.numpy",)
    assert explained(comparison, "gpu.hidden").changes == ("variables.CUDA_VISIBLE_DEVICES",)
    assert {one.id: one.weight for one in comparison.changes}["variables.NCCL_1"] == "can-matter"


@each(
    ("finding", "good", "bad"),
    [(finding, *map(_row, row)) for finding, rows in ROWS["unjudged"].items() for row in rows],
)
def test_a_finding_over_what_good_did_not_examine_is_not_called_new(
    finding: str, good: dict[str, Any], bad: dict[str, Any]
) -> None:
    comparison = compared(good, bad)
    assert statuses(comparison) == [(finding, "unjudged")] and comparison.explanations == ()
    assert {one.status for one in comparison.changes} <= {"unexamined"}
    assert (exit_code(comparison, "warning"), exit_code(comparison, "never")) == (3, 0)


def test_a_field_of_a_gpu_that_good_examined_is_a_change() -> None:
    comparison = compared(gpus(replace(gpu(), fault=Unknown("none"))), gpus(gpu(fault="GPU is lost")))
    assert texts(comparison) == ["GPU 0: fault none → GPU is lost"]
    assert explained(comparison, "gpu.fault").changes == ("gpus.0.fault",)


def test_consequences_follow_and_are_not_explained_again() -> None:
    after = {"loader.sonames": absent(), "cudnn.installed": known(()), "cudnn.runtime": WHY, **NO_GPU_USED}
    comparison = compared({}, after)
    follows = {one.id: one.follows_from for one in comparison.findings}
    assert follows == {"cuda.missing": None, "cudnn.missing": "cuda.missing", "gpu.not-visible": "cuda.missing"}
    assert [one.finding for one in comparison.explanations] == ["cuda.missing"]


def test_findings_of_both_remain() -> None:
    hot = gpus(gpu(throttle_reasons=("hw_thermal_slowdown",)))
    comparison = compared(hot, {**hot, "host.kernel": known("6.9.0")})
    assert [(one.id, one.status, one.inside) for one in comparison.findings] == [("gpu.throttled", "remains", "both")]
    assert exit_code(comparison, "warning") == 0


def test_reports_of_another_version_are_diagnosed_anew_with_a_note() -> None:
    old = replace(report(FIRES["cuda.missing"][0][1]), findings=())
    comparison = compare(report(), old, MATRIX, "now", names=("a.json", "b.json"))
    assert comparison.notes[0].startswith(("cuda.missing, ", "cuda.missing:"))
    assert "found in b.json by this version, but not reported by tfgpu" in comparison.notes[0]


BY_DAY = tuple({finding.partition(".")[0]: finding for finding in FIRES}.values())  # one of each layer


@pytest.mark.parametrize("findings", usual((BY_DAY, tuple(FIRES)), lambda row: row is BY_DAY))
def test_every_machine_can_be_compared_both_ways(findings: tuple[str, ...]) -> None:
    schema = jsonschema.Draft202012Validator(json.loads((FOLDER / "compare-1.json").read_text(encoding="utf-8")))
    for finding in findings:
        spoiled = FIRES[finding][0][1]
        for comparison in (compared({}, spoiled), compared(spoiled, {})):
            schema.validate(json.loads(comparison.to_json()))
            assert msgspec.json.decode(comparison.to_json(), type=Comparison) == comparison
            known_ids = {one.id for one in comparison.changes}
            roots = {one.id for one in comparison.findings if one.status in ("new", "gone") and one.root_cause}
            assert {one.finding for one in comparison.explanations} >= roots, finding
            assert all(set(one.changes) <= known_ids for one in comparison.explanations), finding


def saved(name: str) -> Report:
    data = (Path(__file__).parents[1] / "captures" / "compare" / name).read_bytes()
    return report(facts=msgspec.json.decode(data, type=Facts))


def test_one_package_that_was_changed_is_the_cause() -> None:
    """TensorFlow 2.21.0 imports with protobuf 7.36.2, and fails with 4.25.3 in the same environment."""
    good, bad = saved("protobuf-good.json"), saved("protobuf-bad.json")
    for comparison in (compare(good, bad, MATRIX, "now"), compare(bad, good, MATRIX, "now")):
        found = explained(comparison, "tf.abi-protobuf")
        assert (found.how, found.changes) == ("change", ("python.packages.protobuf",))
        assert [one.id for one in comparison.changes if one.weight == "explains"] == ["python.packages.protobuf"]
        assert not [text for text in texts(comparison) if "tfgpu_doctor" in text]


@each("name", ROWS["differences"])
def test_differences_in_words(name: str) -> None:
    row = ROWS["differences"][name]
    assert texts(compared(_row(row["before"]), _row(row["after"]))) == [*row["texts"]]


def test_twice_the_same_is_nothing() -> None:
    comparison = compared({}, {})
    assert (comparison.changes, comparison.findings, comparison.explanations) == ((), (), ())
    assert comparison.notes == () and exit_code(comparison, "warning") == 0
    nothing_known = compare(report(facts=Facts()), report(facts=Facts()), MATRIX, "now")
    assert (nothing_known.changes, nothing_known.findings, exit_code(nothing_known, "error")) == ((), (), 3)


def test_the_same_machine_examined_twice_has_not_changed(tmp_path: Path) -> None:
    reports = []
    for name in ("a.json", "b.json"):
        tfgpu("doctor", "--no-import", "-q", "--fail-on", "never", "--output", str(tmp_path / name))
        reports.append(load_report((tmp_path / name).read_bytes(), name))
    assert compare(*reports, MATRIX, "2026-11-21T00:00:00Z").changes == ()


def test_the_same_environment_in_another_folder_has_not_changed() -> None:
    text = msgspec.json.encode(healthy()).replace(b"/env/lib/python3.12", b"/srv/b/lib/python3.11")
    moved = msgspec.json.decode(text.replace(b"/env/", b"/srv/b/"), type=Facts)
    one = report({"python.prefix": known("/env")})
    other = report({"python.prefix": known("/srv/b"), "python.version": known("3.11.2")}, facts=moved)
    comparison = compare(one, other, MATRIX, "now")
    assert texts(comparison) == ["interpreter /env/bin/python → /srv/b/bin/python", "Python 3.12.7 → 3.11.2"]


def test_only_a_package_is_called_by_its_name_alone() -> None:
    keyed = {path: about(path) for path in fact_paths() if about(path).key and about(path).grade == "state"}
    assert {path for path, one in keyed.items() if one.element == "{}"} == {"python.packages"}


def test_what_one_report_does_not_know_is_no_change() -> None:
    unknown = {"cudnn.runtime": WHY, "gpus": WHY}
    for good, bad, status in ((unknown, {}, "unexamined"), ({}, unknown, "lost")):
        found = {(one.id, one.status) for one in compared(good, bad).changes}
        assert found == {("cudnn.runtime", status), ("gpus", status)}


def test_two_machines_are_called_so() -> None:
    other = {"host.cpu_model": known("Intel Xeon"), "host.memory": known(2**30), **gpus(gpu(name="NVIDIA A100"))}
    assert compared({}, other).machines == (
        "CPU AMD EPYC 9654 → Intel Xeon",
        "memory 64 GiB → 1 GiB",
        "GPU 0: name NVIDIA H200 → NVIDIA A100",
    )
    assert compared({}, gpus(gpu(), gpu(1))).machines == ()


def test_a_driver_that_went_takes_its_files_along() -> None:
    comparison = compared({}, {**NO_DRIVER, "host.pci_gpus": healthy().host.pci_gpus})
    assert "driver 570.86.15 → none" in texts(comparison)
    assert all(change.startswith("driver.") for change in explained(comparison, "driver.missing").changes)
    row = ROWS["differences"]["units and long lists"]
    (of_pci,) = (one for one in compared(_row(row["before"]), _row(row["after"])).changes if "pci" in one.id)
    assert of_pci.layer == "Driver"
