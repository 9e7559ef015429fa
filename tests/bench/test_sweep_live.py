"""`tfgpu bench matpow --size LIST` as a user starts it, with the real TensorFlow over logical CPU devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.live import bench, refuses
from tests.tables import each


@each(
    ("arguments", "message"),
    [
        (["--size", "256,big"], "'big' is not a size from 16 to 131072; for example 4096, 256,512,1024 or auto"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    refuses(["matpow", *arguments], message)


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.usefixtures("one_process")
def test_a_sweep(tmp_path: Path) -> None:
    file = tmp_path / "sweep.json"
    short = ["--min-samples", "3", "--deadline", "0.5", "--spread", "rows", "--virtual-gpus", "2"]
    done = bench("matpow", "--size", "32,…,128", *short, "--output", str(file))
    assert done.exit_code == 0, done.stderr
    runs = json.loads(file.read_bytes())["runs"]
    assert [(run["label"], run["parameters"]) for run in runs] == [
        (label, {"size": size}) for size in (32, 64, 128) for label in ("CPU", "2 virtual CPUs, rows")
    ]
    assert all(run["verified"]["ok"] and run["throughput"] for run in runs)
    assert "6 of 6 results measured and verified" in " ".join(done.stdout.split())
    assert "CPU, float32: " in done.stdout and "fastest at N = " in done.stdout
