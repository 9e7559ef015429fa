"""Read files that a user, a variable or another file names: only what ends, without waiting, and with a limit.

A name may stand for anything: a named pipe that no process writes to, a device without an end, a watchdog that resets
the machine when it is opened, a file of /proc that waits for the kernel, or one that grows while it is read.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

CHUNK = 1 << 20
STDIN = "-"
WRITER = 0.5  # seconds in which a process must open the other end of a pipe
IDLE = 300.0  # seconds without data from a process that has opened it; it can be a doctor over ssh
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_NONBLOCK", "O_NOCTTY", "O_CLOEXEC", "O_BINARY"))
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def shown(path: str) -> str:
    """Return what a path is called in messages."""
    return "standard input" if path == STDIN else path


def why(error: OSError) -> str:
    """Return what failed, without the path."""
    return error.strerror or str(error)


def open_regular(path: str) -> BinaryIO:
    """Open a regular file. Raises OSError: it cannot be opened, or is something else."""
    return os.fdopen(_opened(path, stat.S_ISREG), "rb")


def read_head(path: str, limit: int) -> bytes:
    """Return the first `limit` bytes of a regular file. Raises OSError: it cannot be read, or is something else."""
    handle = _opened(path, stat.S_ISREG)
    try:
        data = bytearray()
        for chunk in _of_file(handle, min(limit, CHUNK)):
            data += chunk
            if len(data) >= limit:
                break
        return bytes(data[:limit])
    finally:
        os.close(handle)


def read_whole(path: str, limit: int) -> bytes:
    """Return the content of a file, of standard input (-), or of a pipe, as in <(COMMAND).

    Raises OSError: it cannot be read, is larger than `limit` bytes, or is something else.
    """
    return b"".join(chunks(path, limit))


def chunks(path: str, limit: int = sys.maxsize) -> Iterator[bytes]:
    """Yield what a file, standard input (-) or a pipe holds; each chunk but the last has the full size.

    Raises OSError: it cannot be read, is larger than `limit` bytes, or is something else.
    """
    size = 0
    for chunk in _of(path):
        size += len(chunk)
        if size > limit:
            raise OSError(errno.EFBIG, f"it is larger than {in_mib(limit)}", path)
        yield chunk


def in_mib(size: int) -> str:
    """Return a size for messages: "64 MiB", "5 MB"."""
    return f"{size >> 20} MiB" if size % (1 << 20) == 0 else f"{size / 1e6:.3g} MB"


def other_kind(mode: int, path: str) -> OSError:
    """Return the error for what is not a file."""
    name = next((name for kind, name in _KINDS if kind(mode)), "something else")
    return OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, f"it is {name}, not a file", path)


def _opened(path: str, *allowed: Callable[[int], bool]) -> int:
    try:
        handle = None
        mode = os.stat(path).st_mode  # before it is opened, which may have effects
        if any(kind(mode) for kind in allowed):
            handle = os.open(path, _FLAGS)
            mode = os.fstat(handle).st_mode
    except ValueError as error:  # a null character, or half of a surrogate pair
        raise OSError(errno.EINVAL, f"not a file name: {error}", path) from error
    if handle is not None and any(kind(mode) for kind in allowed):
        return handle
    if handle is not None:
        os.close(handle)
    raise other_kind(mode, path)


def _of(path: str) -> Iterator[bytes]:
    if path == STDIN:
        yield from _of_standard_input()
        return
    handle = _opened(path, stat.S_ISREG, stat.S_ISFIFO)
    try:
        yield from _of_pipe(handle) if stat.S_ISFIFO(os.fstat(handle).st_mode) else _of_file(handle)
    finally:
        os.close(handle)


def _of_file(handle: int, size: int = CHUNK) -> Iterator[bytes]:
    try:
        while chunk := os.read(handle, size):
            yield chunk
    except BlockingIOError as error:  # a file of /proc or /sys that waits for events
        raise OSError(error.errno, "it has no end: reading it waits for new data") from error


def _of_pipe(handle: int) -> Iterator[bytes]:
    """What is written to a pipe until its last writer closes it, in full chunks: their beginning tells what it is."""
    import select

    parts, wait = bytearray(), WRITER
    while True:
        ready = select.select([handle], [], [], wait)[0]
        try:
            data = os.read(handle, CHUNK)
        except BlockingIOError as error:  # a process has opened it, but does not write
            if wait == IDLE:
                raise OSError(error.errno, f"no data on this pipe for {IDLE:g} seconds") from error
            wait = IDLE
            continue
        if not data and not ready:
            raise OSError(errno.EPIPE, "it is a pipe that no process writes to")
        wait = IDLE
        parts += data
        if parts and (len(parts) >= CHUNK or not data):
            yield bytes(parts)
            parts.clear()
        if not data:
            return


def _of_standard_input() -> Iterator[bytes]:
    if sys.stdin is None or sys.stdin.closed:
        raise OSError(errno.EBADF, "it is closed")
    try:
        while chunk := sys.stdin.buffer.read(CHUNK):
            yield chunk
            if len(chunk) < CHUNK:  # the end; a terminal would wait for a second Ctrl-D
                return
    except ValueError as error:
        raise OSError(errno.EBADF, str(error)) from error


# ------------------------------------------------------------------------------------------------------------ listing

DEEPEST = 6  # folders below the named one
MOST_FOLDERS = 2_000
# what is not of the project: environments, packages, caches, results of builds, version control
_FOREIGN = frozenset(
    (
        *(".git", ".venv", "venv", "env", ".env", "site-packages", "node_modules", ".tox", ".nox", ".pixi", ".conda"),
        *("__pycache__", ".cache", "build", "dist", "target", "third_party", "vendor", ".ipynb_checkpoints"),
    )
)
_MARKS = ("pyvenv.cfg", "conda-meta", "CACHEDIR.TAG")  # an environment or a cache by any name


@dataclass
class Listing:
    """What lies below a folder."""

    files: list[str] = field(default_factory=list)  # with the folder in front
    left_out: list[str] = field(default_factory=list)  # folders, and why the rest of them is missing


def files_below(folder: str, most: int | None = None) -> Listing:
    """List the files below a folder, in at most so many folders; links to folders are not followed.

    Raises OSError: the folder itself cannot be listed.
    """
    listing, most = Listing(), MOST_FOLDERS if most is None else most

    def refused(error: OSError) -> None:
        if error.filename == folder:
            raise error
        listing.left_out.append(str(error.filename))

    for seen, (here, names, files) in enumerate(os.walk(folder, onerror=refused)):
        if seen >= most:
            listing.left_out.append(f"{here} and what else follows: more than {most} folders")
            break
        depth = os.path.relpath(here, folder).count(os.sep) + 1 if here != folder else 0
        if depth and not {*names, *files}.isdisjoint(_MARKS):
            listing.left_out.append(os.path.normpath(here))
            names.clear()
            continue
        paths = (os.path.normpath(os.path.join(here, name)) for name in sorted(files))
        listing.files += (path for path in paths if os.path.isfile(path))
        skipped = [name for name in names if name in _FOREIGN or name.endswith(".egg-info") or depth >= DEEPEST]
        listing.left_out += (os.path.normpath(os.path.join(here, name)) for name in sorted(skipped))
        names[:] = sorted({*names}.difference(skipped))
    return listing
