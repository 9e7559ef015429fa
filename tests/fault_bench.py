"""What the tests of the fault lab share: one run of the doctor, and an interpreter whose packages are made up."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.findings.advice import refused_repairs
from tests.lab import Lab

ROOT = Path(__file__).parents[1]
PATIENTS = Path(__file__).parent / "patients"
PATIENCE = 120.0  # seconds after which the doctor itself hangs
H100 = {"cuinit": 0, "name": "NVIDIA H100 80GB HBM3", "cc": "9.0", "driver": "570.86.15", "cuda_version": 12080}
WHEELS = {
    "cuda_runtime": ("libcudart.so.12",),
    "cublas": ("libcublas.so.12", "libcublasLt.so.12"),
    "cufft": ("libcufft.so.11",),
    "cusolver": ("libcusolver.so.11",),
    "cusparse": ("libcusparse.so.12",),
    "cudnn": (
        "libcudnn.so.9",
        *(f"libcudnn_{p}.so.9" for p in ("graph", "ops", "cnn", "adv", "heuristic", "engines_runtime_compiled")),
    ),
}


def examine(
    python: str,
    *arguments: str,
    environ: Mapping[str, str],
    wrapper: Sequence[str] = (),
    cwd: Path = ROOT,
) -> dict[str, Any]:
    """Run `tfgpu doctor`: nothing but one report on stdout, nothing on stderr, nothing left running."""
    marker = f"tfgpu-lab-{os.getpid()}-{time.monotonic_ns()}"
    command = [sys.executable, "-m", "tfgpu_doctor", "doctor", "--format", "json", "--python", python, *arguments]
    done = subprocess.run(
        [*wrapper, *command],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env={"PYTHONPATH": str(ROOT), **environ, "TFGPU_MARKER": marker},
        cwd=cwd,
    )
    assert done.stderr == ""
    assert left_behind(marker) == []
    report: dict[str, Any] = json.loads(done.stdout)
    assert refused_repairs(done.stdout.encode()) == []  # law 11, of every machine of the lab
    assert done.returncode == (1 if report["verdict"] == "broken" else 0) or report["verdict"] == "unknown"
    return report


def left_behind(marker: str) -> list[str]:
    """Command lines of processes that inherited the marker and still live."""
    running = psutil.process_iter(["cmdline", "environ"])  # None where that is not allowed
    return [str(one.info["cmdline"]) for one in running if marker in (one.info["environ"] or {}).values()]


def roots(report: dict[str, Any]) -> list[str]:
    """The ids of the root causes, in order."""
    return [finding["id"] for finding in report["findings"] if finding["root_cause"]]


def first(report: dict[str, Any]) -> tuple[str, str] | None:
    """Id and severity of the first finding."""
    finding = next(iter(report["findings"]), None)
    return (finding["id"], finding["severity"]) if finding else None


def namespace(mounts: str) -> list[str]:
    """A command that runs another one in a mount namespace of its own; the test is skipped where none is allowed."""
    if sys.platform != "linux" or not shutil.which("unshare"):
        pytest.skip("needs unshare of util-linux")
    command = ["unshare", "-rm", "sh", "-ec", f'{mounts}\nexec "$@"', "sh"]
    tried = subprocess.run([*command, sys.executable, "-c", ""], capture_output=True, timeout=60, check=False)
    if tried.returncode:
        pytest.skip(f"no mount namespace here: {tried.stderr.decode()[:200]}")
    return command


class MadeUp:
    """A virtual environment whose TensorFlow and NVIDIA wheels are names and small libraries."""

    def __init__(self, folder: Path) -> None:
        """Make it in `folder`, which becomes the environment; the module venv would take twenty times as long."""
        base = Path(sys.executable).resolve()
        self.site = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
        self.site.mkdir(parents=True)
        (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\ninclude-system-site-packages = false\n")
        (folder / "bin").mkdir()
        (folder / "bin" / "python").symlink_to(base)
        self.python = str(folder / "bin" / "python")

    def package(self, name: str, version: str) -> None:
        """A distribution, as pip leaves it."""
        info = self.site / f"{name.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (info / "INSTALLER").write_text("pip\n")

    def tensorflow(self, version: str, caller: Path) -> None:
        """TensorFlow, with the library that opens the others, whose RUNPATH is that of `caller`."""
        self.package("tensorflow", version)
        folder = self.site / "tensorflow"
        folder.mkdir()
        (folder / "__init__.py").write_text(f"__version__ = {version!r}\n")
        shutil.copy(caller, folder / "libtensorflow_framework.so.2")
        (folder / "libtensorflow_cc.so.2").touch()

    def wheels(self, lab: Lab, *names: str) -> None:
        """The wheels of CUDA 12 with these names; all when none is named."""
        for name in names or WHEELS:
            self.package(f"nvidia-{name.replace('_', '-')}-cu12", "9.3.0.75" if name == "cudnn" else "12.5.82")
            folder = self.site / "nvidia" / name / "lib"
            folder.mkdir(parents=True)
            for soname in WHEELS[name]:
                shutil.copy(lab.cuda() / soname, folder / soname)

    def compiler(self, version: str) -> None:
        """What XLA looks for, with a ptxas of this version, where the wheel of nvcc has it."""
        folder = self.site / "nvidia" / "cuda_nvcc"
        (folder / "nvvm" / "libdevice").mkdir(parents=True)
        (folder / "nvvm" / "libdevice" / "libdevice.10.bc").touch()
        (folder / "bin").mkdir()
        (folder / "bin" / "ptxas").write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release 12, V{version}'\n")
        (folder / "bin" / "ptxas").chmod(0o755)
