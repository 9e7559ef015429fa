"""CUDA toolkits, cuDNN, and what XLA compiles with, in fake file systems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.tables import each, read_rows
from tfgpu_doctor.facts.facts import Candidate, CudnnFile, Known, Nvcc, Soname, Toolkit, Unknown, XlaFile, value_or
from tfgpu_doctor.probes import cuda

SITE = "/env/lib/python3.12/site-packages"
NVCC = "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n"
ROWS = read_rows(Path(__file__).with_name("cuda.yaml"))
HEADER = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 3\n#define CUDNN_PATCHLEVEL 0\n"


def write(root: Path, path: str, text: str = "", mode: int = 0o644) -> Path:
    """Write a file of a machine whose files are below a folder."""
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)
    return target


def lay(root: Path, files: dict[str, Any]) -> None:
    """Write files of a machine: a text, or a link."""
    for path, text in files.items():
        if isinstance(text, str):
            write(root, path, text)
        else:
            (root / path.lstrip("/")).symlink_to(text["link"])


@each("files, environ, prefix, expected", ROWS["toolkits"])
def test_toolkits(tmp_path: Path, files: Any, environ: Any, prefix: str | None, expected: list[list[str]]) -> None:
    lay(tmp_path, files)
    found = value_or(cuda.examine(str(tmp_path), environ, prefix).toolkits, ())
    assert [[one.path, one.version, one.via] for one in found] == expected
    assert all(one.source.startswith(one.path) for one in found)


def test_nvcc_tells_its_version_also_without_a_toolkit(tmp_path: Path) -> None:
    """A wrapper script that starts the compiler of another folder."""
    write(tmp_path, "/usr/local/bin/nvcc", NVCC, 0o755)
    facts = cuda.examine(str(tmp_path), {"PATH": "/usr/local/bin"})
    assert value_or(facts.toolkits, None) == ()
    assert facts.nvcc == Known(Nvcc(path="/usr/local/bin/nvcc", version="13.0.88"), "/usr/local/bin/nvcc --version")
    write(tmp_path, "/usr/local/bin/nvcc", "#!/bin/sh\nexit 3\n", 0o755)
    found = cuda.examine(str(tmp_path), {"PATH": "/usr/local/bin"}).nvcc
    assert found == Unknown("/usr/local/bin/nvcc --version tells no version")
    assert cuda.examine(str(tmp_path), {"PATH": "/bin"}).nvcc == Unknown("nvcc is not on PATH")


# -------------------------------------------------------------------------------------------------------------- cuDNN


def cudnn(root: Path, *opened: Soname, **environ: str) -> list[CudnnFile]:
    kit = Toolkit(path="/usr/local/cuda", version="12.5", source="version.json", via="/usr/local")
    found = cuda.examine_cudnn(opened, site_packages=[SITE], toolkits=[kit], environ=environ, root=str(root)).installed
    assert isinstance(found, Known)
    return list(found.value)


@each("files, expected", ROWS["cudnn"])
def test_what_tells_the_version_of_a_cudnn(tmp_path: Path, files: list[str], expected: list[list[str | None]]) -> None:
    for file in files:
        write(tmp_path, file.replace("SITE", SITE), HEADER)
    found = [[one.path, one.version, one.source] for one in cudnn(tmp_path)]
    assert found == [[cell and cell.replace("SITE", SITE) for cell in row] for row in expected]


def test_the_loaders_choice_comes_first_and_each_file_once(tmp_path: Path) -> None:
    chosen, wheel = "/mine/libcudnn.so.9.5.1", f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9"
    other = "/mine/libcudnn.so.8.9.7"
    for path in (chosen, wheel, other):
        write(tmp_path, path)
    candidates = (
        Candidate(path=chosen, via="LD_LIBRARY_PATH", reachable=True),
        Candidate(path=wheel, via="RUNPATH", reachable=True),
    )
    soname = Soname(soname="libcudnn.so.9", component="cudnn", candidates=candidates, winner=chosen)
    assert [one.path for one in cudnn(tmp_path, soname, LD_LIBRARY_PATH="/mine")] == [chosen, wheel, other]


# ---------------------------------------------------------------------------------------------------------------- XLA


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """The folder of an installed TensorFlow whose build names a toolkit below `tmp_path`."""
    folder = tmp_path / "env" / "lib" / "python3.12" / "site-packages" / "tensorflow"
    write(folder, cuda.HEADER, f'#define TF_CUDA_TOOLKIT_PATH "{tmp_path}/cuda-12.3"\n')
    return folder


def libdevice(root: Path) -> str:
    """A libdevice.10.bc in a toolkit's folder."""
    write(root, "nvvm/libdevice/libdevice.10.bc")
    return f"{root}/nvvm/libdevice/libdevice.10.bc"


def ptxas(folder: Path, version: str) -> str:
    """A program that answers --version as NVIDIA's does."""
    write(folder, "ptxas", f"#!/bin/sh\necho 'ptxas: NVIDIA (R)'\necho 'release x, V{version}'\n", 0o755)
    return f"{folder}/ptxas"


def look(package: Path, kind: str, version: str = "2.16.1", **environ: str) -> tuple[XlaFile, ...]:
    environ = {"PATH": "", **environ}
    found = cuda.examine_xla_files(str(package), version, environ, root="/nowhere")[kind]
    assert isinstance(found, Known)
    return found.value


def test_where_xla_looks_for_libdevice(package: Path, tmp_path: Path) -> None:
    """Each place that is filled comes before those before it."""
    wheel, build, mine = package.parent / "nvidia" / "cuda_nvcc", tmp_path / "cuda-12.3", tmp_path / "mine"
    flags = f"--xla_dump_to=/x --xla_gpu_cuda_data_dir={mine}"
    assert look(package, "libdevice") == ()
    conda = libdevice(tmp_path / "env")
    assert [(one.path, one.via) for one in look(package, "libdevice")] == [(conda, "conda")]
    file = libdevice(wheel)
    assert look(package, "libdevice")[0].path == file
    assert look(package, "libdevice", "2.13.1") == ()  # looks into neither
    file = libdevice(build)
    assert look(package, "libdevice")[0].path == file
    (mine / "nvvm" / "libdevice").mkdir(parents=True)  # an empty folder wins, too
    first = look(package, "libdevice", XLA_FLAGS=flags)[0]
    assert (first.via, first.problem) == ("XLA_FLAGS", "no libdevice.10.bc in it")
    assert isinstance(cuda.examine_xla_files(None, None, {})["ptxas"], Unknown)


def test_ptxas_on_path_comes_before_the_roots(package: Path, tmp_path: Path) -> None:
    wheel = ptxas(package.parent / "nvidia" / "cuda_nvcc" / "bin", "12.9.86")
    old, mine = ptxas(tmp_path / "usr", "11.2.152"), ptxas(tmp_path / "mine" / "bin", "12.8.1")
    flags = f"--xla_gpu_cuda_data_dir={tmp_path}/mine"
    found = look(package, "ptxas", PATH=str(tmp_path / "usr"), XLA_FLAGS=flags)
    assert [(one.path, one.version) for one in found] == [(mine, "12.8.1"), (old, "11.2.152"), (wheel, "12.9.86")]


def test_data_dir(tmp_path: Path) -> None:
    for flags, folder in [
        ("--xla_gpu_cuda_data_dir=/a --xla_gpu_cuda_data_dir=/b", "/b"),
        ("--xla_gpu_cuda_data_dir=", None),
        ("--xla_gpu_cuda_data_dir='/with/quotes'", "/with/quotes"),
    ]:
        found = cuda.examine_xla_files(str(tmp_path), None, {"XLA_FLAGS": flags}, root=str(tmp_path))["xla_roots"]
        assert [one.path for one in value_or(found, ()) if one.via == "XLA_FLAGS"] == [folder][: bool(folder)]
