"""The folder that is made: claimed, filled, given up; the room on its disk."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from types import TracebackType

from tfgpu_doctor.facts import reading, writing
from tfgpu_doctor.facts.printable import utf8
from tfgpu_doctor.facts.reading import why
from tfgpu_doctor.facts.report import EXIT_PROBLEM, EXIT_USAGE
from tfgpu_doctor.facts.units import memory_size

MARKER = ".tfgpu-unfinished"
TEMPORARY = ".tfgpu-temporary"
_CONTENT = b"tfgpu install is creating an environment in this folder, or was killed while it did.\n"
# What stands at the top of the environments that venv, uv and conda make: anything else is somebody else's.
_OF_ENVIRONMENTS = (
    *("pyvenv.cfg", "bin", "lib", "lib32", "lib64", "include", "share", "etc", "man", "python"),  # "python" is of uv
    *(".gitignore", ".lock", "CACHEDIR.TAG", "Scripts", "Lib", "Include"),
    *("conda-meta", "condabin", "compiler_compat", "sbin", "libexec", "ssl", "var", "fonts", "doc", "docs", "shell"),
    *("*-linux-gnu", "nvvm", "targets", "extras", "gds", "nsight-*", "nvml", "pkgs", ".nonadmin"),
    *("Library", "DLLs", "Menu", "Tools", "tcl", "libs", "*.dll", "*.exe", "*.pdb", "LICENSE_PYTHON.txt"),
    *(".tfgpu-*", "tfgpu-*"),  # ours
)
_MOST_LOGS = 100
# bytes, as measured with uv for TensorFlow 2.20.0 with its CUDA, the largest release until 2.21
DOWNLOAD, ON_DISK = 3_500_000_000, 7_400_000_000
UNPACKING = 1_000_000_000  # of temporary files beside what is installed: the largest wheel has 0.7e9


class InstallError(Exception):
    """The installation cannot go on; the message says why and what to do, `code` is the exit code."""

    code = EXIT_PROBLEM


class RefusedError(InstallError):
    """No plan, no interpreter, no room: there is nothing to install, or nowhere."""


class FolderError(InstallError):
    """The folder that was named cannot become an environment."""

    code = EXIT_USAGE


def read_path(text: str) -> Path:
    """The absolute path that a user means; ~ is the home folder, quoted or not.

    Raises FolderError: no environment can be there.
    """
    if not text.strip():
        raise FolderError("the folder has no name")
    if char := next((one for one in ":\n\0" if one in text), None):
        raise FolderError(f"{text!r} cannot be an environment: it contains {char!r}, which PATH or scripts cannot have")
    return Path(os.path.abspath(os.path.expanduser(text)))


def python_of(prefix: Path) -> str:
    """The interpreter of an environment, of venv, uv or conda."""
    places = ("Scripts/python.exe", "python.exe") if sys.platform == "win32" else ("bin/python",)
    return str(next((path for path in map(prefix.joinpath, places) if path.is_file()), prefix / places[0]))


def log_paths(prefix: Path) -> Iterator[Path]:
    """Names for the log of a failed installation: beside the folder, or in the nearest one above that exists."""
    above = next(one for one in prefix.parents if one.is_dir())
    for number in ("", *(f".{one}" for one in range(2, _MOST_LOGS + 1))):
        yield above / f"{prefix.name}.tfgpu-install{number}.log"


class Folder:
    """The folder in which an environment is made; if the block raises, the environment is removed.

    Raises FolderError: it is neither absent nor an empty folder, or cannot be made.
    """

    def __init__(self, path: Path, on_removal: Callable[[str], None] = lambda _: None) -> None:
        """Check the folder; `on_removal` is told before something large is removed."""
        self.path = path
        self.temporary = path / TEMPORARY
        self._on_removal = on_removal
        self._made: list[Path] = []  # folders, the deepest first
        self._marker = path / MARKER
        self._content = _CONTENT + utf8(f"{secrets.token_hex(8)}\n")  # tells our marker from another run's
        self._kept = False
        refuse_others(path)

    def require_room(self) -> None:
        """Raise RefusedError: the file system has less room than an installation takes."""
        place = next(one for one in (self.path, *self.path.parents) if one.is_dir())
        free = shutil.disk_usage(place).free
        if free < ON_DISK + UNPACKING:
            raise RefusedError(
                f"{place} has {memory_size(free)} free, and an installation takes up to "
                f"{memory_size(ON_DISK + UNPACKING)} while packages are unpacked: free some, or choose a folder on "
                "another file system"
            )

    def keep(self) -> None:
        """The environment is finished: what stands in the folder stays when the block is left."""
        self._kept = True

    def __enter__(self) -> Folder:
        with ExitStack() as undo:  # __exit__ is not called after a failed __enter__
            undo.callback(self._remove)
            try:
                self._made = [one for one in (self.path, *self.path.parents) if not one.exists()]
                for folder in reversed(self._made):
                    folder.mkdir()
                writing.create(str(self._marker), self._content)
                if os.listdir(self.path) != [MARKER]:  # another process has been faster, and has finished
                    self._marker.unlink()
                    raise FileExistsError
                self.temporary.mkdir()
            except FileExistsError:
                raise FolderError(f"{self.path}: another process has just put something there") from None
            except OSError as error:
                raise FolderError(f"{self.path} cannot be created: {why(error)}") from error
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with ExitStack() as undo:
            undo.callback(self._remove)
            if kind is None and self._kept:
                shutil.rmtree(self.temporary, ignore_errors=True)
                self._marker.unlink()  # until then, an environment counts as unfinished, also after Ctrl-C
                undo.pop_all()
            else:
                self._on_removal(f"removing {self.path}")

    def _is_ours(self) -> bool:
        """True if the folder has the marker of this run."""
        try:
            return reading.read_head(str(self._marker), len(self._content) + 1) == self._content
        except OSError:
            return False

    def _remove(self) -> None:
        """Remove what this run has made, the marker last: until then nobody else may take the folder."""
        if self._is_ours():
            if others := _empty(self.path):
                self._on_removal(f"kept in {self.path}, which is no part of an environment: {', '.join(others)}")
            self._marker.unlink(missing_ok=True)
        for folder in self._made:
            with suppress(OSError):  # not made yet, or others use it by now
                folder.rmdir()


def _empty(path: Path) -> list[str]:
    """Remove the parts of an environment but the marker, and return the names of what is none."""
    others: list[str] = []
    for one in sorted(path.iterdir()):
        if one.name == MARKER:
            continue
        if not any(fnmatchcase(one.name, pattern) for pattern in _OF_ENVIRONMENTS):
            others.append(one.name)
        elif one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, onerror=_let_write)
        else:
            one.unlink(missing_ok=True)
    return others


def _let_write(function: Callable[..., object], path: str, _error: object) -> None:
    """Folders without write permission are removed, too, and what somebody else has removed is no error."""
    if not os.path.lexists(path):
        return
    with suppress(OSError):
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
    function(path)


def refuse_others(path: Path) -> None:
    """Raise FolderError: neither absent nor an empty folder, or its place cannot be written to."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        above = next(one for one in path.parents if one.exists())
        if not above.is_dir():
            raise FolderError(f"{path}: {above} is not a folder") from error
        if not os.access(above, os.W_OK | os.X_OK):
            raise FolderError(f"{path} cannot be created: {above} is not writable") from error
        return
    except OSError as error:
        raise FolderError(f"{path}: {why(error)}") from error
    if stat.S_ISLNK(mode):
        raise FolderError(f"{path} is a symbolic link to {os.readlink(path)}: name the folder itself")
    if not stat.S_ISDIR(mode):
        raise FolderError(f"{path} is a file: name a folder that does not exist, or is empty")
    try:
        inside = os.listdir(path)
    except OSError as error:
        raise FolderError(f"{path}: {why(error)}") from error
    if MARKER in inside:
        raise FolderError(
            f"{path} is not empty: {MARKER} in it says that a tfgpu install is creating an environment there, or was "
            "killed while it did. tfgpu does not delete what an earlier run has left, since other files may be among "
            "it. If none is running and nothing in this folder is yours, delete it and run tfgpu install again"
        )
    if inside:
        what = "an environment already" if "pyvenv.cfg" in inside or "conda-meta" in inside else "not empty"
        raise FolderError(f"{path} is {what}: name a folder that does not exist, or is empty")
    if not os.access(path, os.W_OK | os.X_OK):
        raise FolderError(f"{path}: {os.strerror(errno.EACCES)}")
