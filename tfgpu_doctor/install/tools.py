"""How pip, uv and conda make an environment, resolve requirements and install what was resolved."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Protocol

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from tfgpu_doctor.files.reading import chunks, read_whole
from tfgpu_doctor.install.commands import INSTALL, QUICK, RESOLVE, Commands
from tfgpu_doctor.install.failures import InstallError, ToolError
from tfgpu_doctor.install.folder import TEMPORARY, python_of
from tfgpu_doctor.install.interpreters import Interpreter
from tfgpu_doctor.install.records import Method, Package
from tfgpu_doctor.install.resolved import UnreadableError, of_conda_list, of_pip_report, of_pylock
from tfgpu_doctor.matrix.schema import SourceOnly
from tfgpu_doctor.plan.install_commands import PIP_OF_OLD_PYTHONS
from tfgpu_doctor.probes import programs
from tfgpu_doctor.records.printable import utf8

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
