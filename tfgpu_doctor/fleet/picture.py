"""Nodes → the fleet: what most have in common, groups of nodes with the same problem, the verdict. Pure.

gathered = read_fleet(["reports/"])
fleet = judge_fleet(gathered, matrix, now())

Siblings are nodes with the same GPUs. A value is usual where at least three of them have it, and two of three that know
theirs. Another one is odd where at most one of ten has it, and of few siblings up to two: what more have is a second
kind of machines, or a change on its way through the fleet, and no mistake. Many different values, which together are
more than one of ten, vary by nature.

A run is slow where it lies more than k = 5 scaled MADs below the median of its siblings: same card, workload, type and
parameters. The scaled MAD (1.4826 times the median of the distances from the median) is that of a normal distribution,
and half of the runs can be odd without moving it. It is taken as at least 1 % of the median: results that are nearly
alike make no alarm of noise. So nothing is slow that is not 5 % below the median. Of a million runs of healthy nodes at
most 613 are called slow, and a node that is 20 % slower is found in 91 to 100 % of fleets (simulated:
benchmarks/fleet_alarms.py, with its results for k from 3 to 8).

Where two things are seen on exactly the same nodes, one may explain the other: a finding explains differences, what
lies lower in the stack explains what lies higher, and what somebody can change explains what follows from it. On one or
two nodes that can be chance, so there only what belongs together is put together: one layer, one act, or what follows.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from statistics import median, median_low
from typing import NamedTuple

from msgspec.structs import replace

from tfgpu_doctor import __version__
from tfgpu_doctor.compare.differences import entries, short
from tfgpu_doctor.facts.facts import about
from tfgpu_doctor.facts.printable import cut
from tfgpu_doctor.facts.report import FailOn, Finding, Fix, Severity, Tool, exit_status, failing
from tfgpu_doctor.facts.units import approximate, count, quantity
from tfgpu_doctor.fleet.nodes import (
    ABSENT,
    NO_GPU,
    SEVERITIES,
    UNKNOWN,
    Machine,
    Speed,
    Value,
    compared,
    gpu_fields,
    machines,
    paths,
    rank,
)
from tfgpu_doctor.fleet.reading import Gathered
from tfgpu_doctor.fleet.records import SCHEMA, Common, Fleet, Group, Kind, Member, Verdict
from tfgpu_doctor.fleet.records import Value as Shown
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.gate import admitted

LEAST, SHARE, RARE = 3, 2 / 3, 0.1
_MANY = 30  # nodes, of which none but an odd one lacks by chance what others have now and then
_FEW = 2  # odd ones that are more than one of ten, where few are compared; more of them are no chance
_SEVERAL = 5  # odd values; with more of them, one group is made for all
_LONG = 200  # characters of a value, of which only the difference is shown
_MISSING = Value(ABSENT)
_PYTHON = re.compile(r"\S*/bin/python[\d.]*")
# what leads where several are of the same nodes, and what is shown first
_ORDER: tuple[Kind, ...] = ("finding", "difference", "speed")
_WHY: dict[Kind, str] = {
    "difference": "nodes of one kind should be alike: what differs is a mistake, a defect or a change half done",
    "speed": "jobs on several nodes wait for the slowest one",
}


def judge_fleet(gathered: Gathered, matrix: Matrix, created: str) -> Fleet:
    """Compare the nodes.

    Args:
        gathered: what `read_fleet` read.
        matrix: that this version has, which repairs are held against; the reports were judged by that of their own.
        created: the time, as reports have it.
    """
    found, notes = machines(gathered.results)
    every = _explained([*_findings(found), *_together([*_differences(found), *_slow(found)])])
    facts = {one.name: one.main.facts for one in found}
    order = {name: number for number, name in enumerate(facts)}
    worst_first = sorted(every, key=lambda x: (_gravity(x), _ORDER.index(x.kind), -len(x.nodes), rank(x.layer), x.id))
    groups = []
    for one in worst_first:  # with its nodes in order, and with the repairs that hold for the first one
        nodes = tuple(sorted(one.nodes, key=lambda member: order[member.node]))
        groups.append(replace(one, nodes=nodes, fixes=admitted(one.fixes, facts[nodes[0].node], matrix)))
    common = tuple(sorted(_common(found), key=lambda row: rank(row.layer)))
    severities = {one.severity for one in groups}
    is_known = all(result.verdict != "unknown" for one in found for result in one.results)
    verdict: Verdict = "ok" if found and not gathered.unreadable and is_known else "unknown"
    if severities & {Severity.ERROR, Severity.WARNING}:
        verdict = "broken" if Severity.ERROR in severities else "degraded"
    return Fleet(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        verdict=verdict,
        results=len(gathered.results),
        common=common,
        groups=tuple(groups),
        nodes=tuple(one.node() for one in found),
        unreadable=tuple(gathered.unreadable),
        notes=(*notes, *_versions(found)),
    )


def exit_code(fleet: Fleet, fail_on: FailOn) -> int:
    """Return 1 where a group is at or above `fail_on`; 3 where something could not be determined; else 0."""
    is_failed = any(group.severity in failing(fail_on) for group in fleet.groups)
    is_unknown = any(node.verdict == "unknown" for node in fleet.nodes)
    return exit_status(fail_on, is_failed, bool(fleet.unreadable) or not fleet.nodes or is_unknown)


def _versions(found: tuple[Machine, ...]) -> Iterator[str]:
    """Yield a note: reports of several versions may differ for that reason alone."""
    counts = Counter(result.version for one in found for result in one.results if result.version)
    if len(counts) > 1:
        several = ", ".join(f"{version} ({many})" for version, many in counts.most_common(5))
        yield f"the results were written by several versions of tfgpu, which find different things: {several}"


# ------------------------------------------------------------------------------------------------- what most nodes have

_MOST_SHOWN, _LONGEST = 5, 120  # values of a row, and characters of one
_TOO_LONG = frozenset({"host.cpu_flags", "cuda.xla_roots", "cuda.libdevice", "cuda.ptxas"})
_PACKAGES = ("tensorflow", "keras", "numpy", "protobuf", "nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12")


def _common(machines: tuple[Machine, ...]) -> Iterator[Common]:
    """Yield the rows of the picture; facts that no node knows are left out, and of packages those that matter less."""
    facts = [path for path in paths() if path not in _TOO_LONG and not about(path).key]
    packages, fields = (f"python.packages.{one}" for one in _PACKAGES), (f"gpus.{one}" for one in gpu_fields())
    for name in ("gpus", *facts, *packages, *fields):
        known = [texts for one in machines if (texts := _texts(one, name))] if name != "gpus.name" else []
        counts = Counter(text for texts in known for text in texts)  # a node counts for each value of its GPUs
        most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[:_MOST_SHOWN]
        if known:
            yield Common(
                id=name,
                layer=compared(name).layer,
                label=compared(name).label + " of GPUs" * name.startswith("gpus."),
                values=tuple(Shown(value=short(text, _LONGEST), nodes=many) for text, many in most),
                distinct=len(counts),
                known=len(known),
            )


def _texts(machine: Machine, identity: str) -> set[str]:
    """Return what a node has of a fact, or its GPUs of a field; nothing: it is unknown."""
    if identity == "gpus":
        return {machine.main.hardware}
    if identity.startswith("gpus."):
        return {gpu[identity].text for gpu in machine.main.gpus or () if identity in gpu}
    values = machine.main.values.get(compared(identity).path)
    return set() if values is None else {values.get(identity, _MISSING).text}


# ------------------------------------------------------------------------------------------------------------- findings


def _findings(machines: Iterable[Machine]) -> Iterator[Group]:
    """Yield what nodes found themselves."""
    by_id: dict[str, list[tuple[Machine, Finding]]] = {}
    for machine in machines:
        for one in machine.findings:
            by_id.setdefault(one.id, []).append((machine, one))
    for identity, several in by_id.items():
        title = Counter(one.title for _, one in several).most_common(1)[0][0]
        (repair, many), *others = Counter(_repair(one) for _, one in several).most_common(2)
        note = f"the repair is that of {many} of {count(len(several), 'node')}; the others need another one"
        # first the nodes whose repair it is, which is held against what is known of the first
        several.sort(key=lambda one: _repair(one[1]) != repair)
        yield Group(
            id=cut(identity, 100),
            kind="finding",
            severity=min((one.severity for _, one in several), key=SEVERITIES.index),
            layer=_layer(identity),
            title=cut(title, 300),
            expected="",
            source=note if others else "",
            cause=several[0][1].cause,
            nodes=tuple(Member(node=machine.name, found=_saw(one, title)) for machine, one in several),
            fixes=several[0][1].fixes,
        )


def _repair(finding: Finding) -> tuple[tuple[str, ...], ...]:
    """Return what its fixes do, wherever the Python of the node lies."""
    return tuple((one.text, *(_PYTHON.sub("python", command) for command in one.commands)) for one in finding.fixes)


def _saw(finding: Finding, title: str) -> str:
    """Return what was seen on a node; its title where that is another one than that of the group."""
    saw = finding.evidence[0].saw if finding.evidence and finding.title == title else ""
    return cut(saw or finding.title, 300)


def _layer(identity: str) -> str:
    """Return the layer of a finding; "Machine" where this version does not know it."""
    if identity.startswith("smoke.") or "/" in identity:
        return "Compute"
    from tfgpu_doctor.findings.catalogue import DECLARATIONS  # 0.2 s, which a healthy fleet need not spend

    return DECLARATIONS[identity].layer if identity in DECLARATIONS else "Machine"


# ------------------------------------------------------------------------------------------------------ differences

Holders = dict[Machine, list[int]]  # who has a value, with the numbers of its GPUs


class Usual(NamedTuple):
    """What most have, and what is odd beside it."""

    value: Value
    having: int  # of those, or one that is near
    known: int
    odd: frozenset[Value]
    varies: bool  # not all but odd ones have the same


def usual(counts: Mapping[Value, int], tolerance: float = 0.0) -> Usual | None:
    """Return what most have, and of numbers with a tolerance the middle; None where nothing is usual."""
    known = sum(counts.values())
    most = _most(counts, tolerance)
    near = {one for one in counts if _is_near(one, most, tolerance)}
    having = sum(counts[one] for one in near)
    if having < LEAST or having < SHARE * known:
        return None
    limit = rare(known, having)
    odd = frozenset(one for one in counts if one not in near and counts[one] <= limit)
    if len(odd) > _SEVERAL and sum(counts[one] for one in odd) > limit:
        odd = frozenset()
    return Usual(most, having, known, odd, having + sum(counts[one] for one in odd) < known)


def _most(counts: Mapping[Value, int], tolerance: float) -> Value:
    numbers = {one.number: one for one in counts if one.number is not None}
    if tolerance and len(numbers) == len(counts) > 0:
        return numbers[median_low([number for number, one in numbers.items() for _ in range(counts[one])])]
    return max(counts, key=lambda one: (counts[one], one.text), default=_MISSING)


def _is_near(one: Value, other: Value, tolerance: float) -> bool:
    """Return whether two values count as the same."""
    if one.number is None or other.number is None:
        return one.text == other.text
    return abs(one.number - other.number) <= tolerance * max(abs(one.number), abs(other.number))


def rare(known: int, having: int) -> float:
    """Return how many may have an odd value, of so many that know theirs, where `having` have the usual one."""
    return max(RARE * known, min(_FEW, having / LEAST))


class Siblings:
    """Nodes of one kind of hardware, with those whose GPUs are others, or fewer."""

    def __init__(self, hardware: str, members: list[Machine], odd: list[Machine]) -> None:
        self.hardware, self.members, self.odd = hardware, members, odd
        self.table: dict[str, dict[Value, Holders]] = defaultdict(lambda: defaultdict(dict))
        for machine in members:
            for identity, value in (pair for values in machine.main.values.values() for pair in values.items()):
                self.table[identity][value][machine] = []
            for number, gpu in enumerate(machine.main.gpus or ()):
                for identity, value in gpu.items():
                    self.table[identity][value].setdefault(machine, []).append(number)
        self.usual = {identity: self._usual(identity, holders) for identity, holders in self.table.items()}

    def _usual(self, identity: str, holders: dict[Value, Holders]) -> Usual | None:
        if about(path := compared(identity).path).key:  # nodes that know a collection, and lack an element of it
            having = set[Machine]().union(*holders.values())
            if lacking := [one for one in self.members if one not in having and path in one.main.values]:
                holders[_MISSING] = {one: [] for one in lacking}
        counts = {value: sum(len(numbers) or 1 for numbers in those.values()) for value, those in holders.items()}
        return usual(counts, compared(identity).tolerance)

    def varies(self, identity: str) -> bool:
        """True if not all but odd ones have the same."""
        found = self.usual.get(identity)
        return identity in self.table and (found is None or found.varies)

    def odd_values(self, others: list[Siblings]) -> dict[str, Usual]:
        """Return what few of them have, by id."""
        odd: dict[str, Usual] = {}
        own: dict[str, set[Machine]] = {}  # nodes with an element that few have, by collection
        for identity, found in self.usual.items():
            if found is None:
                continue
            values = found.odd
            if found.known < _MANY and not identity.startswith("gpus."):
                # of six nodes five may have by chance a package that half of the nodes of other kinds have
                values = values.difference(*(one.table[identity] for one in others if one.varies(identity)))
            odd |= {identity: found._replace(odd=values)} if values else {}
            if found.value == _MISSING:
                own.setdefault(compared(identity).path, set()).update(*(self.table[identity][one] for one in values))
        # what too many nodes have of their own is what these nodes are like
        own = {path: nodes for path, nodes in own.items() if len(nodes) > rare(len(self.members), len(self.members))}
        return {id_: one for id_, one in odd.items() if one.value != _MISSING or compared(id_).path not in own}


def _siblings(machines: Iterable[Machine]) -> list[Siblings]:
    """Return the kinds of hardware, the most frequent first; few nodes with GPUs missing join those they look like."""
    kinds: dict[str, list[Machine]] = {}
    for one in machines:
        kinds.setdefault(one.main.hardware, []).append(one)
    answered = sum(map(len, kinds.values()))
    found: dict[str, tuple[list[Machine], list[Machine]]] = {}
    for hardware, own in sorted(kinds.items(), key=lambda one: (-len(one[1]), one[0])):
        for other, (members, odd) in found.items():
            few = len(members) >= LEAST and len(own) <= rare(len(own) + len(members), len(members))
            alike = bool(own[0].models & members[0].models)
            if hardware in (UNKNOWN, NO_GPU):
                alike = len(members) >= SHARE * answered
            if few and alike and other not in (UNKNOWN, NO_GPU):
                members += own
                odd += own if hardware != UNKNOWN else []
                break
        else:
            found[hardware] = list(own), []
    return [Siblings(hardware, members, odd) for hardware, (members, odd) in found.items()]


def _differences(machines: tuple[Machine, ...]) -> Iterator[Group]:
    """Yield what nodes have that their siblings do not have."""
    every = _siblings(machines)
    for kin in every:
        for identity, found in kin.odd_values([one for one in every if one is not kin]).items():
            yield from _differing(kin, identity, found)
        like = f"{len(kin.members) - len(kin.odd)} of {count(len(kin.members), 'node')} like them"
        for hardware in dict.fromkeys(one.main.hardware for one in kin.odd):
            saw = {one: [hardware] for one in kin.odd if one.main.hardware == hardware}
            yield _odd("gpus", f"GPUs: {hardware} instead of {kin.hardware}", saw, kin.hardware, like)


def _odd(
    identity: str, title: str, saw: Mapping[Machine, list[str]], expected: str, source: str, kind: Kind = "difference"
) -> Group:
    """Return the group of nodes that have another value than is expected."""
    advice = _SLOW if kind == "speed" else _REPAIRS.get(identity)
    return Group(
        id=identity,
        kind=kind,
        severity=Severity.WARNING,
        layer="Compute" if kind == "speed" else compared(identity).layer,
        title=title,
        expected=expected,
        source=source,
        cause=_WHY[kind],
        nodes=tuple(Member(node=machine.name, found="; ".join(texts)) for machine, texts in saw.items()),
        fixes=(Fix(text=advice[0], commands=advice[1:]),) if advice else (),
    )


def _differing(kin: Siblings, identity: str, found: Usual) -> Iterator[Group]:
    """Yield a difference for each odd value; one for all of them where there are many."""
    label, expected, usually = compared(identity).label, found.value.text, short(found.value.text, _LONG)
    name, source = label, f"{found.having} of {count(found.known, 'node')} with {kin.hardware}"
    if identity.startswith("gpus."):
        name = "model of a GPU" if identity == "gpus.name" else f"{name} of a GPU"
        source = f"{found.having} of {count(found.known, 'GPU')} in nodes with {kin.hardware}"
    odd, is_one = sorted(found.odd), len(found.odd) <= _SEVERAL
    for values in [[one] for one in odd] if is_one else [odd]:
        title = _title(name, values[0].text, expected) if is_one else f"{name}: other than {usually}"
        seen: dict[Machine, list[str]] = {}
        for one in values:
            for machine, numbers in kin.table[identity][one].items():
                seen.setdefault(machine, []).append(_seen(machine, numbers, label, one.text, expected))
        # a version by itself could be an address
        shown = f"{label} {usually}" if identity.startswith("python.packages.") else usually
        yield _odd(identity, title, seen, shown, source)


def _title(label: str, value: str, expected: str) -> str:
    if value == ABSENT:
        return f"{label} is missing"
    if expected == ABSENT:
        return f"{label} {short(value, _LONG)}, which others do not have"
    title = _entries(label, value, expected) or f"{label} {value} instead of {expected}"
    return title if len(title) <= _LONG else f"{label}: other than usual"  # both stand below it


def _seen(machine: Machine, numbers: list[int], label: str, value: str, expected: str) -> str:
    """Return what a node has, with the numbers of its GPUs: "GPU 3: PCIe width 8 lanes"."""
    text = _entries(label, value, expected) or f"{label} {short(value, _LONG)}"
    if not numbers:
        return text
    every = len(numbers) == len(machine.main.gpus or ()) > 1
    return f"all {len(numbers)} GPUs: {text}" if every else f"GPU {', '.join(map(str, numbers))}: {text}"


def _entries(label: str, value: str, expected: str) -> str:
    """Return how a list differs that is long, or that has more than it should; "" of other values."""
    before, now = expected.split(", "), value.split(", ")
    if set(now) > set(before):
        return f"{label}: also {short(', '.join(one for one in now if one not in before), _LONG)}"
    return short(entries(label, before, now, ", "), 2 * _LONG) if min(len(value), len(expected)) > _LONG else ""


# ------------------------------------------------------------------------------------------------------------ speeds

MADS = 5.0
_RUNS = 5  # that are compared, at least
_SCALE = 1.4826  # of a MAD, to a standard deviation
_FLOOR, LEAST_LOSS = 0.01, 0.03  # of the median: the smallest scaled MAD, and the smallest loss


def centre(values: list[float]) -> tuple[float, float]:
    """Return the median, and the scaled MAD with its floor."""
    middle = median(values)
    return middle, max(_SCALE * median(abs(one - middle) for one in values), _FLOOR * middle)


def _slow(machines: Iterable[Machine]) -> Iterator[Group]:
    """Yield runs that are slower than those of siblings; several rounds of one device count as one, by their median."""
    speeds: dict[tuple[str, Speed], dict[tuple[Machine, str], list[float]]] = {}
    for machine in machines:
        card = ", ".join(sorted(machine.models)) or NO_GPU
        for one in (speed for result in machine.results for speed in result.speeds):
            runs = speeds.setdefault((card, one._replace(value=0.0, device="")), {})
            runs.setdefault((machine, one.device), []).append(one.value)
    for (card, run), every in speeds.items():
        measured = {owner: median(several) for owner, several in every.items()}
        if len(measured) < _RUNS:
            continue
        middle, mad = centre([*measured.values()])
        slow: dict[Machine, list[str]] = {}
        for (machine, device), value in measured.items():
            far, share = (middle - value) / mad, (middle - value) / middle
            if far > MADS and share >= LEAST_LOSS:
                text = f"{quantity(value, run.unit)}, {approximate(far)} MADs ({100 * share:.0f} %) below"
                slow.setdefault(machine, []).append(f"{device}: {text}" if device else text)
        if slow:
            title = f"{run.workload} on {run.label} in {run.dtype} is slower than elsewhere"
            source = f"median of {count(len(measured), 'run')} on {card}"
            identity = f"{run.workload}/{run.label}/{run.dtype}"
            yield _odd(identity, title, slow, quantity(middle, run.unit), source, "speed")


# --------------------------------------------------------------------------------------------------------------- groups


def _together(found: list[Group]) -> Iterator[Group]:
    """Join the same difference of siblings of several kinds, where the same is expected of them."""
    by_key: dict[tuple[str, str, str, str], list[Group]] = {}
    for one in found:
        by_key.setdefault((one.id, one.kind, one.title, one.expected), []).append(one)
    for several in by_key.values():
        nodes = tuple(member for one in several for member in one.nodes)
        sources = ", ".join(dict.fromkeys(one.source for one in several))
        yield replace(several[0], nodes=nodes, source=sources)


def _explained(every: list[Group]) -> Iterator[Group]:
    """Put groups of the same nodes under the leading one."""
    by_nodes: dict[frozenset[str], list[Group]] = {}
    for one in every:
        by_nodes.setdefault(frozenset(member.node for member in one.nodes), []).append(one)
    for several in by_nodes.values():
        left = sorted(several, key=lambda x: (_is_observed(x), _ORDER.index(x.kind), _gravity(x), rank(x.layer)))
        while left:
            leader, *rest = left
            below = [one for one in rest if _explains(leader, one)]
            left = [one for one in rest if one not in below]
            yield replace(leader, explains=tuple(dict.fromkeys(one.id for one in below if one.id != leader.id)))


def _explains(leader: Group, other: Group) -> bool:
    """True if the group that leads accounts for another one of the same nodes."""
    if other.kind == "finding":  # of two findings, the doctor would have said so
        return leader.kind != "finding" and leader.layer == other.layer
    if leader.layer == other.layer or _is_observed(other) or compared(leader.id).act == compared(other.id).act:
        return True
    return len(leader.nodes) > _FEW and rank(leader.layer) <= rank(other.layer)


def _is_observed(one: Group) -> bool:
    """True if it follows from something else."""
    return one.kind == "speed" or (one.kind == "difference" and compared(one.id).observed)


def _gravity(one: Group) -> int:
    return SEVERITIES.index(one.severity)


# What a finding advises stands with the finding; here is what to look at for differences that no finding explains: what
# to do, and commands. Options of nvidia-smi: its manual, https://docs.nvidia.com/deploy/nvidia-smi/index.html
_SLOW = (
    "Look for heat, a power limit or low clocks while it computes",
    "nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,CLOCK",
)
_LINK = ("See the link; reseat the GPU or its riser where it has fewer lanes than expected", "nvidia-smi -q")
_ERRORS = (
    "Check the error counters and the kernel's log; drain and restart the node, and replace the GPU if they return",
    "nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT",
    "sudo dmesg | grep -iE 'NVRM|Xid' | tail -n 20",
)
_PRESENT = ("Compare the GPUs on the PCI bus with those that the driver lists", "lspci -d 10de:", "nvidia-smi -L")
_REPAIRS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gpus", "gpus.name"), _PRESENT),
    "gpus.sm_clock_max": ("Undo clocks that were locked", "sudo nvidia-smi -rgc"),
    "gpus.memory_clock_max": ("Undo clocks that were locked", "sudo nvidia-smi -rmc"),
    **dict.fromkeys(("gpus.pcie_width", "gpus.pcie_width_max", "gpus.pcie_generation_max"), _LINK),
    **dict.fromkeys(("gpus.ecc_uncorrected", "gpus.remapped_rows_pending", "gpus.remapped_rows_failed"), _ERRORS),
    **dict.fromkeys(("gpus.memory_total", "driver.xid_events"), _ERRORS),
}
