"""cuDNN on disk, in fake file systems."""

from __future__ import annotations

from pathlib import Path

import pytest

from tfgpu_doctor.probes import cuda
from tfgpu_doctor.records.facts import Candidate, Cudnn, CudnnFile, Known, Loader, Soname, Toolkit, Unknown

SITE = "/env/lib/python3.12/site-packages"
HEADER = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 3\n#define CUDNN_PATCHLEVEL 0\n"
KIT = Toolkit(path="/usr/local/cuda", version="12.5", source="version.json", via="/usr/local")


def write(root: Path, path: str, text: str = "") -> None:
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


def examine(root: Path, loader: Loader | None = None, environ: dict[str, str] | None = None) -> Cudnn:
    return cuda.examine_cudnn(
        loader or Loader(), site_packages=[SITE], toolkits=[KIT], environ=environ or {}, root=str(root)
    )


def installed(facts: Cudnn) -> list[CudnnFile]:
    assert isinstance(facts.installed, Known)
    return list(facts.installed.value)


def test_nothing_is_known_to_be_nothing(tmp_path: Path) -> None:
    facts = examine(tmp_path)
    assert installed(facts) == []
    assert isinstance(facts.header, Unknown)
    assert facts.runtime == Unknown("cuDNN was not loaded")


def test_the_file_name_behind_the_link_tells(tmp_path: Path) -> None:
    write(tmp_path, "/usr/local/cuda/lib64/libcudnn.so.8.9.7")
    (tmp_path / "usr/local/cuda/lib64/libcudnn.so.8").symlink_to("libcudnn.so.8.9.7")
    (found,) = installed(examine(tmp_path))
    assert (found.version, found.source) == ("8.9.7", "file name")


def test_the_wheel_tells(tmp_path: Path) -> None:
    write(tmp_path, f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9")
    write(tmp_path, f"{SITE}/nvidia/cudnn/lib/libcudnn_ops.so.9")
    write(tmp_path, f"{SITE}/nvidia_cudnn_cu12-9.3.0.75.dist-info/METADATA")
    (found,) = installed(examine(tmp_path))
    assert found == CudnnFile(path=f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9", version="9.3.0.75", source="pip package")


def test_the_header_beside_tells_where_two_wheels_could(tmp_path: Path) -> None:
    write(tmp_path, f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9")
    write(tmp_path, f"{SITE}/nvidia/cudnn/include/cudnn_version.h", HEADER)
    for name in ("nvidia_cudnn_cu11-8.9.6.50", "nvidia_cudnn_cu12-9.3.0.75"):
        write(tmp_path, f"{SITE}/{name}.dist-info/METADATA")
    facts = examine(tmp_path)
    (found,) = installed(facts)
    path = f"{SITE}/nvidia/cudnn/include/cudnn_version.h"
    assert (found.version, found.source) == ("9.3.0", path)
    assert facts.header == Known(CudnnFile(path=path, version="9.3.0", source="header"), path)


def test_a_library_that_nothing_describes_has_no_version(tmp_path: Path) -> None:
    write(tmp_path, "/usr/local/cuda/lib64/libcudnn.so.8")
    (found,) = installed(examine(tmp_path))
    assert found.version is None


def test_the_header(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for path, text, version in [
        ("/usr/include/cudnn_version.h", HEADER, "9.3.0"),
        ("/usr/include/x86_64-linux-gnu/cudnn_version.h", HEADER, "9.3.0"),
        ("/usr/local/cuda/include/cudnn_version.h", HEADER, "9.3.0"),
        ("/opt/cudnn/include/cudnn_version.h", HEADER, "9.3.0"),
        ("/usr/include/cudnn.h", HEADER.replace("R 9", "R 7"), "7.3.0"),
        ("/usr/include/cudnn_version.h", "#define CUDNN_MAJOR 9\n", None),
    ]:
        with subtests.test(path=path):
            tmp_path = tmp_path_factory.mktemp("row")
            write(tmp_path, path, text)
            header = examine(tmp_path, environ={"CUDNN_PATH": "/opt/cudnn"}).header
            assert (header.value.version if isinstance(header, Known) else None) == version


def test_the_loaders_choice_comes_first_and_each_file_once(tmp_path: Path) -> None:
    chosen, wheel, other = (
        "/mine/libcudnn.so.9.5.1",
        f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9",
        "/mine/libcudnn.so.8.9.7",
    )
    for path in (chosen, wheel, other):
        write(tmp_path, path)
    soname = Soname(
        soname="libcudnn.so.9",
        component="cudnn",
        candidates=(
            Candidate(path=chosen, via="LD_LIBRARY_PATH", reachable=True),
            Candidate(path=wheel, via="RUNPATH", reachable=True),
        ),
        winner=chosen,
        other_versions=(other,),
    )
    loader = Loader(search_path=Known(("/mine",), "LD_LIBRARY_PATH"), sonames=Known((soname,), "ld.so"))
    assert [one.path for one in installed(examine(tmp_path, loader))] == [chosen, wheel, other]
