"""Nodes that should be alike: those with the same GPUs, and those that lack some of them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from tfgpu_doctor.fleet.majority import LEAST, SHARE, rare
from tfgpu_doctor.fleet.nodes import Machine
from tfgpu_doctor.fleet.values import gpu_fields

_NAME = gpu_fields().index("name")
UNKNOWN, NONE = "unknown", "no GPU"


@dataclass
class Siblings:
    """Nodes of one kind of hardware."""

    hardware: str  # that most of them have
    members: list[Machine] = field(default_factory=list)
    odd: list[Machine] = field(default_factory=list)  # of them, those whose GPUs are others, or fewer


def siblings(machines: Iterable[Machine]) -> list[Siblings]:
    """The kinds of hardware, the most frequent first; a few nodes that have GPUs missing join those they look like."""
    kinds: dict[str, list[Machine]] = {}
    for one in machines:
        kinds.setdefault(one.main.hardware, []).append(one)
    order = sorted(kinds, key=lambda hardware: (-len(kinds[hardware]), hardware))
    found: dict[str, Siblings] = {}
    answered = sum(map(len, kinds.values()))
    for hardware in order:
        own = kinds[hardware]
        others = [one for one in found.values() if _is_like(hardware, own[0], one, answered)]
        near = next((one for one in others if len(own) <= rare(len(own) + len(one.members), len(one.members))), None)
        if near is None:
            found[hardware] = Siblings(hardware, list(own))
        else:
            near.members += own
            near.odd += own if hardware != UNKNOWN else []
    return list(found.values())


def models(machine: Machine) -> frozenset[str]:
    """The models of its GPUs."""
    leaves = (gpu[_NAME] for gpu in machine.gpus or ())
    return frozenset(leaf[0][1].text for leaf in leaves if leaf)


def _is_like(hardware: str, one: Machine, other: Siblings, answered: int) -> bool:
    """Whether a node may be one of these with GPUs missing, or with another one in a slot."""
    if other.hardware in (UNKNOWN, NONE) or len(other.members) < LEAST:
        return False
    if hardware in (UNKNOWN, NONE):
        return len(other.members) >= SHARE * answered
    return bool(models(one) & models(other.members[0]))


def counted(machines: Iterable[Machine]) -> Counter[str]:
    """How many nodes have which hardware."""
    return Counter(one.main.hardware for one in machines)
