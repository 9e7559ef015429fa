"""What nodes have that their siblings, nodes with the same GPUs, do not have. Pure.

A value is usual where at least three have it, and two of three that know theirs. Another one is odd where at most one
of ten has it, and of few siblings up to two: what more have is a second kind of machines, or a change on its way
through the fleet, and no mistake. Many different values, which together are more than one of ten, vary by nature. With
a baseline, earlier reports of nodes with the same GPUs say what is usual, and everything else is odd.

A run is slow where it lies more than k = 5 scaled MADs below the median of its siblings: same card, workload, type and
parameters. The scaled MAD (1.4826 times the median of the distances from the median) is that of a normal distribution,
and half of the runs can be odd without moving it. It is taken as at least 1 % of the median: results that are nearly
alike make no alarm of noise. So nothing is slow that is not 5 % below the median. Of a million runs of healthy nodes at
most 613 are called slow, and a node that is 20 % slower is found in 91 to 100 % of fleets (simulated:
benchmarks/fleet_alarms.py, with its results for k from 3 to 8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from statistics import median
from typing import NamedTuple

from tfgpu_doctor.compare.differences import entries, short
from tfgpu_doctor.fleet.nodes import ABSENT, Machine, Speed, Value, compared, path_of
from tfgpu_doctor.fleet.records import Kind
from tfgpu_doctor.records.facts import about
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.units import approximate, count, quantity

LEAST, SHARE, RARE = 3, 2 / 3, 0.1
UNKNOWN, NONE = "unknown", "no GPU"  # kinds of hardware
_FEW = 2  # odd ones that are more than one of ten, where few are compared
_SEVERAL = 5  # odd values; with more of them, one group is made for all
_LONG = 200  # characters of a value, of which only the difference is shown
_MISSING = Value(ABSENT)
Holder = tuple[Machine, int]  # a node, and the number of its GPU; -1: the node itself


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
    fixes: tuple[Fix, ...] = ()
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


def _is_near(one: Value, other: Value, tolerance: float) -> bool:
    """Return whether two values count as the same."""
    if one.number is None or other.number is None or not tolerance:
        return one.text == other.text
    return abs(one.number - other.number) <= tolerance * max(abs(one.number), abs(other.number))


def _clusters(counts: Iterable[Value], tolerance: float) -> list[list[Value]]:
    """Return values that count as the same together; of numbers, those that are near the smallest one."""
    found: list[list[Value]] = []
    for one in sorted(counts, key=lambda one: (one.number is not None, one.number or 0.0, one.text)):
        if found and _is_near(found[-1][0], one, tolerance):
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
    def table(self) -> dict[str, dict[Value, list[Holder]]]:
        """Who has which value of what, nodes and GPUs, by id; nodes that do not know a fact are left out."""
        table: dict[str, dict[Value, list[Holder]]] = defaultdict(lambda: defaultdict(list))
        knowing: dict[str, list[Holder]] = defaultdict(list)
        for machine in self.members:
            for path, values in machine.main.values.items():
                knowing[path].append((machine, -1))
                for identity, value in values.items():
                    table[identity][value].append((machine, -1))
            for number, gpu in enumerate(machine.main.gpus or ()):
                for identity, value in gpu.items():
                    table[identity][value].append((machine, number))
        for identity, by_value in table.items():
            if identity.startswith("gpus.") or not about(path := path_of(identity)).key:
                continue
            having = {machine.name for holders in by_value.values() for machine, _ in holders}
            if missing := [one for one in knowing[path] if one[0].name not in having]:
                by_value[_MISSING] = missing
        return table

    def counts(self, identity: str) -> dict[Value, int]:
        """Return how many have which value."""
        return {value: len(holders) for value, holders in self.table.get(identity, {}).items()}

    @cached_property
    def varying(self) -> dict[str, dict[Value, int]]:
        """What varies among them: not all but odd ones have the same."""
        found = {}
        for identity in self.table:
            counts = self.counts(identity)
            most = usual(counts, compared(identity).tolerance)
            if most is None or most.having + sum(counts[one] for one in most.odd) < most.known:
                found[identity] = counts
        return found


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


# ------------------------------------------------------------------------------------------------------ differences


def differences(machines: tuple[Machine, ...], good: tuple[Machine, ...], baseline: str) -> Iterator[Difference]:
    """Yield what nodes have that their siblings, or the `good` nodes of a baseline of that name, do not have."""
    known = {one.hardware: one for one in siblings(good)}
    varying = {one for kin in known.values() for one in kin.varying if not one.startswith("gpus.")}
    every = siblings(machines)
    for kin in every:
        expected = known.get(kin.hardware) if baseline else None
        if baseline and expected is None:
            continue
        odd = _beside(kin, expected, varying) if expected else _odd(kin, every)
        for identity, found in odd.items():
            yield from _differing(kin, identity, found, baseline)
        for hardware in dict.fromkeys(one.main.hardware for one in kin.odd):
            members = [one for one in kin.odd if one.main.hardware == hardware]
            like = f"{len(kin.members) - len(kin.odd)} of {count(len(kin.members), 'node')} like them"
            yield _other_hardware(hardware, kin.hardware, members, baseline or like, baseline)
    for kin in every if baseline else ():
        if kin.hardware not in known:
            yield _other_hardware(kin.hardware, " or ".join(known), kin.members, baseline, baseline)
    yield from _slow(machines, good, baseline)


def _other_hardware(found: str, expected: str, members: list[Machine], source: str, baseline: str) -> Difference:
    title, kind = f"GPUs: {found} instead of {expected}", _kind(baseline)
    with_found = tuple((one, found) for one in members)
    return Difference("gpus", kind, "GPU", title, expected, source, with_found, "gpus", value=found)


def _kind(baseline: str) -> Kind:
    return "baseline" if baseline else "difference"


def _odd(kin: Siblings, every: list[Siblings]) -> dict[str, Usual]:
    """Return what few siblings have, by id."""
    odd: dict[str, Usual] = {}
    own: dict[str, set[str]] = {}  # elements that few have, by collection
    for identity in kin.table:
        found = usual(kin.counts(identity), compared(identity).tolerance)
        if found is None:
            continue
        values = frozenset(one for one in found.odd if not _is_chance(identity, one, found, kin, every))
        if values:
            odd[identity] = found._replace(odd=values)
            if found.value == _MISSING:
                own.setdefault(path_of(identity), set()).add(identity)
    for elements in own.values():
        holders = (kin.table[element][value] for element in elements for value in odd[element].odd)
        nodes = {machine.name for several in holders for machine, _ in several}
        if len(nodes) > rare(len(kin.members), len(kin.members)):  # that is what these nodes are like
            odd = {identity: found for identity, found in odd.items() if identity not in elements}
    return odd


def _is_chance(identity: str, value: Value, found: Usual, kin: Siblings, every: list[Siblings]) -> bool:
    """Return whether so few may have a value by chance, as often as nodes of other kinds, among which it varies.

    Of six nodes of one kind, five may have a package by chance, which about half of all other nodes have. What is three
    standard deviations less frequent here than there is none.
    """
    if identity.startswith("gpus."):
        return False
    others = [other.varying.get(identity, {}) for other in every if other is not kin]
    counts = [one for one in others if value in one]
    if not counts:
        return False
    share = sum(one[value] for one in counts) / sum(sum(one.values()) for one in counts)
    likely = found.known * share
    return kin.counts(identity)[value] > likely - 3 * sqrt(likely * (1 - share))


def _beside(kin: Siblings, good: Siblings, varying: set[str]) -> dict[str, Usual]:
    """Return what is not usual in a baseline, by id; of what is `varying` there, nothing is usual."""
    collections = {path_of(one) for one in good.table if not one.startswith("gpus.")}
    found = {}
    for identity, holders in kin.table.items():
        tolerance = compared(identity).tolerance
        expected = None if identity in varying or identity in good.varying else usual(good.counts(identity), tolerance)
        if identity not in good.table and not identity.startswith("gpus.") and path_of(identity) in collections:
            expected = Usual(_MISSING, 0, 0, frozenset())
        if expected is not None:
            odd = frozenset(one for one in holders if not _is_near(one, expected.value, tolerance))
            if odd:
                found[identity] = expected._replace(odd=odd)
    return found


def _differing(kin: Siblings, identity: str, found: Usual, baseline: str) -> Iterator[Difference]:
    """Yield a difference for each odd value; one for all of them where there are many."""
    fact, expected = compared(identity), found.value.text
    of_gpus = identity.startswith("gpus.")
    label = ("model of a GPU" if identity == "gpus.name" else f"{fact.label} of a GPU") if of_gpus else fact.label
    of = f"{count(found.known, 'GPU')} in nodes with" if of_gpus else f"{count(found.known, 'node')} with"
    source = baseline or f"{found.having} of {of} {kin.hardware}"
    odd = sorted(found.odd)
    for values in [[one] for one in odd] if len(odd) <= _SEVERAL else [odd]:
        value = values[0].text if len(odd) <= _SEVERAL else ""
        title = _title(label, value, expected, baseline) if value else f"{label}: other than {short(expected, _LONG)}"
        holders = {value: kin.table[identity][value] for value in values}
        members = tuple(_of_gpus(fact.label, holders) if of_gpus else _of_nodes(fact.label, holders, expected))
        text, kind = short(expected, _LONG), _kind(baseline)
        yield Difference(
            identity, kind, fact.layer, title, text, source, members, fact.group, fact.observed, value=value
        )


def _title(label: str, value: str, expected: str, baseline: str) -> str:
    if value == ABSENT:
        return f"{label} is missing"
    if expected == ABSENT:
        others = "the baseline does" if baseline else "others do"
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
    """Return how a long list differs."""
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


# ------------------------------------------------------------------------------------------------------------ speeds

MADS = 5.0
SIBLINGS = 5  # runs that are compared, at least
SCALE = 1.4826  # of a MAD, to a standard deviation
FLOOR, LEAST_LOSS = 0.01, 0.03  # of the median: the smallest scaled MAD, and the smallest loss


class Centre(NamedTuple):
    """Where the runs of siblings lie."""

    median: float
    mad: float  # scaled, and with its floor
    runs: int

    def below(self, value: float) -> tuple[float, float]:
        """How far a value lies below: in scaled MADs, and as a share of the median."""
        distance = self.median - value
        return distance / self.mad, distance / self.median


def centre(values: list[float]) -> Centre | None:
    """Return where values lie; None for too few of them."""
    if len(values) < SIBLINGS:
        return None
    middle = median(values)
    return Centre(middle, max(SCALE * median(abs(one - middle) for one in values), FLOOR * middle), len(values))


def _speeds(machines: Iterable[Machine]) -> dict[tuple[str, Speed], dict[tuple[str, str], tuple[Machine, float]]]:
    """Return the speeds of nodes and devices by what can be compared: card and run, without its value.

    Several rounds of one device count as one, by their median.
    """
    found: dict[tuple[str, Speed], dict[tuple[str, str], tuple[Machine, list[float]]]] = {}
    for machine in machines:
        card = ", ".join(sorted(machine.models)) or NONE
        for one in machine.speeds:
            if one.value:
                runs = found.setdefault((card, one._replace(value=0.0, device="")), {})
                runs.setdefault((machine.name, one.device), (machine, []))[1].append(one.value)
    return {
        key: {owner: (machine, median(several)) for owner, (machine, several) in runs.items()}
        for key, runs in found.items()
    }


def _slow(machines: tuple[Machine, ...], good: tuple[Machine, ...], baseline: str) -> Iterator[Difference]:
    """Yield runs that are slower than those of siblings, or of a baseline."""
    known = _speeds(good)
    for (card, run), measured in _speeds(machines).items():
        before = centre([value for _, value in known.get((card, run), {}).values()])
        found = before or centre([value for _, value in measured.values()])
        if found is None:
            continue
        slow: dict[str, tuple[Machine, list[str]]] = {}
        for (_, device), (machine, value) in measured.items():
            far, share = found.below(value)
            if far > MADS and share >= LEAST_LOSS:
                text = f"{quantity(value, run.unit)}, {approximate(far)} MADs ({100 * share:.0f} %) below"
                slow.setdefault(machine.name, (machine, []))[1].append(f"{device}: {text}" if device else text)
        if slow:
            among = f"median of {count(found.runs, 'run')} on {card}"
            elsewhere = "in the baseline" if before else "elsewhere"
            yield Difference(
                id=f"{run.workload}/{run.label}/{run.dtype}",
                kind="baseline" if before else "speed",
                layer="Compute",
                title=f"{run.workload} on {run.label} in {run.dtype} is slower than {elsewhere}",
                expected=quantity(found.median, run.unit),
                source=f"{baseline}, {among}" if before else among,
                members=tuple((machine, "; ".join(texts)) for machine, texts in slow.values()),
                act="speed",
                observed=True,
                cause="jobs on several nodes wait for the slowest one",
            )
