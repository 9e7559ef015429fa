"""CUDA toolkits in fake file systems."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.guard import guarded
from tfgpu_doctor.probes import cuda
from tfgpu_doctor.probes.process import Completed
from tfgpu_doctor.records.facts import Known, Nvcc, Toolkit, Unknown

NVCC = """#!/bin/sh
echo "nvcc: NVIDIA (R) Cuda compiler driver"
echo "Cuda compilation tools, release 13.0, V13.0.88"
"""


def write(root: Path, path: str, text: str = "", mode: int = 0o644) -> Path:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    target.chmod(mode)
    return target


def toolkits(root: Path, environ: dict[str, str] | None = None, prefix: str | None = None) -> list[Toolkit]:
    found = cuda.examine(str(root), environ or {}, prefix).toolkits
    assert isinstance(found, Known)
    return list(found.value)


VERSIONS = {
    "version.json": (
        {"version.json": json.dumps({"cuda": {"name": "CUDA SDK", "version": "12.4.20240301"}})},
        "12.4.20240301",
    ),
    "version.txt": ({"version.txt": "CUDA Version 10.1.243\n"}, "10.1.243"),
    "header": ({"include/cuda.h": "/* x */\n#define CUDA_VERSION 11080\n"}, "11.8"),
    "header of 13.0": ({"include/cuda.h": "#define CUDA_VERSION 13000\n"}, "13.0"),
    "header of a target": (
        {"bin/nvcc.profile": "", "targets/x86_64-linux/include/cuda.h": "#define CUDA_VERSION 12060"},
        "12.6",
    ),
    "runtime header": ({"version.txt": "", "include/cuda_runtime_api.h": "#define CUDART_VERSION  12020\n"}, "12.2"),
    "library": ({"lib64/libcudart.so.12": "", "lib64/libcudart.so.12.5.82": ""}, "12.5.82"),
    "soname of all 11.x": ({"lib64/libcudart.so.11.0": ""}, None),
    "broken json, good header": ({"version.json": "{", "include/cuda.h": "#define CUDA_VERSION 12010"}, "12.1"),
    "json of another shape": ({"version.json": "[1]"}, None),
    "compiler": ({"bin/nvcc.profile": "", "bin/nvcc": NVCC}, "13.0.88"),
}


def test_the_version_comes_from_the_best_file(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for case in VERSIONS:
        with subtests.test(case=case):
            tmp_path = tmp_path_factory.mktemp("row")
            files, version = VERSIONS[case]
            for name, text in files.items():
                write(tmp_path, f"/usr/local/cuda-x/{name}", text, 0o755)
            (found,) = toolkits(tmp_path)
            assert (found.path, found.version, found.via) == ("/usr/local/cuda-x", version, "/usr/local")
            assert found.source.startswith("/usr/local/cuda-x")


def test_nothing_is_started_when_a_file_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> Completed:
        raise AssertionError("started a program")

    monkeypatch.setattr("tfgpu_doctor.probes.process.run", refuse)
    json_text = json.dumps({"cuda": {"version": "12.4.1"}, "cuda_nvcc": {"version": "12.4.131"}})
    write(tmp_path, "/usr/local/cuda-12.4/version.json", json_text)
    write(tmp_path, "/usr/local/cuda-12.4/bin/nvcc", NVCC, 0o755)
    facts = cuda.examine(str(tmp_path), {"PATH": "/usr/local/cuda-12.4/bin"})
    assert facts.nvcc == Known(
        Nvcc(path="/usr/local/cuda-12.4/bin/nvcc", version="12.4.131"), "/usr/local/cuda-12.4/version.json"
    )


def test_a_toolkit_is_found_in_every_usual_place(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for place, environ, prefix, via in [
        ("/opt/hand/made", {"CUDA_HOME": "/opt/hand/made/"}, None, "CUDA_HOME"),
        ("/sw/CUDA/12.1", {"EBROOTCUDA": "/sw/CUDA/12.1"}, None, "EBROOTCUDA"),
        ("/sw/cuda-12.1", {"LD_LIBRARY_PATH": "/lib:/sw/cuda-12.1/lib64"}, None, "LD_LIBRARY_PATH"),
        ("/spack/opt/cuda-12.1-abc", {"PATH": "/bin:/spack/opt/cuda-12.1-abc/bin"}, None, "PATH"),
        ("/usr/local/cuda-12.1", {}, None, "/usr/local"),
        ("/opt/cuda", {}, None, "/opt"),
        ("/usr/lib/cuda", {}, None, "/usr/lib"),
        ("/opt/nvidia/hpc_sdk/Linux_x86_64/24.3/cuda/12.3", {}, None, "HPC SDK"),
        ("/home/ann/conda", {}, "/home/ann/conda", "conda"),
        ("/home/ann/conda", {"CONDA_PREFIX": "/home/ann/conda"}, None, "conda"),
    ]:
        with subtests.test(place=place):
            tmp_path = tmp_path_factory.mktemp("row")
            write(tmp_path, f"{place}/include/cuda.h", "#define CUDA_VERSION 12010\n")
            if via == "conda":
                (tmp_path / place[1:] / "conda-meta").mkdir()
            (found,) = toolkits(tmp_path, environ, prefix)
            assert (found.path, found.version, found.via) == (place, "12.1", via)


def test_one_toolkit_by_several_ways_is_listed_once(tmp_path: Path) -> None:
    write(tmp_path, "/usr/local/cuda-12.1/version.txt", "CUDA Version 12.1.0")
    write(tmp_path, "/usr/local/cuda-12.1/bin/nvcc", NVCC, 0o755)
    (tmp_path / "usr" / "local" / "cuda").symlink_to("cuda-12.1")
    environ = {
        "CUDA_HOME": "/usr/local/cuda",
        "PATH": "/usr/local/cuda/bin",
        "LD_LIBRARY_PATH": "/usr/local/cuda/lib64",
    }
    (found,) = toolkits(tmp_path, environ)
    assert (found.path, found.via) == ("/usr/local/cuda-12.1", "CUDA_HOME")


def test_two_toolkits_are_both_listed_the_users_choice_first(tmp_path: Path) -> None:
    for version in ("11.8", "12.4"):
        write(tmp_path, f"/usr/local/cuda-{version}/version.txt", f"CUDA Version {version}.0")
    found = toolkits(tmp_path, {"CUDA_PATH": "/usr/local/cuda-12.4"})
    assert [one.version for one in found] == ["12.4.0", "11.8.0"]


def test_a_folder_without_a_toolkit_is_none(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for path in ["/usr/local/cuda-gone", "/usr/local/cuda-empty/README"]:
        with subtests.test(path=path):
            tmp_path = tmp_path_factory.mktemp("row")
            write(tmp_path, "/usr/local/cuda-empty/README")
            assert toolkits(tmp_path, {"CUDA_HOME": path}) == []


def test_a_wrapper_script_is_no_toolkit_but_tells_its_version(tmp_path: Path) -> None:
    """/usr/local/bin/nvcc that starts the compiler of another folder."""
    write(tmp_path, "/usr/local/bin/nvcc", NVCC, 0o755)
    facts = cuda.examine(str(tmp_path), {"PATH": "/usr/local/bin"})
    assert facts.toolkits == Known((), facts.toolkits.source if isinstance(facts.toolkits, Known) else "")
    assert facts.nvcc == Known(Nvcc(path="/usr/local/bin/nvcc", version="13.0.88"), "/usr/local/bin/nvcc --version")


def test_an_nvcc_that_tells_nothing_is_unknown(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for script, reason in [
        ("#!/bin/sh\necho sorry\nexit 3\n", "exit code 3, no version in its output"),
        ("#!/no/such/interpreter\n", "No such file or directory"),
    ]:
        with subtests.test(script=script):
            tmp_path = tmp_path_factory.mktemp("row")
            write(tmp_path, "/bin/nvcc", script, 0o755)
            assert cuda.examine(str(tmp_path), {"PATH": "/bin"}).nvcc == Unknown(f"/bin/nvcc --version: {reason}")


def test_an_nvcc_that_hangs_is_unknown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "NVCC_TIMEOUT", 0.3)
    write(tmp_path, "/bin/nvcc", "#!/bin/sh\nexec sleep 300\n", 0o755)
    with guarded(120, waiting=True):
        assert cuda.examine(str(tmp_path), {"PATH": "/bin"}).nvcc == Unknown("/bin/nvcc --version: no answer in 0.3 s")


def test_no_nvcc_is_unknown(tmp_path: Path) -> None:
    assert cuda.examine(str(tmp_path), {"PATH": "/bin"}).nvcc == Unknown("nvcc is not on PATH")


def test_the_real_machine_is_examined_without_an_error() -> None:
    facts = cuda.examine()
    assert isinstance(facts.toolkits, Known)
    assert len({os.path.realpath(one.path) for one in facts.toolkits.value}) == len(facts.toolkits.value)
