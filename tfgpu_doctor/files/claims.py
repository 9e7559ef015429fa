"""A file that says whose a folder is, held as long as the process that works there lives."""

from __future__ import annotations

import os
import sys

_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_CLOEXEC", "O_NOCTTY", "O_NONBLOCK"))


class HeldError(OSError):
    """Another process, which still runs, holds the claim."""


class Claim:
    """A file of a fixed content, locked while it is held; the kernel unlocks it however its holder ends."""

    def __init__(self, path: str, content: bytes) -> None:
        """Make the file, which must not exist, and hold it. Raises OSError: it exists, or cannot be made."""
        self.path = path
        self._stream = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644), "wb", buffering=0)
        _lock(self._stream.fileno())
        self._stream.write(content)

    def release(self) -> None:
        """Hold it no longer; the file stays."""
        self._stream.close()


def is_left(path: str, content: bytes) -> bool:
    """Whether `path` is such a file, whose holder has ended.

    Raises HeldError: the holder still runs. Raises OSError: the file cannot be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | _FLAGS)
    except FileNotFoundError:
        return False
    try:
        _lock(handle)
        return os.read(handle, len(content) + 1) == content
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        return
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise HeldError(error.errno, "another process holds it") from error
    except OSError:  # a file system without locks
        return
