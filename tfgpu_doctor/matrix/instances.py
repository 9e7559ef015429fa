"""Instance types of clouds, by name and in a text: the GPU of "g4dn.xlarge", "a2-highgpu-1g", "Standard_NC6s_v3".

A pattern of the matrix is a name in which ``#`` is a number and ``.*`` a size of AWS. A name of neither is a service,
"Colab": what it gives changes, so that a text that names it tells no GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cached_property

from tfgpu_doctor.matrix.schema import Instance

_PREFIX = r"(?:ml\.|standard_)?"  # of SageMaker and of Azure
_BEFORE, _AFTER = r"(?<![A-Za-z0-9_.-])", r"(?![A-Za-z0-9_-])"  # beside Chinese stands no space
# of all types alike, so that few places of a text are tried
_START = re.compile(rf"{_BEFORE}(?={_PREFIX}[a-z]{{1,3}}\d|(?:aws|ec2) )", re.IGNORECASE)
_SIZE = r"\.(?:\d{0,3}xlarge|metal(?:-\d{1,3}xl)?)"
_MODEL = re.compile(r"\.\*$|-#g?$")  # "g4dn" of "g4dn.*", "a2-highgpu" of "a2-highgpu-#g"
_BARE = re.compile(r"(?:standard_)?[a-z]{2,3}#[a-z]{0,3}", re.IGNORECASE)  # "NC6" may be anything


class InstanceIndex:
    """The patterns of the matrix, made ready to be searched when they are first needed."""

    def __init__(self, rows: Iterable[Instance]) -> None:
        self._patterns = [(row, pattern) for row in rows for pattern in row.names]
        self._types = [(row, pattern) for row, pattern in self._patterns if "#" in pattern or "*" in pattern]

    @cached_property
    def _names(self) -> re.Pattern[str]:
        return _any_of(_named(pattern) for _, pattern in self._patterns)

    @cached_property
    def _text(self) -> re.Pattern[str]:
        return _any_of((_written(pattern) for _, pattern in self._types), _START.pattern)

    def find(self, name: str) -> Instance | None:
        """The row of a type ("p3.2xlarge"), or of a family ("p3"); None where it is none."""
        match = self._names.fullmatch(name.strip())
        return self._patterns[match.lastindex - 1][0] if match and match.lastindex else None

    def named_in(self, text: str) -> Iterator[tuple[re.Match[str], Instance]]:
        """Those that a text names: a type, or a family beside the word "instance" or its cloud's name."""
        for match in self._text.finditer(text) if _START.search(text) else ():
            if match.lastindex:
                yield match, self._types[match.lastindex - 1][0]


def _any_of(patterns: Iterable[str], before: str = "") -> re.Pattern[str]:
    """One group for each."""
    return re.compile(before + "(?:" + ("|".join(f"({one})" for one in patterns) or "(?!)") + ")", re.IGNORECASE)


def _regex(pattern: str) -> str:
    plain = re.escape(re.sub(r"^Standard_", "", pattern))
    return plain.replace(r"\.\*", _SIZE).replace(r"\#", r"\d{1,3}")


def _named(pattern: str) -> str:
    family = re.escape(_MODEL.sub("", pattern))
    return rf"{_PREFIX}{_regex(pattern)}|{family}(?: instance)?"


def _written(pattern: str) -> str:
    """In a text, where "p3" and "NC6" may be anything."""
    prefix = "standard_" if _BARE.fullmatch(pattern) else _PREFIX
    whole = rf"{prefix}{_regex(pattern)}{_AFTER}"
    if not pattern.endswith(".*"):
        return whole
    family = re.escape(_MODEL.sub("", pattern))
    return rf"{whole}|{family}[- ](?:instances?|vms?)\b|(?:aws|ec2) {family}{_AFTER}(?!\.)"
