"""What gzip packed, unpacked piece by piece. Pure."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import chain

from tfgpu_doctor.files.reading import CHUNK, in_mib

MARK = b"\x1f\x8b"  # RFC 1952, 2.3.1
LARGEST = 4 << 30  # bytes that are unpacked; the reports of 10,000 nodes have a quarter of that
# gzip makes 1000 bytes of one: of a file that is made so, a little is read; alike reports have a ratio of 10 to 50
FREE, RATIO = 64 << 20, 100


def unpacked(source: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, or what was packed in them, also where several packed files stand one after another.

    Raises OSError: it is packed, but damaged or cut off, or unpacks to too much.
    """
    first = next(source, b"")
    if first.startswith(MARK):
        yield from _unpacked(chain([first], source))
    else:
        yield first
        yield from source


def _unpacked(source: Iterator[bytes]) -> Iterator[bytes]:
    import zlib

    machine, total, is_open, read = zlib.decompressobj(wbits=31), 0, False, 0
    for chunk in source:
        packed = chunk
        read += len(chunk)
        while packed or machine.unconsumed_tail:
            try:
                data = machine.decompress(machine.unconsumed_tail or packed, CHUNK)
            except zlib.error as error:
                raise OSError(errno.EINVAL, f"it begins as gzip writes it, and then is damaged: {error}") from error
            is_open, packed = not machine.eof, b""
            if data:
                yield data
            _refuse(total := total + len(data), read)
            if machine.eof:
                packed, machine = machine.unused_data.lstrip(b"\0"), zlib.decompressobj(wbits=31)
    if is_open:
        raise OSError(errno.EINVAL, "it is packed with gzip, and cut off")


def _refuse(size: int, packed: int) -> None:
    """Raise OSError when so many packed bytes have become too many."""
    if size > LARGEST:
        raise OSError(errno.EFBIG, f"unpacked, it is larger than {in_mib(LARGEST)}; split it")
    if size > max(FREE, RATIO * packed):
        raise OSError(
            errno.EFBIG,
            f"unpacked, it is more than {RATIO} times as large; if that is right, unpack it with gunzip first",
        )
