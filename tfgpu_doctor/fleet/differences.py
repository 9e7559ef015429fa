"""What nodes have that their siblings do not, or that a baseline does not say. Pure.

Most nodes are alike, so that facts are counted once for all nodes that share them; the cost grows with what differs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import exp, lgamma, log, log1p
from typing import Literal, NamedTuple

from tfgpu_doctor.compare.words import entries, short
from tfgpu_doctor.fleet.majority import SEVERAL, Usual, rare, usual
from tfgpu_doctor.fleet.nodes import Machine
from tfgpu_doctor.fleet.results import GpuValues
from tfgpu_doctor.fleet.siblings import Siblings
from tfgpu_doctor.fleet.values import ABSENT, Leaf, Value, compared, gpu_fields, path_of, paths
from tfgpu_doctor.records.about import LAYERS
from tfgpu_doctor.records.facts import about
from tfgpu_doctor.records.units import count

_LONG = 200  # characters of a value, of which only the difference is shown
_MISSING = Value(ABSENT)
_BY_CHANCE = 0.001  # probability of what is called odd to be none, where it varies among nodes of other kinds
_Owner = tuple[Machine, int]  # a GPU: its node, and its number there
Judge = Callable[[str, dict[Value, int]], Usual | None]  # (id, how many have which value) → what is usual


@dataclass(frozen=True)
class Difference:
    """Nodes that have another value than expected."""

    id: str
    kind: Literal["difference", "speed", "baseline", "expectation", "finding"]
    layer: str
    title: str
    expected: str
    source: str
    members: tuple[tuple[Machine, str], ...]  # with what was found on them
    act: str  # what one act changes together
    observed: bool = False  # it follows from something else
    value: str = ""  # that all of them have; empty: each its own
    cause: str = ""
    grave: bool = False  # an error by itself


class _Of(NamedTuple):
    """How a fact differs between some nodes."""

    id: str
    usual: Usual
    found: dict[Value, list[int]]  # odd value → places of leaves
    weights: list[list[Machine]]  # nodes of each leaf


def of_siblings(kin: Siblings, others: Variety) -> Iterator[Difference]:
    """All differences within siblings; `others`, what varies among siblings of another kind, can vary here, too."""

    def judge(identity: str, counts: dict[Value, int]) -> Usual | None:
        found = _by_majority(identity, counts)
        if found is None or not found.odd:
            return found
        odd = frozenset(one for one in found.odd if not others.explains(identity, one, counts[one], found.known, kin))
        return found._replace(odd=odd)

    yield from of_nodes(kin, judge, "difference", "")
    yield from of_gpus(kin, _by_majority, "difference", "")
    by_hardware: dict[str, list[Machine]] = {}
    for one in kin.odd:
        by_hardware.setdefault(one.main.hardware, []).append(one)
    for hardware, members in by_hardware.items():
        source = f"{len(kin.members) - len(kin.odd)} of {count(len(kin.members), 'node')} like them"
        yield hardware_differs(hardware, kin.hardware, members, source, "difference")


def hardware_differs(
    found: str, expected: str, members: list[Machine], source: str, kind: Literal["difference", "baseline"]
) -> Difference:
    """Nodes whose GPUs are others, or fewer, or more."""
    title = f"GPUs: {found} instead of {expected}"
    with_found = tuple((one, found) for one in members)
    return Difference("gpus", kind, "GPU", title, expected, source, with_found, "gpus", value=found)


def _by_majority(identity: str, counts: dict[Value, int]) -> Usual | None:
    return usual(counts, compared(identity).tolerance)


class Variety:
    """What varies by nature among the siblings of each kind.

    Of six nodes of one kind, five may have a package by chance, which about half of all other nodes have.
    """

    def __init__(self, every: Iterable[Siblings]) -> None:
        """Take all siblings."""
        self._every = tuple(every)
        self._known: dict[tuple[int, str], dict[str, dict[Value, int]]] = {}

    def explains(self, identity: str, value: Value, many: int, known: int, kin: Siblings) -> bool:
        """Whether so few of so many may have this value by chance, as often as it is among nodes of other kinds."""
        having = of = 0
        for other in self._every:
            counts = self._counts(other, identity) if other is not kin else {}
            found = _by_majority(identity, counts)
            every = sum(counts.values())
            # what all have but odd ones does not vary there
            if counts.get(value) and (found is None or found.having + sum(counts[one] for one in found.odd) < every):
                having, of = having + counts[value], of + every
        return having > 0 and at_most(many, known, having / of) > _BY_CHANCE

    def _counts(self, kin: Siblings, identity: str) -> dict[Value, int]:
        path = path_of(identity)
        key = (id(kin), path)
        if key not in self._known:
            leaves = _by_leaf(paths().index(path), _by_profile(kin.members))
            weights = [len(machines) for _, machines in leaves]
            by_id = _by_id(leaves).items()
            self._known[key] = {
                one: _with_absent({v: sum(weights[p] for p in places) for v, places in by_value.items()}, sum(weights))
                for one, by_value in by_id
            }
        return self._known[key].get(identity, {})


def at_most(many: int, known: int, share: float) -> float:
    """The probability that at most `many` of `known` have what this share has (binomial)."""
    if not 0 < share < 1:
        return float(share <= 0 or many >= known)
    logs = (lgamma(known + 1) - lgamma(k + 1) - lgamma(known - k + 1) for k in range(many + 1))
    return min(1.0, sum(exp(one + k * log(share) + (known - k) * log1p(-share)) for k, one in enumerate(logs)))


def _with_absent(counts: dict[Value, int], known: int) -> dict[Value, int]:
    """With the nodes that do not have an element."""
    absent = known - sum(counts.values())
    return {**counts, _MISSING: counts.get(_MISSING, 0) + absent} if absent else counts


# ------------------------------------------------------------------------------------------------------ nodes


def of_nodes(kin: Siblings, judge: Judge, kind: Literal["difference", "baseline"], source: str) -> Iterator[Difference]:
    """Differences of the facts of nodes; `source` says who expects something else, where it is not their siblings."""
    profiles = _by_profile(kin.members)
    for place, path in enumerate(paths()):
        if kind == "difference" and len({id(facts[place]) for facts, _ in profiles}) < 2:
            continue
        leaves = _by_leaf(place, profiles)
        found = list(_of_path(leaves, judge))
        if kind == "difference" and about(path).key:
            found = _without_nature(found, kin)
        for one in found:
            yield from _told(one, kind, source or f"of {count(one.usual.known, 'node')} with {kin.hardware}")


def _by_profile(machines: Iterable[Machine]) -> list[tuple[tuple[Leaf | None, ...], list[Machine]]]:
    found: dict[int, tuple[tuple[Leaf | None, ...], list[Machine]]] = {}
    for one in machines:
        found.setdefault(id(one.facts), (one.facts, []))[1].append(one)
    return list(found.values())


def _by_leaf(
    place: int, profiles: list[tuple[tuple[Leaf | None, ...], list[Machine]]]
) -> list[tuple[Leaf, list[Machine]]]:
    """The values of one fact with the nodes that have them; nodes that do not know it are left out."""
    by_identity: dict[int, tuple[Leaf, list[Machine]]] = {}
    for facts, machines in profiles:
        leaf = facts[place]
        if leaf is not None:
            by_identity.setdefault(id(leaf), (leaf, []))[1].extend(machines)
    found: dict[Leaf, list[Machine]] = {}
    for leaf, machines in by_identity.values():
        found.setdefault(leaf, []).extend(machines)
    return list(found.items())


def _of_path(leaves: list[tuple[Leaf, list[Machine]]], judge: Judge) -> Iterator[_Of]:
    weights = [machines for _, machines in leaves]
    known = sum(map(len, weights))
    for identity, by_value in _by_id(leaves).items():
        counts = {value: sum(len(weights[one]) for one in places) for value, places in by_value.items()}
        found = judge(identity, _with_absent(counts, known))
        if found is not None and found.odd:
            odd = {value: by_value[value] for value in found.odd if value in by_value}
            if _MISSING in found.odd:
                having = {place for places in by_value.values() for place in places}
                odd[_MISSING] = [*odd.get(_MISSING, []), *sorted(set(range(len(leaves))) - having)]
            yield _Of(identity, found, odd, weights)


def _by_id(leaves: list[tuple[Leaf, list[Machine]]]) -> dict[str, dict[Value, list[int]]]:
    """For each element of a fact, and each value of it, the places of the leaves that have it."""
    found: dict[str, dict[Value, list[int]]] = {}
    for number, (leaf, _) in enumerate(leaves):
        for identity, value in leaf:
            found.setdefault(identity, {}).setdefault(value, []).append(number)
    return found


def _without_nature(found: list[_Of], kin: Siblings) -> list[_Of]:
    """Without elements that few have, where so many nodes have some of their own that this is what they are like."""
    own = [one for one in found if one.usual.value.text == ABSENT]
    nodes = {m.name for one in own for places in one.found.values() for place in places for m in one.weights[place]}
    if len(nodes) > rare(len(kin.members), len(kin.members)):
        return [one for one in found if one.usual.value.text != ABSENT]
    return found


def _told(one: _Of, kind: Literal["difference", "baseline"], source: str) -> Iterator[Difference]:
    """One difference for each odd value; one for all of them where there are many."""
    field = compared(one.id)
    expected = one.usual.value.text
    by = f"{one.usual.having} {source}" if kind == "difference" else source
    sets: list[tuple[Value, list[Machine]]] = [
        (value, [m for place in places for m in one.weights[place]]) for value, places in one.found.items()
    ]
    apart = len(sets) <= SEVERAL
    for told in [[one] for one in sets] if apart else [sets]:
        value = told[0][0] if apart else None
        members = tuple((machine, _found(field.label, val, expected)) for val, several in told for machine in several)
        title = _title(field.label, value, expected, kind)
        shown = short(expected, _LONG)
        text = value.text if value else ""
        yield Difference(one.id, kind, field.layer, title, shown, by, members, field.group, field.observed, value=text)


def _title(label: str, value: Value | None, expected: str, kind: str) -> str:
    if value is None:
        return f"{label}: other than {short(expected, _LONG)}"
    if value.text == ABSENT:
        return f"{label} is missing"
    if expected == ABSENT:
        others = "others do" if kind == "difference" else "the baseline does"
        return f"{label} {short(value.text, _LONG)}, which {others} not have"
    if len(value.text) > _LONG and len(expected) > _LONG:
        return short(_entries(label, value, expected), 2 * _LONG)
    return f"{label} {short(value.text, _LONG)} instead of {short(expected, _LONG)}"


def _found(label: str, value: Value, expected: str) -> str:
    if len(value.text) > _LONG and len(expected) > _LONG:
        return short(_entries(label, value, expected), 2 * _LONG)
    return f"{label} {short(value.text, _LONG)}"


def _entries(label: str, value: Value, expected: str) -> str:
    separator = ", " if ", " in expected else " "
    return entries(label, expected.split(separator), value.text.split(separator), separator)


# ------------------------------------------------------------------------------------------------------- GPUs


def of_gpus(kin: Siblings, judge: Judge, kind: Literal["difference", "baseline"], source: str) -> Iterator[Difference]:
    """Differences between the GPUs of all these nodes."""
    sets: dict[int, tuple[GpuValues, list[_Owner]]] = {}
    for machine in kin.members:
        for number, gpu in enumerate(machine.gpus or ()):
            sets.setdefault(id(gpu), (gpu, []))[1].append((machine, number))
    for place, name in enumerate(gpu_fields()):
        by_value: dict[Value, list[_Owner]] = {}
        for gpu, owners in sets.values():
            if leaf := gpu[place]:
                by_value.setdefault(leaf[0][1], []).extend(owners)
        found = judge(f"gpus.{name}", {value: len(owners) for value, owners in by_value.items()})
        if found is not None and found.odd:
            by = source or f"{found.having} of {count(found.known, 'GPU')} in nodes with {kin.hardware}"
            odd = [(value, by_value[value]) for value in found.odd]
            yield from _told_of_gpus(f"gpus.{name}", found, odd, kind, by)


def _told_of_gpus(
    identity: str,
    found: Usual,
    odd: list[tuple[Value, list[_Owner]]],
    kind: Literal["difference", "baseline"],
    source: str,
) -> Iterator[Difference]:
    field, expected = compared(identity), short(found.value.text, _LONG)
    label = "model of a GPU" if identity == "gpus.name" else f"{field.label} of a GPU"
    apart = len(odd) <= SEVERAL
    for told in [[one] for one in odd] if apart else [odd]:
        value = told[0][0] if apart else None
        title, text = _title(label, value, expected, kind), value.text if value else ""
        members = tuple(_gpus_of(field.label, told))
        yield Difference(
            identity, kind, field.layer, title, expected, source, members, field.group, field.observed, value=text
        )


def _gpus_of(label: str, told: list[tuple[Value, list[_Owner]]]) -> Iterator[tuple[Machine, str]]:
    """Each node with the numbers of its GPUs: "GPU 3: PCIe width 8 lanes"."""
    by_node: dict[str, tuple[Machine, dict[str, list[int]]]] = {}
    for value, owners in told:
        for machine, number in owners:
            by_node.setdefault(machine.name, (machine, {}))[1].setdefault(value.text, []).append(number)
    for machine, found in by_node.values():
        texts = []
        for text, numbers in found.items():
            every = len(numbers) == len(machine.gpus or ()) > 1
            which = f"all {len(numbers)} GPUs" if every else f"GPU {', '.join(map(str, sorted(numbers)))}"
            texts.append(f"{which}: {label} {short(text, _LONG)}")
        yield machine, "; ".join(texts)


def rank(layer: str) -> int:
    """Place of a layer in the stack, from the hardware up."""
    return LAYERS.index(layer) if layer in LAYERS else len(LAYERS)
