"""Versions as numbers: of TensorFlow, CUDA, cuDNN, drivers and compute capabilities.

What cannot be read is None and never a yes. For pip's own order (pre-releases, specifiers) use `packaging`.
"""

from __future__ import annotations

import re
from functools import lru_cache

_OF_CAPABILITY = re.compile(r"GPU of compute capability (\d{1,2}\.\d)")
_NUMBERS = re.compile(r"\s*v?(\d{1,9}(?:\.\d{1,9})*)", re.IGNORECASE)


def numbers(version: str) -> tuple[int, ...]:
    """Turn "12.5.1" into (12, 5, 1).

    Raises ValueError: it is not made of numbers alone.
    """
    return tuple(int(part) for part in version.split("."))


def parts(version: str | None) -> tuple[int, ...] | None:
    """The numbers that a version begins with: (2, 15, 0) of "2.15.0rc1"; None where it begins with none."""
    match = _NUMBERS.match(version or "")
    return numbers(match[1]) if match else None


def major(version: str | None) -> str:
    """Cut "11.8.0" down to "11"; empty for None."""
    return (version or "").split(".")[0]


def minor(version: str | None) -> str:
    """Cut "11.8.0" down to "11.8"; empty for None."""
    return ".".join((version or "").split(".")[:2])


def at_least(version: str | None, floor: str) -> bool | None:
    """Whether a version is `floor` or newer: missing parts are zeros, and a release candidate is its release.

    None where one of them cannot be read.
    """
    have, need = parts(version), parts(floor)
    if have is None or need is None:
        return None
    length = max(len(have), len(need))
    return _padded(have, length) >= _padded(need, length)


def padded(version: str) -> tuple[int, int, int]:
    """Turn "12.5" into (12, 5, 0), for comparing with "12.5.1".

    Raises ValueError: it is not made of numbers alone.
    """
    first, second, third = _padded(numbers(version), 3)[:3]
    return first, second, third


@lru_cache(maxsize=256)  # few values, asked for every part of every release
def capability(text: str) -> tuple[int, int]:
    """Turn the compute capability "8.9" into (8, 9).

    Raises ValueError: it is not made of numbers alone.
    """
    first, second = _padded(numbers(text), 2)[:2]
    return first, second


def of_capability(capability: str) -> str:
    """A name for a GPU of which only the compute capability is known."""
    return f"GPU of compute capability {capability}"


def capability_of(name: str | None) -> str | None:
    """The "3.0" of such a name; None for any other."""
    match = _OF_CAPABILITY.fullmatch(name or "")
    return match[1] if match else None


def dotted(version: str | None) -> str | None:
    """cuDNN's number as it was printed: "8.0.5", "5005" for 5.0.5, "8600" for 8.6.0."""
    version = version.strip(".") if version else None
    if version is None or not version.isdecimal():
        return version
    # CUDNN_VERSION: major × 1000 + minor × 100 + patch up to 8, major × 10000 + ... from 9 on (cudnn_version.h)
    value = int(version)
    base = 10_000 if value >= 90_000 else 1_000
    return f"{value // base}.{value % base // 100}.{value % 100}"


def _padded(version: tuple[int, ...], length: int) -> tuple[int, ...]:
    return version + (0,) * (length - len(version))
