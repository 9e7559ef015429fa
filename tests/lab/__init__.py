"""The fault lab: an NVIDIA driver without an NVIDIA GPU, whose faults are chosen by environment variables.

libcuda.c and libnvidia-ml.c stand in for the driver's libraries: the real TensorFlow and the real NVML bindings
load them from LD_LIBRARY_PATH and fail exactly as they do in the field. nvidia_smi/ holds the programs that can be
put on PATH under that name. README.md says how to add a fault.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIBRARIES = {"libcuda.so.1": "libcuda.c", "libnvidia-ml.so.1": "libnvidia-ml.c"}
WARNINGS = ("-Wall", "-Wextra", "-Wno-misleading-indentation", "-Werror")


def compiler() -> list[str]:
    """The machine's C compiler, or the one in the wheel `ziglang`."""
    if found := shutil.which("cc") or shutil.which("gcc") or shutil.which("clang"):
        return [found]
    if find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", "cc"]
    pytest.skip("the fault lab needs a C compiler: install gcc, or python -m pip install ziglang")


class Lab:
    """The compiled stand-ins in one folder."""

    def __init__(self, folder: Path) -> None:
        """Compile into `folder`."""
        self.folder = folder
        self.libraries = folder / "lib"
        self.libraries.mkdir()
        for soname, source in LIBRARIES.items():
            self._compile(soname, HERE / source)

    def _compile(self, soname: str, source: Path) -> Path:
        target = self.libraries / soname
        options = ["-std=gnu11", "-O1", "-shared", "-fPIC", f"-Wl,-soname,{soname}", *WARNINGS]
        subprocess.run([*compiler(), *options, "-o", str(target), str(source)], check=True, timeout=300)
        return target

    def empty_library(self, soname: str) -> Path:
        """A valid library of that name without any function, which is enough for a dlopen to succeed."""
        target = self.libraries / soname
        if not target.exists():
            source = self.folder / "empty.c"
            source.write_text("int nothing;\n")
            self._compile(soname, source)
        return target

    def installed(self, root: Path) -> Path:
        """The folder of the libraries inside the fake machine `root`, where they are put when first asked for."""
        folder = root / "opt" / "lab"
        if not folder.exists():
            shutil.copytree(self.libraries, folder)
        return folder

    def environ(self, *, root: Path | None = None, nvidia_smi: str | None = None, **answers: object) -> dict[str, str]:
        """The environment of a process on a machine with this driver, on the fake machine `root` if one is given.

        `answers` are the variables of the C files without TFGPU_LAB_, in lower case: ``cuinit=803, nvml_init=18``.
        PATH has the program nvidia_smi/`nvidia_smi` as nvidia-smi, and no other nvidia-smi.
        """
        environ = {
            "LD_LIBRARY_PATH": str(self.installed(root) if root else self.libraries),
            "PATH": self._path(nvidia_smi),
            "HOME": os.environ.get("HOME", "/"),
        }
        environ.update({f"TFGPU_LAB_{name.upper()}": str(value) for name, value in answers.items()})
        return environ

    def _path(self, nvidia_smi: str | None) -> str:
        folders = [one for one in os.environ["PATH"].split(os.pathsep) if not (Path(one) / "nvidia-smi").exists()]
        if nvidia_smi:
            here = self.folder / "bin" / nvidia_smi
            if not here.exists():
                here.mkdir(parents=True)
                shutil.copy(HERE / "nvidia_smi" / nvidia_smi, here / "nvidia-smi")
            folders.insert(0, str(here))
        return os.pathsep.join(folders)


@pytest.fixture(scope="session")
def driver_lab(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """The fault lab, compiled once a session."""
    return Lab(tmp_path_factory.mktemp("lab"))
