"""The commands that install a release, the Python and the library paths they need, and builds without CUDA. Pure."""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from msgspec import structs
from packaging.version import Version

from tfgpu_doctor.matrix.compatibility import (
    XLA_COMPILER,
    XLA_READS_PACKAGES_SINCE,
    cudnn_bound,
    cudnn_limit,
    extra_fails,
    forgets_folders,
    numpy_bound,
    protobuf_bound,
    requirement,
)
from tfgpu_doctor.matrix.loader import Matrix, Release
from tfgpu_doctor.plan.target import Target
from tfgpu_doctor.records.facts import Setting
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
        return " ".join(map(shlex.quote, self.requirements))

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


OLDEST_OF_UV = (3, 8)  # that `uv python list --all-versions` can bring
_OLDEST_OF_DEADSNAKES = (3, 7)


def what_may_be_missing(
    managers: Collection[str], python: str, interpreter: str, *, installers: Collection[str] = (), there: bool = False
) -> Iterator[Fix]:
    """How to get the programs that the commands start, the commonest first.

    Args:
        managers: the package managers whose commands are shown.
        python: the version that is wanted.
        interpreter: the program that pip's commands start.
        installers: package managers that are known to be there.
        there: the interpreter is known to be there.
    """
    if "uv" in managers and "uv" not in installers:
        yield Fix("uv is missing", ("pipx install uv",))
    if "pip" in managers and not there and (found := tuple(_interpreter(python, interpreter))):
        yield Fix(f"{interpreter} is missing", found)
    if "pip" in managers and capability(python) > (2, 7):
        package = f"{interpreter}-venv" if interpreter.startswith("python") else f"python{python}-venv"
        yield Fix("venv is missing (Debian, Ubuntu)", (f"sudo apt-get install -y {package}",))
    if "conda" in managers and len(managers) == 1 and "conda" not in installers:
        yield Fix("conda is missing", ("python3 -m webbrowser https://conda-forge.org/download/",))


def missing_on_macos(python: str, interpreter: str, *, there: bool) -> Iterator[Fix]:
    """The same on a Mac, whose own Python is not meant for packages (Homebrew's formulae have the version's name)."""
    if not there:
        yield Fix(f"{interpreter} is missing", (f"brew install python@{python}",))
    yield Fix("uv is missing", ("brew install uv",))


def _interpreter(python: str, interpreter: str) -> Iterator[str]:
    if interpreter == "python3":
        return
    if capability(python) >= OLDEST_OF_UV:
        yield f"uv python install {python}"
    if capability(python) >= _OLDEST_OF_DEADSNAKES:
        yield f"sudo add-apt-repository -y ppa:deadsnakes/ppa && sudo apt-get install -y python{python}-venv  # Ubuntu"
    else:
        yield f"pyenv install {python}"


_EXPORT = re.compile(r"export (\w+)=(.*)$")
_CONDA_STATE = "conda-meta/state"


def comment_out(file: str, line: int, word: str, os: str) -> str:
    """The command that makes a comment of one line, if it still holds the word."""
    if os == "windows":
        return f'notepad "{file}"'  # the text of the fix says what to change
    sed = "sed -i ''" if os == "macos" else "sed -i --follow-symlinks"
    sudo = "sudo " if file.startswith("/etc/") else ""
    pattern = re.sub(r"([\\/.*^$\[\]&])", r"\\\1", word)
    return f"{sudo}{sed} {shlex.quote(f'{line}s/^.*{pattern}/# &/')} {shlex.quote(file)}"


def lasting(fix: Fix, settings: Sequence[Setting], os: str) -> Fix:
    """The same fix, which also changes the lines that would set the variables again in the next shell."""
    dropped = dict(_dropped(fix.commands))
    lines = [one for one in settings if one.name in dropped and _is_gone(one.value, dropped[one.name])]
    lines = [one for one in lines if not one.file.endswith(".json")]  # no line of a shell
    if not lines or os == "windows":
        return fix
    where = ", ".join(dict.fromkeys(f"{one.file} line {one.line}" for one in lines))
    change = tuple(_change(one, os) for one in lines)
    first = next(number for number, one in enumerate(fix.commands) if dict(_dropped((one,))))
    commands = (*fix.commands[:first], *change, *fix.commands[first:])
    return structs.replace(fix, text=f"{fix.text}; {where} sets it in every new shell", commands=commands)


def _dropped(commands: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """The variables that commands unset or set anew, each with what is left in it."""
    for command in commands:
        *_, unset, names = command.rpartition("unset ")
        if unset and all(map(str.isidentifier, names.split())):
            yield from ((name, "") for name in names.split())
        elif (export := _EXPORT.match(command)) and "$" not in export[2]:
            yield export[1], " ".join(shlex.split(export[2]))


def _is_gone(written: str, left: str) -> bool:
    """Whether nothing that the line adds is in what is left."""
    parts = [part for part in written.split(":") if part and "$" not in part]
    return not any(part in left.split(":") for part in parts)


def _change(setting: Setting, os: str) -> str:
    if setting.file.endswith(_CONDA_STATE):
        prefix = setting.file.removesuffix("/" + _CONDA_STATE)
        return f"conda env config vars unset -p {shlex.quote(prefix)} {setting.name}"
    return comment_out(setting.file, setting.line, setting.name, os)


@dataclass(frozen=True)
class Links:
    """Links in one folder to the files of others, all below site-packages."""

    folder: str
    files: tuple[str, ...]  # patterns, for a shell and for Python's glob


@dataclass(frozen=True)
class StartLine:
    """A line that Python executes when it starts in the environment."""

    file: str  # below site-packages
    text: str


@dataclass(frozen=True)
class LibraryPaths:
    """What an environment needs besides its packages."""

    links: tuple[Links, ...] = ()
    lines: tuple[StartLine, ...] = ()


_ALL = Links("tensorflow", ("nvidia/*/lib/*.so*",))
# of all that it opens; what these need themselves they find by $ORIGIN/../../nvjitlink/lib
_FORGOTTEN = Links(
    "nvidia/cuda_runtime/lib",
    tuple(f"nvidia/{one}/lib/*.so*" for one in ("cu[bfrs]*", "cudnn", "cuda_cupti", "nccl")),
)
XLA_LINE = StartLine(  # a value that is set already is kept
    "_tfgpu_xla_flags.pth",
    'import os, sysconfig; os.environ.setdefault("XLA_FLAGS", '
    f'"--xla_gpu_cuda_data_dir=" + sysconfig.get_path("purelib") + "/{XLA_COMPILER}")',
)
_ACTIVATE = 'export LD_LIBRARY_PATH="$CONDA_PREFIX/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
_DEACTIVATE = 'LD_LIBRARY_PATH="${LD_LIBRARY_PATH#"$CONDA_PREFIX/lib"}"; export LD_LIBRARY_PATH="${LD_LIBRARY_PATH#:}"'


def repaired_by_links(matrix: Matrix) -> frozenset[str]:
    """The ids of these issues: a release with one of them can be installed if it is asked for."""
    return frozenset(one.id for one in matrix.data.known_issues if forgets_folders(one))


def library_paths(row: Release, *, cuda_from_pip: bool) -> LibraryPaths:
    """What an environment with this release needs; nothing where its RUNPATH leads to every library.

    Args:
        cuda_from_pip: the libraries are in pip's packages, of which the release knows nothing.
    """
    if cuda_from_pip:
        old = at_least(row.version, XLA_READS_PACKAGES_SINCE) is False
        return LibraryPaths((_ALL,), (XLA_LINE,) if old else ())
    return LibraryPaths((_FORGOTTEN,) if any(forgets_folders(issue) for issue in row.known_issues) else ())


def link_commands(row: Release, site: str, *, cuda_from_pip: bool, inside: str = "") -> tuple[str, ...]:
    """The commands after pip's that give an environment its library paths.

    Args:
        site: the site-packages folder, as the shell can read it.
        cuda_from_pip: the libraries are in pip's packages, of which the release knows nothing.
        inside: what runs a command within the environment ("conda run -n tf"), where `site` is known there alone.
    """
    return tuple(
        f"{inside} sh -c {shlex.quote(command)}" if inside else command
        for command in _commands(library_paths(row, cuda_from_pip=cuda_from_pip), site, subshell=not inside)
    )


def _commands(paths: LibraryPaths, site: str, *, subshell: bool) -> Iterator[str]:
    for links in paths.links:
        files = " ".join(posixpath.relpath(pattern, links.folder) for pattern in links.files)
        command = f"cd {site}/{links.folder} && ln -sf {files} ."
        yield f"({command})" if subshell else command
    yield from (start_line_command(line, site) for line in paths.lines)


def link_found(folders: Iterable[str], target: str) -> str:
    """The command that links all libraries of folders wherever they are: those of cuDNN search their own folder.

    Args:
        folders: paths as the loader has them; a part "*" is a pattern.
        target: the folder to link them into, which TensorFlow searches.
    """
    files = " ".join("/*/".join(map(shlex.quote, folder.split("/*/"))) + "/*.so*" for folder in folders)
    return f"ln -sf {files} {shlex.quote(target + '/')}"


def xla_line(folder: str) -> StartLine:
    """The same for a toolkit in another folder."""
    option = f"--xla_gpu_cuda_data_dir={folder}"
    return StartLine(XLA_LINE.file, f'import os; os.environ.setdefault("XLA_FLAGS", "{option}")')


def start_line_command(line: StartLine, site: str) -> str:
    """The command that adds a line; `site` is the site-packages folder, as the shell can read it."""
    return f"echo {shlex.quote(line.text)} > {site}/{line.file}"


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
