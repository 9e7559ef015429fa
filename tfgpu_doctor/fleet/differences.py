"""What nodes have that their siblings, nodes with the same GPUs, do not have. Pure.

A value is usual where at least three have it, and two of three that know theirs. Another one is odd where at most one
of ten has it: what more have is a second kind of machines, or a change on its way through the fleet, and no mistake.
Where few are compared, up to two are odd beside three times as many that agree. What varies by nature makes
nothing odd: many different values, which together are more than one of ten.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import exp, lgamma, log, log1p
from typing import NamedTuple

from tfgpu_doctor.compare.words import entries, short
from tfgpu_doctor.fleet.nodes import Machine
from tfgpu_doctor.fleet.records import Kind
from tfgpu_doctor.fleet.values import ABSENT, Value, compared, path_of
from tfgpu_doctor.records.facts import about
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.units import count

LEAST, SHARE, RARE = 3, 2 / 3, 0.1
UNKNOWN, NONE = "unknown", "no GPU"  # kinds of hardware
_FEW = 2  # odd ones that are more than one of ten, where few are compared
_SEVERAL = 5  # odd values; with more of them, one group is made for all
_LONG = 200  # characters of a value, of which only the difference is shown
_BY_CHANCE = 0.001  # probability of what is called odd to be none, where it varies among nodes of other kinds
_MISSING = Value(ABSENT)
Holder = tuple[Machine, int]  # a node, and the number of its GPU; -1: the node itself
Table = dict[str, dict[Value, list[Holder]]]  # id → value → who has it


@dataclass(frozen=True)
class Difference:
    """Nodes with the same problem: another value than expected, a slow run, or a finding."""

    id: str
    kind: Kind
    layer: str
    title: str
    expected: str
    source: str
    members: tuple[tuple[Machine, str], ...]  # with what was found on them
    act: str  # what one act changes together
    observed: bool = False  # it follows from something else
    value: str = ""  # that all of them have; empty: each its own
    cause: str = ""
    severity: Severity = Severity.WARNING
    fixes: tuple[Fix, ...] | None = None  # None: those of such a difference
    repaired: Machine | None = None  # that the repair is of; None: the first of its nodes
    explains: tuple[str, ...] = ()


# ---------------------------------------------------------------------------------------------------- what is usual


class Usual(NamedTuple):
    """What most have, and what is odd beside it."""

    value: Value
    having: int  # of those, or one that is near
    known: int
    odd: frozenset[Value]


def usual(counts: Mapping[Value, int], tolerance: float = 0.0) -> Usual | None:
    """Return what most have; None where nothing is usual."""
    known = sum(counts.values())
    sizes = [(sum(counts[one] for one in cluster), cluster) for cluster in _clusters(counts, tolerance)]
    having, most = max(sizes, key=lambda one: one[0], default=(0, []))
    if having < LEAST or having < SHARE * known:
        return None
    limit = rare(known, having)
    odd = [(many, cluster) for many, cluster in sizes if cluster is not most and many <= limit]
    if len(odd) > _SEVERAL and sum(many for many, _ in odd) > limit:
        odd = []
    value = max(most, key=lambda one: counts[one])
    return Usual(value, having, known, frozenset(one for _, cluster in odd for one in cluster))


def rare(known: int, having: int) -> float:
    """Return how many may have an odd value, of so many that know theirs, where `having` have the usual one."""
    return max(RARE * known, min(_FEW, having / LEAST))


def is_near(one: Value, other: Value, tolerance: float) -> bool:
    """Return whether two values count as the same."""
    if one.number is None or other.number is None or not tolerance:
        return one.text == other.text
    return abs(one.number - other.number) <= tolerance * max(abs(one.number), abs(other.number))


def _clusters(counts: Iterable[Value], tolerance: float) -> list[list[Value]]:
    """Return values that count as the same together; of numbers, those that are near the smallest one."""
    if not tolerance:
        return [[one] for one in counts]
    found = [[one] for one in counts if one.number is None]
    for one in sorted((one for one in counts if one.number is not None), key=lambda one: one.number or 0.0):
        if found and found[-1][0].number is not None and is_near(found[-1][0], one, tolerance):
            found[-1].append(one)
        else:
            found.append([one])
    return found


# --------------------------------------------------------------------------------------------------------- siblings


@dataclass
class Siblings:
    """Nodes of one kind of hardware."""

    hardware: str  # that most of them have
    members: list[Machine]
    odd: list[Machine] = field(default_factory=list)  # of them, those whose GPUs are others, or fewer

    @cached_property
    def table(self) -> Table:
        """Who has which value of what, nodes and GPUs; nodes that do not know a fact are left out."""
        table: Table = defaultdict(lambda: defaultdict(list))
        knowing: dict[str, list[Holder]] = defaultdict(list)
        for machine in self.members:
            holder = (machine, -1)
            for path, values in machine.main.facts.items():
                knowing[path].append(holder)
                for identity, value in values.items():
                    table[identity][value].append(holder)
            for number, gpu in enumerate(machine.main.gpus or ()):
                holder = (machine, number)
                for identity, value in gpu.items():
                    table[identity][value].append(holder)
        for identity, by_value in table.items():
            if identity.startswith("gpus.") or not about(path := path_of(identity)).key:
                continue
            known = knowing[path]
            if sum(map(len, by_value.values())) < len(known):
                having = {machine.name for holders in by_value.values() for machine, _ in holders}
                by_value[_MISSING] += [one for one in known if one[0].name not in having]
        return table

    def counts(self, identity: str) -> dict[Value, int]:
        """How many have which value."""
        return {value: len(holders) for value, holders in self.table.get(identity, {}).items()}


def siblings(machines: Iterable[Machine]) -> list[Siblings]:
    """Return the kinds of hardware, the most frequent first; few nodes with GPUs missing join those they look like."""
    kinds: dict[str, list[Machine]] = {}
    for one in machines:
        kinds.setdefault(one.main.hardware, []).append(one)
    found: list[Siblings] = []
    answered = sum(map(len, kinds.values()))
    for hardware, own in sorted(kinds.items(), key=lambda one: (-len(one[1]), one[0])):
        others = (one for one in found if _is_like(hardware, own[0], one, answered))
        near = next((one for one in others if len(own) <= rare(len(own) + len(one.members), len(one.members))), None)
        if near is None:
            found.append(Siblings(hardware, list(own)))
        else:
            near.members += own
            near.odd += own if hardware != UNKNOWN else []
    return found


def _is_like(hardware: str, one: Machine, other: Siblings, answered: int) -> bool:
    """Return whether a node may be one of these with GPUs missing, or with another one in a slot."""
    if other.hardware in (UNKNOWN, NONE) or len(other.members) < LEAST:
        return False
    if hardware in (UNKNOWN, NONE):
        return len(other.members) >= SHARE * answered
    return bool(one.models & other.members[0].models)


def is_chance(identity: str, value: Value, found: Usual, kin: Siblings, every: Iterable[Siblings]) -> bool:
    """Return whether so few siblings may have this value by chance, as often as nodes of other kinds have it.

    Of six nodes of one kind, five may have a package by chance, which about half of all other nodes have.
    """
    having = of = 0
    for other in every:
        counts = other.counts(identity) if other is not kin else {}
        if counts.get(value):
            there, known = usual(counts, compared(identity).tolerance), sum(counts.values())
            # what all have but odd ones does not vary there
            if there is None or there.having + sum(counts[one] for one in there.odd) < known:
                having, of = having + counts[value], of + known
    return having > 0 and at_most(kin.counts(identity)[value], found.known, having / of) > _BY_CHANCE


def at_most(many: int, known: int, share: float) -> float:
    """Return the probability that at most `many` of `known` have what this share has (binomial)."""
    if not 0 < share < 1:
        return float(share <= 0 or many >= known)
    logs = (lgamma(known + 1) - lgamma(k + 1) - lgamma(known - k + 1) for k in range(many + 1))
    return min(1.0, sum(exp(one + k * log(share) + (known - k) * log1p(-share)) for k, one in enumerate(logs)))


# ------------------------------------------------------------------------------------------------------ differences


def of_siblings(kin: Siblings, every: Iterable[Siblings]) -> Iterator[Difference]:
    """Yield all differences within siblings; what varies among siblings of another kind can vary here, too."""
    odd = dict(_odd(kin, every))
    own: dict[str, list[str]] = {}  # elements that few have, by collection
    for identity, found in odd.items():
        if found.value == _MISSING:
            own.setdefault(path_of(identity), []).append(identity)
    for elements in own.values():
        holders = (kin.table[element][value] for element in elements for value in odd[element].odd)
        nodes = {machine.name for several in holders for machine, _ in several}
        if len(nodes) > rare(len(kin.members), len(kin.members)):  # that is what these nodes are like
            odd = {identity: found for identity, found in odd.items() if identity not in elements}
    for identity, found in odd.items():
        yield from differing(kin, identity, found, "difference", "")
    by_hardware: dict[str, list[Machine]] = {}
    for one in kin.odd:
        by_hardware.setdefault(one.main.hardware, []).append(one)
    for hardware, members in by_hardware.items():
        source = f"{len(kin.members) - len(kin.odd)} of {count(len(kin.members), 'node')} like them"
        yield hardware_differs(hardware, kin.hardware, members, source, "difference")


def _odd(kin: Siblings, every: Iterable[Siblings]) -> Iterator[tuple[str, Usual]]:
    for identity in kin.table:
        found = usual(kin.counts(identity), compared(identity).tolerance)
        if found is not None and not identity.startswith("gpus."):
            odd = (one for one in found.odd if not is_chance(identity, one, found, kin, every))
            found = found._replace(odd=frozenset(odd))
        if found is not None and found.odd:
            yield identity, found


def hardware_differs(found: str, expected: str, members: list[Machine], source: str, kind: Kind) -> Difference:
    """Return nodes whose GPUs are others, or fewer, or more."""
    title = f"GPUs: {found} instead of {expected}"
    with_found = tuple((one, found) for one in members)
    return Difference("gpus", kind, "GPU", title, expected, source, with_found, "gpus", value=found)


def differing(kin: Siblings, identity: str, found: Usual, kind: Kind, source: str) -> Iterator[Difference]:
    """Yield a difference for each odd value; one for all of them where there are many.

    `source` says who expects something else, where it is not their siblings.
    """
    fact, expected = compared(identity), found.value.text
    of_gpus = identity.startswith("gpus.")
    label = ("model of a GPU" if identity == "gpus.name" else f"{fact.label} of a GPU") if of_gpus else fact.label
    if kind == "difference":
        of = f"{count(found.known, 'GPU')} in nodes with" if of_gpus else f"{count(found.known, 'node')} with"
        source = f"{found.having} of {of} {kin.hardware}"
    odd = sorted(found.odd)
    apart = len(odd) <= _SEVERAL
    for values in [[one] for one in odd] if apart else [odd]:
        value = values[0].text if apart else ""
        title = _title(label, value, expected, kind) if apart else f"{label}: other than {short(expected, _LONG)}"
        holders = {value: kin.table[identity][value] for value in values}
        members = tuple(_of_gpus(fact.label, holders) if of_gpus else _of_nodes(fact.label, holders, expected))
        text = short(expected, _LONG)
        yield Difference(
            identity, kind, fact.layer, title, text, source, members, fact.group, fact.observed, value=value
        )


def _title(label: str, value: str, expected: str, kind: Kind) -> str:
    if value == ABSENT:
        return f"{label} is missing"
    if expected == ABSENT:
        others = "others do" if kind == "difference" else "the baseline does"
        return f"{label} {short(value, _LONG)}, which {others} not have"
    if len(value) > _LONG and len(expected) > _LONG:
        return _entries(label, value, expected)
    return f"{label} {short(value, _LONG)} instead of {short(expected, _LONG)}"


def _of_nodes(label: str, found: dict[Value, list[Holder]], expected: str) -> Iterator[tuple[Machine, str]]:
    for value, holders in found.items():
        is_long = len(value.text) > _LONG and len(expected) > _LONG
        text = _entries(label, value.text, expected) if is_long else f"{label} {short(value.text, _LONG)}"
        yield from ((machine, text) for machine, _ in holders)


def _entries(label: str, value: str, expected: str) -> str:
    separator = ", " if ", " in expected else " "
    return short(entries(label, expected.split(separator), value.split(separator), separator), 2 * _LONG)


def _of_gpus(label: str, found: dict[Value, list[Holder]]) -> Iterator[tuple[Machine, str]]:
    """Yield each node with the numbers of its GPUs: "GPU 3: PCIe width 8 lanes"."""
    by_node: dict[str, tuple[Machine, dict[str, list[int]]]] = {}
    for value, holders in found.items():
        for machine, number in holders:
            by_node.setdefault(machine.name, (machine, {}))[1].setdefault(value.text, []).append(number)
    for machine, by_text in by_node.values():
        texts = []
        for text, numbers in by_text.items():
            every = len(numbers) == len(machine.main.gpus or ()) > 1
            which = f"all {len(numbers)} GPUs" if every else f"GPU {', '.join(map(str, sorted(numbers)))}"
            texts.append(f"{which}: {label} {short(text, _LONG)}")
        yield machine, "; ".join(texts)
