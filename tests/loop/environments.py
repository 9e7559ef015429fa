"""Rows of the table, and the environments that they begin with."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Literal

from tests.loop.machine import PYTHONS, Done, Machine, find_python, find_uv

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
        """Make the environment of a row, not yet broken. `index` are variables of the installers."""
        self.row, self.machine, self.index = row, machine, dict(index)
        self.folder = folder
        self.home, self.cwd, self.prefix = folder / "home", folder / "work", folder / "env"
        for one in (self.home, self.cwd):
            one.mkdir(parents=True)
        self.uv = find_uv()
        if not self.uv:
            raise CannotBeMadeError("needs uv: python -m pip install uv")
        base = find_python(row.python)
        if not base:
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

    @property
    def python(self) -> str:
        """The interpreter of the environment."""
        return str(self.prefix / "bin" / "python")

    @property
    def site(self) -> Path:
        """Its site-packages."""
        return self.prefix / "lib" / f"python{self.row.python}" / "site-packages"

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
