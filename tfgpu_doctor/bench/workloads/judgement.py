"""The verdict over a result, in a form that parent and worker share. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, NamedTuple


class Check(NamedTuple):
    """One thing that was looked at: "loss falls", "2.31 to 0.42"."""

    name: str
    ok: bool
    saw: str


class Judgement(NamedTuple):
    """Whether a result is right, and how that is known."""

    ok: bool
    method: str
    residual: float | None = None  # relative error; None when it is not a number, or when there is none to give
    tolerance: float | None = None
    why: str = ""  # what is wrong, as a sentence without its end; empty when nothing is
    checks: tuple[Check, ...] = ()
    computed_in: str | None = None  # the type that the residual speaks of, where that is another than asked for
    worst_row: float | None = None  # matrices: largest relative error of a single row
    row_tolerance: float | None = None


def judged(method: str, checks: Iterable[Check], **details: Any) -> Judgement:
    """Return the verdict of checks, all of which must hold; `details` are other fields of it."""
    found = tuple(checks)
    wrong = [f"failed: {check.name} ({check.saw})" for check in found if not check.ok]
    return Judgement(ok=not wrong, method=method, why="; ".join(wrong), checks=found, **details)


def finite(value: float) -> float | None:
    """The number; None for what JSON cannot carry."""
    return value if math.isfinite(value) else None


def numbers(values: Iterable[float]) -> list[float | None]:
    """The same of each."""
    return [finite(value) for value in values]


def nan_last(value: float) -> float:
    """A key for `max`, by which not-a-number is worse than any number."""
    return math.inf if value != value else value


def short(device: str) -> str:
    """ "/job:localhost/replica:0/task:0/device:GPU:0" as "/GPU:0"."""
    return "/" + device.rpartition("device:")[2] if "device:" in device else device
