"""The table of the log's lines, derived from logs that lie there already; nothing is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from tests.scripts.wheel_records import ROOT
from tfgpu_doctor.matrix.lint import log_lines
from tfgpu_doctor.matrix.loader import Matrix, parse
from tfgpu_doctor.matrix.schema import LogMessage
from tfgpu_doctor.parsers.remaining_releases import by_series

pytest.importorskip("refresh_log_lines")  # wheel_records has put the scripts on the path

import refresh_log_lines
from refresh_log_lines import BEGIN, END, WHEELS, merged, print_and_read, render, with_reports

OLD, NEW = (next(one for one in WHEELS if one.version == version) for version in ("2.10.1", "2.16.2"))
GUARD = "2026-11-23 01:54:14.1: I tensorflow/core/platform/cpu_feature_guard.cc:{}] This TensorFlow binary is optimized"
SAME = "2026-11-23 01:54:14.2: I x/cuda_diagnostics.cc:156] kernel driver does not appear to be running on this host"
TEXT = f"""\
schema: tfgpu.matrix/1
revision: "2026-01-01"
sources: {{wheel-logs: {{title: x}}}}
{BEGIN}
log_lines: []
{END}
"""


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    for wheel, line in ((OLD, 193), (NEW, 210)):
        (tmp_path / wheel.log).mkdir()
        (tmp_path / wheel.log / "plain.txt").write_text(f"{GUARD.format(line)} with\n{SAME}\nnothing.cc] x\n")
        (tmp_path / wheel.log / "done").touch()
    return tmp_path


def test_only_messages_that_tell_releases_apart_are_entered(logs: Path) -> None:
    rows = merged((), print_and_read(logs, (OLD, NEW)), set())
    assert [(row.file, row.lines) for row in rows] == [("cpu_feature_guard.cc", {"193": "2.10.1", "210": "2.16.2"})]
    assert parse(TEXT.replace(f"{BEGIN}\nlog_lines: []\n{END}", render(rows)), "x").log_lines == tuple(rows)


def test_a_wheel_that_is_read_again_replaces_its_lines(logs: Path) -> None:
    rows = merged((), print_and_read(logs, (OLD, NEW)), set())
    (logs / OLD.log / "plain.txt").write_text(GUARD.format(194))
    again = merged(rows, print_and_read(logs, (OLD,)), {"2.10.1"})
    assert [row.lines for row in again] == [{"194": "2.10.1", "210": "2.16.2"}]


def test_reports_add_other_patches_and_no_contradictions(logs: Path) -> None:
    rows = merged((), print_and_read(logs, (OLD, NEW)), set())
    key = rows[0].message
    (row,) = with_reports(rows, [("a", "2.10.0", {("cpu_feature_guard.cc", 192, key)})])
    assert by_series(row) == {(2, 10): {192, 193}, (2, 16): {210}}
    (row,) = with_reports(rows, [("b", "2.10.1", {("cpu_feature_guard.cc", 210, key)})])
    assert row == rows[0]


def test_every_wheel_that_is_run_has_a_row_and_check_writes_nothing(
    logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {one.version for one in WHEELS} <= {row.version for row in Matrix.load().data.tensorflow}
    matrix = tmp_path / "matrix.yaml"
    matrix.write_bytes((ROOT / "compat_matrix.yaml").read_bytes())
    before = matrix.read_text(encoding="utf-8")
    few = tmp_path / "reports.jsonl"
    few.write_text("".join(refresh_log_lines.REPORTS.read_text(encoding="utf-8").splitlines(keepends=True)[::100]))
    monkeypatch.setattr(refresh_log_lines, "REPORTS", few)
    asked = [OLD.requirement, "--logs", str(logs), "--matrix", str(matrix)]
    monkeypatch.setattr("sys.argv", ["x", *asked, "--check"])
    assert refresh_log_lines.main() == 1  # these logs have one message
    assert matrix.read_text(encoding="utf-8") == before


def test_the_linter_names_what_tells_nothing_and_unknown_releases() -> None:
    row = LogMessage(file="a.cc", message="b", lines={"1": "2.0.99 2.10.1"}, source="wheel-logs")
    data = structs.replace(Matrix.load().data, log_lines=(row,))
    assert list(log_lines(data)) == [
        "log_lines a.cc 'b': one line tells no release from another",
        "log_lines a.cc 'b'.lines.1: 2.0.99 is no release of TensorFlow's table",
    ]
