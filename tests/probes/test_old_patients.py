"""The doctor over real TensorFlows of every generation, under the Pythons that they were made for (opt-in).

``TFGPU_TEST_PATIENTS=FOLDER`` names a folder with environments called old-1.15, old-2.4, ...; those that are missing
are made there with uv or with venv and pip, some hundred MB each. Without it only the interpreters themselves are
examined, those that pyenv has, which takes a second or two each.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

FOLDER = os.environ.get("TFGPU_TEST_PATIENTS")
# TensorFlow → the newest Python that it has wheels for, what is installed with it, and what the doctor must find first
# on a machine without a GPU and with CUDA neither in the environment nor, as a rule, on the machine
PATIENTS = {
    "1.15": ("3.7", ["tensorflow==1.15.5", "protobuf<3.21"], {"gpu.none"}),
    "2.4": ("3.8", ["tensorflow==2.4.4"], {"gpu.none"}),
    "2.10": ("3.10", ["tensorflow==2.10.1", "numpy<2"], {"gpu.none"}),
    "2.13": ("3.11", ["tensorflow==2.13.1"], {"gpu.none"}),
    "2.15": ("3.11", ["tensorflow==2.15.1"], {"gpu.none"}),
    "2.16": ("3.12", ["tensorflow[and-cuda]==2.16.1"], {"gpu.none"}),
}


def doctor(python: Path, *arguments: str) -> dict[str, Any]:
    """The report of the doctor on an interpreter."""
    done = subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "doctor", "--python", str(python), "--format", "json", *arguments],
        capture_output=True,
        timeout=300,
    )
    assert done.returncode in (0, 1, 3), done.stderr.decode()
    assert b"Traceback" not in done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def interpreters() -> list[Path]:
    """Pythons from 3.6 on that pyenv has."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    found = sorted(root.glob("3.*/bin/python")) if root.is_dir() else []
    return [one for one in found if int(one.parts[-3].split(".")[1]) >= 6]


def test_every_interpreter_is_examined() -> None:
    for python in interpreters() or pytest.skip("no Python of pyenv"):
        report = doctor(python, "--no-import")
        version = report["facts"]["python"]["version"]
        assert version["value"].startswith(python.parts[-3].rpartition(".")[0])
        assert report["findings"]


def environment(name: str) -> Path:
    """The Python of a patient, made when it is not there."""
    minor, requirements, _ = PATIENTS[name]
    home = Path(FOLDER or "") / f"old-{name}"
    python = home / "bin" / "python"
    if python.exists():
        return python
    uv = shutil.which("uv")
    base = next((one for one in interpreters() if one.parts[-3].startswith(f"{minor}.")), None)
    if uv is None and base is None:
        pytest.skip(f"no uv, and no Python {minor} of pyenv")
    if uv:
        subprocess.run([uv, "venv", "-q", "--python", str(base or minor), str(home)], check=True, timeout=300)
        subprocess.run([uv, "pip", "install", "-q", "--python", str(python), *requirements], check=True, timeout=1800)
    else:
        subprocess.run([str(base), "-m", "venv", str(home)], check=True, timeout=300)
        subprocess.run([str(python), "-m", "pip", "install", "-q", *requirements], check=True, timeout=1800)
    return python


@pytest.mark.full
@pytest.mark.tensorflow
@pytest.mark.skipif(not FOLDER, reason="opt-in: TFGPU_TEST_PATIENTS=FOLDER")
@pytest.mark.parametrize("name", PATIENTS)
def test_a_real_tensorflow_of_its_time(name: str) -> None:
    python = environment(name)
    before = sorted(path.name for path in (python.parents[1] / "lib").glob("python*/site-packages/*"))
    report = doctor(python)
    facts = report["facts"]["tensorflow"]
    assert facts["version"]["value"].startswith(name)
    phases = {phase["name"]: phase["outcome"] for phase in facts["phases"]}
    assert phases["import"] == phases["devices"] == "ok", phases
    assert report["findings"][0]["id"] in PATIENTS[name][2], [one["id"] for one in report["findings"]]
    after = sorted(path.name for path in (python.parents[1] / "lib").glob("python*/site-packages/*"))
    assert [one for one in after if one not in before and one != "__pycache__"] == [], (
        "nothing is installed into a patient"
    )
