"""Which Pythons are on this machine, and which of them can make an environment.

Each one is run and asked: a shim of pyenv is on PATH even if its version is not selected, and Debian's Python can
lack ensurepip, which venv needs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from tfgpu_doctor.probes import process, programs

ANSWER = 20.0  # seconds that an interpreter may take to describe itself
_VERSION = re.compile(r"[0-9]{1,2}\.[0-9]{1,3}\.")
_ASK = (
    "import json, platform, struct, sys, sysconfig\n"
    "def has(name):\n"
    "    try:\n        __import__(name)\n        return True\n    except ImportError:\n        return False\n"
    "print(json.dumps({'path': getattr(sys, '_base_executable', None) or sys.executable,"
    " 'version': platform.python_version(), 'kind': platform.python_implementation(),"
    " 'bits': struct.calcsize('P') * 8, 'gil': not sysconfig.get_config_var('Py_GIL_DISABLED'),"
    " 'venv': has('venv') and has('ensurepip') and has('ssl')}))"
)


class _Answer(msgspec.Struct):
    path: str  # outside of virtual environments, which may be removed
    version: str
    kind: str
    bits: int
    gil: bool
    venv: bool

    @property
    def is_usable(self) -> bool:
        """True for a CPython of 64 bits with a GIL, whose path and version may become arguments."""
        is_cpython = self.kind == "CPython" and self.bits == 64 and self.gil
        return is_cpython and os.path.isabs(self.path) and bool(_VERSION.match(self.version))


@dataclass(frozen=True)
class Interpreter:
    """A CPython of 64 bits."""

    path: str
    version: str  # "3.12.1"
    has_venv: bool  # it can make an environment with pip

    @property
    def minor(self) -> str:
        """ "3.12"."""
        return ".".join(self.version.split(".")[:2])


class Interpreters:
    """The Pythons of this machine, each looked at once, and only when it is asked for."""

    def __init__(self, environ: Mapping[str, str], own: str = sys.executable) -> None:
        """Look where `environ` says; `own` is the Python of tfgpu itself."""
        self._environ, self._own = environ, own
        self._answers: dict[str, Interpreter | None] = {}

    @cached_property
    def own(self) -> Interpreter | None:
        """The Python that runs tfgpu."""
        return self._ask(self._own)

    def find(self, minor: str, *, venv: bool) -> Interpreter | None:
        """The first Python of a minor version; with `venv`, one that can make an environment by itself."""
        for path in self._places(minor):
            found = self._ask(path)
            if found and found.minor == minor and (found.has_venv or not venv):
                return found
        return None

    def program(self, minor: str) -> str | None:
        """The first program of a minor version as it was found, so that it may be that of a virtual environment."""
        asked = ((path, self._ask(path)) for path in self._places(minor))
        return next((path for path, found in asked if found and found.minor == minor), None)

    def _places(self, minor: str) -> Iterator[str]:
        home = self._environ.get("HOME") or os.path.expanduser("~")
        yield self._own
        name, inside = ("python", "python.exe") if sys.platform == "win32" else (f"python{minor}", f"bin/python{minor}")
        for folder in (*programs.folders(self._environ), "/usr/bin", "/usr/local/bin"):
            if program := programs.find(os.path.join(folder, name), self._environ):
                yield program
        pyenv = self._environ.get("PYENV_ROOT") or os.path.join(home, ".pyenv")
        uv = self._environ.get("UV_PYTHON_INSTALL_DIR") or os.path.join(home, ".local", "share", "uv", "python")
        conda = [self._environ.get(one, "") for one in ("CONDA_PREFIX", "CONDA_ROOT", "MAMBA_ROOT_PREFIX")]
        conda += [os.path.join(home, one) for one in ("miniforge3", "miniconda3", "anaconda3", "mambaforge")]
        for root, pattern in (
            (pyenv, f"versions/{minor}.*/{inside}"),
            (uv, f"cpython-{minor}.*/{inside}"),
            *((root, f"{envs}{inside}") for root in conda if root for envs in ("", "envs/*/")),
        ):
            yield from sorted(map(str, Path(root).glob(pattern)), reverse=True)

    def _ask(self, path: str) -> Interpreter | None:
        if path not in self._answers:
            done = process.run([path, "-I", "-c", _ASK], timeout=ANSWER, env=self._environ, cwd=os.sep)
            try:
                said = msgspec.json.decode(done.stdout, type=_Answer)
            except (msgspec.DecodeError, UnicodeDecodeError):
                said = None
            usable = said if said and said.is_usable else None
            self._answers[path] = Interpreter(usable.path, usable.version, usable.venv) if usable else None
        return self._answers[path]
