"""The files that a command reads, and standard input (-): a usage error for everything that can be wrong with one."""

from __future__ import annotations

from collections.abc import Iterator

import click

from tfgpu_doctor.files import reading
from tfgpu_doctor.render.streams import say


def read(path: str, limit: int) -> bytes:
    """Read a file of at most `limit` bytes. Raises click.UsageError: it cannot be read, or is larger."""
    try:
        return reading.read_whole(path, limit)
    except OSError as error:
        raise refusal(path, error) from error


def read_ends(path: str, limit: int) -> Iterator[bytes]:
    """Read a file in chunks; of a larger one only its ends, which is reported on standard error.

    Raises click.UsageError: it cannot be read.
    """

    def cut(part: str) -> None:
        say(f"tfgpu: {reading.shown(path)} is larger than {reading.in_mib(limit)}: read {part}")

    try:
        yield from reading.chunks(path, limit, cut)
    except OSError as error:
        raise refusal(path, error) from error


def refusal(path: str, error: OSError) -> click.UsageError:
    """The message for a file that cannot be read."""
    return click.UsageError(f"cannot read {reading.shown(path)}: {reading.why(error)}")
