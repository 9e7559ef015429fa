"""The folder that becomes an environment: claimed, made by this run, and removed again if the run fails.

Its absolute path goes into the environment, so it is made in its place and not renamed in the end. A file in it says
that it is unfinished: after SIGKILL or a power cut the next run finds that file, and removes what the first one made.
Nothing else is ever removed: a folder that was there, and empty, stays as an empty folder.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from tfgpu_doctor.files import claims
from tfgpu_doctor.files.reading import why
from tfgpu_doctor.install.failures import FolderError

MARKER = ".tfgpu-unfinished"
TEMPORARY = ".tfgpu-temporary"
_CONTENT = b"tfgpu install creates this folder, or has been killed while it did. The next run removes it.\n"
_REFUSED = {":": "the PATH of a shell cannot name it", "\n": "scripts cannot name it", "\0": "it is no file name"}


def read_path(text: str) -> Path:
    """The absolute path that a user means; ~ is the home folder, quoted or not.

    Raises FolderError: no environment can be there.
    """
    for char, because in _REFUSED.items():
        if char in text:
            raise FolderError(f"{text!r} cannot be an environment: it contains {char!r}, so {because}")
    if not text.strip():
        raise FolderError("the folder has no name")
    return Path(os.path.abspath(os.path.expanduser(text)))


def python_of(prefix: Path) -> str:
    """The interpreter of an environment, of venv, uv or conda."""
    places = ("Scripts/python.exe", "python.exe") if sys.platform == "win32" else ("bin/python",)
    return str(next((path for path in map(prefix.joinpath, places) if path.is_file()), prefix / places[0]))


def log_path(prefix: Path) -> Path:
    """Where the log of a failed installation is kept: beside the folder, or in the nearest one above that exists."""
    above = next(one for one in prefix.parents if one.is_dir())
    return above / f"{prefix.name}.tfgpu-install.log"


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
        self._claim = claims.Claim(str(path / MARKER), _CONTENT)  # while it is held, all in the folder is ours
        self._kept = False
        if not is_unfinished(path):
            _refuse_others(path)

    def keep(self) -> None:
        """The environment is finished: what stands in the folder stays when the block is left."""
        self._kept = True

    def __enter__(self) -> Folder:
        try:
            self._make()
            self._claim.take()
            if self._claim.was_left:
                self._on_removal(f"removing the unfinished environment in {self.path}")
                _empty(self.path)
            elif os.listdir(self.path) != [MARKER]:  # another process has been faster, and has finished
                self._claim.release(remove=True)
                raise FileExistsError
            self.temporary.mkdir()
        except claims.HeldError:
            self._remove()
            raise _in_use(self.path) from None
        except FileExistsError:
            self._remove()
            raise FolderError(f"{self.path}: another process has just put something there") from None
        except OSError as error:
            self._remove()
            raise FolderError(f"{self.path} cannot be created: {why(error)}") from error
        except BaseException:  # also Ctrl-C: __exit__ is not called after a failed __enter__
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and self._kept:
            try:
                shutil.rmtree(self.temporary, ignore_errors=True)
                self._claim.release(remove=True)
            except BaseException:  # also Ctrl-C: an environment with its marker counts as unfinished
                self._remove()
                raise
            return
        self._on_removal(f"removing {self.path}")
        self._remove()

    def _make(self) -> None:
        missing = self.path
        while not missing.exists():
            self._made.append(missing)
            missing = missing.parent
        for folder in reversed(self._made):
            folder.mkdir()

    def _remove(self) -> None:
        """Remove what this run has made, the marker last, so that a second interrupt leaves it to the next run."""
        try:
            if self._claim.held:
                _empty(self.path)
                self._claim.release(remove=True)
        finally:
            self._claim.release()
        for folder in self._made:
            with suppress(OSError):  # not made yet, or others use it by now
                folder.rmdir()


def _empty(path: Path) -> None:
    """Remove everything in a folder but the marker."""
    for one in path.iterdir():
        if one.name == MARKER:
            continue
        if one.is_dir() and not one.is_symlink():
            shutil.rmtree(one, onerror=_let_write)
        else:
            one.unlink(missing_ok=True)


def _let_write(function: Callable[..., object], path: str, _error: object) -> None:
    """Folders without write permission are removed, too, and what somebody else has removed is no error."""
    if not os.path.lexists(path):
        return
    with suppress(OSError):
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
    function(path)


def is_unfinished(path: Path) -> bool:
    """Whether it is an environment that a killed run has left. Raises FolderError: it is being made just now."""
    if path.is_symlink():
        return False
    try:
        return claims.is_left(str(path / MARKER), _CONTENT)
    except claims.HeldError:
        raise _in_use(path) from None
    except OSError:
        return False


def _in_use(path: Path) -> FolderError:
    return FolderError(f"{path}: another tfgpu install is creating an environment there")


def _refuse_others(path: Path) -> None:
    """Raise FolderError: neither absent nor an empty folder, or its place cannot be written to."""
    try:
        mode = path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        _refuse_parent(path, error)
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
    if inside:
        what = "an environment already" if "pyvenv.cfg" in inside or "conda-meta" in inside else "not empty"
        raise FolderError(f"{path} is {what}: name a folder that does not exist, or is empty")
    if not os.access(path, os.W_OK | os.X_OK):
        raise FolderError(f"{path}: {os.strerror(errno.EACCES)}")


def _refuse_parent(path: Path, error: OSError) -> None:
    """The nearest folder above that exists must be one that can be written to."""
    above = path.parent
    while not above.exists() and above != above.parent:
        above = above.parent
    if not above.is_dir():
        raise FolderError(f"{path}: {above} is not a folder") from error
    if not os.access(above, os.W_OK | os.X_OK):
        raise FolderError(f"{path} cannot be created: {above} is not writable")
