"""A result whose file cannot be written is printed, and the exit code says that something is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.bench.samples import result, run
from tests.cli.runner import tfgpu
from tests.records.test_report import report
from tfgpu_doctor.cli.bench import _Kept
from tfgpu_doctor.cli.fleet import _written
from tfgpu_doctor.cli.output import NotWrittenError, Output
from tfgpu_doctor.fleet.collect import node_result

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
FULL = Path("/dev/full")
WHY = "cannot write /dev/full: No space left on device"


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "report.json"
    path.write_bytes(report().to_json())
    return str(path)


def test_it_is_printed_instead(saved: str, subtests: pytest.Subtests) -> None:
    for form in (
        "json",
        "text",
        "junit",
    ):
        with subtests.test(form=form):
            printed = tfgpu("doctor", "--from", saved, "--format", form)
            done = tfgpu("doctor", "--from", saved, "--format", form, "--output", str(FULL))
            times = re.compile(r"\d\d:\d\d:\d\d")
            assert (done.returncode, times.sub("", done.stdout)) == (3, times.sub("", printed.stdout))
            assert done.stderr == f"Error: {WHY}; the result was printed instead\n"


def test_other_targets_get_it(saved: str, tmp_path: Path) -> None:
    good = tmp_path / "good.json"
    done = tfgpu(
        *("doctor", "--from", saved, "--format", "html,text,json"),
        *("--output", str(FULL), "--output", "-", "--output", str(good)),
    )
    assert done.returncode == 3
    assert done.stdout == tfgpu("doctor", "--from", saved).stdout  # and not two results on one stream
    assert json.loads(good.read_text())["schema"] == "tfgpu.report/1"
    assert done.stderr.endswith(f"Error: {WHY}\n")


def test_what_was_collected_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(NotWrittenError, match=f"{WHY}; the result was printed instead"):
        _written([node_result("n1", [], "did not answer")], str(FULL))
    assert json.loads(capsys.readouterr().out)["node"] == "n1"


def test_a_measurement_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    kept = _Kept(FULL)
    for _ in range(3):
        kept.save(result(run("CPU")))
    assert capsys.readouterr().err == f"tfgpu: {WHY}; the measurement goes on\n"
    kept.show([Output("text", None), Output("json", FULL.with_name("null"))], {})  # a signal ends it
    shown = capsys.readouterr()
    assert "matpow" in shown.out and "has what was measured so far" not in shown.err
