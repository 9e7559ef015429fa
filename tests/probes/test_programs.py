"""Programs are looked up as a shell does it, save for the current directory; and what is no file is not waited for."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import tfgpu
from tests.facts.test_reading import odd_path
from tests.guard import guarded
from tests.tables import each
from tfgpu_doctor.facts.facts import value_or
from tfgpu_doctor.probes import cuda, elsewhere, files, host, loader, process, systems

RELATIVE = (".", "", "./bin", "bin", "..")
# whatever a command may look for by its name
NAMES = (
    *("nvidia-smi", "dmesg", "ldconfig", "nvcc", "ptxas", "python", "python3", "uname", "lspci", "sh", "env"),
    *("pip", "uv", "conda", "mamba", "micromamba", "poetry", "pixi", "git", "scontrol", "srun", "docker"),
)


def program(path: Path, script: str = "echo hit") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current directory that holds a program of every name, itself and in its `bin`."""
    (tmp_path / "checkout" / "below").mkdir(parents=True)
    for folder in (tmp_path / "checkout", tmp_path / "checkout" / "bin", tmp_path / "checkout" / "below" / "bin"):
        for name in NAMES:
            program(folder / name, f"echo {name} >> {tmp_path}/started")
    monkeypatch.chdir(tmp_path / "checkout" / "below")
    return tmp_path / "checkout" / "below"


@each("entry", RELATIVE)
def test_relative_entries_of_path_are_passed_over(checkout: Path, tmp_path: Path, entry: Any) -> None:
    environ = {"PATH": os.pathsep.join((entry, str(tmp_path / "real")))}
    assert systems.find("nvcc", environ) is None
    assert process.run(["nvcc"], timeout=9, env=environ).error == "No such file or directory"
    real = program(tmp_path / "real" / "nvcc")
    assert systems.find("nvcc", environ) == str(real)
    assert process.run(["nvcc"], timeout=9, env=environ).stdout == "hit\n"
    assert not (tmp_path / "started").exists()


def test_further_folders_and_a_root(tmp_path: Path) -> None:
    found = program(tmp_path / "sbin" / "ldconfig")
    (tmp_path / "usr").mkdir()
    (tmp_path / "usr" / "ldconfig").mkdir()  # a folder of that name is no program
    environ = {"PATH": "/usr"}
    assert systems.find("ldconfig", environ, root=str(tmp_path), more=["/sbin"]) == str(found)
    assert systems.find(str(found), environ) == str(found)
    assert systems.find("sh", {}) in ("/bin/sh", "/usr/bin/sh")  # PATH is not set


def test_no_command_starts_a_program_of_the_current_directory(checkout: Path, tmp_path: Path) -> None:
    path = os.pathsep.join((*RELATIVE, os.environ["PATH"]))
    environ = {"PATH": path, "CUDA_HOME": "..", "XLA_FLAGS": "--xla_gpu_cuda_data_dir=.."}
    for arguments in (["doctor", "--no-import"], ["plan"], ["doctor", "--no-import", "--python", "python"]):
        assert tfgpu(*arguments, environ=environ, cwd=checkout).returncode in (0, 1, 3)
    assert not (tmp_path / "started").exists()


# ------------------------------------------------------------------------------------------------ odd files

PROBES: dict[str, Callable[[Path], object]] = {
    "version.json": lambda root: cuda.toolkit_version(str(root))[0],
    "version.txt": lambda root: cuda.toolkit_version(str(root))[0],
    "include/cuda.h": lambda root: cuda.toolkit_version(str(root))[0],
    "include/cudnn_version.h": lambda root: cuda._cudnn_version(f"{root}/lib/x.so.9", loader.Listing("/", ()), "/")[0],
    # whose reader takes the error of the guard below for damage, too
    "libcudart.so.12": lambda root: loader.read_elf(f"{root}/libcudart.so.12").problem in (None, "damaged ELF file"),
    "kernel.json": lambda root: elsewhere.read(f"{root}/kernel.json", "a", str(root), {}),
    cuda.HEADER: lambda root: [*cuda._roots(str(root), "2.13", {}, "/")][1:],
    "proc/modules": lambda root: value_or(files.text_fact(str(root), "/proc/modules"), None),
    "proc/vmstat": lambda root: host.oom_kills(str(root)),
}


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has none of these")
def test_nothing_waits_for_what_is_no_file(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for odd in ["a pipe without a writer", "a link to a device", "a folder", "a link to itself"]:
        for name, look in PROBES.items():
            with subtests.test(odd=odd, probe=name):
                tmp_path = tmp_path_factory.mktemp("row")
                (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
                odd_path(odd, tmp_path / name)
                with guarded(5, f"{name}: {odd}", waiting=True):
                    assert not look(tmp_path)
