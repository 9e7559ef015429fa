"""Real installations from the package index, verified; minutes and gigabytes each.

Opt-in: TFGPU_TEST_INDEX=1 pytest -n 0 -m full tests/install/test_real.py. TFGPU_TEST_METHODS=uv leaves pip out.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.install.fakes import left_in
from tests.tables import each
from tfgpu_doctor.install.records import LOCK, MANIFEST, REPORT, Manifest
from tfgpu_doctor.records.report import decode_saved, load_report

pytestmark = [
    pytest.mark.full,
    pytest.mark.index,
    pytest.mark.skipif(not os.environ.get("TFGPU_TEST_INDEX"), reason="opt-in: TFGPU_TEST_INDEX=1"),
]
METHODS = os.environ.get("TFGPU_TEST_METHODS", "uv pip").split()

# GPU, driver, Python, TensorFlow that is asked for, and what is installed
SITUATIONS = [
    ("A100", "570", "3.9", "2.13", "2.13.1"),
    ("RTX 4090", "570", "3.12", "2.16", "2.16.2"),
    ("RTX 4090", "570", "3.11", "2.17.1", "2.17.1"),
    ("RTX 4090", "570", "3.11", "2.20.0", "2.20.0"),
    ("RTX 4090", "570", "3.13", "2.21.0", "2.21.0"),
]


@each("method", METHODS)
@each(("gpu", "driver", "python", "asked", "got"), SITUATIONS)
def test_it_is_made_and_verified(
    tmp_path: Path, method: str, gpu: str, driver: str, python: str, asked: str, got: str
) -> None:
    machine = ("--gpu", gpu, "--driver", driver, "--python", python, "--tensorflow", asked)
    prefix = tmp_path / "env"
    argv = [sys.executable, "-m", "tfgpu_doctor", "install", str(prefix), "--yes", "--method", method, *machine]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=3600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    manifest = decode_saved((prefix / MANIFEST).read_bytes(), Manifest, "it", "manifest")
    versions = {package.name: package.version for package in manifest.packages}
    assert versions["tensorflow"] == got and manifest.python.startswith(python)
    assert {step.name: step.state for step in manifest.steps if step.state != "ok"}.keys() <= {"doctor"}
    assert load_report((prefix / REPORT).read_bytes(), "it").facts is not None
    assert f"tensorflow=={got} \\\n    --hash=sha256:" in (prefix / LOCK).read_text()


@each("tenth", range(10))
def test_interrupted_in_ten_moments_of_a_real_one(tmp_path: Path, tenth: int) -> None:
    """Whatever uv is doing then: in steps of three seconds, which reach from the resolution to the proof."""
    argv = [sys.executable, "-m", "tfgpu_doctor", "install", str(tmp_path / "env"), "--yes", "--method", "uv"]
    argv += ["--gpu", "RTX 4090", "--driver", "570", "--tensorflow", "2.17.1", "--python", "3.11"]
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as running:
        time.sleep(0.5 + 3 * tenth)
        running.send_signal((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[tenth % 3])
        code = running.wait(120)
    if code == 0:
        pytest.skip("it was finished before")
    assert code == 128 + (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[tenth % 3]
    assert left_in(tmp_path) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
@each("size", ["100m", "2g"])
def test_a_disk_that_is_too_small(tmp_path: Path, size: str) -> None:
    """Refused before anything large is downloaded."""
    disk = tmp_path / "disk"
    disk.mkdir()
    machine = "--gpu 'RTX 4090' --driver 570 --tensorflow 2.17.1 --python 3.11"
    script = (
        f"mount -t tmpfs -o size={size} none {disk}; {sys.executable} -m tfgpu_doctor install {disk}/env --yes "
        f"--method uv {machine}; code=$?; ls -A {disk}; exit $code"
    )
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=300, check=False
    )
    if "unshare" in done.stderr or "mount" in done.stderr:
        pytest.skip(f"no mounts here: {done.stderr}")
    assert done.returncode == 1 and "free, and the installation takes up to" in " ".join(done.stdout.split())
    assert "env\n" not in done.stdout
