"""Write files that a user names: in one step, and never into what would wait."""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
import sys
from contextlib import suppress

from tfgpu_doctor.facts.reading import other_kind

_DESCRIPTOR = re.compile(r"/dev/(?:fd/(\d+)|(stdin|stdout|stderr))|/proc/self/fd/(\d+)")
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOCTTY", "O_CLOEXEC", "O_BINARY"))
# why a new file cannot take the place of one: a folder without permission, a file mounted into a container
_STAYS_IN_PLACE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV)


def replace(path: str, data: bytes) -> None:
    """Make `data` the content of the file `path`, so that an interrupt or a full disk leaves the old content.

    A symbolic link stays, and its target is written. The file keeps its mode; a new one gets what the umask leaves.
    Where no new file can take its place, it is written in place. A terminal, /dev/null and /dev/stdout are written to.

    Raises OSError: the file cannot be written.
    """
    if (handle := _own_descriptor(path)) is not None:
        sys.stdout.flush()
        with os.fdopen(handle, "wb", closefd=False) as stream:
            stream.write(data)
        return
    target, mode = _real(path), _mode(path)
    if mode is None or stat.S_ISREG(mode):
        try:
            _beside(target, data, mode)
            return
        except OSError as error:
            if mode is None or error.errno not in _STAYS_IN_PLACE:
                raise
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_TRUNC | _FLAGS), "wb") as stream:
        stream.write(data)


def check(path: str) -> None:
    """Raise OSError where `path` can visibly not be written."""
    if _own_descriptor(path) is not None:
        return
    target = _real(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise OSError(errno.ENOENT, f"the folder {folder} does not exist", path)
    if _mode(path) is None:
        temporary = _beside_name(target)
        os.close(_create(temporary, 0o600))
        os.unlink(temporary)
    else:
        os.close(os.open(target, os.O_WRONLY | _FLAGS))


def append(path: str, data: bytes, limit: int) -> bool:
    """Append to a regular file, or make it; False where it would become larger than `limit`.

    Raises OSError: it cannot be written, or is something else.
    """
    target, mode = _real(path), _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        raise other_kind(mode, path)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0) | _FLAGS
    handle = os.open(target, flags, 0o666)
    with os.fdopen(handle, "ab") as stream:
        if os.fstat(handle).st_size + len(data) > limit:
            return False
        stream.write(data)
    return True


def _real(path: str) -> str:
    try:
        return os.path.realpath(path)
    except ValueError as error:  # a null character
        raise OSError(errno.EINVAL, f"not a file name: {error}", path) from error


def _mode(path: str) -> int | None:
    """The mode of a file or a character device; None where nothing is. Raises OSError: it is something else."""
    try:
        mode = os.stat(path).st_mode  # not of the target: the kernel does not follow links that others planted in /tmp
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode) and not stat.S_ISCHR(mode):
        raise other_kind(mode, path)
    return mode


def _own_descriptor(path: str) -> int | None:
    """The open file of this process that a path such as /dev/stdout names; replacing what it shows would lose it."""
    found = _DESCRIPTOR.fullmatch(os.path.normpath(path))
    if found is None:
        return None
    return int(found[1] or found[3] or ("stdin", "stdout", "stderr").index(found[2]))


def _beside(target: str, data: bytes, mode: int | None) -> None:
    temporary = _beside_name(target)
    handle = _create(temporary, 0o666 if mode is None else 0o600)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, target)
    except BaseException:  # also Ctrl-C: no half-written file stays behind
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _beside_name(target: str) -> str:
    return os.path.join(os.path.dirname(target), f".tfgpu-{secrets.token_hex(6)}")


def _create(path: str, mode: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode)
