"""Bytes of a text in any encoding → UTF-8. Pure."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator

from tfgpu_doctor.records import printable


def utf8(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Turn UTF-16, which PowerShell writes, into UTF-8; anything else stays as it is."""
    decoder: codecs.IncrementalDecoder | None = None
    first = True
    for chunk in chunks:
        if first:
            first = False
            if name := _utf16(chunk):
                decoder = codecs.getincrementaldecoder(name)(errors="replace")
        # a log that was copied and truncated while it was written begins with as many NULs as it had bytes
        if decoder:
            yield printable.utf8(decoder.decode(chunk))
        else:
            yield chunk.translate(None, b"\0") if b"\0" in chunk else chunk


def _utf16(head: bytes) -> str | None:
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = head[:2000]
    if sample.count(0) > len(sample) * 0.6:  # mostly NUL: no UTF-16 either
        return None
    if len(sample) >= 20 and sample[1::2].count(0) > len(sample) // 2 * 0.7:
        return "utf-16-le"
    return "utf-16-be" if len(sample) >= 20 and sample[0::2].count(0) > len(sample) // 2 * 0.7 else None
