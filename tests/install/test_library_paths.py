"""Library paths that hold in any shell: the real loader opens every library from where TensorFlow would."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.healthy import MATRIX
from tests.probes.elf_lab import CALLER, Forge, really_loaded
from tests.tables import each
from tfgpu_doctor.install.making import add_library_paths
from tfgpu_doctor.matrix.loader import Release
from tfgpu_doctor.plan.install_commands import link_commands, repaired_by_commands
from tfgpu_doctor.probes import cuda

SITE, FRAMEWORK = "lib/python3.11/site-packages", "tensorflow/libtensorflow_framework.so.2"
FOLDERS = {"cudart": "cuda_runtime", "cublasLt": "cublas", "cupti": "cuda_cupti"}  # of components; others are their own
NEEDED = {"cusolver": "cublas", "cublas": "cublasLt"}
# release → RUNPATH of libtensorflow_framework.so.2, as the wheel has it
RUNPATHS = {
    "2.6.5": "$ORIGIN/",  # an RPATH
    "2.13.1": "$ORIGIN/../../_solib_local:$ORIGIN/",
    "2.16.1": "$ORIGIN/:$ORIGIN/../nvidia/cuda_runtime/lib",
    "2.21.0": ":".join(
        f"$ORIGIN/../nvidia/{one}/lib"
        for one in ("nccl", "cuda_cupti", "cublas", "cudnn", "cufft", "cusparse", "cuda_runtime")
    ),
}


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory) -> Forge:
    return Forge(tmp_path_factory.mktemp("forge"))


class Made:
    """An environment with TensorFlow's caller and the wheels of its CUDA."""

    def __init__(self, prefix: Path, version: str, forge: Forge) -> None:
        self.prefix, self.site = prefix, prefix / SITE
        found = MATRIX.tensorflow(version, "linux_x86_64")
        assert found is not None
        self.release: Release = found
        opened = {one.component: one.soname for one in found.libraries if one.component != "driver"}
        self.sonames = [*opened.values()]
        for component, soname in opened.items():
            needed = (opened[NEEDED[component]],) if component in NEEDED else ()
            folder = self.wheel(FOLDERS.get(component, component))
            forge.library(folder / soname, needed=needed, runpath="$ORIGIN:$ORIGIN/../../cublas/lib")
        kind = "rpath" if version == "2.6.5" else "runpath"
        forge.library(self.site / FRAMEWORK, code=CALLER, **{kind: RUNPATHS[version]})
        (self.site / "tensorflow" / "libtensorflow_cc.so.2").touch()
        (self.site / "nvidia" / "cuda_nvcc").mkdir()

    def wheel(self, name: str) -> Path:
        return self.site / "nvidia" / name / "lib"

    def opened(self, prefix: Path) -> list[str]:
        found = really_loaded(prefix / SITE / FRAMEWORK, tuple(self.sonames), {})
        return [name for name, path in found.items() if path]


def links_of(site: Path) -> dict[str, str]:
    """What stands in an environment as link or as text, apart from the libraries."""
    found = {one: os.readlink(one) for one in site.rglob("*") if one.is_symlink()}
    found |= {one: one.read_text() for one in site.glob("*.pth")}
    return {str(one.relative_to(site)): text for one, text in found.items()}


@each("version", RUNPATHS)
def test_every_library_is_opened_in_a_bare_shell(version: str, tmp_path: Path, forge: Forge) -> None:
    made, printed = Made(tmp_path / "env", version, forge), tmp_path / "printed"
    shutil.copytree(made.prefix, printed, symlinks=True)
    assert len(made.opened(made.prefix)) < len(made.sonames)
    add_library_paths(made.prefix, made.release)
    assert made.opened(made.prefix) == made.sonames
    links = links_of(made.site)
    assert links and not any(map(os.path.isabs, links.values()))  # the folder can be moved
    add_library_paths(made.prefix, made.release)
    assert links_of(made.site) == links
    # and the commands that are printed do the same
    commands = link_commands(made.release, str(printed / SITE), cuda_from_pip=made.release.extra is None)
    subprocess.run(["sh", "-e", "-c", "\n".join(commands)], check=True, timeout=60)
    assert made.opened(printed) == made.sonames
    assert {name: text for name, text in links_of(printed / SITE).items() if name in links} == links


def test_a_link_that_leads_nowhere_is_replaced_and_a_file_stays(tmp_path: Path, forge: Forge) -> None:
    made = Made(tmp_path / "env", "2.16.1", forge)
    folder = made.wheel("cuda_runtime")
    (folder / "libcudnn.so.8").symlink_to("nowhere")
    (folder / "libcufft.so.11").write_bytes(b"of a package")
    add_library_paths(made.prefix, made.release)
    assert (folder / "libcudnn.so.8").resolve() == (made.wheel("cudnn") / "libcudnn.so.8").resolve()
    assert (folder / "libcufft.so.11").read_bytes() == b"of a package"


def test_nothing_is_added_to_a_folder_of_somebody_else(tmp_path: Path, forge: Forge) -> None:
    """The packages of an environment may be a link, to those of another one; or there are none."""
    other = Made(tmp_path / "other", "2.16.1", forge)
    before = sorted(map(str, other.prefix.rglob("*")))
    (tmp_path / "env" / SITE).parent.mkdir(parents=True)
    (tmp_path / "env" / SITE).symlink_to(other.site)
    add_library_paths(tmp_path / "env", other.release)
    add_library_paths(tmp_path / "empty", other.release)
    assert sorted(map(str, other.prefix.rglob("*"))) == before
    os.rename(other.site / "nvidia", tmp_path / "nvidia")
    add_library_paths(other.prefix, other.release)
    assert links_of(other.site) == {}


def test_xla_is_told_where_its_compiler_is_when_python_starts(tmp_path: Path, forge: Forge) -> None:
    made = Made(tmp_path / "env", "2.13.1", forge)
    compiler = made.site / "nvidia" / "cuda_nvcc"
    (compiler / "nvvm" / "libdevice").mkdir(parents=True)
    (compiler / "nvvm" / "libdevice" / "libdevice.10.bc").touch()
    (made.site / "tensorflow" / "__init__.py").touch()
    add_library_paths(made.prefix, made.release)
    code = "import os, site, sys; site.addsitedir(sys.argv[1]); print(os.environ['XLA_FLAGS'])"
    command = [sys.executable, "-S", "-c", code, str(made.site)]
    for environ, flags in (({}, f"--xla_gpu_cuda_data_dir={compiler}"), ({"XLA_FLAGS": "--x"}, "--x")):
        assert subprocess.check_output(command, env=environ, text=True, timeout=60).split() == [flags]
    # and the doctor knows it
    found = cuda.examine_xla_files(str(made.site / "tensorflow"), "2.13.1", {}, root=str(tmp_path))
    assert [one.problem for one in getattr(found["libdevice"], "value", ())] == [None]


def test_known_issues_that_are_repaired_exist_and_have_their_release_here() -> None:
    by_links = [one for one in MATRIX.data.known_issues if one.id in repaired_by_commands(MATRIX)]
    assert {str(one.condition.versions).strip("=") for one in by_links if one.about == "runpath"} <= set(RUNPATHS)
