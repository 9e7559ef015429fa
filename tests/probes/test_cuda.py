"""CUDA toolkits, cuDNN, and what XLA compiles with, in fake file systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tables import each
from tfgpu_doctor.facts.facts import (
    Candidate,
    CudnnFile,
    Known,
    Nvcc,
    Soname,
    Toolkit,
    Unknown,
    XlaFile,
    value_or,
)
from tfgpu_doctor.probes import cuda

SITE = "/env/lib/python3.12/site-packages"
NVCC = "#!/bin/sh\necho 'Cuda compilation tools, release 13.0, V13.0.88'\n"
HEADER = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 3\n#define CUDNN_PATCHLEVEL 0\n"


def write(root: Path, path: str, text: str = "", mode: int = 0o644) -> Path:
    """Write a file of a machine whose files are below a folder."""
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)
    return target


def toolkits(root: Path, environ: dict[str, str] | None = None, prefix: str | None = None) -> list[Toolkit]:
    found = cuda.examine(str(root), environ or {}, prefix).toolkits
    assert isinstance(found, Known)
    return list(found.value)


def test_the_version_comes_from_the_best_file(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    json_text = json.dumps({"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, "cuda_nvcc": {"version": "12.4.9"}})
    for files, version in (
        ({"version.json": json_text}, "12.4.1"),
        ({"version.txt": "CUDA Version 10.1.243\n"}, "10.1.243"),
        ({"include/cuda.h": "/* x */\n#define CUDA_VERSION 11080\n"}, "11.8"),
        ({"bin/nvcc.profile": "", "targets/x86_64-linux/include/cuda.h": "#define CUDA_VERSION 12060"}, "12.6"),
        ({"lib64/libcudart.so.12": "", "lib64/libcudart.so.12.5.82": ""}, "12.5.82"),
        ({"lib64/libcudart.so.11.0": ""}, None),  # the soname of all 11.x
        ({"version.json": "{", "include/cuda.h": "#define CUDA_VERSION 12010"}, "12.1"),
        ({"version.json": "[1]"}, None),
    ):
        with subtests.test(files=files):
            tmp_path = tmp_path_factory.mktemp("row")
            for name, text in files.items():
                write(tmp_path, f"/usr/local/cuda-x/{name}", text)
            (found,) = toolkits(tmp_path)
            assert (found.path, found.version, found.via) == ("/usr/local/cuda-x", version, "/usr/local")
            assert found.source.startswith("/usr/local/cuda-x")


@each(
    "place, environ, prefix, via",
    [
        ("/opt/hand/made", {"CUDA_HOME": "/opt/hand/made/"}, None, "CUDA_HOME"),
        ("/sw/CUDA/12.1", {"EBROOTCUDA": "/sw/CUDA/12.1"}, None, "EBROOTCUDA"),
        ("/sw/cuda-12.1", {"LD_LIBRARY_PATH": "/lib:/sw/cuda-12.1/lib64"}, None, "LD_LIBRARY_PATH"),
        ("/spack/opt/cuda-12.1-abc", {"PATH": "/bin:/spack/opt/cuda-12.1-abc/bin"}, None, "PATH"),
        ("/usr/local/cuda-12.1", {}, None, "/usr/local"),
        ("/usr/lib/cuda", {}, None, "/usr/lib"),
        ("/opt/nvidia/hpc_sdk/Linux_x86_64/24.3/cuda/12.3", {}, None, "HPC SDK"),
        ("/home/ann/conda", {}, "/home/ann/conda", "conda"),
        ("/home/ann/conda", {"CONDA_PREFIX": "/home/ann/conda"}, None, "conda"),
    ],
)
def test_a_toolkit_is_found_in_every_usual_place(
    tmp_path: Path, place: Any, environ: Any, prefix: Any, via: Any
) -> None:
    write(tmp_path, f"{place}/include/cuda.h", "#define CUDA_VERSION 12010\n")
    if via == "conda":
        (tmp_path / place[1:] / "conda-meta").mkdir()
    (found,) = toolkits(tmp_path, environ, prefix)
    assert (found.path, found.version, found.via) == (place, "12.1", via)


def test_each_toolkit_is_listed_once_the_users_choice_first(tmp_path: Path) -> None:
    for version in ("11.8", "12.4"):
        write(tmp_path, f"/usr/local/cuda-{version}/version.txt", f"CUDA Version {version}.0")
    write(tmp_path, "/usr/local/cuda-empty/README")
    (tmp_path / "usr" / "local" / "cuda").symlink_to("cuda-12.4")
    environ = {"CUDA_HOME": "/usr/local/cuda", "LD_LIBRARY_PATH": "/usr/local/cuda/lib64", "CUDA_PATH": "/gone"}
    found = toolkits(tmp_path, environ)
    assert [(one.path, one.via) for one in found] == [
        ("/usr/local/cuda-12.4", "CUDA_HOME"),
        ("/usr/local/cuda-11.8", "/usr/local"),
    ]


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


def test_the_real_machine_is_examined_without_an_error() -> None:
    assert isinstance(cuda.examine().toolkits, Known)


# -------------------------------------------------------------------------------------------------------------- cuDNN


def cudnn(root: Path, *opened: Soname, **environ: str) -> list[CudnnFile]:
    kit = Toolkit(path="/usr/local/cuda", version="12.5", source="version.json", via="/usr/local")
    found = cuda.examine_cudnn(opened, site_packages=[SITE], toolkits=[kit], environ=environ, root=str(root)).installed
    assert isinstance(found, Known)
    return list(found.value)


def test_what_tells_the_version_of_a_cudnn(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    wheel, header = f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", f"{SITE}/nvidia/cudnn/include/cudnn_version.h"
    metadata = [f"{SITE}/nvidia_cudnn_{name}.dist-info/METADATA" for name in ("cu12-9.3.0.75", "cu11-8.9.6.50")]
    for files, path, version, source in (
        (["/usr/local/cuda/lib64/libcudnn.so.8.9.7"], None, "8.9.7", "file name"),
        ([wheel, f"{SITE}/nvidia/cudnn/lib/libcudnn_ops.so.9", metadata[0]], wheel, "9.3.0.75", "pip package"),
        ([wheel, *metadata, header], wheel, "9.3.0", header),  # of two wheels
        (["/usr/local/cuda/lib64/libcudnn.so.8"], None, None, "neither its name nor a package nor a header tells"),
    ):
        with subtests.test(files=files):
            tmp_path = tmp_path_factory.mktemp("row")
            for file in files:
                write(tmp_path, file, HEADER)
            assert cudnn(tmp_path) == [CudnnFile(path=path or files[0], version=version, source=source)]
    assert cudnn(tmp_path_factory.mktemp("empty")) == []


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
