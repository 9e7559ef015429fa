"""The machine, its shells, and the environments that rows of the table begin with."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import cached_property
from pathlib import Path
from typing import Literal

from tests.lab.hiding import LIBRARIES, hide_cudnn, hide_toolkits

ROOT = Path(__file__).parents[2]
ANSWERS = {
    "TFGPU_LAB_NAME": "NVIDIA GeForce RTX 4090",
    "TFGPU_LAB_CC": "8.9",
    "TFGPU_LAB_DRIVER": "570.86.15",
    "TFGPU_LAB_CUDA_VERSION": "12080",
    "TFGPU_LAB_MEMORY_MIB": "24564",
}
# how this machine reaches a package index, and where the installers keep what they have downloaded
KEPT = ("PIP_", "UV_", "SSL_CERT_", "REQUESTS_CA_BUNDLE", "HTTP_", "HTTPS_", "http_", "https_", "OPENBLAS_")
PYTHONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13")
# The tool under test, as a program: `python -m` would put the current folder on the path of the tool.
PROGRAM = """#!{python}
import sys
sys.path.insert(0, {root!r})
from tfgpu_doctor.__main__ import main
main()
"""


Done = subprocess.CompletedProcess[str]


def find_uv() -> str | None:
    """The program uv: beside this Python (the extra `test` installs it), or on PATH."""
    beside = Path(sys.executable).parent / "uv"
    return str(beside) if beside.exists() else shutil.which("uv")


def find_python(version: str) -> str | None:
    """An interpreter of this version: this one, pyenv's, one on PATH, or one of uv."""
    if version == f"{sys.version_info[0]}.{sys.version_info[1]}":
        return str(Path(sys.executable).resolve())
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = sorted(pyenv.glob(f"{version}.*/bin/python{version}"))
    if found:
        return str(found[-1])
    if (program := shutil.which(f"python{version}")) and ".pyenv/shims" not in program:
        return program
    if not (uv := find_uv()):
        return None
    command = [uv, "python", "find", "--no-project", "--no-python-downloads", version]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() or None


class Machine:
    """One RTX 4090: shells see the lab's driver in ld.so's cache and no CUDA of the machine, in a mount namespace.

    Where none is allowed, the driver is found through LD_LIBRARY_PATH.
    """

    def __init__(self, folder: Path, libraries: Path) -> None:
        self.folder = folder
        self.libraries = libraries
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True, exist_ok=True)
        program = self.programs / "tfgpu"
        program.write_text(PROGRAM.format(python=sys.executable, root=str(ROOT)))
        program.chmod(0o755)

    @cached_property
    def namespace(self) -> list[str]:
        """The command that gives what follows it a private /etc/ld.so.cache; empty where that is not allowed."""
        if sys.platform != "linux" or not shutil.which("unshare"):
            return []
        hide = hide_toolkits() + hide_cudnn(self.folder / "hidden")
        cache, configuration = self.folder / "ld.so.cache", self.folder / "ld.so.conf"
        configuration.write_text("\n".join([str(self.libraries), *filter(os.path.isdir, LIBRARIES)]) + "\n")
        script = self.folder / "enter.sh"
        ldconfig = shlex.join(["ldconfig", "-X", "-C", str(cache), "-f", str(configuration)])
        script.write_text(f"set -e\n{hide}PATH=$PATH:/sbin:/usr/sbin {ldconfig}\n")
        enter = ["unshare", "-rm", "sh"]
        made = subprocess.run([*enter, str(script)], capture_output=True, timeout=60, check=False)
        if made.returncode:
            return []
        bind = f"mount --bind {shlex.quote(str(cache))} /etc/ld.so.cache"
        script.write_text(f'set -e\n{hide}{bind}\nexec "$@"\n')
        tried = subprocess.run([*enter, str(script), "true"], capture_output=True, timeout=60, check=False)
        return [] if tried.returncode else [*enter, str(script)]

    @property
    def has_own_cudnn(self) -> bool:
        """Whether shells see a cuDNN of this machine, which nothing hides from them."""
        return not self.namespace and bool(hide_cudnn(self.folder / "hidden"))

    def environ(self, home: Path, variables: Mapping[str, str], programs: tuple[str, ...] = ()) -> dict[str, str]:
        """The environment of a shell: nothing of this process but its way to a package index."""
        kept = {name: value for name, value in os.environ.items() if name.startswith(KEPT)}
        caches = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
        environ = {
            "UV_CACHE_DIR": str(caches / "uv"),
            "PIP_CACHE_DIR": str(caches / "pip"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            **kept,
            **ANSWERS,
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "PATH": os.pathsep.join([*programs, str(self.programs), "/usr/local/bin", "/usr/bin", "/bin"]),
            **variables,
        }
        if not self.namespace:
            found = (variables.get("LD_LIBRARY_PATH"), str(self.libraries))
            environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, found))
        return environ

    def shell(self, script: str, environ: Mapping[str, str], cwd: Path, limit: float = 600) -> Done:
        """Run a script in a fresh bash without a terminal; what it leaves running is ended with it."""
        process = subprocess.Popen(
            [*self.namespace, "bash", "--noprofile", "--norc", "-c", script],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=dict(environ),
            cwd=cwd,
            start_new_session=True,
        )
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, errors = process.communicate()
            errors += f"\nstopped after {limit:.0f} s"
        return Done(script, process.returncode, output, errors)


# imports, and trains with Keras on the CPU
FIT = """
import numpy as np, tensorflow as tf
model = tf.keras.Sequential([tf.keras.layers.Dense(4, activation="relu", input_shape=(8,)), tf.keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
history = model.fit(np.ones((32, 8), "float32"), np.ones((32, 1), "float32"), epochs=1, verbose=0)
assert np.isfinite(history.history["loss"][0])
"""


class CannotBeMadeError(Exception):
    """This machine lacks something that a row needs; the message says what."""


@dataclass(frozen=True)
class Row:
    """One broken environment, and what following the advice must lead to."""

    name: str
    fault: str  # in words
    finding: str | None  # ids that name the fault, separated by |; None: nothing is broken
    packages: tuple[str, ...]
    broken: tuple[Fault, ...] = ()
    python: str = "3.11"
    installer: Literal["uv", "pip"] = "uv"
    place: Literal["venv", "prefix", "pip-venv"] = "venv"  # prefix: an interpreter of its own, without a venv
    variables: Mapping[str, str] = field(default_factory=dict)  # {folder} is the row's folder
    begins: str | None = None  # a command whose output `tfgpu explain` gets, instead of a run of the doctor
    examined: str = "{python}"  # the interpreter that the doctor examines
    rounds: int = 1
    problems: int = 1  # that the first run may tell: one fault is one problem
    check: str = FIT

    def expects(self, finding: str) -> bool:
        """Whether a finding names the fault."""
        return any(fnmatch(finding, one) for one in (self.finding or "").split("|"))


class Patient:
    """An environment under test: an interpreter with packages, a home, a current folder, variables."""

    def __init__(self, row: Row, folder: Path, machine: Machine, index: Mapping[str, str]) -> None:
        """Make and break the environment of a row. `index` are variables of the installers."""
        self.row, self.machine, self.index = row, machine, dict(index)
        self.folder = folder
        self.home, self.cwd, self.prefix = folder / "home", folder / "work", folder / "env"
        self.python = str(self.prefix / "bin" / "python")
        self.site = self.prefix / "lib" / f"python{row.python}" / "site-packages"
        for one in (self.home, self.cwd):
            one.mkdir(parents=True)
        self.uv = find_uv()
        if not self.uv:
            raise CannotBeMadeError("needs uv: python -m pip install uv")
        if not (base := find_python(row.python)):
            raise CannotBeMadeError(f"no Python {row.python} on this machine")
        self.variables = {name: value.format(folder=folder) for name, value in row.variables.items()}
        self.base = base
        self._make(base)
        self.activated = self.prefix / "bin" / "activate"
        self.examined = row.examined.format(python=self.python, folder=folder)
        if row.packages:
            self._install_or_copy(row.packages)
        for fault in row.broken:
            fault(self)

    def filled(self, text: str) -> str:
        """A text in which {home}, {work}, {site}, {folder} and {prefix} are places of this environment."""
        places = {"home": self.home, "work": self.cwd, "site": self.site, "folder": self.folder, "prefix": self.prefix}
        for name, place in places.items():
            text = text.replace("{" + name + "}", str(place))
        return text

    def _make(self, base: str) -> None:
        if self.row.place == "prefix":
            self._copy(Path(base))
        elif self.row.place == "pip-venv":
            self._run([base, "-m", "venv", str(self.prefix)])
        else:
            self.new(self.prefix, *(["--seed"] if self.row.installer == "pip" else []))
        programs = self.folder / "programs"
        programs.mkdir()
        if self.row.installer == "uv":
            (programs / "uv").symlink_to(str(self.uv))
        for version in PYTHONS:
            if found := find_python(version):
                (programs / f"python{version}").symlink_to(found)
        self.programs = str(programs)

    def new(self, folder: Path, *options: str) -> None:
        """Make a virtual environment in the folder; uv takes a fiftieth of the time of the module venv."""
        self._run([str(self.uv), "venv", "-q", *options, "--python", self.base, str(folder)])

    def _copy(self, base: Path) -> None:
        """An interpreter without a virtual environment: hard links to the one of pyenv, less its packages."""
        whole = base.resolve().parents[1]
        if "pyenv" not in whole.parts and ".pyenv" not in whole.parts:
            raise CannotBeMadeError("needs an interpreter of pyenv, which can be copied")
        ignore = shutil.ignore_patterns("__pycache__", "test", "site-packages", "idlelib", "share")
        shutil.copytree(whole, self.prefix, copy_function=os.link, symlinks=True, ignore=ignore)
        self.site.mkdir()
        for one in (whole / "lib" / f"python{self.row.python}" / "site-packages").glob("*.pth"):
            shutil.copy(one, self.site)
        self._run([self.python, "-m", "ensurepip"])

    def _install_or_copy(self, packages: tuple[str, ...]) -> None:
        """The packages, with the byte code of what TensorFlow imports: hard links to those of an earlier row."""
        name = hashlib.sha256(repr((self.row.python, self.row.installer, packages)).encode()).hexdigest()[:16]
        kept = self.machine.folder / "packages" / name
        if self.row.place != "venv" or self.index:
            self.install(*packages)
        elif kept.exists():
            self._run(["cp", "-alf", f"{kept}/.", str(self.site)])
        else:
            self.install(*packages)
            self._run([self.python, "-c", "import tensorflow as tf; tf.keras"])
            kept.parent.mkdir(exist_ok=True)
            self._run(["cp", "-al", str(self.site), f"{kept}-{os.getpid()}-{id(self)}"])
            if not kept.exists():
                Path(f"{kept}-{os.getpid()}-{id(self)}").rename(kept)

    def install(self, *requirements: str, options: tuple[str, ...] = ()) -> None:
        """Install with uv, which takes seconds where pip takes minutes; the metadata is the same."""
        system = ["--system", "--break-system-packages"] if self.row.place == "prefix" else []
        self._run([str(self.uv), "pip", "install", "-q", *system, "--python", self.python, *options, *requirements])

    def uninstall(self, *names: str) -> None:
        """Remove distributions."""
        system = ["--system", "--break-system-packages"] if self.row.place == "prefix" else []
        self._run([str(self.uv), "pip", "uninstall", "-q", *system, "--python", self.python, *names])

    def _run(self, command: list[str]) -> None:
        environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environ.pop("VIRTUAL_ENV", None)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=900, check=False, env={**environ, **self.index}
        )
        if done.returncode:
            raise CannotBeMadeError(f"{' '.join(command[:4])} …: {done.stderr.strip()[-400:]}")

    def run(self, script: str, limit: float = 600) -> Done:
        """Run a script in a fresh shell: ~/.bashrc, then the environment activated, as its user works."""
        begin = "[ ! -e ~/.bashrc ] || . ~/.bashrc\n"
        venv = self.activated.exists()
        begin += f". {self.activated}\n" if venv else ""
        programs = (self.programs,) if venv else (self.programs, str(self.prefix / "bin"))
        environ = self.machine.environ(self.home, {**self.index, **self.variables}, programs)
        return self.machine.shell(begin + script, environ, self.cwd, limit)


Fault = Callable[[Patient], None]
