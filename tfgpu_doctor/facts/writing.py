"""Write files that a user names: in one step, and never into what would wait."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
import sys
from contextlib import suppress

from tfgpu_doctor.facts.reading import other_kind

_DESCRIPTOR = re.compile(r"/dev/(?:fd/(\d+)|(stdin|stdout|stderr))|/proc/self/fd/(\d+)")
_FLAGS = sum(getattr(os, name, 0) for name in ("O_NOCTTY", "O_CLOEXEC", "O_BINARY"))
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)


def replace(path: str, data: bytes) -> None:
    """Make `data` the content of the file `path`, so that an interrupt or a full disk leaves the old content.

    A symbolic link stays, and its target is written. The file keeps its mode, its access list and, where the system
    permits, its owner; a new one gets what the umask leaves. Other hard links keep the old content: only a new file
    can take its place in one step. Where no file can be made beside it (a folder without permission, a file that is
    mounted into a container), it is written in place. A terminal, /dev/null and /dev/stdout are written to.

    Raises OSError: the file cannot be written.
    """
    if (handle := _own_descriptor(path)) is not None:
        sys.stdout.flush()
        _write(handle, data)
        return
    target = _real(path)
    try:
        old = os.stat(path)  # not of the target: the kernel does not follow links that others planted in /tmp
    except FileNotFoundError:
        _beside(target, data, None)
        return
    if not stat.S_ISREG(old.st_mode):
        handle = _device(target, old.st_mode)
        try:
            _write(handle, data)
        finally:
            os.close(handle)
        return
    try:
        _beside(target, data, old)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV):
            raise
        _in_place(target, data)


def check(path: str) -> None:
    """Raise OSError where `path` can visibly not be written."""
    if _own_descriptor(path) is not None:
        return
    target = _real(path)
    folder = os.path.dirname(target)
    if not os.path.isdir(folder):
        raise OSError(errno.ENOENT, f"the folder {folder} does not exist", path)
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        temporary = _beside_name(target)
        os.close(_create(temporary, 0o600))
        os.unlink(temporary)
        return
    os.close(os.open(target, os.O_WRONLY | _FLAGS) if stat.S_ISREG(mode) else _device(target, mode))


def append(path: str, data: bytes, limit: int) -> bool:
    """Append to a regular file, or make it; False where it would become larger than `limit`.

    Raises OSError: it cannot be written, or is something else.
    """
    target = _real(path)
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(mode := os.stat(path).st_mode):
            raise other_kind(mode, path)
    handle = os.open(target, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NONBLOCK | _FLAGS, 0o666)
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


def _own_descriptor(path: str) -> int | None:
    """The open file of this process that a path such as /dev/stdout names; replacing what it shows would lose it."""
    found = _DESCRIPTOR.fullmatch(os.path.normpath(path))
    if found is None:
        return None
    return int(found[1] or found[3] or ("stdin", "stdout", "stderr").index(found[2]))


def _beside(target: str, data: bytes, old: os.stat_result | None) -> None:
    temporary = _beside_name(target)
    handle = _create(temporary, 0o600 if old else 0o666)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        if old:
            _take_over(target, temporary, old)
        os.replace(temporary, target)
    except BaseException:  # also Ctrl-C: no half-written file stays behind
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _beside_name(target: str) -> str:
    return os.path.join(os.path.dirname(target), f".tfgpu-{secrets.token_hex(6)}")


def _create(path: str, mode: int) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, mode)


def _take_over(target: str, temporary: str, old: os.stat_result) -> None:
    """Give a new file the mode, the access list and, where that is possible, the owner of the one that it replaces."""
    shutil.copystat(target, temporary)
    os.utime(temporary)
    if sys.platform == "win32":
        return
    with suppress(OSError):
        os.chown(temporary, old.st_uid, -1)
    try:
        os.chown(temporary, -1, old.st_gid)
    except OSError:  # another group must not read what the old one could
        mode = stat.S_IMODE(old.st_mode)
        os.chmod(temporary, mode & (0o707 | (mode & 0o007) << 3))


def _in_place(target: str, data: bytes) -> None:
    handle = os.open(target, os.O_WRONLY | _FLAGS)
    with os.fdopen(handle, "wb") as stream:
        size = os.fstat(handle).st_size
        try:
            if hasattr(os, "posix_fallocate") and data:
                os.posix_fallocate(handle, 0, len(data))  # a full disk is noticed before anything is lost
        except OSError as error:
            os.ftruncate(handle, size)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
        stream.write(data)
        stream.truncate()


def _device(path: str, mode: int) -> int:
    """Open a character device, such as a terminal. Raises OSError: it is something else."""
    if not stat.S_ISCHR(mode):
        raise other_kind(mode, path)
    return os.open(path, os.O_WRONLY | _FLAGS)


def _write(handle: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(handle, rest) :]
