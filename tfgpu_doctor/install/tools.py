"""The programs that install: pip, uv, conda and Pythons; how they are found, run and asked, and how they fail."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from packaging.utils import canonicalize_name, parse_wheel_filename

from tfgpu_doctor.files.reading import chunks, read_whole
from tfgpu_doctor.install.folder import TEMPORARY, InstallError, Package, python_of
from tfgpu_doctor.plan.install_commands import OLD_PIP, PIP_OF_OLD_PYTHONS
from tfgpu_doctor.plan.records import Option
from tfgpu_doctor.probes import process, systems
from tfgpu_doctor.records.about import public
from tfgpu_doctor.records.facts import Document, Record
from tfgpu_doctor.records.printable import cut, utf8
from tfgpu_doctor.records.report import EXIT_UNKNOWN, EXIT_USAGE, MatrixInfo, Report
from tfgpu_doctor.records.report import Tool as Program
from tfgpu_doctor.records.units import seconds
from tfgpu_doctor.records.versions import capability, minor

SCHEMA: Literal["tfgpu.install/1"] = "tfgpu.install/1"
MANIFEST = "tfgpu-install.json"  # within the environment
LOCK = "tfgpu-lock.txt"
REPORT = "tfgpu-report.json"  # of the doctor; tfgpu compare shows what has changed since

Method: TypeAlias = Literal["uv", "pip", "conda"]
StepState: TypeAlias = Literal["ok", "warning", "failed", "skipped"]
OnLine = Callable[[str], None]


class Added(Record, frozen=True):
    """A file that was added to what the packages bring."""

    path: str  # relative to the environment
    kind: Literal["link", "module", "pth", "file"]
    why: str


class Step(Record, frozen=True):
    """One check of the finished environment, and how it ended."""

    name: str  # "pip check", "import", "keras", "libraries", "doctor"
    state: StepState
    text: str
    seconds: float


@dataclass(frozen=True)
class Proof:
    """Whether an environment works, as far as this machine can tell."""

    steps: tuple[Step, ...]
    report: Report | None = None  # the doctor's; None: it did not come that far

    @property
    def ok(self) -> bool:
        """Whether no step has failed; a warning is no failure (an image is built without a GPU)."""
        return all(step.state != "failed" for step in self.steps)


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
    interpreter: str  # that the environment was made with
    python: str  # "3.12.1"
    option: Option  # of the plan
    requirements: tuple[str, ...]  # what the resolver was asked for
    packages: tuple[Package, ...]
    commands: tuple[Ran, ...]
    added: tuple[Added, ...]
    steps: tuple[Step, ...]  # of the proof


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

    def __init__(self, what: str, ended: str, output: str, *, timed_out: bool = False) -> None:
        """Describe it: `what` was to be done, and how it `ended`."""
        # what a program prints explains its exit code; one that was ended had gone on after it
        self.explained = ended.startswith("exit code")
        super().__init__(f"{what} failed: {_why(ended, output) if self.explained else ended}")
        self.output = output
        if timed_out or (self.explained and _UNREACHABLE.search(output)):
            self.code = EXIT_UNKNOWN


class UnprovenError(InstallError):
    """The environment was made and does not work; `proof` says what was found."""

    def __init__(self, message: str, proof: Proof) -> None:
        """Describe it."""
        super().__init__(message)
        self.proof = proof


def _why(ended: str, output: str) -> str:
    if full := next(filter(_FULL.search, output.splitlines()), None):
        return f"the disk is full: {cut(full.strip(), 300)}"
    if found := _UNREACHABLE.search(output):
        of_python = "Failed to install cpython" in output  # by uv, from another host
        where = "the download of Python" if of_python else "the package index"
        mirror = "; UV_PYTHON_INSTALL_MIRROR names a mirror" if of_python else ""
        return f"{where} cannot be reached ({found[0]}); see --help for proxies and certificates{mirror}"
    return ended


# ----------------------------------------------------------------------------------------------- how they are run

QUICK = 120.0  # seconds for what downloads nothing large
RESOLVE = 1800.0  # pip downloads the wheels while it resolves
INSTALL = 7200.0


@dataclass
class Commands:
    """The commands of one installation."""

    env: Mapping[str, str]
    ran: list[Ran] = field(default_factory=list)
    log: list[str] = field(default_factory=list)  # what is kept where the installation fails

    def run(self, what: str, argv: Sequence[str], *, timeout: float = QUICK, on_line: OnLine | None = None) -> str:
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
        ended = done.error or _ended(done, timeout)
        self.log.append(f"{done.stdout}{done.stderr}[{ended or 'exit code 0'}]\n")
        if ended:
            raise CommandError(what, ended, done.stdout + done.stderr, timed_out=done.timed_out)
        return done.stdout


def _ended(done: process.Completed, timeout: float) -> str:
    program = os.path.basename(done.argv[0])
    if done.flooded:
        return f"{program} wrote more than {process.FLOOD / 1e6:.0f} MB"
    if done.timed_out:
        return f"{program} did not end within {seconds(timeout)}"
    if done.signal_name:
        return f"ended by {done.signal_name}"
    return f"exit code {done.returncode}" if done.returncode else ""


_FAMILY = re.compile(r"(?:PIP|UV|CONDA|MAMBA|VIRTUALENV)_.*|(?:PYTHON|VIRTUAL_ENV|_CE_|__PYVENV).*")
_DISTURBING = re.compile(r"PYTHON(?:PATH|HOME)|(?:PIP|UV)_(?!(?:DISABLE_PIP_VERSION_CHECK|NO_INPUT|NO_PROGRESS)$).*")
_KEPT = re.compile(
    r"PIP_(?:INDEX_URL|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|TRUSTED_HOST|CERT|CLIENT_CERT|PROXY|TIMEOUT"
    r"|DEFAULT_TIMEOUT|RETRIES|CACHE_DIR|NO_CACHE_DIR|CONFIG_FILE|KEYRING_PROVIDER|USE_FEATURE|USE_DEPRECATED)"
    r"|UV_(?:INDEX(?:_.*)?|DEFAULT_INDEX|EXTRA_INDEX_URL|FIND_LINKS|NO_INDEX|INSECURE_HOST|NATIVE_TLS|SYSTEM_CERTS"
    r"|HTTP_.*|REQUEST_TIMEOUT|CACHE_DIR|NO_CACHE|LINK_MODE|CONCURRENT_.*|KEYRING_PROVIDER|CONFIG_FILE|OFFLINE"
    r"|PYTHON_INSTALL_(?:DIR|MIRROR)|PYTHON_DOWNLOADS_JSON_URL|CREDENTIALS_DIR)"
    r"|CONDA_(?:PKGS_DIRS|CHANNEL_ALIAS|SSL_VERIFY|OFFLINE|REMOTE_.*|PROXY_SERVERS.*|OVERRIDE_.*|EXE|ROOT)"
    r"|CONDARC|MAMBA_(?:ROOT_PREFIX|EXE|SSL_VERIFY)|PYTHONUTF8|PYTHONIOENCODING"
)
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
    "UV_PYTHON_INSTALL_BIN": "0",  # else uv python install puts a link into ~/.local/bin
    "UV_PYTHON_INSTALL_REGISTRY": "0",
    "NO_COLOR": "1",
    "CONDA_ALWAYS_YES": "1",
}


def of_children(environ: Mapping[str, str], folder: str, temporary: str) -> dict[str, str]:
    """The environment for pip, uv and conda.

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
    """The variables that would send packages elsewhere, or bring others, and that the programs do not get."""
    return tuple(sorted(name for name in environ if _DISTURBING.fullmatch(name) and not _KEPT.fullmatch(name)))


def _absolute(value: str, folder: str) -> str:
    return " ".join(
        os.path.join(folder, word) if word and "://" not in word and not word.startswith(("~", "name=")) else word
        for word in value.split(" ")
    )


# -------------------------------------------------------------------------------------------------------- Pythons

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


class Interpreter(msgspec.Struct, frozen=True):
    """A Python, as it describes itself."""

    path: str  # outside of virtual environments, which may be removed
    version: str
    kind: str
    bits: int
    gil: bool
    venv: bool  # it can make a virtual environment with pip

    @property
    def minor(self) -> str:
        """ "3.12"."""
        return minor(self.version)

    @property
    def is_usable(self) -> bool:
        """True for a CPython of 64 bits with a GIL, whose path and version may become arguments."""
        is_cpython = self.kind == "CPython" and self.bits == 64 and self.gil
        return is_cpython and os.path.isabs(self.path) and bool(_VERSION.match(self.version))


class Interpreters:
    """The Pythons of this machine; each is looked at once, and only when it is asked for."""

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
        asked = (found for _, found in self._of(minor) if found.venv or not venv)
        return next(asked, None)

    def program(self, minor: str) -> str | None:
        """The first program of a minor version as it was found, so that it may be that of a virtual environment."""
        return next((path for path, _ in self._of(minor)), None)

    def _of(self, minor: str) -> Iterator[tuple[str, Interpreter]]:
        for path in self._places(minor):
            found = self._ask(path)
            if found and found.minor == minor:
                yield path, found

    def _places(self, minor: str) -> Iterator[str]:
        home = self._environ.get("HOME") or os.path.expanduser("~")
        yield self._own
        name, inside = ("python", "python.exe") if sys.platform == "win32" else (f"python{minor}", f"bin/python{minor}")
        for folder in (*systems.folders(self._environ), "/usr/bin", "/usr/local/bin"):
            if program := systems.find(os.path.join(folder, name), self._environ):
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
                said = msgspec.json.decode(done.stdout, type=Interpreter)
            except (msgspec.DecodeError, UnicodeDecodeError):
                said = None
            self._answers[path] = said if said and said.is_usable else None
        return self._answers[path]


# ---------------------------------------------------------------------------------------------- pip, uv and conda

_WHEELS = ("--only-binary", ":all:")
_DOWNLOADED = "wheels"
_LARGEST = 64 << 20  # bytes of what a resolver writes


class Pip:
    """The interpreter's own venv and pip."""

    method: Method = "pip"
    needs_venv = True  # of the interpreter

    def create(self, commands: Commands, prefix: Path, interpreter: Interpreter | None) -> None:
        """Make an empty environment, with a pip that knows the platform tags of today's wheels."""
        assert interpreter
        commands.run("creating the environment", [interpreter.path, "-I", "-m", "venv", str(prefix)])
        if capability(interpreter.minor) <= OLD_PIP:
            argv = [*_pip(prefix), "install", "--upgrade", *_WHEELS, "--progress-bar", "off", PIP_OF_OLD_PYTHONS]
            commands.run("upgrading pip", argv, timeout=QUICK * 3)

    def resolve(self, commands: Commands, prefix: Path, wanted: Path, on_line: OnLine) -> tuple[Package, ...]:
        """Choose the packages for a file of requirements, by downloading them.

        pip does so for a trial run, too, and again for the installation if it has no cache.
        """
        folder = wanted.with_name(_DOWNLOADED)
        argv = [*_pip(prefix), "wheel", "--wheel-dir", str(folder), *_WHEELS, "--requirement", str(wanted)]
        commands.run("choosing the packages", argv, timeout=INSTALL, on_line=on_line)
        return tuple(map(_described, sorted(folder.glob("*.whl"))))

    def install(self, commands: Commands, prefix: Path, lock: Path, look: OnLine) -> None:
        """Install exactly what the lock file names, from what was downloaded."""
        folder = prefix / TEMPORARY / _DOWNLOADED
        argv = [*_pip(prefix), "install", "--no-index", "--find-links", str(folder), "--no-deps", "--require-hashes"]
        argv += ["--progress-bar", "off", "--requirement", str(lock)]
        commands.run("installing the packages", argv, timeout=INSTALL, on_line=look)


class Uv(Pip):
    """uv: seconds instead of minutes, since it links what its cache has."""

    method: Method = "uv"
    needs_venv = False

    def __init__(self, program: str) -> None:
        """Use this uv."""
        self._uv = program

    def create(self, commands: Commands, prefix: Path, interpreter: Interpreter | None) -> None:
        """With pip, since users type it; the folder exists, and contains our marker."""
        assert interpreter
        argv = [self._uv, "venv", "--seed", "--allow-existing", "--no-project", "--python", interpreter.path]
        commands.run("creating the environment", [*argv, str(prefix)])

    def resolve(self, commands: Commands, prefix: Path, wanted: Path, on_line: OnLine) -> tuple[Package, ...]:
        """As a pylock.toml, in which the size of each wheel stands."""
        answer = wanted.with_name("pylock.toml")
        argv = [self._uv, "pip", "compile", str(wanted), "--python", python_of(prefix), *_WHEELS]
        argv += ["--format", "pylock.toml", "--no-header", "--quiet", "--output-file", str(answer)]
        commands.run("choosing the packages", argv, timeout=RESOLVE, on_line=on_line)
        try:
            return read_pylock(read_whole(str(answer), _LARGEST))
        except OSError as error:
            raise InstallError(f"the resolver left no answer: {error.strerror}") from error

    def install(self, commands: Commands, prefix: Path, lock: Path, look: OnLine) -> None:
        """Install the lock file, whose hashes uv verifies."""
        argv = [self._uv, "pip", "install", "--python", python_of(prefix), "--no-deps", *_WHEELS]
        commands.run("installing the packages", [*argv, "--requirements", str(lock)], timeout=INSTALL, on_line=look)


class Conda(Pip):
    """conda, mamba or micromamba for the interpreter, and for what only conda-forge has; pip for the rest."""

    method: Method = "conda"
    needs_venv = False

    def __init__(self, program: str, specs: tuple[str, ...], python: str) -> None:
        """Use this program; `specs` are what it installs besides Python."""
        self._conda, self._specs, self._python = program, specs, python

    def create(self, commands: Commands, prefix: Path, interpreter: Interpreter | None) -> None:
        """The folder exists, and contains our marker; a history file makes it an empty environment of conda."""
        del interpreter
        history = prefix / "conda-meta" / "history"
        history.parent.mkdir()
        history.touch()
        argv = [self._conda, "install", "--yes", "--prefix", str(prefix), "--channel", "conda-forge"]
        argv += ["--override-channels", *(self._specs or (f"python={self._python}", "pip"))]
        commands.run("creating the environment", argv, timeout=INSTALL if self._specs else RESOLVE)

    def listed(self, commands: Commands, prefix: Path) -> tuple[tuple[Package, ...], str]:
        """What conda has installed, and a lock file for conda."""
        argv = [self._conda, "list", "--prefix", str(prefix)]
        packages = read_conda_list(utf8(commands.run("listing the packages", [*argv, "--json"])))
        return packages, commands.run("writing the lock file", [*argv, "--explicit", "--md5"])


def find_tool(method: Method, environ: Mapping[str, str], specs: tuple[str, ...], python: str) -> Pip | None:
    """The tool of a method; None: its program is not here."""
    if method == "pip":
        return Pip()
    if method == "uv":
        program = find_uv(environ)
        return Uv(program) if program else None
    found = (systems.find(name, environ) for name in ("conda", "mamba", "micromamba"))
    program = next((one for one in (environ.get("CONDA_EXE"), *found) if one and os.path.isabs(one)), None)
    return Conda(program, specs, python) if program else None


def find_uv(environ: Mapping[str, str]) -> str | None:
    """uv on PATH, or beside the Python of tfgpu, or where its installer puts it."""
    home = environ.get("HOME") or os.path.expanduser("~")
    more = (os.path.dirname(sys.executable), os.path.join(home, ".local", "bin"), os.path.join(home, ".cargo", "bin"))
    return systems.find("uv", environ, more=more)


def _pip(prefix: Path) -> list[str]:
    return [python_of(prefix), "-I", "-m", "pip"]


def _described(path: Path) -> Package:
    name, version, _, _ = parse_wheel_filename(path.name)
    digest = sha256()
    for chunk in chunks(str(path)):
        digest.update(chunk)
    return Package(name, str(version), path.name, path.stat().st_size, (f"sha256:{digest.hexdigest()}",))


# -------------------------------------------------------------------------------------------- what resolvers answer


class _Wheel(msgspec.Struct):
    url: str = ""
    path: str = ""
    size: int | None = None
    hashes: dict[str, str] = {}


class _Named(msgspec.Struct):
    name: str
    version: str
    wheels: list[_Wheel] = []


class _Lock(msgspec.Struct):
    packages: list[_Named] = []


def _decoded(what: str, decode: Callable[..., Any], data: bytes, kind: Any) -> Any:
    try:
        return decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InstallError(f"{what} cannot be read: {error}") from error


def read_pylock(data: bytes) -> tuple[Package, ...]:
    """The packages of a pylock.toml (PEP 751) that was made for one interpreter, which prefers the first wheel.

    Raises InstallError: it does not have the expected form.
    """
    packages = []
    for row in _decoded("uv's pylock.toml", msgspec.toml.decode, data, _Lock).packages:
        first = row.wheels[0] if row.wheels else _Wheel()
        hashes = tuple(f"{kind}:{value}" for wheel in row.wheels for kind, value in sorted(wheel.hashes.items()))
        file = (first.url or first.path).partition("#")[0].rpartition("/")[2] or None
        packages.append(Package(canonicalize_name(row.name), row.version, file, first.size, hashes))
    return tuple(packages)


def read_conda_list(data: bytes) -> tuple[Package, ...]:
    """The packages of `conda list --json`. Raises InstallError: it does not have the expected form."""
    rows = _decoded("conda's list", msgspec.json.decode, data, list[_Named])
    return tuple(Package(row.name, row.version) for row in rows)


def lock_text(packages: tuple[Package, ...], *, python: str, platform: str) -> str:
    """The packages as a requirements file, with hashes where all of them have some."""
    hashed = all(package.hashes for package in packages)  # pip accepts them for all packages or for none
    flags = f"{' --require-hashes' if hashed else ''} --only-binary :all:"
    lines = [
        f"# Created by tfgpu install for Python {python} on {platform}. The same packages again:",
        f"#   python -m pip install --no-deps{flags} -r tfgpu-lock.txt",
    ]
    for package in packages:
        hashes = [f"--hash={one}" for one in package.hashes] if hashed else []
        lines.append(" \\\n    ".join([f"{package.name}=={package.version}", *hashes]))
    return "\n".join(lines) + "\n"
