"""Every command on Windows and macOS: it ends with its answer and its exit code, and without a traceback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import tfgpu
from tests.systems.recorded import MACHINES, TOOLKIT, stand
from tests.systems.shells import posix
from tfgpu_doctor.cli import cli

SMALL = ("--size", "64", "--min-samples", "3", "--deadline", "1")


@pytest.fixture(params=MACHINES)
def report(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, Any]:
    python = stand(MACHINES[request.param], tmp_path, monkeypatch)
    done = tfgpu("doctor", "--python", python, "--format", "json")
    assert (done.returncode, done.stderr) == (1, "")
    return request.param, json.loads(done.stdout)


def test_doctor(report: tuple[str, Any]) -> None:
    name, found = report
    assert [one["id"] for one in found["findings"] if one["root_cause"]] == MACHINES[name].first
    for path, value in MACHINES[name].facts.items():
        section, _, field = path.partition(".")
        assert found["facts"][section][field].get("value") == value, path
    reasons = [reason for reason in _reasons(found["facts"]) if "probe" in reason and "failed" in reason]
    assert reasons == [], "a probe ended with an error"
    if name == "CUDA off PATH":
        (path,) = [one for one in found["findings"] if one["id"] == "cuda.lib-path"]
        bin_folder = f"{TOOLKIT}v11.2\\bin"
        cmd, powershell = path["fixes"][-1]["commands"]
        assert cmd == f'set "PATH={bin_folder};%PATH%"'
        assert powershell == f'$env:PATH = "{bin_folder};$env:PATH"  # in PowerShell'
    if name != "Mac":
        commands = [command for one in found["findings"] for fix in one["fixes"] for command in posix(fix)]
        assert commands == []


def _reasons(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["reason"]] if value.get("is") == "unknown" else []
        return own + [reason for one in value.values() for reason in _reasons(one)]
    return [reason for one in value for reason in _reasons(one)] if isinstance(value, list) else []


# arguments, exit code, what is in the output; PY is the interpreter, DIR the folder
CALLS: list[tuple[tuple[str, ...], int, str]] = [
    (("bench", "matpow", *SMALL, "--python", "PY", "--output", "DIR/a.json"), 0, "FLOP/s"),
    (("check", "DIR/requirements.txt"), 0, ""),
    (("compare", "DIR/a.json", "DIR/a.json"), 0, "same"),
    (("explain", "-"), 1, "Windows"),
    (("fleet", "DIR/a.json"), 0, "1 node"),
    (("install", "DIR/new", "--dry-run"), 1, "WSL2"),
    (("matrix", "tensorflow", "--version", "2.10.1", "--platform", "windows_amd64"), 0, "2.10.1"),
    (("mcp",), 0, ""),
    (("plan",), 0, "WSL2"),
    (("smoke", "--python", "PY", "--require-gpus", "0", "--budget", "60"), 0, ""),
]
TEXT = "OS: Windows 11\nTensorFlow 2.18.0 on Python 3.11 does not list my RTX 4080"


def test_every_other_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert {"doctor", *(call[0][0] for call in CALLS)} == set(cli.commands)
    python = stand(MACHINES["with a GPU"], tmp_path, monkeypatch)
    (tmp_path / "requirements.txt").write_text("tensorflow-cpu==2.18.0\n")
    wrong = []
    for arguments, code, text in CALLS:
        named = [one.replace("PY", python).replace("DIR", str(tmp_path)) for one in arguments]
        done = tfgpu(*named, input=TEXT)
        if done.returncode != code or text not in done.stdout + done.stderr or "internal error" in done.stderr:
            wrong.append((arguments, done.returncode, done.stdout[-1500:], done.stderr[-1500:]))
    assert wrong == [], "\n".join(f"{a} {c}\n{o}\n{e}" for a, c, o, e in wrong)
