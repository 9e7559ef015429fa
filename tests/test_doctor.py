"""`tfgpu doctor` from end to end: one fault at a time under a real interpreter; the right finding first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.findings.advice import refused_repairs
from tests.lab import Lab
from tests.tiers import usual

ROOT = Path(__file__).parents[1]
PATIENTS = Path(__file__).parent / "patients"
PATIENCE = 90.0  # seconds after which the doctor itself hangs; what hangs below it is stopped by deadlines of seconds

Row = tuple[dict[str, Any], dict[str, str], str]


def doctor(*arguments: str, environ: dict[str, str] | None = None, code: int | None = 1) -> dict[str, Any]:
    """Run it with JSON output, and check that it ends, with this code, and leaves no process behind."""
    marker = f"tfgpu-{os.getpid()}-{time.monotonic_ns()}"
    keep = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "doctor", "--format", "json", *arguments],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={**keep, **(environ or {}), "TFGPU_MARKER": marker},
        cwd=ROOT,
    )
    assert done.stderr == ""
    assert left_behind(marker) == []
    report: dict[str, Any] = json.loads(done.stdout)
    assert refused_repairs(done.stdout.encode()) == []  # law 11, of every patient
    assert code is None or done.returncode == code, [finding["id"] for finding in report["findings"]]
    return report


def left_behind(marker: str) -> list[str]:
    """Command lines of processes that inherited the marker and still live."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if marker.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text().replace("\0", " "))
        except OSError:
            continue
    return found


def roots(report: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in report["findings"] if finding["root_cause"]]


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter with nothing installed."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=120)
    return str(folder / "bin" / "python")


@pytest.mark.tensorflow
def test_this_machine(tensorflow_python: str) -> None:
    """A true diagnosis of the real TensorFlow, with the driver that this machine has or has not."""
    report = doctor("--python", tensorflow_python, code=None)
    assert report["schema"] == "tfgpu.report/1"
    assert report["facts"]["tensorflow"]["version"]["is"] == "known"
    assert [phase["outcome"] for phase in report["facts"]["tensorflow"]["phases"][:4]] == ["ok"] * 4
    if report["facts"]["host"]["pci_gpus"].get("value") == []:
        assert roots(report)[0] == "gpu.none"
        assert "gpu.not-visible" in report["findings"][0]["consequences"]


# (answers of the lab, further variables, what must be the first finding)
DRIVER_FAULTS: dict[str, Row] = {
    "module older than libraries": (
        {"cuinit": 803, "nvml_init": 18, "nvidia_smi": "mismatch"},
        {},
        "driver.version-mismatch",
    ),
    "forward compatibility": ({"cuinit": 804}, {}, "driver.too-old"),
    "stub": ({"cuinit": 34}, {}, "driver.stub-loaded"),
    "NVML hangs": ({"cuinit": 100, "nvml_init": "hang"}, {}, "driver.unresponsive"),
    "cuInit hangs": ({"cuinit": "hang"}, {}, "driver.unresponsive"),
    "nvidia-smi hangs and ignores SIGTERM": (
        {"cuinit": 100, "nvml_init": 9, "nvidia_smi": "hangs"},
        {},
        "driver.unresponsive",
    ),
    "libcuda crashes": ({"cuinit": "segv"}, {}, "driver.init-failed"),
    "unknown error": ({"cuinit": 999}, {}, "driver.init-failed"),
    "fabric manager": ({"cuinit": 802}, {}, "driver.init-failed"),
    "hidden": ({"cuinit": 100}, {"CUDA_VISIBLE_DEVICES": "-1"}, "gpu.hidden"),
    "old driver": ({"cuinit": 0, "driver": "470.256.02"}, {}, "driver.too-old"),
    "old card": ({"cuinit": 0, "name": "Tesla K80", "cc": "3.7"}, {}, "gpu.arch-too-old"),
    "new card": (
        {"cuinit": 0, "name": "NVIDIA GeForce RTX 5090", "cc": "12.0", "driver": "570.86.15", "cuda_version": 12080},
        {},
        "gpu.arch-too-new",
    ),
}


# One by default: each starts TensorFlow, and test_fault_lab.py has the rest without it.
USUAL = {"new card"}


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in USUAL else pytest.mark.full) for name in sorted(DRIVER_FAULTS)]
)
def test_driver_faults(name: str, tensorflow_python: str, driver_lab: Lab) -> None:
    answers, variables, first = DRIVER_FAULTS[name]
    environ = {**driver_lab.environ(**answers), **variables}
    report = doctor("--python", tensorflow_python, environ=environ)
    assert roots(report)[0] == first, roots(report)


@pytest.mark.full
@pytest.mark.tensorflow
def test_garbage_from_nvidia_smi_harms_nothing(tensorflow_python: str, driver_lab: Lab) -> None:
    environ = driver_lab.environ(cuinit=999, nvml_init=999, nvidia_smi="garbage")
    report = doctor("--python", tensorflow_python, environ=environ)
    assert report["facts"]["driver"]["nvidia_smi"]["is"] == "known"
    assert "gpu.none" not in roots(report)  # a driver that answers 999 has a GPU below it


def test_empty_cudnn_on_the_path(tensorflow_python: str, driver_lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "libcudnn.so.9").touch()
    environ = driver_lab.environ()
    environ["LD_LIBRARY_PATH"] = f"{tmp_path}:{environ['LD_LIBRARY_PATH']}"
    report = doctor("--no-import", "--python", tensorflow_python, environ=environ)
    found = {finding["id"]: finding for finding in report["findings"]}
    one = found.get("cudnn.lib-path") or found["cudnn.missing"]
    assert str(tmp_path / "libcudnn.so.9") in [item["source"] for item in one["evidence"]]


def test_toolkit_of_another_major(tensorflow_python: str, driver_lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "version.json").write_text('{"cuda": {"name": "CUDA SDK", "version": "13.0.1"}}')
    (tmp_path / "lib64").mkdir()
    (tmp_path / "bin").mkdir()
    environ = {**driver_lab.environ(), "CUDA_HOME": str(tmp_path)}
    report = doctor("--no-import", "--python", tensorflow_python, environ=environ)
    if all(s["winner"] for s in report["facts"]["loader"]["sonames"]["value"] if s["component"] != "driver"):
        pytest.skip("this environment has its CUDA libraries, and a toolkit beside them is harmless")
    assert "cuda.version-mismatch" in roots(report)


# folder of the patient → arguments, variables, what must be the first finding, how the import ended
PATIENT_FAULTS = {
    "import_error": ((), {}, "tf.import-failed", "raised"),
    "sleeps": (("--timeout", "3"), {}, "tf.import-hang", "timeout"),
    "ignores_sigterm": (("--timeout", "3"), {}, "tf.import-hang", "timeout"),
    "holds_the_gil": (("--timeout", "3"), {}, "tf.import-hang", "timeout"),
    "dies_of_a_signal": ((), {"PATIENT_SIGNAL": "SIGILL"}, "tf.import-avx", "died"),
    "leaves_a_grandchild": ((), {}, "tf.import-failed", "raised"),
}


# those that hang until the deadline hang alike
@pytest.mark.parametrize(
    "name", usual(sorted(PATIENT_FAULTS), lambda name: name not in ("ignores_sigterm", "holds_the_gil", "sleeps"))
)
def test_patients(name: str, bare_python: str) -> None:
    arguments, variables, first, outcome = PATIENT_FAULTS[name]
    environ = {"PYTHONPATH": str(PATIENTS / name), **variables}
    report = doctor("--python", bare_python, *arguments, environ=environ, code=None)
    phase = next(p for p in report["facts"]["tensorflow"]["phases"] if p["name"] == "import")
    assert phase["outcome"] == outcome
    if "--timeout" in arguments:  # shorter than an import may take: nothing is known
        severities = {finding["id"]: finding["severity"] for finding in report["findings"]}
        assert severities[first] == "note" and "error" not in {severities[one] for one in severities if "tf." in one}
    else:  # the latter where this machine has a GPU and another CUDA than the patient asks for
        assert roots(report)[0] in (first, "cuda.version-mismatch")


def test_nothing_installed(bare_python: str) -> None:
    report = doctor("--python", bare_python)
    assert roots(report)[0] == "tf.not-installed"
    commands = [c for fix in report["findings"][0]["fixes"] for c in fix["commands"]]
    assert any("pip install" in command for command in commands)


def test_no_import_leaves_tensorflow_alone(tmp_path: Path, bare_python: str) -> None:
    (tmp_path / "tensorflow").mkdir()
    (tmp_path / "tensorflow" / "__init__.py").write_text(f"open({str(tmp_path / 'imported')!r}, 'w')\n")
    report = doctor("--no-import", "--python", bare_python, environ={"PYTHONPATH": str(tmp_path)}, code=None)
    assert not (tmp_path / "imported").exists()
    phase = next(p for p in report["facts"]["tensorflow"]["phases"] if p["name"] == "import")
    assert phase["outcome"] == "skipped"
