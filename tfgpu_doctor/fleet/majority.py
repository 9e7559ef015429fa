"""What most have of a value, and which values are odd. Pure.

A value is usual where at least three have it, and two of three that know theirs. Another one is odd where at most one
of ten has it: what more have is a second kind of machines, or a change on its way through the fleet, and no mistake.
Where few are compared, up to two are odd beside three times as many that agree. What varies by nature makes
nothing odd: many different values, which together are more than one of ten.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

from tfgpu_doctor.fleet.values import Value

LEAST, SHARE, RARE = 3, 2 / 3, 0.1
_FEW = 2  # odd ones that are more than one of ten, where few are compared
SEVERAL = 5  # odd values; with more of them, one group is made for all

K = TypeVar("K", bound=Hashable)


class Usual(NamedTuple):
    """What most have, and what is odd beside it."""

    value: Value
    having: int  # of those, or one that is near
    known: int
    odd: frozenset[Value]


def usual(counts: Mapping[Value, int], tolerance: float = 0.0) -> Usual | None:
    """What most have; None where nothing is usual."""
    clusters = _clusters(counts, tolerance)
    known = sum(counts.values())
    if not clusters:
        return None
    most = max(clusters, key=lambda cluster: sum(counts[one] for one in cluster))
    count = sum(counts[one] for one in most)
    if count < LEAST or count < SHARE * known:
        return None
    limit = rare(known, count)
    rest = [(cluster, sum(counts[one] for one in cluster)) for cluster in clusters if cluster is not most]
    odd = [(cluster, many) for cluster, many in rest if many <= limit]
    if len(odd) > SEVERAL and sum(many for _, many in odd) > limit:
        odd = []
    value = max(most, key=lambda one: counts[one])
    return Usual(value, count, known, frozenset(one for cluster, _ in odd for one in cluster))


def rare(known: int, count: int) -> float:
    """How many may have an odd value, of so many that know theirs, where `count` have the usual one."""
    return max(RARE * known, min(_FEW, count / LEAST))


def is_near(one: Value, other: Value, tolerance: float) -> bool:
    """Whether two values count as the same."""
    if one.number is None or other.number is None or not tolerance:
        return one.text == other.text
    return abs(one.number - other.number) <= tolerance * max(abs(one.number), abs(other.number))


def _clusters(counts: Iterable[Value], tolerance: float) -> list[list[Value]]:
    """Values that count as the same; of numbers, those that are near the smallest one."""
    if not tolerance:
        return [[one] for one in counts]
    numbers = sorted((one for one in counts if one.number is not None), key=lambda one: one.number or 0.0)
    found = [[one] for one in counts if one.number is None]
    for one in numbers:
        if found and found[-1][0].number is not None and is_near(found[-1][0], one, tolerance):
            found[-1].append(one)
        else:
            found.append([one])
    return found
