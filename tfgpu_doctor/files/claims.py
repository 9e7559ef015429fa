"""A file that says whose a folder is, held as long as the process that works there lives."""

from __future__ import annotations

import errno
import os
import sys

_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK", "O_BINARY"))
_FAR = 1 << 30  # where Windows locks a byte, so that others can read the content


class HeldError(OSError):
    """Another process, which still runs, holds the claim."""


class Claim:
    """A file of a fixed content, locked while it is held; the kernel unlocks it however its holder ends."""

    def __init__(self, path: str, content: bytes = b"") -> None:
        """Name the file; nothing is done yet."""
        self.path, self._content = path, content
        self._handle: int | None = None
        self.was_left = False  # by another process, which was killed

    @property
    def held(self) -> bool:
        """Whether this process holds it."""
        return self._handle is not None

    def take(self) -> None:
        """Make the file, or take over the one that a killed process has left, and hold it.

        Raises HeldError: another process holds it. Raises FileExistsError: the file is of something else, and stays.
        Raises OSError: it cannot be made.
        """
        while self._handle is None:
            try:
                handle, new = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644), True
            except FileExistsError:
                try:
                    handle, new = os.open(self.path, os.O_RDWR | _FLAGS), False
                except FileNotFoundError:  # its holder has just removed it
                    continue
            self.was_left = not new
            try:
                self._take(handle)
            except HeldError:
                raise
            except BaseException:  # also Ctrl-C: a file that nobody holds would stay
                if new:
                    os.unlink(self.path)
                raise
            finally:
                if handle != self._handle:
                    os.close(handle)

    def _take(self, handle: int) -> None:
        """Hold an open file, unless its last holder has just removed it."""
        _lock(handle)
        if not _is_at(handle, self.path):
            return
        found = os.read(handle, len(self._content) + 1)
        if found not in (b"", self._content):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), self.path)
        if not found:
            with os.fdopen(handle, "wb", buffering=0, closefd=False) as stream:
                stream.write(self._content)
        self._handle = handle

    def release(self, *, remove: bool = False) -> None:
        """Hold it no longer; the file stays, unless it is to be removed. Raises OSError: it cannot be removed."""
        handle, self._handle = self._handle, None
        if handle is None:
            return
        try:
            if remove and sys.platform != "win32":
                os.unlink(self.path)  # while it is locked, so that nobody takes it over
        finally:
            os.close(handle)
        if remove and sys.platform == "win32":  # which removes no open file
            os.unlink(self.path)


def is_held(path: str) -> bool:
    """Whether a process that still runs holds the claim at `path`."""
    try:
        handle = os.open(path, os.O_RDONLY | _FLAGS)
    except OSError:
        return False
    try:
        _lock(handle)
    except HeldError:
        return True
    finally:
        os.close(handle)
    return False


def _is_at(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except FileNotFoundError:
        return False


def _lock(handle: int) -> None:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, _FAR, os.SEEK_SET)
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError) as error:
        raise HeldError(error.errno, "another process holds it") from error
    except OSError:  # a file system without locks
        return
