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

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import accumulate
from statistics import median
from typing import NamedTuple

from tfgpu_doctor import __version__
from tfgpu_doctor.compare.differences import entries, short
from tfgpu_doctor.facts.facts import about
from tfgpu_doctor.facts.printable import cut
from tfgpu_doctor.facts.report import (
    EXIT_OK,
    EXIT_PROBLEM,
    EXIT_UNKNOWN,
    FailOn,
    Finding,
    Fix,
    Severity,
    Tool,
    failing,
)
from tfgpu_doctor.facts.units import approximate, count, quantity
from tfgpu_doctor.fleet.nodes import (
    ABSENT,
    NO_GPU,
    UNKNOWN,
    Machine,
    Speed,
    Value,
    compared,
    gpu_fields,
    label,
    machines,
    path_of,
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
_GRAVITY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
# what leads where several are of the same nodes, and what is shown first
_ORDER: tuple[Kind, ...] = ("no answer", "finding", "difference", "speed")
_WHY: dict[Kind, str] = {
    "difference": "nodes of one kind should be alike: what differs is a mistake, a defect or a change half done",
    "speed": "jobs on several nodes wait for the slowest one",
}


@dataclass(frozen=True)
class Problem:
    """Nodes with the same problem: another value than expected, a slow run, or a finding."""

    id: str
    kind: Kind
    layer: str
    title: str
    members: dict[Machine, str]  # with what was found on them
    expected: str = ""
    source: str = ""
    act: str = ""  # what one act changes together
    observed: bool = False  # it follows from something else
    value: str = ""  # that all of them have; empty: each its own
    cause: str = ""
    severity: Severity = Severity.WARNING
    fixes: tuple[Fix, ...] = ()
    explains: tuple[str, ...] = ()


def judge_fleet(gathered: Gathered, matrix: Matrix, created: str) -> Fleet:
    """Compare the nodes.

    Args:
        gathered: what `read_fleet` read.
        matrix: that this version has, which repairs are held against; the reports were judged by that of their own.
        created: the time, as reports have it.
    """
    found, notes = machines(gathered.results)
    answered = tuple(one for one in found if one.main.kind)
    problems = [*_findings(found), *_together([*_differences(answered), *_slow(answered)])]
    order = {machine: number for number, machine in enumerate(found)}
    groups = tuple(_group(one, order, matrix) for one in sorted(_explained(problems), key=_badness))
    return Fleet(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        verdict=_verdict(groups, found, readable=not gathered.unreadable),
        results=sum(one.kind is not None for one in gathered.results),
        common=tuple(sorted(_common(answered), key=lambda row: rank(row.layer))),
        groups=groups,
        nodes=tuple(one.node() for one in found),
        unreadable=gathered.unreadable,
        notes=(*notes, *_versions(found)),
    )


def exit_code(fleet: Fleet, fail_on: FailOn) -> int:
    """Return 1 where a group is at or above `fail_on`; 3 where something could not be determined; else 0."""
    if fail_on == "never":
        return EXIT_OK
    if any(group.severity in failing(fail_on) for group in fleet.groups):
        return EXIT_PROBLEM
    unknown = any(node.verdict == "unknown" for node in fleet.nodes)
    return EXIT_UNKNOWN if fleet.unreadable or not fleet.nodes or unknown else EXIT_OK


def _verdict(groups: tuple[Group, ...], found: tuple[Machine, ...], *, readable: bool) -> Verdict:
    severities = {one.severity for one in groups}
    if Severity.ERROR in severities:
        return "broken"
    if Severity.WARNING in severities:
        return "degraded"
    is_known = all(result.verdict != "unknown" for one in found for result in one.results)
    return "ok" if found and readable and is_known else "unknown"


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
    if machines:
        yield _row("gpus", "GPUs", Counter(one.main.hardware for one in machines))
    elements = {"python.packages": [f"python.packages.{package}" for package in _PACKAGES]}
    shown = (elements.get(path, [path]) for path in paths() if path in elements or not about(path).key)
    for name in (name for names in shown for name in names if name not in _TOO_LONG):
        known = [values for one in machines if (values := one.main.values.get(path_of(name))) is not None]
        if known:
            yield _row(name, label(name), Counter(one.get(name, _MISSING).text for one in known))
    yield from _common_of_gpus(machines)


def _common_of_gpus(machines: tuple[Machine, ...]) -> Iterator[Common]:
    for name in (f"gpus.{one}" for one in gpu_fields() if one != "name"):
        sets = [{gpu[name].text for gpu in one.main.gpus or () if name in gpu} for one in machines]
        if known_by := sum(map(bool, sets)):  # a node counts for each value
            yield _row(name, f"{label(name)} of GPUs", Counter(one for texts in sets for one in texts), known_by)


def _row(identity: str, label: str, values: Counter[str], known: int | None = None) -> Common:
    most = sorted(values.items(), key=lambda one: (-one[1], one[0]))[:_MOST_SHOWN]
    return Common(
        id=identity,
        layer=compared(identity).layer,
        label=label,
        values=tuple(Shown(value=short(text, _LONGEST), nodes=many) for text, many in most),
        distinct=len(values),
        known=sum(values.values()) if known is None else known,
    )


# ------------------------------------------------------------------------------------------------------------- findings


def _findings(machines: Iterable[Machine]) -> Iterator[Problem]:
    """Yield what nodes found themselves, and that they gave no answer."""
    by_id: dict[str, list[tuple[Machine, Finding]]] = {}
    for machine in machines:
        for one in machine.findings:
            by_id.setdefault(one.id, []).append((machine, one))
    for identity, several in by_id.items():
        title = Counter(one.title for _, one in several).most_common(1)[0][0]
        (fixes, many), *others = Counter(one.fixes for _, one in several).most_common(2)
        note = f"the repair is that of {many} of {count(len(several), 'node')}; the others need another one"
        # first the nodes whose repair it is, which is held against what is known of the first
        several.sort(key=lambda one: one[1].fixes != fixes)
        silent = identity == "no-answer"
        yield Problem(
            id=cut(identity, 100),
            kind="no answer" if silent else "finding",
            severity=min((one.severity for _, one in several), key=_GRAVITY.__getitem__),
            layer=_layer(identity),
            title=cut(title, 300),
            expected="a result" if silent else "",
            source=note if others else "",
            cause=several[0][1].cause,
            members={machine: _saw(one, title) for machine, one in several},
            fixes=fixes,
            act=identity.partition(".")[0],
        )


def _saw(finding: Finding, title: str) -> str:
    """Return what was seen on a node; its title where that is another one than that of the group."""
    saw = finding.evidence[0].saw if finding.evidence and finding.title == title else ""
    return cut(saw or finding.title, 300)


def _layer(identity: str) -> str:
    """Return the layer of a finding; that of its family where this version does not know it."""
    family = identity.partition(".")[0]
    if family == "smoke" or "/" in identity:
        return "Compute"
    from tfgpu_doctor.findings.catalogue import DECLARATIONS  # 0.2 s, which a healthy fleet need not spend

    alike = (one for one in DECLARATIONS.values() if one.id.startswith(f"{family}."))
    found = DECLARATIONS.get(identity) or next(alike, None)
    return found.layer if found else "Machine"


# ---------------------------------------------------------------------------------------------------- what is usual


class Usual(NamedTuple):
    """What most have, and what is odd beside it."""

    value: Value
    having: int  # of those, or one that is near
    known: int
    odd: frozenset[Value]


def usual(counts: Mapping[Value, int], tolerance: float = 0.0) -> Usual | None:
    """Return what most have, and of numbers with a tolerance the middle; None where nothing is usual."""
    known = sum(counts.values())
    most = max(counts, key=lambda one: (counts[one], one.text), default=_MISSING)
    if tolerance and all(one.number is not None for one in counts):
        most = _middle(counts, known)
    near = {one for one in counts if _is_near(one, most, tolerance)}
    having = sum(counts[one] for one in near)
    if having < LEAST or having < SHARE * known:
        return None
    limit = rare(known, having)
    odd = frozenset(one for one in counts if one not in near and counts[one] <= limit)
    if len(odd) > _SEVERAL and sum(counts[one] for one in odd) > limit:
        odd = frozenset()
    return Usual(most, having, known, odd)


def _middle(counts: Mapping[Value, int], known: int) -> Value:
    """Return the median of numbers, each as often as it is there."""
    ordered = sorted(counts, key=lambda one: one.number or 0.0)
    until = accumulate(counts[one] for one in ordered)
    return next(one for one, below in zip(ordered, until, strict=True) if 2 * below >= known)


def rare(known: int, having: int) -> float:
    """Return how many may have an odd value, of so many that know theirs, where `having` have the usual one."""
    return max(RARE * known, min(_FEW, having / LEAST))


def _is_near(one: Value, other: Value, tolerance: float) -> bool:
    """Return whether two values count as the same."""
    if one.number is None or other.number is None or not tolerance:
        return one.text == other.text
    return abs(one.number - other.number) <= tolerance * max(abs(one.number), abs(other.number))


# --------------------------------------------------------------------------------------------------------- siblings


@dataclass
class Siblings:
    """Nodes of one kind of hardware."""

    hardware: str  # that most of them have
    members: list[Machine]
    odd: list[Machine] = field(default_factory=list)  # of them, those whose GPUs are others, or fewer

    @cached_property
    def table(self) -> dict[str, dict[Value, dict[Machine, list[int]]]]:
        """Who has which value, by id, with the numbers of its GPUs; nodes that do not know a fact are left out."""
        table: dict[str, dict[Value, dict[Machine, list[int]]]] = defaultdict(lambda: defaultdict(dict))
        for machine in self.members:
            for identity, value in (pair for values in machine.main.values.values() for pair in values.items()):
                table[identity][value][machine] = []
            for number, gpu in enumerate(machine.main.gpus or ()):
                for identity, value in gpu.items():
                    table[identity][value].setdefault(machine, []).append(number)
        for identity, by_value in table.items():
            if missing := self._lacking(path_of(identity), by_value.values()):
                by_value[_MISSING] = missing
        return table

    def _lacking(self, path: str, held: Iterable[Mapping[Machine, list[int]]]) -> dict[Machine, list[int]]:
        """The nodes that know a collection, and do not have an element of it."""
        if not about(path).key:
            return {}
        having = set[Machine]().union(*held)
        return {one: [] for one in self.members if one not in having and path in one.main.values}

    def having(self, identity: str, values: Iterable[Value]) -> set[Machine]:
        """Return the nodes that have one of these values."""
        return set[Machine]().union(*(self.table[identity][value] for value in values))

    @cached_property
    def counts(self) -> dict[str, dict[Value, int]]:
        """How many nodes or GPUs have which value, by id."""
        return {
            identity: {value: sum(len(numbers) or 1 for numbers in holders.values()) for value, holders in rows.items()}
            for identity, rows in self.table.items()
        }

    @cached_property
    def usual(self) -> dict[str, Usual | None]:
        """What is usual among them, by id."""
        return {identity: usual(counts, compared(identity).tolerance) for identity, counts in self.counts.items()}

    def varies(self, identity: str) -> bool:
        """True if not all but odd ones have the same."""
        if identity not in self.table:
            return False
        most = self.usual[identity]
        return most is None or most.having + sum(self.counts[identity][one] for one in most.odd) < most.known


def siblings(machines: Iterable[Machine]) -> list[Siblings]:
    """Return the kinds of hardware, the most frequent first; few nodes with GPUs missing join those they look like."""
    kinds: dict[str, list[Machine]] = {}
    for one in machines:
        kinds.setdefault(one.main.hardware, []).append(one)
    found: list[Siblings] = []
    answered = sum(map(len, kinds.values()))
    for hardware, own in sorted(kinds.items(), key=lambda one: (-len(one[1]), one[0])):
        near = None
        for other in found:
            there = len(other.members)
            alike = own[0].models & other.members[0].models
            if hardware in (UNKNOWN, NO_GPU):
                alike = frozenset() if there < SHARE * answered else frozenset({hardware})
            few = there >= LEAST and len(own) <= rare(len(own) + there, there)
            if alike and few and other.hardware not in (UNKNOWN, NO_GPU):
                near = other
                break
        if near is None:
            found.append(Siblings(hardware, list(own)))
        else:
            near.members += own
            near.odd += own if hardware != UNKNOWN else []
    return found


# ------------------------------------------------------------------------------------------------------ differences


def _differences(machines: tuple[Machine, ...]) -> Iterator[Problem]:
    """Yield what nodes have that their siblings do not have."""
    every = siblings(machines)
    for kin in every:
        for identity, found in _odd(kin, every).items():
            yield from _differing(kin, identity, found)
        like = f"{len(kin.members) - len(kin.odd)} of {count(len(kin.members), 'node')} like them"
        for hardware in dict.fromkeys(one.main.hardware for one in kin.odd):
            members = [one for one in kin.odd if one.main.hardware == hardware]
            title, saw = f"GPUs: {hardware} instead of {kin.hardware}", dict.fromkeys(members, hardware)
            yield _difference("gpus", title, saw, kin.hardware, like, hardware)


def _difference(
    identity: str, title: str, members: dict[Machine, str], expected: str, source: str, value: str
) -> Problem:
    about_it = compared(identity)
    act, observed = about_it.act, about_it.observed
    return Problem(identity, "difference", about_it.layer, title, members, expected, source, act, observed, value)


def _odd(kin: Siblings, every: list[Siblings]) -> dict[str, Usual]:
    """Return what few siblings have, by id."""
    odd: dict[str, Usual] = {}
    own: dict[str, set[str]] = {}  # elements that few have, by collection
    for identity, found in kin.usual.items():
        if found is None:
            continue
        values = found.odd
        if found.known < _MANY and not identity.startswith("gpus."):
            # of six nodes five may have by chance a package that half of the nodes of other kinds have
            others = (one for one in every if one is not kin and one.varies(identity))
            values = values.difference(*(one.counts[identity] for one in others))
        if values:
            odd[identity] = found._replace(odd=values)
            if found.value == _MISSING:
                own.setdefault(path_of(identity), set()).add(identity)
    for elements in own.values():
        nodes = set[Machine]().union(*(kin.having(one, odd[one].odd) for one in elements))
        if len(nodes) > rare(len(kin.members), len(kin.members)):  # that is what these nodes are like
            for one in elements:
                del odd[one]
    return odd


def _differing(kin: Siblings, identity: str, found: Usual) -> Iterator[Problem]:
    """Yield a difference for each odd value; one for all of them where there are many."""
    expected, fact_label = found.value.text, compared(identity).label
    name, of = fact_label, f"{count(found.known, 'node')} with"
    if identity.startswith("gpus."):
        name = "model of a GPU" if identity == "gpus.name" else f"{fact_label} of a GPU"
        of = f"{count(found.known, 'GPU')} in nodes with"
    source = f"{found.having} of {of} {kin.hardware}"
    odd, is_one = sorted(found.odd), len(found.odd) <= _SEVERAL
    for values in [[one] for one in odd] if is_one else [odd]:
        value = values[0].text if is_one else ""
        title = f"{name}: other than {short(expected, _LONG)}"
        if value:
            title = _title(name, value, expected)
        seen: dict[Machine, list[str]] = {}
        for one in values:
            for machine, numbers in kin.table[identity][one].items():
                seen.setdefault(machine, []).append(_seen(machine, numbers, fact_label, one.text, expected))
        members = {machine: "; ".join(texts) for machine, texts in seen.items()}
        yield _difference(identity, title, members, short(expected, _LONG), source, value)


def _title(label: str, value: str, expected: str) -> str:
    if value == ABSENT:
        return f"{label} is missing"
    if expected == ABSENT:
        return f"{label} {short(value, _LONG)}, which others do not have"
    if len(value) > _LONG and len(expected) > _LONG:
        return _entries(label, value, expected)
    return f"{label} {short(value, _LONG)} instead of {short(expected, _LONG)}"


def _seen(machine: Machine, numbers: list[int], label: str, value: str, expected: str) -> str:
    """Return what a node has, with the numbers of its GPUs: "GPU 3: PCIe width 8 lanes"."""
    if len(value) > _LONG and len(expected) > _LONG and not numbers:
        return _entries(label, value, expected)
    text = f"{label} {short(value, _LONG)}"
    if not numbers:
        return text
    every = len(numbers) == len(machine.main.gpus or ()) > 1
    return f"all {len(numbers)} GPUs: {text}" if every else f"GPU {', '.join(map(str, numbers))}: {text}"


def _entries(label: str, value: str, expected: str) -> str:
    """Return how a long list differs."""
    separator = ", " if ", " in expected else " "
    return short(entries(label, expected.split(separator), value.split(separator), separator), 2 * _LONG)


# ------------------------------------------------------------------------------------------------------------ speeds

MADS = 5.0
_RUNS = 5  # that are compared, at least
_SCALE = 1.4826  # of a MAD, to a standard deviation
_FLOOR, LEAST_LOSS = 0.01, 0.03  # of the median: the smallest scaled MAD, and the smallest loss


class Centre(NamedTuple):
    """Where the runs of siblings lie."""

    median: float
    mad: float  # scaled, and with its floor
    runs: int

    def below(self, value: float) -> tuple[float, float]:
        """Return how far a value lies below: in scaled MADs, and as a share of the median."""
        distance = self.median - value
        return distance / self.mad, distance / self.median


def centre(values: list[float]) -> Centre | None:
    """Return where values lie; None for too few of them."""
    if len(values) < _RUNS:
        return None
    middle = median(values)
    return Centre(middle, max(_SCALE * median(abs(one - middle) for one in values), _FLOOR * middle), len(values))


def _speeds(machines: Iterable[Machine]) -> dict[tuple[str, Speed], dict[tuple[Machine, str], float]]:
    """Return the speeds of nodes and devices by what can be compared: card and run, without its value.

    Several rounds of one device count as one, by their median.
    """
    found: dict[tuple[str, Speed], dict[tuple[Machine, str], list[float]]] = {}
    for machine in machines:
        card = ", ".join(sorted(machine.models)) or NO_GPU
        for one in (speed for result in machine.results for speed in result.speeds):
            runs = found.setdefault((card, one._replace(value=0.0, device="")), {})
            runs.setdefault((machine, one.device), []).append(one.value)
    return {key: {owner: median(several) for owner, several in runs.items()} for key, runs in found.items()}


def _slow(machines: tuple[Machine, ...]) -> Iterator[Problem]:
    """Yield runs that are slower than those of siblings."""
    for (card, run), measured in _speeds(machines).items():
        found = centre([*measured.values()])
        if found is None:
            continue
        slow: dict[Machine, list[str]] = {}
        for (machine, device), value in measured.items():
            far, share = found.below(value)
            if far > MADS and share >= LEAST_LOSS:
                text = f"{quantity(value, run.unit)}, {approximate(far)} MADs ({100 * share:.0f} %) below"
                slow.setdefault(machine, []).append(f"{device}: {text}" if device else text)
        if slow:
            yield Problem(
                id=f"{run.workload}/{run.label}/{run.dtype}",
                kind="speed",
                layer="Compute",
                title=f"{run.workload} on {run.label} in {run.dtype} is slower than elsewhere",
                expected=quantity(found.median, run.unit),
                source=f"median of {count(found.runs, 'run')} on {card}",
                members={machine: "; ".join(texts) for machine, texts in slow.items()},
                act="speed",
                observed=True,
            )


# --------------------------------------------------------------------------------------------------------------- groups


def _together(found: list[Problem]) -> Iterator[Problem]:
    """Join the same difference of siblings of several kinds.

    What is expected of each kind stands with the kind, since a slow H200 is faster than a good L4.
    """
    by_key: dict[tuple[str, str, str, str], list[Problem]] = {}
    for one in found:
        by_key.setdefault((one.id, one.kind, one.value, one.title), []).append(one)
    for first, *others in by_key.values():
        members = {machine: saw for one in (*others, first) for machine, saw in one.members.items()}
        sources = list(dict.fromkeys((one.expected, one.source) for one in (first, *others)))
        expected, source = first.expected, ", ".join(by for _, by in sources)
        if any(value != expected for value, _ in sources):
            expected, source = ", ".join(f"{value} ({by})" for value, by in sources), ""
        yield replace(first, members=members, expected=expected, source=source)


def _explained(every: list[Problem]) -> Iterator[Problem]:
    """Put problems that affect the same nodes under the leading one."""
    by_nodes: dict[frozenset[Machine], list[Problem]] = {}
    for one in every:
        by_nodes.setdefault(frozenset(one.members), []).append(one)
    for several in by_nodes.values():
        left = sorted(several, key=lambda x: (x.observed, _ORDER.index(x.kind), _GRAVITY[x.severity], rank(x.layer)))
        while left:
            leader, *rest = left
            below = [one for one in rest if _explains(leader, one)]
            left = [one for one in rest if one not in below]
            yield replace(leader, explains=tuple(dict.fromkeys(one.id for one in below if one.id != leader.id)))


def _explains(leader: Problem, other: Problem) -> bool:
    """Return whether the one that leads accounts for another one on the same nodes."""
    if other.kind == "finding":  # of two findings, the doctor would have said so
        return leader.kind != "finding" and leader.layer == other.layer
    if other.severity is Severity.ERROR and leader.severity is not Severity.ERROR:
        return False
    if other.act == leader.act or other.layer == leader.layer or other.observed:
        return True
    return len(leader.members) > _FEW and rank(leader.layer) <= rank(other.layer)


def _badness(one: Problem) -> tuple[int, int, int, int, str]:
    return _GRAVITY[one.severity], _ORDER.index(one.kind), -len(one.members), rank(one.layer), one.id


def _group(one: Problem, order: dict[Machine, int], matrix: Matrix) -> Group:
    return Group(
        id=one.id,
        kind=one.kind,
        severity=one.severity,
        layer=one.layer,
        title=one.title,
        # a version by itself could be an address
        expected=f"{label(one.id)} {one.expected}" if one.id.startswith("python.packages.") else one.expected,
        source=one.source,
        cause=one.cause or _WHY.get(one.kind, ""),
        nodes=tuple(Member(node=m.name, found=one.members[m]) for m in sorted(one.members, key=order.__getitem__)),
        fixes=admitted(
            one.fixes or _fixes(one),
            next(iter(one.members)).main.facts,
            matrix,
        ),
        explains=one.explains,
    )


# -------------------------------------------------------------------------------------------------------------- repairs
#
# What a finding advises stands with the finding; here is what to do about differences that no finding explains. Options
# of nvidia-smi: its manual, https://docs.nvidia.com/deploy/nvidia-smi/index.html

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
# by id: what to do, and commands
_REPAIRS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("gpus", "gpus.name"), _PRESENT),
    "gpus.sm_clock_max": ("Undo clocks that were locked", "sudo nvidia-smi -rgc"),
    "gpus.memory_clock_max": ("Undo clocks that were locked", "sudo nvidia-smi -rmc"),
    **dict.fromkeys(("gpus.pcie_width", "gpus.pcie_width_max", "gpus.pcie_generation_max"), _LINK),
    **dict.fromkeys(("gpus.ecc_uncorrected", "gpus.remapped_rows_pending", "gpus.remapped_rows_failed"), _ERRORS),
    **dict.fromkeys(("gpus.memory_total", "driver.xid_events"), _ERRORS),
}


def _fixes(one: Problem) -> tuple[Fix, ...]:
    """Return what to look at on nodes that differ; of what no command shows more, nothing."""
    found = _SLOW if one.act == "speed" else _REPAIRS.get(one.id)
    return (Fix(text=found[0], commands=found[1:]),) if found else ()
