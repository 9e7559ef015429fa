"""Helpers of the parsers' tests: numbered lines, captures, samples of messages, and texts that must not hurt."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import yaml

from tfgpu_doctor.parsers.lines import Line

CAPTURES = Path(__file__).parents[1] / "captures"
ROWS = Path(__file__).parent / "rows"
Sample = tuple[str, str, dict[str, str]]  # kind of a message, a line of it, and the values that it gives


@cache
def samples(*groups: str) -> list[Sample]:
    """Return the samples of messages of some layers, else all."""
    found = yaml.load((ROWS / "messages.yaml").read_text(encoding="utf-8"), Loader=yaml.CSafeLoader)
    return [(kind, line, *(values or [{}])) for group in groups or found for kind, line, *values in found[group]]


def lines(text: str) -> list[Line]:
    """The lines of a text, numbered from 1."""
    return [Line(number, line) for number, line in enumerate(text.splitlines(), 1)]


def capture(folder: str, name: str) -> list[Line]:
    """The lines of a capture."""
    return lines((CAPTURES / folder / name).read_text(encoding="utf-8"))


def mangled(text: str, seed: int) -> list[Line]:
    """The text as bad pastes have it: cut, indented, wrapped, quoted, with characters lost or doubled."""
    choose = random.Random(seed)
    found = []
    for line in text.splitlines():
        kind = choose.randrange(8)
        if kind == 0:
            found.append("    " + line)
        elif kind == 1:
            at = choose.randrange(len(line) + 1)
            found += [line[:at], line[at:]]
        elif kind == 2:
            found.append(line[: choose.randrange(len(line) + 1)])
        elif kind == 3 and line:
            at = choose.randrange(len(line))
            found.append(line[:at] + choose.choice("\0\t|:=()[]'\"`*#>-.,;/\\0٣é\u2028") + line[at + 1 :])
        elif kind == 4:
            found.append(line * choose.randrange(4))
        elif kind != 5:
            found.append(line)
    return lines("\n".join(found))
