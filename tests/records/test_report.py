"""Reports: JSON and back, schemas, verdicts, exit codes."""

from __future__ import annotations

import json
import sys
from typing import Any

import jsonschema
import pytest

from scripts.write_schemas import derived
from tests.findings.rows_over_facts import FIRES, NO_GPU_LISTED, WHY, absent
from tests.healthy import MATRIX, healthy, known, spoil
from tfgpu_doctor.findings.engine import works
from tfgpu_doctor.plan.diagnosis import make_report
from tfgpu_doctor.records.facts import Facts, Phase
from tfgpu_doctor.records.report import Report, ReportError, exit_code, load_report
from tfgpu_doctor.records.schemas import FOLDER

MACHINES = [(f"{finding}: {name}", row) for finding, rows in FIRES.items() for name, row in rows]


def report(changes: dict[str, Any] | None = None, facts: Facts | None = None, **options: Any) -> Report:
    facts = spoil(facts or healthy(), changes or {})
    return make_report(facts, MATRIX, source="live", timings={"total": 1.25}, **options)


def test_json_and_back_is_the_identity(subtests: pytest.Subtests) -> None:
    for name, changes in MACHINES:
        with subtests.test(name):
            before = report(changes)
            after = load_report(before.to_json(), "test")
            assert after == before
            # a saved report gives the same findings as the live run
            assert make_report(after.facts, MATRIX, source="report", timings={}).findings == before.findings


def test_schema_accepts_every_report() -> None:
    schema = json.loads((FOLDER / "report-1.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for facts in (healthy(), Facts(), spoil(healthy(), {"loader.sonames": absent()})):
        validator.validate(json.loads(report(facts=facts).to_json()))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"schema": "tfgpu.report/1"})


@pytest.mark.skipif(sys.version_info < (3, 11), reason="msgspec 0.22 cannot derive schemas of generics on Python 3.10")
def test_shipped_schemas_are_the_derived_ones() -> None:
    shipped = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert shipped == derived(), "run scripts/write_schemas.py"


def test_bad_reports_are_named(subtests: pytest.Subtests) -> None:
    for data, message in [
        (b"", "is not a saved report"),
        (b"\xff\xfe", "is not a saved report"),
        (b"[]", "is not a saved report"),
        (b'{"schema": "tfgpu.report/2"}', "has schema 'tfgpu.report/2'; this version of tfgpu reads 'tfgpu.report/1'"),
        (b'{"schema": "tfgpu.report/1"}', "is not a valid report"),
        (b'{"schema": "tfgpu.report/1", "extra": 1}', "is not a valid report"),
    ]:
        with subtests.test(data=data):
            with pytest.raises(ReportError, match=r"^r\.json ") as caught:
                load_report(data, "r.json")
            assert message in str(caught.value)


def test_a_field_of_another_version_is_left_out() -> None:
    data = json.loads(report().to_json())
    data["facts"]["host"]["colour"] = "red"
    assert load_report(json.dumps(data).encode(), "r.json") == report()


def test_verdict_and_exit_codes(subtests: pytest.Subtests) -> None:
    for changes, verdict, codes in [
        ({}, "ok", (0, 0, 0)),
        (FIRES["gpu.throttled"][0][1], "degraded", (0, 1, 0)),
        ({**FIRES["cuda.missing"][0][1], "tensorflow.checks": known(())}, "broken", (1, 1, 0)),
        (FIRES["cuda.missing"][0][1], "degraded", (0, 1, 0)),  # verified on the GPU for all that
        ({"tensorflow.devices": WHY}, "unknown", (3, 3, 0)),
    ]:
        with subtests.test(changes=changes):
            one = report(changes)
            assert one.verdict == verdict
            assert (exit_code(one, "error"), exit_code(one, "warning"), exit_code(one, "never")) == codes


def test_everything_unknown_is_unknown() -> None:
    one = report(facts=Facts())
    assert (one.verdict, one.findings) == ("unknown", ())
    assert one.undetermined


def test_without_import_a_complete_stack_is_ok_and_an_incomplete_one_unknown() -> None:
    skipped = tuple(Phase(name=name, outcome="skipped") for name in ("import", "devices"))
    not_started = spoil(healthy(), {"tensorflow.phases": skipped, "tensorflow.devices": WHY, "tensorflow.checks": WHY})
    assert works(not_started) is True
    assert works(spoil(not_started, {"loader.sonames": absent("nccl")})) is True  # as the stack shows it
    assert works(spoil(not_started, {"gpus": WHY})) is None
    assert works(spoil(not_started, {"loader.sonames": absent()})) is None


def test_root_causes_come_first_and_carry_their_consequences() -> None:
    one = report(
        {
            "loader.sonames": absent(),
            "cudnn.installed": known(()),
            "cudnn.runtime": WHY,
            "tensorflow.devices": NO_GPU_LISTED,
            "tensorflow.checks": known(()),
        },
        require_gpus=1,
    )
    first, *rest = one.findings
    assert first.id == "cuda.missing" and first.root_cause
    assert set(first.consequences) == {"cudnn.missing", "gpu.not-visible", "gpu.fewer-than-required"}
    assert {finding.id for finding in rest} == set(first.consequences)
    assert not any(finding.root_cause for finding in rest)


def test_independent_causes_are_all_shown() -> None:
    """No GPU in this machine does not hide that temporary files cannot be written."""
    refused = FIRES["env.tmpdir-unwritable"][0][1]
    one = report({**FIRES["gpu.none"][0][1], **refused, "tensorflow.devices": NO_GPU_LISTED})
    assert [finding.id for finding in one.findings if finding.root_cause] == ["gpu.none", "env.tmpdir-unwritable"]
    assert one.findings[0].consequences == ("gpu.not-visible",)
