"""The commands that install a release, the Python and the library paths they need, and builds without CUDA. Pure."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from packaging.version import Version

from tfgpu_doctor.facts.report import Fix
from tfgpu_doctor.facts.versions import at_least, capability, major, minor
from tfgpu_doctor.matrix.compatibility import (
    XLA_COMPILER,
    XLA_READS_PACKAGES_SINCE,
    cudnn_bound,
    dropped_by,
    extra_fails,
    forgets_folders,
    lacks_bound,
    newer_pip,
    numpy_bound,
    protobuf_bound,
    requirement,
    takes_cudnn_7_0_alone,
)
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.plan.windows_shell import quoted

# The distributions that hold the libraries which TensorFlow of CUDA 11 opens (sonames of CUDA 11.8, which are those of
# 11.2 as well), and ptxas with libdevice for XLA. Seen in the wheels' lists of files.
CU11 = tuple(
    f"nvidia-{name}-cu11"
    for name in ("cublas", "cuda-cupti", "cuda-nvcc", "cuda-runtime", "cufft", "curand", "cusolver", "cusparse")
)
CU11_CUDNN = "nvidia-cudnn-cu11"
_OF_TODAY = frozenset({"3.10", "3.11", "3.12", "3.13"})  # python3 of the Ubuntu LTS and Debian releases that have one
# pipx is on few machines, and uv itself needs no Python: docs.astral.sh/uv, Installation
INSTALL_UV = "curl -LsSf https://astral.sh/uv/install.sh | sh && . ~/.local/bin/env"
INSTALL_CONDA = (  # by the README of conda-forge/miniforge: -b asks nothing, and leaves the shell as it is
    "curl -L -o miniforge.sh https://github.com/conda-forge/miniforge/releases/latest/download/"
    'Miniforge3-"$(uname)-$(uname -m)".sh && bash miniforge.sh -b && . ~/miniforge3/etc/profile.d/conda.sh'
)
OLDEST_OF_UV = (3, 8)  # that `uv python list --all-versions` can bring
_OLDEST_OF_DEADSNAKES = (3, 7)
# Versions of the package cudatoolkit, and a channel that has them: conda-forge (the history of its feedstock), and
# Anaconda's own (lists of installed packages: https://github.com/ContinuumIO/anaconda-issues/issues/11063 with CUDA 9.0
# and cuDNN 7.6, https://github.com/omnia-md/conda-recipes/issues/813 with CUDA 8.0 and cuDNN 6.0). What is from before
# September 2017 left the defaults with conda 4.7, and is in the channel free (conda's guide, "Using the free channel").
CONDA_TOOLKITS = {
    "8.0": "defaults -c free",
    "9.0": "defaults",
    **dict.fromkeys(("9.2", "10.0", "10.1", "10.2", "11.0", "11.1", "11.2", "11.3", "11.8"), "conda-forge"),
}
_OLDEST_CUDNN = "6"  # of those that come with them
# conda takes any cuDNN of CUDA 11 for 11.0, on whose driver, 450.36, older ones than this run: later need 450.80.02
_LATER_CUDNN = {"11.0": "8.4"}  # NVIDIA's support matrices of cuDNN 8.3.0 ("r450") and 8.9.6


def _lacking_bounds(row: Release) -> list[str]:
    """Upper bounds that the metadata of old releases lacks, so that pip brings what breaks them today."""
    numpy, protobuf = numpy_bound(row), protobuf_bound(row)
    found = (("numpy<2", numpy, row.numpy), ("protobuf<3.21", protobuf, row.protobuf))
    lacking = [line for line, bound, own in found if bound and own != bound]
    # 2.6.0 and 2.6.1 take 2.15 of both, which import what these do not have (tried: tf.keras, tf.estimator)
    return [*lacking, "keras<2.7", "tensorflow-estimator<2.7"] if row.keras == "~=2.6" else lacking


def python_for(row: Release, programs: Mapping[str, str]) -> tuple[str, str | None]:
    """The newest Python of a release of which there is a program here, and that; else its newest Python."""
    return next(((one, programs[one]) for one in reversed(row.python) if one in programs), (row.python[-1], None))


class Installation:
    """The installation of one release into a new environment `tf` of one Python."""

    def __init__(
        self,
        matrix: Matrix,
        target: Target,
        row: Release,
        python: str,
        interpreter: str | None = None,
        *,
        on_cpu: bool = False,
    ) -> None:
        """Decide what is asked for; `interpreter` makes the environment, by default python3 or pythonX.Y."""
        self.target, self.row, self.python, self.interpreter = target, row, python, interpreter
        self.on_cpu = on_cpu or not row.gpu  # no CUDA is installed
        self.self_contained = row.extra is not None and not self.on_cpu  # the extra brings CUDA
        # the extra itself cannot be installed here: its parts are asked for one by one
        self.extra_spelled_out = self.self_contained and extra_fails(matrix, row, python)
        opened = {library.component: library.soname for library in row.libraries}
        linux = target.os in ("linux", "wsl2") and target.machine == "x86_64" and not self.on_cpu
        # NVIDIA's cu11 distributions have every library that this release opens
        self.cuda_from_pip = linux and not self.self_contained and opened.get("cusolver") == "libcusolver.so.11"
        # the first cuDNN that has dropped a card of the target
        self.cudnn_limit = dropped_by(matrix, row.cudnn, row.cuda, target.capabilities)
        # what keeps pip from a cuDNN that has dropped a card or, without an extra, changed its soname
        self._cudnn = cudnn_bound(matrix, row, target.capabilities) if self.self_contained else None
        if self.cuda_from_pip and row.cudnn:
            newest = min("9", self.cudnn_limit or "9", key=Version)
            self._cudnn = f"{CU11_CUDNN}>={row.cudnn},<{newest}"
        self.holds_cudnn_back = bool(self._cudnn and (self.self_contained or self.cudnn_limit))
        self.bounds = _lacking_bounds(row)

    @property
    def only_conda_brings_python(self) -> bool:
        """True if that Python is another one than the target's, not here, and older than those of uv."""
        return not self.interpreter and self.python != self.target.python and capability(self.python) < OLDEST_OF_UV

    @property
    def starts_python(self) -> str:
        """The program that makes the environment with pip."""
        any_will_do = self.self_contained and not self.target.python and _OF_TODAY.issubset(self.row.python)
        return self.interpreter or ("python3" if any_will_do else f"python{self.python}")

    @property
    def requirements(self) -> tuple[str, ...]:
        """What pip has to be asked for: the release, its CUDA, and bounds that its metadata lacks."""
        plain = f"{self.row.package}=={self.row.version}"
        if self.on_cpu:
            return (plain, *self.bounds)
        if self.extra_spelled_out:
            pins = [f"{name}{pin}" for name, pin in self.row.pip_nvidia.items() if name.startswith("nvidia-")]
            return (plain, *pins, *self.bounds)
        names = CU11 if self.cuda_from_pip else ()
        return (requirement(self.row), *names, *((self._cudnn,) if self._cudnn else ()), *self.bounds)

    def missing(self, installers: Collection[str] = ()) -> Iterator[Fix]:
        """Yield how to get the programs that the commands start, beside `installers`, which are known to be there."""
        if self.target.os == "macos":  # whose own Python is not meant for packages; Homebrew names its by the version
            if self.interpreter is None:
                yield Fix(f"{self.starts_python} is missing", (f"brew install python@{self.python}",))
            yield Fix("uv is missing", ("brew install uv",))
        elif self.target.os in ("linux", "wsl2"):
            yield from self._missing_on_linux(installers)
        if tuple(self.commands) == ("conda",) and "conda" not in installers:
            page = ": https://conda-forge.org/download/" if self.target.os == "windows" else ""
            yield Fix(f"conda is missing{page}", () if page else (INSTALL_CONDA,))

    def _missing_on_linux(self, installers: Collection[str]) -> Iterator[Fix]:
        start, python, managers = self.starts_python, self.python, tuple(self.commands)
        if "uv" in managers and "uv" not in installers:
            yield Fix("uv is missing", (INSTALL_UV,))
        if "pip" in managers and self.interpreter is None and start != "python3":
            by_uv = (f"uv python install {python}",) if capability(python) >= OLDEST_OF_UV else ()
            deadsnakes = "sudo add-apt-repository -y ppa:deadsnakes/ppa && sudo apt-get install -y"
            of_ubuntu = f"{deadsnakes} python{python}-venv  # Ubuntu"
            other = of_ubuntu if capability(python) >= _OLDEST_OF_DEADSNAKES else f"pyenv install {python}"
            yield Fix(f"{start} is missing", (*by_uv, other))
        if "pip" in managers and capability(python) > (2, 7):
            package = f"{start}-venv" if start.startswith("python") else f"python{python}-venv"
            yield Fix("venv is missing (Debian, Ubuntu)", (f"sudo apt-get install -y {package}",))

    @property
    def _conda_has_cuda(self) -> bool:
        there = minor(self.row.cuda) in CONDA_TOOLKITS and at_least(self.row.cudnn or _OLDEST_CUDNN, _OLDEST_CUDNN)
        return bool(there) and not takes_cudnn_7_0_alone(self.row)

    @cached_property
    def commands(self) -> dict[str, tuple[str, ...]]:
        """Package manager → the commands that make a new environment with this release and its CUDA.

        uv comes first where the Python is not the target's own: it brings that Python along.
        """
        is_windows, packages = self.target.os == "windows", self._quoted(self.requirements)
        if self.on_cpu and is_windows:  # by the launcher for Windows
            return {"pip": (f"py -{self.python} -m venv tf", f"tf\\Scripts\\python -m pip install {packages}")}
        if not self.on_cpu and (is_windows or not (self.self_contained or self.cuda_from_pip)):
            return {"conda": tuple(self._with_condas_cuda())} if self._conda_has_cuda else {}
        made = self._environments(packages)
        links = self._links(f"~/tf/lib/python{'3.*' if self.starts_python == 'python3' else self.python}")
        first = ("pip", "uv") if self.on_cpu or self.target.python == self.python else ("uv", "pip")
        conda = (
            f"conda create -n tf -c conda-forge python={self.python} pip",
            f"conda run -n tf python -m pip install {packages}",
            *self._links(f'"$CONDA_PREFIX"/lib/python{self.python}', inside="conda run -n tf"),
        )
        return {**{tool: (*made[tool], *links) for tool in first if tool in made}, "conda": conda}

    def _environments(self, packages: str) -> dict[str, tuple[str, ...]]:
        """The commands of pip and, where it can bring that Python, of uv that make ~/tf with packages (of a shell)."""
        pip, python = "~/tf/bin/python -m pip install", self.python
        # Python 2.7 has no module venv
        made = "virtualenv -p python2.7 ~/tf" if python == "2.7" else f"{self.starts_python} -m venv ~/tf"
        newer = newer_pip(python)
        found = {"pip": (made, *([f"{pip} --upgrade {quoted(newer, None)}"] if newer else ()), f"{pip} {packages}")}
        if capability(python) >= OLDEST_OF_UV:
            found["uv"] = (f"uv venv --python {python} ~/tf", f"uv pip install --python ~/tf/bin/python {packages}")
        return found

    def _quoted(self, words: Iterable[str]) -> str:
        return " ".join(quoted(one, self.target.os) for one in words)

    def _links(self, library: str, inside: str = "") -> tuple[str, ...]:
        if self.on_cpu:
            return ()
        return link_commands(self.row, f"{library}/site-packages", cuda_from_pip=self.cuda_from_pip, inside=inside)

    def _with_condas_cuda(self) -> Iterator[str]:
        """CUDA and cuDNN from conda, TensorFlow from pip (TensorFlow's install guide of 2.10 to 2.12)."""
        cuda, cudnn = minor(self.row.cuda), self.row.cudnn
        channel = CONDA_TOOLKITS[cuda]
        limits = (str(int(major(cudnn or "7")) + 1), self.cudnn_limit, _LATER_CUDNN.get(cuda))
        limit = min(filter(None, limits), key=Version)
        packages = self._quoted((requirement(self.row), *self.bounds))
        create = f"conda create -n tf -c {channel} python={self.python} pip cudatoolkit={cuda}"
        yield create + (" " + self._quoted((f"cudnn>={cudnn},<{limit}",)) if cudnn else "")
        yield f"conda run -n tf python -m pip install {packages}"
        if self.target.os != "windows":  # there, activating puts the DLLs on PATH
            yield from conda_library_path('"$(conda run -n tf printenv CONDA_PREFIX)/etc/conda"')

    @property
    def check(self) -> Fix:
        """How to see that it worked; the tool itself is not in that environment."""
        if self.target.os == "windows":
            return Fix("Check it", (f'conda run -n tf python -c "{list_gpus(self.row.version)}"',))
        if "pip" in self.commands:
            return Fix("Check it", ("tfgpu doctor --python ~/tf/bin/python",))
        return CHECK_CONDA


# the doctor of this shell, on the Python of a conda environment, with the variables that activation sets
CHECK_CONDA = Fix("Check it", ('conda run -n tf "$(command -v tfgpu)" doctor --python python',))


def list_gpus(version: str) -> str:
    """Python code that prints what a release sees; tf.config.list_physical_devices came with 2.1."""
    call = "tf.config.list_physical_devices('GPU')" if at_least(version, "2.1") else "tf.test.is_gpu_available()"
    return f"import tensorflow as tf; print({call})"


# -------------------------------------------------------------------------------- how pip's CUDA libraries are found

XLA_FILE = "_tfgpu_xla_flags.pth"  # below site-packages
_ACTIVATE = 'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
_DEACTIVATE = 'LD_LIBRARY_PATH="${LD_LIBRARY_PATH#"$CONDA_PREFIX/lib"}"; export LD_LIBRARY_PATH="${LD_LIBRARY_PATH#:}"'


@dataclass(frozen=True)
class LibraryPaths:
    """What an environment needs besides its packages; all is below site-packages."""

    folder: str = ""  # that TensorFlow searches
    files: tuple[str, ...] = ()  # to be linked into it, patterns for a shell and for Python's glob; empty: none
    needs_xla_line: bool = False  # XLA does not look for its compiler in pip's packages


_ALL = ("nvidia/*/lib/*.so*",)
# of all that it opens; what these need themselves they find by $ORIGIN/../../nvjitlink/lib
_FORGOTTEN = tuple(f"nvidia/{one}/lib/*.so*" for one in ("cu[bfrs]*", "cudnn", "cuda_cupti", "nccl"))


def library_paths(row: Release, *, cuda_from_pip: bool) -> LibraryPaths:
    """What an environment with this release needs; nothing where its RUNPATH leads to every library.

    Args:
        cuda_from_pip: the libraries are in pip's packages, of which the release knows nothing.
    """
    if cuda_from_pip:
        return LibraryPaths("tensorflow", _ALL, at_least(row.version, XLA_READS_PACKAGES_SINCE) is False)
    is_broken = any(map(forgets_folders, row.known_issues))
    return LibraryPaths("nvidia/cuda_runtime/lib", _FORGOTTEN) if is_broken else LibraryPaths()


def repaired_by_commands(matrix: Matrix) -> frozenset[str]:
    """The ids of issues that links, bounds or a driver repair: if asked for, a release with one can be installed."""
    issues = matrix.data.known_issues
    return frozenset(one.id for one in issues if forgets_folders(one) or lacks_bound(one) or one.condition.driver)


def link_commands(row: Release, site: str, *, cuda_from_pip: bool, inside: str = "") -> tuple[str, ...]:
    """The commands after pip's that give an environment its library paths.

    Args:
        site: the site-packages folder, as the shell can read it.
        cuda_from_pip: the libraries are in pip's packages, of which the release knows nothing.
        inside: what runs a command within the environment ("conda run -n tf"), where `site` is known there alone.
    """
    paths, commands = library_paths(row, cuda_from_pip=cuda_from_pip), []
    if paths.files:
        # of absolute paths, since the current folder may be gone
        files = " ".join(posixpath.relpath(f"/{pattern}", f"/{paths.folder}") for pattern in paths.files)
        link = f"cd {site}/{paths.folder} && ln -sf {files} ."
        commands.append(link if inside else f"({link})")
    if paths.needs_xla_line:
        commands.append(xla_line_command(xla_line(), site))
    return tuple(f"{inside} sh -c {shlex.quote(command)}" if inside else command for command in commands)


def xla_line(folder: str = "", *, beside: bool = False) -> str:
    """The line that Python executes when it starts and that tells XLA its compiler's folder, by default pip's.

    A value that is set already is kept; `beside` it this folder counts, as the last one. `sitedir` is what site.py
    calls the folder of the file.
    """
    pip = f'"--xla_gpu_cuda_data_dir=" + sitedir + "/{XLA_COMPILER}"'
    value = f'"--xla_gpu_cuda_data_dir={folder}"' if folder else pip
    if beside:
        return f'import os; os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " " + {value}'
    return f'import os; os.environ.setdefault("XLA_FLAGS", {value})'


def xla_line_command(line: str, site: str) -> str:
    """The command that adds such a line; `site` is the site-packages folder, as the shell can read it."""
    return f"echo {shlex.quote(line)} > {site}/{XLA_FILE}"


def conda_library_path(conda: str) -> tuple[str, ...]:
    """Let activation put the environment's lib folder before what LD_LIBRARY_PATH holds, and deactivation remove it.

    `conda env config vars set` would replace the variable: on some clusters it leads to the driver.

    Args:
        conda: the folder etc/conda of the environment, as a shell word.
    """
    return (
        f'E={conda}; mkdir -p "$E/activate.d" "$E/deactivate.d"',
        f'echo {shlex.quote(_ACTIVATE)} > "$E/activate.d/cuda.sh"',
        f'echo {shlex.quote(_DEACTIVATE)} > "$E/deactivate.d/cuda.sh"',
    )
