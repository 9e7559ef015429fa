"""Where XLA looks for libdevice and ptxas: the order of its own source, over folders that are really there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfgpu_doctor.probes import cuda
from tfgpu_doctor.probes.cuda import XlaFiles
from tfgpu_doctor.records.facts import Known, Unknown, value_or


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of an installed TensorFlow whose build names a toolkit below `tmp_path`."""
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages" / "tensorflow"
    header = folder / cuda.HEADER
    header.parent.mkdir(parents=True)
    header.write_text(f'#define TF_CUDA_TOOLKIT_PATH "{tmp_path}/cuda-12.3"\n')
    return folder


def libdevice(root: Path) -> str:
    """A libdevice.10.bc in a toolkit's folder."""
    file = root / "nvvm" / "libdevice" / "libdevice.10.bc"
    file.parent.mkdir(parents=True)
    file.touch()
    return str(file)


def ptxas(folder: Path, version: str) -> str:
    """A program that answers --version as NVIDIA's does."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "ptxas"
    file.write_text(f"#!/bin/sh\necho 'ptxas: NVIDIA (R) Ptx optimizing assembler'\necho 'release x, V{version}'\n")
    file.chmod(0o755)
    return str(file)


def look(package: Path, version: str = "2.16.1", **environ: str) -> XlaFiles:
    return cuda.examine_xla_files(str(package), version, {"PATH": "", **environ}, cwd="/nowhere", root="/nowhere")


def test_the_wheel_of_nvcc(package: Path) -> None:
    wheel = package.parent / "nvidia" / "cuda_nvcc"
    file, program = libdevice(wheel), ptxas(wheel / "bin", "12.5.82")
    found = look(package)
    assert [(one.path, one.via) for one in value_or(found.libdevice, ())] == [(file, "pip wheel")]
    assert [(one.path, one.version) for one in value_or(found.ptxas, ())] == [(program, "12.5.82")]


def test_before_2_14_the_wheel_is_not_looked_into(package: Path) -> None:
    libdevice(package.parent / "nvidia" / "cuda_nvcc")
    assert look(package, "2.13.1").libdevice == Known((), f"where XLA of {package} looks")


def test_the_toolkit_of_the_build_comes_before_the_wheel(package: Path, tmp_path: Path) -> None:
    libdevice(package.parent / "nvidia" / "cuda_nvcc")
    file = libdevice(tmp_path / "cuda-12.3")
    assert value_or(look(package).libdevice, ())[0].path == file


def test_xla_flags_come_first_and_an_empty_folder_there_wins(package: Path, tmp_path: Path) -> None:
    libdevice(package.parent / "nvidia" / "cuda_nvcc")
    (tmp_path / "mine" / "nvvm" / "libdevice").mkdir(parents=True)
    found = look(package, XLA_FLAGS=f"--xla_dump_to=/x --xla_gpu_cuda_data_dir={tmp_path}/mine")
    first = value_or(found.libdevice, ())[0]
    assert (first.via, first.problem) == ("XLA_FLAGS", "no libdevice.10.bc in it")


def test_ptxas_on_path_comes_before_the_roots(package: Path, tmp_path: Path) -> None:
    wheel = ptxas(package.parent / "nvidia" / "cuda_nvcc" / "bin", "12.9.86")
    old = ptxas(tmp_path / "usr", "11.2.152")
    mine = ptxas(tmp_path / "mine" / "bin", "12.8.1")
    found = look(package, PATH=str(tmp_path / "usr"), XLA_FLAGS=f"--xla_gpu_cuda_data_dir={tmp_path}/mine")
    assert [one.path for one in value_or(found.ptxas, ())] == [mine, old, wheel]


def test_conda(package: Path, tmp_path: Path) -> None:
    file = libdevice(tmp_path / "env")
    assert [(one.path, one.via) for one in value_or(look(package).libdevice, ())] == [(file, "conda")]


def test_no_tensorflow() -> None:
    assert isinstance(cuda.examine_xla_files(None, None, {}).ptxas, Unknown)


def test_data_dir(subtests: pytest.Subtests) -> None:
    for flags, folder in [
        ("--xla_gpu_cuda_data_dir=/a --xla_gpu_cuda_data_dir=/b", "/b"),
        ("--xla_gpu_cuda_data_dir=", None),
        ("--xla_gpu_cuda_data_dir='/with space'", "/with space"),
        ("--xla_gpu_cuda_data_dir=/a '", "/a"),
        ("", None),
    ]:
        with subtests.test(flags=flags):
            assert cuda.data_dir({"XLA_FLAGS": flags}) == folder
