"""Numbers with their units, for people: bytes, seconds, rates, counts; with the digits that the measurement supports.

>>> memory_size(8_361_345_024), memory_size(64 * MIB), seconds(8e-3), seconds(13970), count(2, "copy")
('7.79 GiB', '64 MiB', '8 ms', '3.9 h', '2 copies')
>>> approximate(1269.3, "images/s"), approximate(0.0831, "s"), approximate(1.0)
('1270 images/s', '83.1 ms', '1')
>>> quantity(47.581e12, "FLOP/s", (47.5e12, 47.7e12)), quantity(2.5 * GIB, "B")
('47.6 TFLOP/s', '2.5 GiB')
"""

from __future__ import annotations

import math
import re

KIB, MIB, GIB, TIB = 2**10, 2**20, 2**30, 2**40

_DECIMAL = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((float(TIB), "Ti"), (float(GIB), "Gi"), (float(MIB), "Mi"), (float(KIB), "Ki"))
# rates count in powers of ten, as makers of memory and links do; amounts of memory in powers of two
_PREFIXES = {"FLOP/s": _DECIMAL, "FLOP": _DECIMAL, "B/s": _DECIMAL, "B": _BINARY}


_SIZE = re.compile(r"(\d{1,12})\s*(?:([kmgt])(i?b)?|b)?", re.ASCII | re.IGNORECASE)
_UNCERTAIN = 0.01  # what is uncertain of a number of three digits


def digits(value: float, low: float, high: float) -> str:
    """Write `value` with the digits that its interval supports, at least two and at most four significant ones."""
    if value == 0 or not math.isfinite(value):
        return str(value)
    width = max(high - low, 0.0) / 2
    magnitude = math.floor(math.log10(abs(value)))
    supported = 4 if width == 0 else magnitude - math.floor(math.log10(width)) + 1
    decimals = min(max(supported, 2), 4) - 1 - magnitude
    return f"{value:.{max(decimals, 0)}f}" if decimals >= 0 else f"{round(value, decimals):.0f}"


def scale_of(value: float, unit: str) -> tuple[float, str]:
    """The factor by which numbers near `value` are divided, and the unit that then stands behind them."""
    if unit == "s":
        return (1.0, "s") if abs(value) >= 1 else (1e-3, "ms") if abs(value) >= 1e-4 else (1e-6, "µs")
    prefixes = _PREFIXES.get(unit, ())
    return next(((factor, prefix + unit) for factor, prefix in prefixes if abs(value) >= factor), (1.0, unit))


def quantity(value: float, unit: str, interval: tuple[float, float] | None = None) -> str:
    """A number with its unit, with the digits that the interval supports, or with four."""
    factor, shown = scale_of(value, unit)
    if interval is None:
        number = digits(value / factor, value / factor, value / factor)
        number = number.rstrip("0").rstrip(".") if "." in number else number
    else:
        number = digits(value / factor, interval[0] / factor, interval[1] / factor)
    return f"{number} {shown}".rstrip()


def approximate(value: float, unit: str = "", interval: tuple[float, float] | None = None) -> str:
    """A number with at most three digits and without exponent: "1270 images/s", "12 GB/s"."""
    low, high = interval or (value, value)
    ends = min(low, value * (1 - _UNCERTAIN)), max(high, value * (1 + _UNCERTAIN))
    number, _, shown = quantity(value, unit, ends).partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number} {shown}".rstrip()


def memory_size(size: float) -> str:
    """Bytes in GiB, or in MiB below one GiB, with three digits."""
    value, unit = (size / GIB, "GiB") if size >= GIB else (size / MIB, "MiB")
    return f"{value:.3g} {unit}" if value < 999.5 else f"{value:.0f} {unit}"


def seconds(value: float) -> str:
    """Seconds with two digits: "3.8 s", "12 ms", "3.9 h"."""
    factor, unit = (3600.0, "h") if value >= 3600 else scale_of(value, "s")
    scaled = value / factor
    return f"{scaled:.0f} {unit}" if scaled >= 10 else f"{scaled:.2g} {unit}"


def read_size(text: str) -> int | None:
    """Read a number of bytes or of things; None if it is none. Only kB, MB and GB are powers of ten, as on disks.

    >>> [read_size(text) for text in ("4096", "4k", "4KiB", "1M", "2 GiB", "1GB", "1.5M")]
    [4096, 4096, 4096, 1048576, 2147483648, 1000000000, None]
    """
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    number, prefix, unit = found.groups()
    base = 1000 if (unit or "").lower() == "b" else 1024
    factor: int = base ** (" kmgt".index(prefix.lower()) if prefix else 0)
    return int(number) * factor


def plural(word: str) -> str:
    """ "step" → "steps", "copy" → "copies", "process" → "processes"."""
    if word.endswith("y"):
        return word[:-1] + "ies"
    return word + ("es" if word.endswith("s") else "s")


def count(number: int, word: str) -> str:
    """A number of things: "1 run", "2 runs"."""
    return f"{number} {word if number == 1 else plural(word)}"
