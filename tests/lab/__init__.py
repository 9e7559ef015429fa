"""The fault lab: an NVIDIA driver without an NVIDIA GPU, whose faults are chosen by environment variables.

libcuda.c and libnvidia-ml.c stand in for the driver's libraries: the real TensorFlow and the real NVML bindings
load them from LD_LIBRARY_PATH and fail exactly as they do in the field. nvidia_smi/ holds the programs that can be
put on PATH under that name. README.md says how to add a fault.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIBRARIES = {"libcuda.so.1": ("libcuda.c", "libcuda_device.c"), "libnvidia-ml.so.1": ("libnvidia-ml.c",)}
# what a TensorFlow built for CUDA 12 opens by soname; the first four are called, the others only opened
CUDA_12 = {
    "libcudart.so.12": ("libcudart.c",),
    "libcublas.so.12": ("libcublas.c",),
    "libcublasLt.so.12": ("libcublasLt.c",),
    "libcudnn.so.9": ("libcudnn.c",),
    **dict.fromkeys(("libcufft.so.11", "libcurand.so.10", "libcusolver.so.11", "libcusparse.so.12"), ("empty.c",)),
    **{
        f"libcudnn_{part}.so.9": ("empty.c",)
        for part in ("graph", "ops", "cnn", "adv", "heuristic", "engines_runtime_compiled", "engines_precompiled")
    },
}
WARNINGS = ("-Wall", "-Wextra", "-Wno-misleading-indentation", "-Werror")


def compiler() -> list[str]:
    """The machine's C compiler, or the one in the wheel `ziglang`."""
    if found := shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"):
        return [found]
    if find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    pytest.skip("the fault lab needs a C compiler: install gcc, or python -m pip install ziglang")


class Lab:
    """The compiled stand-ins in one folder, which the workers of a test run share: what is there is complete."""

    def __init__(self, folder: Path) -> None:
        """Compile into `folder`, or take what another worker has compiled."""
        self.folder = folder
        self.libraries = folder / "lib"
        with self._alone():
            self.libraries.mkdir(exist_ok=True)
            for soname, sources in LIBRARIES.items():
                if not (self.libraries / soname).exists():
                    self.compile(self.libraries / soname, *(HERE / source for source in sources))

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Other workers wait; the lock ends with its holder, however that ends."""
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def compile(self, target: Path, *sources: Path) -> Path:
        """Make the shared library `target`, whose soname is its name."""
        options = ["-std=gnu11", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{target.name}", *WARNINGS]
        options.append("-Wl,-rpath,$ORIGIN")  # as cuDNN has it, for the parts that it opens itself
        command = [*compiler(), *options, "-o", str(target), *map(str, sources), "-ldl"]
        subprocess.run(command, check=True, timeout=300)
        return target

    def cuda(self) -> Path:
        """A folder with CUDA 12 and cuDNN 9 for the driver here, made at the first call.

        The real TensorFlow lists a GPU with it, creates the device and multiplies matrices on it.
        """
        folder = self.folder / "cuda"
        with self._alone():
            folder.mkdir(exist_ok=True)
            for soname, sources in CUDA_12.items():
                if not (folder / soname).exists():
                    self.compile(folder / soname, *(HERE / source for source in sources))
        return folder

    def installed(self, root: Path) -> Path:
        """The folder of the libraries inside the fake machine `root`, where they are put when first asked for."""
        folder = root / "opt" / "lab"
        if not folder.exists():
            shutil.copytree(self.libraries, folder)
        return folder

    def environ(
        self, *, root: Path | None = None, nvidia_smi: str | None = None, cuda: bool = False, **answers: object
    ) -> dict[str, str]:
        """The environment of a process on a machine with this driver, on the fake machine `root` if one is given.

        `answers` are the variables of the C files without TFGPU_LAB_, in lower case: ``cuinit=803, nvml_init=18``.
        PATH has the program nvidia_smi/`nvidia_smi` as nvidia-smi, and no other nvidia-smi. With `cuda`, the CUDA
        libraries of the lab are on the loader path, too.
        """
        folders = [self.installed(root) if root else self.libraries, *([self.cuda()] if cuda else [])]
        environ = {
            "LD_LIBRARY_PATH": os.pathsep.join(map(str, folders)),
            "PATH": self._path(nvidia_smi),
            "HOME": os.environ.get("HOME", "/"),
        }
        environ.update({f"TFGPU_LAB_{name.upper()}": str(value) for name, value in answers.items()})
        return environ

    def _path(self, nvidia_smi: str | None) -> str:
        folders = [self._without_nvidia_smi(Path(one)) for one in os.environ["PATH"].split(os.pathsep)]
        if nvidia_smi:
            here = self.folder / "bin" / nvidia_smi
            with self._alone():
                if not here.exists():
                    here.mkdir(parents=True)
                    shutil.copy(HERE / "nvidia_smi" / nvidia_smi, here / "nvidia-smi")
            folders.insert(0, str(here))
        return os.pathsep.join(folders)

    def _without_nvidia_smi(self, folder: Path) -> str:
        """The folder; where a real driver has put nvidia-smi into it, one of links to all else that is in it."""
        if not (folder / "nvidia-smi").exists():
            return str(folder)
        links = self.folder / "path" / folder.as_posix().replace("/", "_")
        with self._alone():
            if not links.exists():
                links.mkdir(parents=True)
                for program in folder.iterdir():
                    if program.name != "nvidia-smi":
                        (links / program.name).symlink_to(program)
        return str(links)


@pytest.fixture(scope="session")
def driver_lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The fault lab, compiled once a session, also where several workers run the tests."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "driver-lab"
    folder.mkdir(exist_ok=True)
    return Lab(folder)
