"""`tfgpu fleet` as it is typed: files, folders and standard input, exit codes, formats."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runner import tfgpu
from tests.facts.test_reading import ODD as ODD_FILES
from tests.facts.test_reading import odd_path
from tests.fleet.making import fleet
from tests.guard import guarded
from tfgpu_doctor.facts import reading

CLEAN = fleet(1, 30).lines
ODD = fleet(162, 40, 3).lines


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A clean fleet and one with differences, as JSON lines and as one file a node."""
    (tmp_path / "clean.jsonl").write_bytes(b"\n".join(CLEAN))
    (tmp_path / "odd.jsonl").write_bytes(b"\n".join(ODD))
    (tmp_path / "reports" / "rack1").mkdir(parents=True)
    for number, line in enumerate(ODD):
        (tmp_path / "reports" / ("rack1" if number % 2 else "") / f"{number}.json").write_bytes(line)
    return tmp_path


def of_json(folder: Path, *arguments: str, code: int = 0, **more: str) -> dict[str, object]:
    done = tfgpu("fleet", *arguments, "--format", "json", cwd=folder, **more)  # type: ignore[arg-type]
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_files_folders_and_standard_input_are_one(folder: Path) -> None:
    whole = of_json(folder, "odd.jsonl")
    again = of_json(folder, "reports/")
    piped = of_json(folder, "-", input=b"\n".join(ODD).decode())
    assert whole["groups"] == again["groups"] == piped["groups"]
    assert [node["name"] for node in whole["nodes"]] == [node["name"] for node in piped["nodes"]]  # type: ignore[attr-defined]
    assert len(of_json(folder, "clean.jsonl", "-", input="", code=3)["nodes"]) == 30  # type: ignore[arg-type]


def test_exit_codes(folder: Path) -> None:
    assert tfgpu("fleet", "clean.jsonl", cwd=folder).returncode == 0
    assert tfgpu("fleet", "odd.jsonl", cwd=folder).returncode == 0
    assert tfgpu("fleet", "odd.jsonl", "--fail-on", "warning", cwd=folder).returncode == 1
    assert tfgpu("fleet", "odd.jsonl", "--fail-on", "never", cwd=folder).returncode == 0
    (folder / "empty").mkdir()
    assert tfgpu("fleet", "empty", cwd=folder).returncode == 3


def test_what_cannot_be_read_is_told_and_the_rest_goes_on(folder: Path) -> None:
    lines = [*CLEAN[:30], CLEAN[30][:500], b'{"schema": "tfgpu.report/9"}', *CLEAN[31:], b'{"schema": "tfgpu.plan/1"}']
    (folder / "mixed.jsonl").write_bytes(b"\n".join(lines))
    done = tfgpu("fleet", "mixed.jsonl", "nowhere.json", cwd=folder)
    assert done.returncode == 3
    for text in ("mixed.jsonl, line 31: it is cut off", "mixed.jsonl, line 32", "nowhere.json: No such file"):
        assert text in " ".join(done.stdout.split()), done.stdout
    assert "4 results could not be read" in " ".join(done.stdout.split())


def test_no_odd_file_ends_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "WRITER", 0.01)
    for odd in sorted(set(ODD_FILES) - {"a null character", "half a surrogate pair", "an empty name"}):
        path = odd_path(odd, folder / f"odd file: {odd.replace('/', ' ')}")
        with guarded(20, odd, waiting=True):
            done = tfgpu("fleet", "clean.jsonl", path, cwd=folder)
        assert done.returncode == 3 and "Traceback" not in done.stderr, done.stdout
        assert "30 nodes" in done.stdout and "could not be read" in " ".join(done.stdout.split())


def test_every_format_goes_to_its_file(folder: Path) -> None:
    names = ("out.txt", "out.json", "out.md", "out.html", "out.prom")
    done = tfgpu("fleet", "odd.jsonl", *(word for name in names for word in ("--output", name)), cwd=folder)
    assert done.returncode == 0 and done.stdout == ""
    for name in names:
        text = (folder / name).read_text(encoding="utf-8")
        assert ("driver.version" if name.endswith(".prom") else "550.54.15") in text
        # made for others to read: redacted
        assert ("gpu-000" in text) == (name in ("out.txt", "out.json"))


def test_names_of_nodes_stay_where_they_are_wanted(folder: Path) -> None:
    page = tfgpu("fleet", "odd.jsonl", "--format", "prometheus", "--no-redact", cwd=folder).stdout
    assert (
        'tfgpu_fleet_node_problem{node="gpu-00014",id="driver.version",kind="difference",severity="warning"} 1\n'
        in page
    )
    assert 'tfgpu_fleet_nodes{verdict="ok"} 40\n' in page
    assert 'tfgpu_fleet_group_nodes{id="driver.version",kind="difference",severity="warning"} 3\n' in page
