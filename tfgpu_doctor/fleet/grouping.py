"""Findings and differences → groups: one for each cause, the worst first. Pure.

Nodes with the same problem are one group. Where two things are seen on exactly the same nodes, one may explain the
other: a finding explains differences, what lies lower in the stack explains what lies higher, and what somebody can
change explains what follows from it. On one or two nodes that can be chance, so there only what belongs together is put
together: one layer, one act, or what merely follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from tfgpu_doctor.fleet.differences import Difference, rank
from tfgpu_doctor.fleet.known import facts_of
from tfgpu_doctor.fleet.nodes import Machine
from tfgpu_doctor.fleet.records import Group, Kind, Member
from tfgpu_doctor.fleet.repairs import repair
from tfgpu_doctor.fleet.results import Found
from tfgpu_doctor.fleet.values import label
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.gate import admitted
from tfgpu_doctor.records.report import Fix, Severity
from tfgpu_doctor.records.units import count

_MOST_KINDS = 3  # of hardware, whose expectations a group shows
_ALIKE = "nodes of one kind should be alike: what differs is a mistake, a defect or a change half done"
_BASELINE = "the node has changed since the baseline was saved: a mistake, a defect, or time for a new baseline"
BY_CHANCE = 3  # nodes, below which two things on the same nodes may have nothing to do with each other
_GRAVITY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
# what leads where several are of the same nodes
_LEADS: tuple[Kind, ...] = ("no answer", "expectation", "baseline", "finding", "difference", "speed")


@dataclass(frozen=True)
class _Cause:
    """A group before it is known what explains it."""

    id: str
    kind: Kind
    severity: Severity
    layer: str
    title: str
    expected: str
    source: str
    cause: str
    members: tuple[tuple[Machine, str], ...]
    fixes: tuple[Fix, ...]
    act: str
    observed: bool
    explains: tuple[str, ...] = ()
    repaired: Machine | None = None  # that the repair is of; None: the first of its nodes

    @property
    def nodes(self) -> frozenset[str]:
        """The names of its nodes."""
        return frozenset(machine.name for machine, _ in self.members)


def groups(machines: Iterable[Machine], differences: Iterable[Difference], matrix: Matrix) -> tuple[Group, ...]:
    """All groups, the worst first, with repairs that nothing which is known of the node speaks against."""
    every = tuple(machines)
    causes = [*_findings(every), *_no_answer(every), *map(_of_difference, _together(differences))]
    order = {machine.name: number for number, machine in enumerate(every)}
    arranged = sorted(_explained(causes), key=_badness)
    return tuple(_group(one, order, matrix) for one in arranged)


def _together(differences: Iterable[Difference]) -> Iterator[Difference]:
    """The same difference of siblings of several kinds is one."""
    by_key: dict[tuple[str, str, str, str], list[Difference]] = {}
    for one in differences:
        by_key.setdefault((one.id, one.kind, one.value, one.title), []).append(one)
    for first, *others in by_key.values():
        yield _joined(first, others) if others else first


def _joined(first: Difference, others: list[Difference]) -> Difference:
    """All in one; what is expected of each kind stands with the kind, since a slow H200 is faster than a good L4."""
    members = {machine.name: (machine, found) for one in (*others, first) for machine, found in one.members}
    sources = list(dict.fromkeys((one.expected, one.source) for one in (first, *others)))
    hidden = f", and of {count(len(sources) - _MOST_KINDS, 'other kind')}" if len(sources) > _MOST_KINDS else ""
    shown = sources[:_MOST_KINDS]
    if len({expected for expected, _ in sources}) == 1:
        return replace(first, members=tuple(members.values()), source=", ".join(by for _, by in shown) + hidden)
    expected = ", ".join(f"{expected} ({by})" for expected, by in shown) + hidden
    return replace(first, members=tuple(members.values()), expected=expected, source="")


def _of_difference(one: Difference) -> _Cause:
    grave = one.grave or one.kind == "baseline"
    return _Cause(
        id=one.id,
        kind=one.kind,
        severity=Severity.ERROR if grave else Severity.WARNING,
        layer=one.layer,
        title=one.title,
        # a version by itself could be an address
        expected=f"{label(one.id)} {one.expected}" if one.id.startswith("python.packages.") else one.expected,
        source=one.source,
        cause=one.cause or (_BASELINE if one.kind == "baseline" else _ALIKE),
        members=one.members,
        fixes=repair(one),
        act=one.act,
        observed=one.observed,
    )


def _findings(machines: tuple[Machine, ...]) -> Iterator[_Cause]:
    by_id: dict[str, list[tuple[Machine, Found]]] = {}
    for machine in machines:
        for one in machine.found:
            by_id.setdefault(one.id, []).append((machine, one))
    for identity, several in by_id.items():
        first = several[0][1]
        title = Counter(one.title for _, one in several).most_common(1)[0][0]
        by_severity = {one.severity for _, one in several}
        worst = next(severity for severity in Severity if severity.value in by_severity)
        fixes, note = _commonest([one.fixes for _, one in several])
        yield _Cause(
            id=identity,
            kind="finding",
            severity=worst,
            layer=first.layer or _layer(identity),
            title=title,
            expected="",
            source=note,
            cause=first.cause,
            members=tuple((machine, _of_node(one, title)) for machine, one in several),
            fixes=fixes,
            act=identity.partition(".")[0],
            observed=False,
            repaired=next(machine for machine, one in several if one.fixes == fixes),
        )


def _of_node(one: Found, title: str) -> str:
    """What tells this node from others with the same finding."""
    return one.saw or one.title if one.title == title else one.title


def _commonest(fixes: list[tuple[Fix, ...]]) -> tuple[tuple[Fix, ...], str]:
    """The repair that most need, and a note where others need another one."""
    counts = Counter(fixes)
    (most, many), *others = counts.most_common(2)
    if not others:
        return most, ""
    return most, f"the repair is that of {many} of {count(len(fixes), 'node')}; the others need another one"


def _layer(identity: str) -> str:
    """The layer of a finding; that of its family where this version does not know it."""
    from tfgpu_doctor.findings.catalogue import DECLARATIONS  # 0.2 s, which a healthy fleet need not spend

    family = identity.partition(".")[0]
    found = DECLARATIONS.get(identity) or next(
        (one for one in DECLARATIONS.values() if one.id.startswith(family)), None
    )
    return found.layer if found else "Machine"


def _no_answer(machines: tuple[Machine, ...]) -> Iterator[_Cause]:
    silent = [machine for machine in machines if not machine.results]
    if not silent:
        return
    yield _Cause(
        id="no-answer",
        kind="no answer",
        severity=Severity.ERROR,
        layer="Machine",
        title="no answer",
        expected="a result",
        source="",
        cause="a node that does not answer may be down, cut off, or hang when its driver is asked",
        members=tuple((one, one.absent.failure if one.absent else "") for one in silent),
        fixes=(
            Fix(text="Ask the node alone", commands=("ssh NODE tfgpu doctor --format json",)),
            Fix(
                text="See whether the scheduler has taken it out: Slurm, Kubernetes",
                commands=("sinfo -R", "kubectl get nodes"),
            ),
        ),
        act="no-answer",
        observed=False,
    )


# ------------------------------------------------------------------------------------------- what explains what


def _explained(every: list[_Cause]) -> Iterator[_Cause]:
    """Of those with the same nodes, the one that leads, with what it explains."""
    by_nodes: dict[frozenset[str], list[_Cause]] = {}
    for one in every:
        by_nodes.setdefault(one.nodes, []).append(one)
    for nodes, several in by_nodes.items():
        left = sorted(several, key=_lead)
        while left:
            leader, *rest = left
            below = [one for one in rest if _explains(leader, one, len(nodes))]
            left = [one for one in rest if one not in below]
            yield replace(leader, explains=tuple(dict.fromkeys(one.id for one in below if one.id != leader.id)))


def _lead(one: _Cause) -> tuple[bool, int, int, int]:
    return one.observed, _LEADS.index(one.kind), _GRAVITY[one.severity], rank(one.layer)


def _explains(leader: _Cause, other: _Cause, nodes: int) -> bool:
    """Whether the one that leads accounts for another one on the same nodes."""
    if other.kind == "finding" and leader.kind != "finding":
        return leader.layer == other.layer
    if other.kind == "finding":
        return False  # the doctor would have said so
    if other.severity is Severity.ERROR and leader.severity is not Severity.ERROR:
        return False
    if other.act == leader.act or other.layer == leader.layer or other.observed:
        return True
    return nodes >= BY_CHANCE and rank(leader.layer) <= rank(other.layer)


def _badness(one: _Cause) -> tuple[int, int, int, int, str]:
    return _GRAVITY[one.severity], _LEADS_WORST[one.kind], -len(one.nodes), rank(one.layer), one.id


_LEADS_WORST: dict[Kind, int] = {
    "no answer": 0,
    "finding": 1,
    "expectation": 2,
    "baseline": 3,
    "difference": 4,
    "speed": 5,
}


def _group(one: _Cause, order: dict[str, int], matrix: Matrix) -> Group:
    members = sorted(one.members, key=lambda member: order[member[0].name])
    return Group(
        id=one.id,
        kind=one.kind,
        severity=one.severity,
        layer=one.layer,
        title=one.title,
        expected=one.expected,
        source=one.source,
        cause=one.cause,
        nodes=tuple(Member(node=machine.name, found=found) for machine, found in members),
        fixes=admitted(one.fixes, facts_of(one.repaired or one.members[0][0]), matrix),
        explains=one.explains,
    )
