"""The programs that install: pip, uv, conda and Pythons; how they are found, run and asked."""

from __future__ import annotations

import os
import os.path
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgspec
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from tfgpu_doctor.files.reading import chunks, read_whole
from tfgpu_doctor.install.folder import TEMPORARY, python_of
from tfgpu_doctor.install.records import CommandError, InstallError, Method, Package, Ran, ToolError
from tfgpu_doctor.install.resolved import UnreadableError, of_conda_list, of_pip_report, of_pylock
from tfgpu_doctor.matrix.schema import SourceOnly
from tfgpu_doctor.plan.install_commands import PIP_OF_OLD_PYTHONS
from tfgpu_doctor.probes import process, programs
from tfgpu_doctor.records.printable import utf8
from tfgpu_doctor.records.units import seconds

QUICK = 120.0  # seconds for what downloads nothing large
RESOLVE = 1800.0  # pip downloads the wheels while it resolves
INSTALL = 7200.0


@dataclass
class Commands:
    """The commands of one installation."""

    env: Mapping[str, str]
    ran: list[Ran] = field(default_factory=list)
    log: list[str] = field(default_factory=list)  # what is kept where the installation fails

    def run(
        self,
        what: str,
        argv: Sequence[str],
        *,
        timeout: float = QUICK,
        on_line: Callable[[str], None] | None = None,
    ) -> str:
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

    def note(self, text: str) -> None:
        """Keep a line in the log."""
        self.log.append(text + "\n")


def _ended(done: process.Completed, timeout: float) -> str:
    if done.flooded:
        return f"{os.path.basename(done.argv[0])} wrote more than {process.FLOOD / 1e6:.0f} MB"
    if done.timed_out:
        return f"{os.path.basename(done.argv[0])} did not end within {seconds(timeout)}"
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


_WHEELS = ("--only-binary", ":all:")
_TAGS = Version("20.3")  # the first pip that knows manylinux_2_17 and later (PEP 600)
_DOWNLOADED = "wheels"
_LARGEST = 64 << 20  # bytes of what a resolver writes

OnLine = Callable[[str], None]
Built = Sequence[SourceOnly]


class Tool(Protocol):
    """A program that makes environments."""

    method: Method
    needs_venv: bool  # of the interpreter

    def create(self, commands: Commands, prefix: Path, interpreter: Interpreter | None) -> None:
        """Make an empty environment; conda brings its interpreter along, the others need one."""

    def resolve(
        self, commands: Commands, prefix: Path, wanted: Path, on_line: OnLine, built: Built = ()
    ) -> tuple[Package, ...]:
        """Choose the packages for a file of requirements; those of `built` have no wheel."""

    def install(self, commands: Commands, prefix: Path, lock: Path, look: OnLine, built: Built = ()) -> None:
        """Install exactly what the lock file names."""


class Uv:
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

    def resolve(
        self, commands: Commands, prefix: Path, wanted: Path, on_line: OnLine, built: Built = ()
    ) -> tuple[Package, ...]:
        """As a pylock.toml, in which the size of each wheel stands."""
        wheels = _build(commands, prefix, built, on_line)
        options = ["--python", python_of(prefix), *_found_in(wheels)]
        packages = self.choose(commands, wanted, options, timeout=RESOLVE, on_line=on_line)
        own = {one.name: one for one in _wheels_in(wheels)} if wheels else {}
        return tuple(own.get(one.name, one) for one in packages)

    def choose(
        self,
        commands: Commands,
        wanted: Path,
        options: Sequence[str],
        *,
        timeout: float,
        on_line: OnLine | None = None,
    ) -> tuple[Package, ...]:
        """Choose the packages for a file of requirements; `options` say for which Python."""
        answer = wanted.with_name("pylock.toml")
        argv = [self._uv, "pip", "compile", str(wanted), *options, *_WHEELS]
        argv += ["--format", "pylock.toml", "--no-header", "--quiet", "--output-file", str(answer)]
        commands.run("choosing the packages", argv, timeout=timeout, on_line=on_line)
        return _read(of_pylock_text, answer)

    def install(self, commands: Commands, prefix: Path, lock: Path, look: OnLine, built: Built = ()) -> None:
        """Install the lock file."""
        argv = [self._uv, "pip", "install", "--python", python_of(prefix), "--no-deps", *_WHEELS]
        argv += _found_in(_built_wheels(prefix) if built else None)
        argv += ["--requirements", str(lock)]  # whose hashes uv verifies
        commands.run("installing the packages", argv, timeout=INSTALL, on_line=look)


class Pip:
    """The interpreter's own venv and pip."""

    method: Method = "pip"
    needs_venv = True

    def create(self, commands: Commands, prefix: Path, interpreter: Interpreter | None) -> None:
        """With a pip that knows the platform tags of today's wheels."""
        assert interpreter
        commands.run("creating the environment", [interpreter.path, "-I", "-m", "venv", str(prefix)])
        _upgrade_pip(commands, prefix)

    def resolve(
        self, commands: Commands, prefix: Path, wanted: Path, on_line: OnLine, built: Built = ()
    ) -> tuple[Package, ...]:
        """By downloading them: pip does so for a trial run, too, and again for the installation if it has no cache."""
        wheels, folder = _build(commands, prefix, built, on_line), wanted.with_name(_DOWNLOADED)
        argv = [*_pip(prefix), "wheel", "--wheel-dir", str(folder), *_WHEELS, *_found_in(wheels)]
        commands.run("choosing the packages", [*argv, "--requirement", str(wanted)], timeout=INSTALL, on_line=on_line)
        return _wheels_in(folder)

    def install(self, commands: Commands, prefix: Path, lock: Path, look: OnLine, built: Built = ()) -> None:
        """Install what was downloaded, and built."""
        del built
        folder = prefix / TEMPORARY / _DOWNLOADED
        argv = [*_pip(prefix), "install", "--no-index", "--find-links", str(folder), "--no-deps", "--require-hashes"]
        argv += ["--progress-bar", "off", "--requirement", str(lock)]
        commands.run("installing the packages", argv, timeout=INSTALL, on_line=look)


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
        named = any(spec.startswith("python=") for spec in self._specs)
        specs = [*([] if named else [f"python={self._python}", "pip"]), *self._specs]
        argv += ["--override-channels", *specs]
        commands.run("creating the environment", argv, timeout=INSTALL if self._specs else RESOLVE)
        if not self._specs:
            _upgrade_pip(commands, prefix)

    def listed(self, commands: Commands, prefix: Path) -> tuple[tuple[Package, ...], str]:
        """What conda has installed, and a lock file for conda."""
        argv = [self._conda, "list", "--prefix", str(prefix)]
        found = commands.run("listing the packages", [*argv, "--json"])
        return _parsed(of_conda_list, utf8(found)), commands.run(
            "writing the lock file", [*argv, "--explicit", "--md5"]
        )


def try_with_pip(python: str, commands: Commands, wanted: Path, *, timeout: float) -> tuple[Package, ...]:
    """What the pip of an interpreter would install for a file of requirements, by a trial run."""
    answer = wanted.with_name("report.json")
    argv = [python, "-I", "-m", "pip", "install", "--dry-run", "--ignore-installed", *_WHEELS]
    argv += ["--progress-bar", "off", "--report", str(answer), "--requirement", str(wanted)]
    commands.run("choosing the packages", argv, timeout=timeout)
    return _read(of_pip_report, answer)


def find_tool(method: Method, environ: Mapping[str, str], specs: tuple[str, ...], python: str) -> Tool | None:
    """The tool of a method; None: its program is not here."""
    if method == "pip":
        return Pip()
    if method == "uv":
        program = find_uv(environ)
        return Uv(program) if program else None
    found = (programs.find(name, environ) for name in ("conda", "mamba", "micromamba"))
    program = next((one for one in (environ.get("CONDA_EXE"), *found) if one and os.path.isabs(one)), None)
    return Conda(program, specs, python) if program else None


def find_uv(environ: Mapping[str, str]) -> str | None:
    """uv on PATH, or beside the Python of tfgpu, or where its installer puts it."""
    import sys

    home = environ.get("HOME") or os.path.expanduser("~")
    more = (os.path.dirname(sys.executable), os.path.join(home, ".local", "bin"), os.path.join(home, ".cargo", "bin"))
    return programs.find("uv", environ, more=more)


def require_tool(method: Method, specs: tuple[str, ...], python: str, environ: Mapping[str, str]) -> Tool:
    """Raise ToolError: the program of --method is not here."""
    tool = find_tool(method, environ, specs, python)
    if tool is None:
        raise ToolError(f"--method {method}: {programs.missing(method, environ)}")
    return tool


def _build(commands: Commands, prefix: Path, built: Built, on_line: OnLine) -> Path | None:
    """Make wheels of the archives of `built`, in a folder of their own; None where there are none.

    A resolver runs setup.py of an archive to learn its requirements, before it looks at any hash. With
    --require-hashes pip compares the hash with what it has downloaded, before it unpacks it.
    """
    if not built:
        return None
    folder = _built_wheels(prefix)
    folder.mkdir(parents=True, exist_ok=True)
    archives = folder / "archives.txt"
    lines = (f"{one.package}=={one.version} --hash=sha256:{one.sha256}\n" for one in built)
    archives.write_text("".join(lines), encoding="utf-8")
    argv = [*_pip(prefix), "wheel", "--wheel-dir", str(folder), "--no-deps", "--require-hashes"]
    argv += [*_WHEELS, "--no-binary", ",".join(one.package for one in built)]  # pip takes wheels of setuptools
    argv += ["--use-pep517", "--requirement", str(archives)]  # which builds in an environment of its own
    commands.run("building packages that have no wheel", argv, timeout=RESOLVE, on_line=on_line)
    return folder


def _built_wheels(prefix: Path) -> Path:
    return prefix / TEMPORARY / "built"


def _found_in(folder: Path | None) -> list[str]:
    return ["--find-links", str(folder)] if folder else []


def _wheels_in(folder: Path) -> tuple[Package, ...]:
    return tuple(_described(path) for path in sorted(folder.glob("*.whl")))


def _pip(prefix: Path) -> list[str]:
    return [python_of(prefix), "-I", "-m", "pip"]


def _pip_version(commands: Commands, prefix: Path) -> Version:
    """ "pip 23.2.1 from /home/..."."""
    words = re.search(r"^pip (\S+)", commands.run("asking pip for its version", [*_pip(prefix), "--version"]), re.M)
    try:
        return Version(words[1] if words else "0")
    except ValueError:
        return Version("0")


def _upgrade_pip(commands: Commands, prefix: Path) -> None:
    """The pip of Python 3.6 does not even know manylinux2014 (pip 19.3), the tag of TensorFlow's older wheels."""
    if _pip_version(commands, prefix) < _TAGS:
        argv = [*_pip(prefix), "install", "--upgrade", *_WHEELS, "--progress-bar", "off", PIP_OF_OLD_PYTHONS]
        commands.run("upgrading pip", argv, timeout=QUICK * 3)


def _described(path: Path) -> Package:
    name, version, _, _ = parse_wheel_filename(path.name)
    digest = sha256()
    for chunk in chunks(str(path)):
        digest.update(chunk)
    return Package(name, str(version), path.name, path.stat().st_size, (f"sha256:{digest.hexdigest()}",))


def of_pylock_text(data: bytes) -> tuple[Package, ...]:
    """The packages of a pylock.toml. Raises UnreadableError."""
    import sys

    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return of_pylock(tomllib.loads(data.decode()))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UnreadableError(f"uv's pylock.toml cannot be read: {error}") from error


def _read(parse: Callable[[bytes], tuple[Package, ...]], answer: Path) -> tuple[Package, ...]:
    try:
        return _parsed(parse, read_whole(str(answer), _LARGEST))
    except OSError as error:
        raise InstallError(f"the resolver left no answer: {error.strerror}") from error


def _parsed(parse: Callable[[bytes], tuple[Package, ...]], data: bytes) -> tuple[Package, ...]:
    try:
        return parse(data)
    except UnreadableError as error:
        raise InstallError(str(error)) from error
