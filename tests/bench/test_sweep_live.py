"""`tfgpu bench matpow --sweep` as a user starts it, with the real TensorFlow over logical CPU devices."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.bench.test_bench_live import matpow


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--sweep", "256"], "--sweep needs two sizes at least"),
        (["--sweep", "256,big"], "'big' is no size from 16 to 131072; write for example 256,512,1024, or auto"),
        (["--sweep", "auto", "--size", "96"], "--size measures one size, --sweep several: use one of the two"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str) -> None:
    done = matpow(*arguments)
    assert done.returncode == 2
    assert message in " ".join(done.stderr.split())


@pytest.mark.tensorflow
def test_a_sweep(tensorflow_python: str, tmp_path: Path) -> None:
    file = tmp_path / "sweep.json"
    short = ["--min-samples", "3", "--deadline", "0.5", "--spread", "rows", "--virtual-gpus", "2"]
    done = matpow("--python", tensorflow_python, "--sweep", "32,…,128", *short, "--output", str(file))
    assert done.returncode == 0, done.stderr
    runs = json.loads(file.read_bytes())["runs"]
    assert [(run["label"], run["parameters"]) for run in runs] == [
        (label, {"size": size}) for size in (32, 64, 128) for label in ("CPU", "2 virtual CPUs, rows")
    ]
    assert all(run["verified"]["ok"] and run["throughput"] for run in runs)
    assert "6 of 6 results measured and verified" in " ".join(done.stdout.split())
    assert "CPU, float32: " in done.stdout and "saturated" in done.stdout
