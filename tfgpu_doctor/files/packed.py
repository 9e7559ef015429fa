"""What gzip packed, unpacked piece by piece. Pure."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from itertools import chain

from tfgpu_doctor.files.reading import CHUNK, in_mib

MARK = b"\x1f\x8b"  # RFC 1952, 2.3.1
LARGEST = 64 << 30  # bytes; a file of 64 MiB can be made that unpacks to as many


def unpacked(source: Iterator[bytes]) -> Iterator[bytes]:
    """The same pieces, or what was packed in them, also where several packed files stand one after another.

    Raises OSError: it is packed, but damaged or cut off, or has no end.
    """
    first = next(source, b"")
    if first.startswith(MARK):
        yield from _unpacked(chain([first], source))
    else:
        yield first
        yield from source


def _unpacked(source: Iterator[bytes]) -> Iterator[bytes]:
    import zlib

    machine, total, is_open = zlib.decompressobj(wbits=31), 0, False
    for chunk in source:
        packed = chunk
        while packed or machine.unconsumed_tail:
            try:
                data = machine.decompress(machine.unconsumed_tail or packed, CHUNK)
            except zlib.error as error:
                raise OSError(errno.EINVAL, f"it begins as gzip writes it, and then is damaged: {error}") from error
            is_open, packed = not machine.eof, b""
            if data:
                yield data
            if (total := total + len(data)) > LARGEST:
                raise OSError(errno.EFBIG, f"unpacked, it is larger than {in_mib(LARGEST)}")
            if machine.eof:
                packed, machine = machine.unused_data.lstrip(b"\0"), zlib.decompressobj(wbits=31)
    if is_open:
        raise OSError(errno.EINVAL, "it is packed with gzip, and cut off")
