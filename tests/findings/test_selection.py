"""--only, --skip and --list-checks: findings are left out with what follows from them, never before they are judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.cli.runner import tfgpu
from tests.findings.rows_over_facts import WHY
from tests.findings.test_without_gpu import NO_GPU
from tests.findings.test_without_gpu import report as report_of
from tests.healthy import healthy, spoil
from tfgpu_doctor.facts.facts import Phase
from tfgpu_doctor.facts.report import Report
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.engine import SelectionError, restrict, verify


def report() -> Report:
    return report_of(spoil(healthy(), NO_GPU))


def ids(one: Report) -> list[str]:
    return [finding.id for finding in one.findings]


def test_a_skipped_cause_takes_its_consequences_along() -> None:
    whole = report()
    assert ids(whole)[0] == "gpu.none" and "gpu.not-visible" in ids(whole)
    without = restrict(whole, (), ("gpu.none",))
    assert not {"gpu.none", "gpu.not-visible"} & set(ids(without))
    assert without.verdict == "degraded" or without.verdict == "ok"


def requiring(gpus: int, **skipped: Any) -> Report:
    return report_of(spoil(healthy(), NO_GPU | skipped), require_gpus=gpus)


def test_required_gpus_are_missing_whatever_else_is_left_out() -> None:
    report = restrict(requiring(1), (), ("gpu.none", "gpu.not-visible"), require_gpus=1)
    (finding,) = report.findings
    assert (finding.id, finding.root_cause, report.verdict) == ("gpu.fewer-than-required", True, "broken")
    assert restrict(requiring(1), (), ("gpu.*",), require_gpus=1).findings == ()


def test_required_gpus_are_checked_beside_what_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_bytes(msgspec.json.encode(report()))
    arguments = ("doctor", "--from", str(tmp_path / "report.json"), "--only", "env.*")
    assert tfgpu(*arguments).returncode == 0
    required = tfgpu(*arguments, "--require-gpus", "1", "--format", "junit")
    assert required.returncode == 1 and required.stdout.count("gpu.fewer-than-required") == 1


def test_where_no_gpu_is_required_the_cpu_will_do() -> None:
    phases = (Phase("import", "skipped", 0.0),)
    report = requiring(0, **{"tensorflow.devices": WHY, "tensorflow.phases": phases})
    assert report.verdict == restrict(report, (), ("gpu.none",), require_gpus=0).verdict == "ok"


def test_only_keeps_what_matches() -> None:
    kept = restrict(report(), ("gpu.none",), ())
    assert ids(kept) == ["gpu.none"]
    assert kept.findings[0].consequences == ()
    assert kept.verdict == "broken"


def test_a_typo_is_answered_with_what_is_near() -> None:
    with pytest.raises(SelectionError, match=r"Did you mean gpu\.none"):
        verify(("gpu.nnoe",))


def test_list_checks_has_the_formats_of_a_list() -> None:
    document = json.loads(tfgpu("doctor", "--list-checks", "--format", "json").stdout)
    assert document["schema"] == "tfgpu.checks/1"
    listed = document["checks"]
    assert [one["id"] for one in listed] == sorted(DECLARATIONS)
    assert set(listed[0]) == {"id", "layer", "severity", "title"}
    refused = tfgpu("doctor", "--list-checks", "--format", "junit")
    assert (refused.returncode, refused.stdout) == (2, "") and "text and json only" in refused.stderr


def test_an_unknown_check_is_wrong_usage() -> None:
    verify(("gpu.none", "env.*"))
    with pytest.raises(SelectionError, match=r"cuda\.\*"):
        verify(("cuda",))
    done = tfgpu("doctor", "--skip", "no.such")
    assert done.returncode == 2 and "no.such" in done.stderr
