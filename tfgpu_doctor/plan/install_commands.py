"""How a release comes onto a machine: complete commands for pip, uv and conda, and what else must be done. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import Version

from tfgpu_doctor.matrix.compatibility import (
    cudnn_bound,
    cudnn_limit,
    extra_fails,
    numpy_bound,
    protobuf_bound,
    requirement,
)
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.delivered import locked
from tfgpu_doctor.plan.getting_python import OLDEST_OF_UV
from tfgpu_doctor.plan.library_links import conda_library_path, link_commands
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.report import Fix
from tfgpu_doctor.records.versions import at_least, capability, major, minor

# The distributions that hold the libraries which TensorFlow of CUDA 11 opens (sonames of CUDA 11.8, which are those of
# 11.2 as well), and ptxas with libdevice for XLA. Seen in the wheels' lists of files.
CU11 = {
    "cudart": "nvidia-cuda-runtime-cu11",
    "cublas": "nvidia-cublas-cu11",
    "cublasLt": "nvidia-cublas-cu11",
    "cufft": "nvidia-cufft-cu11",
    "curand": "nvidia-curand-cu11",
    "cusolver": "nvidia-cusolver-cu11",
    "cusparse": "nvidia-cusparse-cu11",
    "cudnn": "nvidia-cudnn-cu11",
    "cupti": "nvidia-cuda-cupti-cu11",
}
_CU11_COMPILER = "nvidia-cuda-nvcc-cu11"
CU11_PACKAGES = frozenset(CU11.values()) | {_CU11_COMPILER}
_SOLVER_OF_CU11 = "libcusolver.so.11"
OLD_PIP = (3, 9)  # with 3.9.0 comes pip 20.2, which does not know wheels of manylinux_2_27; older ones know still fewer
_OF_TODAY = frozenset({"3.10", "3.11", "3.12", "3.13"})  # python3 of the Ubuntu LTS and Debian releases that have one
PIP_OF_OLD_PYTHONS = "pip>=20.3,<22"  # knows all tags, and runs on Python 3.6 (pip's NEWS: 20.3, 22.0)
# versions of conda-forge's package cudatoolkit (the history of its feedstock)
CONDA_TOOLKITS = ("9.2", "10.0", "10.1", "10.2", "11.0", "11.1", "11.2", "11.3", "11.8")


@dataclass(frozen=True)
class Installation:
    """The installation of one release into a new environment of one Python."""

    matrix: Matrix
    target: Target
    row: Release
    python: str
    name: str = "tf"  # of the environment
    interpreter: str | None = None  # the program that makes the environment; None: python3, or pythonX.Y
    lock: bool = False  # name exact versions of NVIDIA's packages

    @property
    def requirements(self) -> tuple[str, ...]:
        """What pip has to be asked for: the release, its CUDA, and bounds that its metadata lacks."""
        if self.extra_spelled_out:
            pins = [f"{name}{pin}" for name, pin in self.row.pip_nvidia.items() if name.startswith("nvidia-")]
            return (f"{self.row.package}=={self.row.version}", *pins, *self._bounds())
        return (requirement(self.row), *self._cuda_from_pip(), *self._cudnn_bound(), *self._bounds())

    @property
    def extra_spelled_out(self) -> bool:
        """Whether the extra itself cannot be installed here, so that its parts are asked for one by one."""
        return self.self_contained and extra_fails(self.matrix, self.row, self.python)

    @property
    def self_contained(self) -> bool:
        """Whether the extra brings CUDA."""
        return self.row.extra is not None

    @property
    def cuda_from_pip(self) -> bool:
        """Whether NVIDIA's cu11 distributions have every library that this release opens."""
        opened = {library.component: library.soname for library in self.row.libraries}
        linux = self.target.os in ("linux", "wsl2") and self.target.machine == "x86_64"
        return linux and not self.self_contained and opened.get("cusolver") == _SOLVER_OF_CU11

    def _cuda_from_pip(self) -> list[str]:
        if not self.cuda_from_pip:
            return []
        opened = {library.component for library in self.row.libraries}
        names = sorted({CU11[one] for one in opened if one in CU11 and one != "cudnn"} | {_CU11_COMPILER})
        return [*names, *self._cudnn_of_cu11()]

    def _cudnn_of_cu11(self) -> list[str]:
        """cuDNN as new as the one compiled against, and none that has dropped a card or changed its soname."""
        dropped = self.cudnn_limit
        newest = min([limit for limit in ("9", dropped) if limit], key=Version)
        return [f"nvidia-cudnn-cu11>={self.row.cudnn},<{newest}"] if self.row.cudnn else []

    def _cudnn_bound(self) -> list[str]:
        bound = cudnn_bound(self.matrix, self.row, self.target.capabilities) if self.self_contained else None
        return [bound] if bound else []

    @property
    def holds_cudnn_back(self) -> bool:
        """Whether the commands keep pip from the newest cuDNN."""
        return bool(self._cudnn_bound()) or (self.cuda_from_pip and self.cudnn_limit is not None)

    @property
    def cudnn_limit(self) -> str | None:
        """The first cuDNN that has dropped a card of the target."""
        return cudnn_limit(self.matrix, self.row, self.target.capabilities)

    def _bounds(self) -> list[str]:
        """Upper bounds that the metadata of old releases lacks, so that pip brings what breaks them today."""
        bounds = []
        numpy, protobuf = numpy_bound(self.row), protobuf_bound(self.row)
        if numpy and self.row.numpy != numpy:
            bounds.append("numpy<2")
        if protobuf and self.row.protobuf != protobuf:
            bounds.append("protobuf<3.21")
        return bounds

    @property
    def commands(self) -> dict[str, tuple[str, ...]]:
        """Package manager → the commands that make a new environment with this release and its CUDA.

        uv comes first where the Python is not the target's own: it brings that Python along.
        """
        if self.target.os == "windows" or not (self.self_contained or self.cuda_from_pip or self.cuda_by_hand):
            return {"conda": self._conda()}
        conda = (f"conda create -y -n {self.name} -c conda-forge python={self.python} pip", *self._conda_pip())
        if self.cuda_by_hand:
            return {"conda": conda}
        found = {"pip": (f"{self.starts_python} -m venv ~/{self.name}", *self._pip())}
        if capability(self.python) >= OLDEST_OF_UV:
            install = f"uv pip install --python ~/{self.name}/bin/python {self._packages}"
            uv = {"uv": (f"uv venv --python {self.python} ~/{self.name}", install, *self._links())}
            found = {**found, **uv} if self.target.python == self.python else {**uv, **found}
        return {**found, "conda": conda}

    @property
    def starts_python(self) -> str:
        """The program that makes the environment with pip."""
        if self.interpreter:
            return self.interpreter
        any_will_do = self.self_contained and not self.target.python and _OF_TODAY.issubset(self.row.python)
        return "python3" if any_will_do else f"python{self.python}"

    @property
    def _packages(self) -> str:
        asked = self.requirements
        return " ".join(map(shlex.quote, locked(self.matrix, self.row, asked) if self.lock else asked))

    @property
    def cuda_by_hand(self) -> bool:
        """Whether neither pip nor conda-forge has the CUDA of this release (9.1 and older), only NVIDIA's archive."""
        elsewhere = self.self_contained or self.cuda_from_pip
        return not elsewhere and minor(self.row.cuda) not in CONDA_TOOLKITS

    def _pip(self) -> Iterator[str]:
        pip = f"~/{self.name}/bin/python -m pip install"
        if capability(self.python) <= OLD_PIP:
            yield f"{pip} --upgrade {newer_pip(self.python)}"
        yield f"{pip} {self._packages}"
        yield from self._links()

    def _links(self) -> tuple[str, ...]:
        site = f"~/{self.name}/lib/python{self._folder}/site-packages"
        return link_commands(self.row, site, cuda_from_pip=self.cuda_from_pip)

    @property
    def _folder(self) -> str:
        return "3.*" if self.starts_python == "python3" else self.python

    def _conda_pip(self) -> tuple[str, ...]:
        run = f"conda run -n {self.name}"
        site = f'"$CONDA_PREFIX"/lib/python{self.python}/site-packages'
        links = link_commands(self.row, site, cuda_from_pip=self.cuda_from_pip, inside=run)
        return (f"{run} python -m pip install {self._packages}", *links)

    def _conda(self) -> tuple[str, ...]:
        """CUDA and cuDNN from conda-forge, TensorFlow from pip.

        Source: TensorFlow's install guide of 2.10 to 2.12.
        """
        cuda, cudnn = minor(self.row.cuda), self.row.cudnn
        limit = min([one for one in (str(int(major(cudnn or "7")) + 1), self.cudnn_limit) if one], key=Version)
        quote = _windows_quote if self.target.os == "windows" else shlex.quote
        packages = " ".join(quote(one) for one in (requirement(self.row), *self._bounds()))
        create = f"conda create -y -n {self.name} -c conda-forge python={self.python} pip cudatoolkit={cuda}"
        steps = [
            create + (" " + quote(f"cudnn>={cudnn},<{limit}") if cudnn else ""),
            f"conda run -n {self.name} python -m pip install {packages}",
        ]
        if self.target.os != "windows":  # there, activating puts the DLLs on PATH
            steps += conda_library_path(f'"$(conda run -n {self.name} printenv CONDA_PREFIX)/etc/conda"')
        return tuple(steps)

    @property
    def check(self) -> Fix:
        """How to see that it worked; the tool itself is not in that environment."""
        if self.target.os == "windows":
            return Fix("Check it", (f'conda run -n {self.name} python -c "{list_gpus(self.row.version)}"',))
        if "pip" in self.commands:
            return Fix("Check it", (f"tfgpu doctor --python ~/{self.name}/bin/python",))
        return check_conda(self.name)


def newer_pip(python: str) -> str:
    """What brings a pip that knows the tags of today's wheels, as a shell word.

    That of Python 3.6 (18.1) takes a version that does not run there from links that do not say what they require.
    """
    return f"'{PIP_OF_OLD_PYTHONS}'" if python == "3.6" else "pip"


def check_conda(name: str) -> Fix:
    """The doctor of this shell, on the Python of a conda environment, with the variables that activation sets."""
    return Fix("Check it", (f'conda run -n {name} "$(command -v tfgpu)" doctor --python python',))


def list_gpus(version: str) -> str:
    """Python code that prints what a release sees; tf.config.list_physical_devices came with 2.1."""
    call = "tf.config.list_physical_devices('GPU')" if at_least(version, "2.1") else "tf.test.is_gpu_available()"
    return f"import tensorflow as tf; print({call})"


def _windows_quote(word: str) -> str:
    return f'"{word}"' if any(char in word for char in "<>&|^[] ") else word
