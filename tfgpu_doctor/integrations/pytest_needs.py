"""`@pytest.mark.gpu(min=2, memory="10GiB", compute_capability="8.0")` → what the test asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tfgpu_doctor.integrations.pytest_gpus import Needs, capability
from tfgpu_doctor.records.similar import did_you_mean
from tfgpu_doctor.records.units import read_size

KEYWORDS = ("min", "memory", "compute_capability")
_FORM = '@pytest.mark.gpu(min=2, memory="10GiB", compute_capability="8.0")'


class MarkError(ValueError):
    """The mark is wrong; the message says what, and how it is written."""


def read(arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Needs:
    """What one mark asks for. Raises MarkError: an argument is unknown, or has no such value."""
    if arguments:
        given = ", ".join(map(repr, arguments))
        raise MarkError(f"it takes keywords only, not ({given}): write {_FORM}")
    for name in keywords:
        if name not in KEYWORDS:
            hint = did_you_mean(name, KEYWORDS, 1) or f" Keywords: {', '.join(KEYWORDS)}."
            raise MarkError(f"unknown keyword {name!r}.{hint}")
    return Needs(
        min=_count(keywords.get("min", 1)),
        memory=_bytes(keywords["memory"]) if "memory" in keywords else 0,
        capability=_capability(keywords["compute_capability"]) if "compute_capability" in keywords else (0, 0),
    )


def all_of(marks: Iterable[Any]) -> Needs:
    """What the marks of a test, of its class and its module ask for together. Raises MarkError: one is wrong."""
    needs = Needs()
    for mark in marks:
        needs = needs.and_also(read(mark.args, mark.kwargs))
    return needs


def _count(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise MarkError(f"min={value!r} is not a number of GPUs such as 2")
    return value


def _bytes(value: object) -> int:
    size = read_size(value) if isinstance(value, str) else value
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise MarkError(f'memory={value!r} is not a size such as "10GiB", "512MiB" or "10G"')
    return size


def _capability(value: object) -> tuple[int, int]:
    """8.0 is taken as "8.0", since no minor number has two digits."""
    text = str(value) if isinstance(value, (str, float)) else ""
    if not re.fullmatch(r"[1-9]\d?\.\d", text, re.ASCII):
        raise MarkError(f'compute_capability={value!r} is not a compute capability such as "8.0"')
    return capability(text)
