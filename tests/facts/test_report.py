"""Facts describe themselves; reports: JSON and back, schemas, verdicts, exit codes."""

from __future__ import annotations

import json
import sys
from typing import Any

import jsonschema
import pytest

from scripts.write_schemas import derived
from tests.findings.rows_over_facts import FIRES, NO_GPU_LISTED, WHY, absent
from tests.healthy import MATRIX, healthy, known, spoil
from tests.tiers import usual
from tfgpu_doctor.facts.about import LAYERS, described, records_in
from tfgpu_doctor.facts.facts import Facts, Phase, Record, about, fact_paths, look_up
from tfgpu_doctor.facts.report import Report, ReportError, exit_code, load_report
from tfgpu_doctor.facts.schemas import FOLDER
from tfgpu_doctor.findings.engine import works
from tfgpu_doctor.plan.diagnosis import make_report


def report(changes: dict[str, Any] | None = None, facts: Facts | None = None, **options: Any) -> Report:
    facts = spoil(facts or healthy(), changes or {})
    return make_report(facts, MATRIX, source="live", timings={"total": 1.25}, **options)


@pytest.mark.parametrize("first", usual((True, False), bool))
def test_json_and_back_is_the_identity(first: bool) -> None:
    """On one machine of each finding by day; on the others in full."""
    machines = [changes for rows in FIRES.values() for _, changes in (rows[:1] if first else rows[1:])]
    for changes in machines:
        before = report(changes)
        after = load_report(before.to_json(), "test")
        assert after == before, changes
        # a saved report gives the same findings as the live run
        assert make_report(after.facts, MATRIX, source="report", timings={}).findings == before.findings, changes


def test_schema_accepts_every_report() -> None:
    schema = json.loads((FOLDER / "report-1.json").read_text())
    validator = jsonschema.Draft202012Validator(schema)
    for facts in (healthy(), Facts(), spoil(healthy(), {"loader.sonames": absent()})):
        validator.validate(json.loads(report(facts=facts).to_json()))
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({"schema": "tfgpu.report/1"})


@pytest.mark.skipif(sys.version_info < (3, 11), reason="msgspec cannot derive schemas of generics on Python 3.10")
def test_shipped_schemas_are_the_derived_ones() -> None:
    shipped = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.json")}
    assert shipped == derived(), "run scripts/write_schemas.py"


def test_bad_reports_are_named() -> None:
    other = "has schema 'tfgpu.report/2'; this version of tfgpu reads 'tfgpu.report/1'"
    for data, message in {
        b"": "is not a saved report: it is empty",
        b"\xff\xfe": "is not a saved report: it is UTF-16",
        b"[]": "is not a saved report: it is JSON of something else",
        b'{"schema": "tfgpu.report/2"}': other,
        b'{"schema": "tfgpu.report/1"}': "is not a valid report",
        b'{"schema": "tfgpu.report/1", "extra": 1}': "is not a valid report",
    }.items():
        with pytest.raises(ReportError, match=r"^r\.json ") as caught:
            load_report(data, "r.json")
        assert message in str(caught.value)
    one = report()
    changed = json.loads(one.to_json())
    changed["facts"]["host"]["colour"] = "red"  # a field of another version is left out
    assert load_report(json.dumps(changed).encode(), "r.json") == one


def test_verdict_and_exit_codes() -> None:
    for changes, verdict, codes in (
        ({}, "ok", (0, 0, 0)),
        (FIRES["gpu.throttled"][0][1], "degraded", (0, 1, 0)),
        ({**FIRES["cuda.missing"][0][1], "tensorflow.checks": known(())}, "broken", (1, 1, 0)),
        (FIRES["cuda.missing"][0][1], "degraded", (0, 1, 0)),  # verified on the GPU for all that
        ({"tensorflow.devices": WHY}, "unknown", (3, 3, 0)),
    ):
        one = report(changes)
        found = (exit_code(one, "error"), exit_code(one, "warning"), exit_code(one, "never"))
        assert (one.verdict, found) == (verdict, codes), changes
    nothing = report(facts=Facts())
    assert (nothing.verdict, nothing.findings) == ("unknown", ()) and nothing.undetermined


def test_without_import_a_complete_stack_is_ok_and_an_incomplete_one_unknown() -> None:
    skipped = tuple(Phase(name=name, outcome="skipped") for name in ("import", "devices"))
    not_started = spoil(healthy(), {"tensorflow.phases": skipped, "tensorflow.devices": WHY, "tensorflow.checks": WHY})
    assert works(not_started) is True
    assert works(spoil(not_started, {"loader.sonames": absent("nccl")})) is True  # as the stack shows it
    assert works(spoil(not_started, {"gpus": WHY})) is None
    assert works(spoil(not_started, {"loader.sonames": absent()})) is None


def test_root_causes_come_first_with_their_consequences_and_all_are_shown() -> None:
    nothing = {"tensorflow.devices": NO_GPU_LISTED, "tensorflow.checks": known(())}
    missing = {"loader.sonames": absent(), "cudnn.installed": known(()), "cudnn.runtime": WHY}
    first, *rest = report({**missing, **nothing}, require_gpus=1).findings
    assert first.id == "cuda.missing" and first.root_cause
    assert set(first.consequences) == {"cudnn.missing", "gpu.not-visible", "gpu.fewer-than-required"}
    assert {one.id for one in rest} == set(first.consequences) and not any(one.root_cause for one in rest)
    # no GPU in this machine does not hide that temporary files cannot be written
    refused = FIRES["env.tmpdir-unwritable"][0][1]
    found = report({**FIRES["gpu.none"][0][1], **refused, "tensorflow.devices": NO_GPU_LISTED}).findings
    assert [one.id for one in found if one.root_cause] == ["gpu.none", "env.tmpdir-unwritable"]
    assert found[0].consequences == ("gpu.not-visible",)


def test_every_field_is_described() -> None:
    missing = [
        f"{record.__name__}.{field}"
        for record in records_in(Facts)
        for field in record.__struct_fields__  # type: ignore[attr-defined]
        if field not in described(record) or not described(record)[field].label
    ]
    assert missing == [], "describe them in their declaration: Annotated[..., public(...)], or private(...)"


def test_every_fact_has_a_layer_and_a_path_and_a_collection_its_key() -> None:
    assert {"host.os", "gpus", "tensorflow.phases", "messages"} <= set(fact_paths())
    for path in fact_paths():
        key = about(path).key
        assert about(path).layer in LAYERS and not isinstance(look_up(Facts(), path), Record), path
        assert not key or path == "variables" or about(f"{path}.{key}").label, path


def test_a_description_inherits_layer_and_group() -> None:
    assert about("driver.version")[:3] == ("driver", True, "Driver")
    assert about("driver.version").group == "driver"
    assert (about("gpus.temperature").unit, about("gpus.temperature").layer) == ("°C", "GPU")
    assert about("host.pci_gpus.driver").layer == "Driver"
    with pytest.raises(KeyError):
        about("driver.colour")
