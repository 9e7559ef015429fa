"""The programs that install: pip, uv, conda and Pythons; how they are found and run, and how they fail."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from tfgpu_doctor.facts.about import public
from tfgpu_doctor.facts.facts import Document, Record
from tfgpu_doctor.facts.printable import cut
from tfgpu_doctor.facts.report import EXIT_UNKNOWN, EXIT_USAGE, MatrixInfo
from tfgpu_doctor.facts.report import Tool as Program
from tfgpu_doctor.facts.units import seconds
from tfgpu_doctor.install.folder import InstallError
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.probes import process, systems

SCHEMA: Literal["tfgpu.install/1"] = "tfgpu.install/1"
MANIFEST = "tfgpu-install.json"  # within the environment
LOCK = "tfgpu-lock.txt"
REPORT = "tfgpu-report.json"  # of the doctor; tfgpu compare shows what has changed since

Method: TypeAlias = Literal["uv", "pip", "conda"]
StepState: TypeAlias = Literal["ok", "warning", "failed"]


class Added(Record, frozen=True):
    """A file that was added to what the packages bring."""

    path: str  # relative to the environment
    kind: Literal["link", "pth"]
    why: str


class Step(Record, frozen=True):
    """A check of the finished environment, and how it ended."""

    name: str  # "doctor"
    state: StepState
    text: str
    seconds: float


class Ran(Record, frozen=True):
    """A command that was run, and how it ended."""

    argv: tuple[str, ...]
    returncode: int | None
    seconds: float


class Manifest(Document, frozen=True):
    """All that an installation did."""

    schema: Literal["tfgpu.install/1"]
    tool: Program
    matrix: MatrixInfo
    created: Annotated[str, public("created")]  # UTC
    seconds: float
    method: Method
    prefix: str
    python: str  # "3.12.1"
    option: Option  # of the plan
    commands: tuple[Ran, ...]
    added: tuple[Added, ...]
    steps: tuple[Step, ...]


# ---------------------------------------------------------------------------------------------- how programs fail

# What pip, uv and conda print where the index or a proxy does not answer, or its certificate is not trusted.
_UNREACHABLE = re.compile(
    r"failed to establish a new connection|name resolution|name or service not known|network is unreachable"
    r"|connection (?:refused|reset|timed out|aborted)|max retries exceeded|read timed out|operation timed out|"
    r"error sending request|dns error|tcp connect error|cannot connect to proxy|certificate_verify_failed"
    r"|invalid peer certificate|sslerror|network connectivity|could not connect|CondaHTTPError|ConnectionFailed"
    r"|request failed after \d+ retr(?:y|ies)|HTTP (?:status|error):? ?\(?(?:401|403|407|5\d\d)",
    re.IGNORECASE,
)
_FULL = re.compile(r"no space left on device|disk quota exceeded|os error (?:28|122)\b", re.IGNORECASE)


class ToolError(InstallError):
    """The program that --method names is not here."""

    code = EXIT_USAGE


class CommandError(InstallError):
    """A program failed; `output` is what it wrote, and says why if `explained`."""

    def __init__(self, what: str, done: process.Completed, limit: float) -> None:
        """Describe it: `what` was to be done, within `limit` seconds."""
        self.output = done.stdout + done.stderr
        # what a program prints explains its exit code; one that was ended had gone on after it
        self.explained = not (done.error or done.timed_out or done.signal_name)
        unreachable = _UNREACHABLE.search(self.output) if self.explained else None
        full = next(filter(_FULL.search, self.output.splitlines()), None) if self.explained else None
        if full:
            reason = f"the disk is full: {cut(full.strip(), 300)}"
        elif unreachable:
            # uv gets Python from another host than the packages
            of_python = "Failed to install cpython" in self.output
            where = "the download of Python" if of_python else "the package index"
            mirror = "; UV_PYTHON_INSTALL_MIRROR names a mirror" if of_python else ""
            reason = f"{where} cannot be reached ({unreachable[0]}); see --help for proxies and certificates{mirror}"
        else:
            reason = _ended(done, limit)
        super().__init__(f"{what} failed: {reason}")
        if done.timed_out or unreachable:
            self.code = EXIT_UNKNOWN


def _ended(done: process.Completed, limit: float) -> str:
    program = os.path.basename(done.argv[0])
    if done.error:
        return f"{program} cannot be started: {done.error}"
    if done.timed_out and done.seconds < limit:
        return f"{program} wrote more than {process.FLOOD / 1e6:.0f} MB"
    if done.timed_out:
        return f"{program} did not end within {seconds(limit)}"
    return f"ended by {done.signal_name}" if done.signal_name else f"exit code {done.returncode}"


# ----------------------------------------------------------------------------------------------- how they are run


@dataclass
class Commands:
    """The commands of one installation."""

    env: Mapping[str, str]
    ran: list[Ran] = field(default_factory=list)
    log: list[str] = field(default_factory=list)  # what is kept where the installation fails

    def run(self, what: str, argv: Sequence[str], timeout: float, on_line: Callable[[str], None] | None = None) -> str:
        """Run a command and return its output; `what` names the task in the error message.

        Raises CommandError: it failed, or ran out of time.
        """

        def look(line: str) -> None:
            if on_line:
                on_line(line)

        self.log.append(f"$ {' '.join(argv)}\n")
        # not in the user's folder: nothing there may be imported by python -m pip, or configure uv
        done = process.run(argv, timeout=timeout, env=self.env, cwd=os.sep, on_line=look, merged=True)
        self.ran.append(Ran(done.argv, done.returncode, round(done.seconds, 3)))
        failed = done.returncode != 0 or done.timed_out
        self.log.append(f"{done.stdout}{done.stderr}[{_ended(done, timeout)}]\n")
        if failed:
            raise CommandError(what, done, timeout)
        return done.stdout


# Variables of pip, uv, conda and Python, of which those reach the programs that say where packages come from: not
# those that would send packages elsewhere, or bring others.
_FAMILY = re.compile(r"(?:PIP|UV|CONDA|MAMBA|VIRTUALENV)_.*|(?:PYTHON|VIRTUAL_ENV|_CE_|__PYVENV).*")
_KEPT = re.compile(
    r"PIP_(?:INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CERT|CLIENT_CERT|PROXY|TIMEOUT"
    r"|DEFAULT_TIMEOUT|RETRIES|CACHE_DIR|NO_CACHE_DIR|CONFIG_FILE|KEYRING_PROVIDER|USE_FEATURE|USE_DEPRECATED)"
    r"|UV_(?:INDEX(?:_.*)?|DEFAULT_INDEX|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|INSECURE_HOST|NATIVE_TLS|SYSTEM_CERTS"
    r"|HTTP_.*|REQUEST_TIMEOUT|CACHE_DIR|NO_CACHE|LINK_MODE|CONCURRENT_.*|KEYRING_PROVIDER|CONFIG_FILE|OFFLINE"
    r"|PYTHON_INSTALL_(?:DIR|MIRROR)|PYTHON_DOWNLOADS_JSON_URL|CREDENTIALS_DIR)"
    r"|CONDA_(?:PKGS_DIRS|CHANNEL_ALIAS|SSL_VERIFY|OFFLINE|REMOTE_.*|PROXY_SERVERS.*|OVERRIDE_.*|EXE|ROOT)"
    r"|CONDARC|MAMBA_(?:ROOT_PREFIX|EXE|SSL_VERIFY)|PYTHONUTF8|PYTHONIOENCODING"
)
_DISTURBING = re.compile(r"PYTHON(?:PATH|HOME)|(?:PIP|UV)_(?!(?:DISABLE_PIP_VERSION_CHECK|NO_INPUT|NO_PROGRESS)$).*")
# a relative one is meant from the folder of the user, and programs run in another one
_PATHS = re.compile(
    r"PIP_(?:FIND_LINKS|CERT|CLIENT_CERT|CACHE_DIR|CONFIG_FILE)|UV_(?:FIND_LINKS|CACHE_DIR|CONFIG_FILE|INDEX)"
    r"|UV_PYTHON_INSTALL_DIR|CONDARC|SSL_CERT_(?:FILE|DIR)|(?:REQUESTS|CURL)_CA_BUNDLE"
)
OURS = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_NO_INPUT": "1",
    "PIP_USER": "0",  # of pip.conf, with which pip refuses to install into a virtual environment
    "PYTHONNOUSERSITE": "1",
    "PYTHONUNBUFFERED": "1",
    "UV_NO_PROGRESS": "1",
    "UV_PYTHON_INSTALL_BIN": "0",  # else uv puts a link into ~/.local/bin for a Python that it gets
    "UV_PYTHON_INSTALL_REGISTRY": "0",
    "NO_COLOR": "1",
    "CONDA_ALWAYS_YES": "1",
}


def of_children(environ: Mapping[str, str], folder: str, temporary: str) -> dict[str, str]:
    """Return the environment for pip, uv and conda.

    Args:
        environ: of this process.
        folder: the current directory, from which relative paths are meant.
        temporary: where they unpack; /tmp can be too small for wheels of 600 MB.
    """
    kept = {
        name: _absolute(value, folder) if _PATHS.fullmatch(name) else value
        for name, value in environ.items()
        if not _FAMILY.fullmatch(name) or _KEPT.fullmatch(name)
    }
    return {**kept, **OURS, "TMPDIR": temporary}


def dropped(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the variables that would send packages elsewhere, or bring others, and that the programs do not get."""
    return tuple(sorted(name for name in environ if _DISTURBING.fullmatch(name) and not _KEPT.fullmatch(name)))


def _absolute(value: str, folder: str) -> str:
    return " ".join(
        os.path.join(folder, word) if word and "://" not in word and not word.startswith(("~", "name=")) else word
        for word in value.split(" ")
    )


# ------------------------------------------------------------------------------------------------ how they are found

ANSWER = 20.0  # seconds that an interpreter may take to describe itself
_ASK = (
    "import platform, struct, sys, sysconfig\n"
    "def has(name):\n"
    "    try:\n        __import__(name)\n        return True\n    except ImportError:\n        return False\n"
    "print(platform.python_version(), platform.python_implementation(), struct.calcsize('P') * 8,"
    " not sysconfig.get_config_var('Py_GIL_DISABLED'), has('venv') and has('ensurepip') and has('ssl'))"
)


def find_python(minor: str, environ: Mapping[str, str], *, venv: bool = False, own: str = sys.executable) -> str | None:
    """Return the path of the first CPython of 64 bits with a GIL that is of a minor version ("3.12"), or None.

    Args:
        minor: what is looked for.
        environ: where to look: PATH, and the variables and folders of pyenv, uv and conda.
        venv: it must be able to create a virtual environment with pip.
        own: the Python of tfgpu itself, which is the first.
    """
    wanted = re.compile(rf"{re.escape(minor)}\.\S+ CPython 64 True {'True' if venv else '(?:True|False)'}\s*")
    for path in dict.fromkeys(_places(minor, environ, own)):
        done = process.run([path, "-I", "-c", _ASK], timeout=ANSWER, env=environ, cwd=os.sep)
        if wanted.fullmatch(done.stdout):
            return path
    return None


def _places(minor: str, environ: Mapping[str, str], own: str) -> Iterator[str]:
    home = environ.get("HOME") or os.path.expanduser("~")
    yield own
    name, inside = ("python", "python.exe") if sys.platform == "win32" else (f"python{minor}", f"bin/python{minor}")
    for folder in (*systems.folders(environ), "/usr/bin", "/usr/local/bin"):
        if program := systems.find(os.path.join(folder, name), environ):
            yield program
    pyenv = environ.get("PYENV_ROOT") or os.path.join(home, ".pyenv")
    uv = environ.get("UV_PYTHON_INSTALL_DIR") or os.path.join(home, ".local", "share", "uv", "python")
    conda = [environ.get(one, "") for one in ("CONDA_PREFIX", "CONDA_ROOT", "MAMBA_ROOT_PREFIX")]
    conda += [os.path.join(home, one) for one in ("miniforge3", "miniconda3", "anaconda3", "mambaforge")]
    for root, pattern in (
        (pyenv, f"versions/{minor}.*/{inside}"),
        (uv, f"cpython-{minor}.*/{inside}"),
        *((root, f"{envs}{inside}") for root in conda if root for envs in ("", "envs/*/")),
    ):
        yield from sorted(map(str, Path(root).glob(pattern)), reverse=True)


def find_uv(environ: Mapping[str, str]) -> str | None:
    """Return uv on PATH, or beside the Python of tfgpu, or where its installer puts it."""
    home = environ.get("HOME") or os.path.expanduser("~")
    more = (os.path.dirname(sys.executable), os.path.join(home, ".local", "bin"), os.path.join(home, ".cargo", "bin"))
    return systems.find("uv", environ, more=more)


def find_conda(environ: Mapping[str, str]) -> str | None:
    """Return conda, mamba or micromamba."""
    found = (systems.find(name, environ) for name in ("conda", "mamba", "micromamba"))
    return next((one for one in (environ.get("CONDA_EXE"), *found) if one and os.path.isabs(one)), None)
