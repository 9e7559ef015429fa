"""A real benchmark of two processes, compared with itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.cli.runner import process as tfgpu

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def measured(tensorflow_python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("bench") / "result.json"
    shape = ("--devices", "cpu", "--size", "64", "--processes", "2", "--deadline", "1")
    done = tfgpu("bench", "matpow", *shape, "--python", tensorflow_python, "--output", str(file))
    assert done.returncode == 0, done.stderr
    assert " in 2 processes" in " ".join(done.stdout.split())
    return file


@pytest.mark.full
def test_each_process_gave_samples_and_its_waiting_is_known(measured: Path) -> None:
    result = json.loads(measured.read_text())
    (run,) = result["runs"]
    assert result["parameters"]["processes"] == 2
    assert len(run["processes"]) == 2 and sum(run["processes"]) == len(run["samples_s"])
    assert min(run["processes"]) >= 5
    if sys.platform == "linux":
        assert len(run["cpu_wait"]) == len(run["samples_s"])
        assert all(wait >= 0 for wait in run["cpu_wait"])


@pytest.mark.full
def test_it_is_not_slower_than_itself(measured: Path) -> None:
    done = tfgpu("compare", str(measured), str(measured), "--format", "json")
    (run,) = json.loads(done.stdout)["runs"]
    assert run["verdict"] in ("same", "cannot tell")  # by what else the machine does
    assert done.returncode == {"same": 0, "cannot tell": 3}[run["verdict"]]
    other = measured.with_name("other.json")
    other.write_text(measured.read_text().replace('"size": 64', '"size": 65'))
    forbidden = tfgpu("compare", str(measured), str(other))
    assert forbidden.returncode == 3
    assert "size 64 → 65 (--size 64 repeats BASE)" in forbidden.stdout
