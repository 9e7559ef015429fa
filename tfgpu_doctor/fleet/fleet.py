"""Results of many nodes → the fleet: its picture, its groups, its verdict. Pure.

gathered = read_fleet(["reports/"])
fleet = judge_fleet(gathered, matrix, now(), baseline=None, expectations=parse("gpus=8"))

Nodes with the same problem are one group. Where two things are seen on exactly the same nodes, one may explain the
other: a finding explains differences, what lies lower in the stack explains what lies higher, and what somebody can
change explains what follows from it. On one or two nodes that can be chance, so there only what belongs together is put
together: one layer, one act, or what merely follows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tfgpu_doctor import __version__
from tfgpu_doctor.compare.words import short
from tfgpu_doctor.fleet.baseline import Baseline, against, centres
from tfgpu_doctor.fleet.differences import Difference, of_siblings, siblings
from tfgpu_doctor.fleet.expectations import Expectation, unmet
from tfgpu_doctor.fleet.nodes import Found, Machine, machines
from tfgpu_doctor.fleet.reading import Gathered
from tfgpu_doctor.fleet.records import SCHEMA, Common, Fleet, Group, Kind, Member, Verdict
from tfgpu_doctor.fleet.records import Value as Shown
from tfgpu_doctor.fleet.repairs import repair
from tfgpu_doctor.fleet.speeds import slow, without_speed
from tfgpu_doctor.fleet.values import ABSENT, Value, compared, gpu_fields, label, paths, rank
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.gate import admitted
from tfgpu_doctor.records.facts import about
from tfgpu_doctor.records.report import EXIT_OK, EXIT_PROBLEM, EXIT_UNKNOWN, FailOn, Fix, Severity, Tool, failing
from tfgpu_doctor.records.units import count

MADS = 5.0
BY_CHANCE = 3  # nodes, below which two things on the same nodes may have nothing to do with each other
_MOST_KINDS = 3  # of hardware, whose expectations a group shows
_ALIKE = "nodes of one kind should be alike: what differs is a mistake, a defect or a change half done"
_BASELINE = "the node has changed since the baseline was saved: a mistake, a defect, or time for a new baseline"
_GRAVITY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
# what leads where several are of the same nodes, and what is shown first
_LEADS: tuple[Kind, ...] = ("no answer", "expectation", "baseline", "finding", "difference", "speed")
_WORST: tuple[Kind, ...] = ("no answer", "finding", "expectation", "baseline", "difference", "speed")


def judge_fleet(
    gathered: Gathered,
    matrix: Matrix,
    created: str,
    *,
    baseline: Baseline | None = None,
    expectations: tuple[Expectation, ...] = (),
    mads: float = MADS,
) -> Fleet:
    """Compare the nodes.

    Args:
        gathered: what `read_fleet` read.
        matrix: that this version has, which repairs are held against; the reports were judged by that of their own.
        created: the time, as reports have it.
        baseline: what to compare with instead of the many.
        expectations: what must hold on every node.
        mads: how many scaled MADs below its siblings a run is slow.
    """
    found, notes = machines(gathered.results)
    answered = tuple(one for one in found if one.results)
    differences = [
        *_differences(answered, baseline, mads),
        *(one for wish in expectations for one in unmet(wish, answered)),
    ]
    groups = group(found, differences, matrix)
    return Fleet(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        verdict=_verdict(groups, found, readable=not gathered.unreadable),
        results=sum(one.kind is not None for one in gathered.results),
        baseline=baseline.name if baseline else None,
        expectations=tuple(one.text for one in expectations),
        common=tuple(common(answered)),
        groups=groups,
        nodes=tuple(one.node() for one in found),
        unreadable=gathered.unreadable,
        notes=(*notes, *_versions(found), *gathered.notes),
    )


def exit_code(fleet: Fleet, fail_on: FailOn) -> int:
    """Return 1 where a group is at or above `fail_on`; 3 where something could not be determined; else 0."""
    if fail_on == "never":
        return EXIT_OK
    if any(group.severity in failing(fail_on) for group in fleet.groups):
        return EXIT_PROBLEM
    unknown = any(node.verdict == "unknown" for node in fleet.nodes)
    return EXIT_UNKNOWN if fleet.unreadable or not fleet.nodes or unknown else EXIT_OK


def _differences(found: tuple[Machine, ...], baseline: Baseline | None, mads: float) -> Iterator[Difference]:
    if baseline is not None:
        yield from against(baseline, found)
    else:
        every = siblings(found)
        for kin in every:
            yield from of_siblings(kin, every)
    yield from slow(found, mads, centres(baseline), baseline.name if baseline else "")
    yield from without_speed(found)


def _verdict(groups: tuple[Group, ...], found: tuple[Machine, ...], *, readable: bool) -> Verdict:
    severities = {one.severity for one in groups}
    if Severity.ERROR in severities:
        return "broken"
    if Severity.WARNING in severities:
        return "degraded"
    return "ok" if found and readable and all(one.verdict != "unknown" for one in found) else "unknown"


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


def common(machines: tuple[Machine, ...]) -> list[Common]:
    """Return the rows of the picture, in the order of the stack; facts that no node knows are left out."""
    rows = [_row("gpus", "GPUs", Counter(one.main.hardware for one in machines))] if machines else []
    for path in paths():
        known = [one.main.facts[path] for one in machines if path in one.main.facts]
        if path == "python.packages" and known:
            names = [f"{path}.{name}" for name in _PACKAGES]
        else:
            names = [path] if known and path not in _TOO_LONG and not about(path).key else []
        missing = Value(ABSENT)
        rows += [_row(name, label(name), Counter(one.get(name, missing).text for one in known)) for name in names]
    rows += _rows_of_gpus(machines)
    return sorted(rows, key=lambda row: rank(row.layer))


def _rows_of_gpus(machines: tuple[Machine, ...]) -> Iterator[Common]:
    """Yield rows of nodes by what their GPUs have; one with several values counts for each."""
    for name in (f"gpus.{field}" for field in gpu_fields() if field != "name"):
        sets = [{gpu[name].text for gpu in one.main.gpus or () if name in gpu} for one in machines]
        if known := sum(map(bool, sets)):
            yield _row(name, f"{label(name)} of GPUs", Counter(text for texts in sets for text in texts), known)


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


# --------------------------------------------------------------------------------------------------------------- groups


def group(machines: tuple[Machine, ...], differences: Iterable[Difference], matrix: Matrix) -> tuple[Group, ...]:
    """Return all groups, the worst first, with repairs that nothing which is known of the node speaks against."""
    causes = [*_findings(machines), *_no_answer(machines), *_together(differences)]
    order = {machine.name: number for number, machine in enumerate(machines)}
    return tuple(_group(one, order, matrix) for one in sorted(_explained(causes), key=_badness))


def _together(differences: Iterable[Difference]) -> Iterator[Difference]:
    """Join the same difference of siblings of several kinds."""
    by_key: dict[tuple[str, str, str, str], list[Difference]] = {}
    for one in differences:
        by_key.setdefault((one.id, one.kind, one.value, one.title), []).append(one)
    for first, *others in by_key.values():
        yield _joined(first, others) if others else first


def _joined(first: Difference, others: list[Difference]) -> Difference:
    """Join them; what is expected of each kind stands with the kind, since a slow H200 is faster than a good L4."""
    members = {machine.name: (machine, found) for one in (*others, first) for machine, found in one.members}
    sources = list(dict.fromkeys((one.expected, one.source) for one in (first, *others)))
    hidden = f", and of {count(len(sources) - _MOST_KINDS, 'other kind')}" if len(sources) > _MOST_KINDS else ""
    shown = sources[:_MOST_KINDS]
    if len({expected for expected, _ in sources}) == 1:
        return replace(first, members=tuple(members.values()), source=", ".join(by for _, by in shown) + hidden)
    expected = ", ".join(f"{expected} ({by})" for expected, by in shown) + hidden
    return replace(first, members=tuple(members.values()), expected=expected, source="")


def _findings(machines: tuple[Machine, ...]) -> Iterator[Difference]:
    by_id: dict[str, list[tuple[Machine, Found]]] = {}
    for machine in machines:
        for one in machine.found:
            by_id.setdefault(one.id, []).append((machine, one))
    for identity, several in by_id.items():
        title = Counter(one.title for _, one in several).most_common(1)[0][0]
        (fixes, many), *others = Counter(one.fixes for _, one in several).most_common(2)
        note = f"the repair is that of {many} of {count(len(several), 'node')}; the others need another one"
        yield Difference(
            id=identity,
            kind="finding",
            severity=min((one.severity for _, one in several), key=_GRAVITY.__getitem__),
            layer=several[0][1].layer or _layer(identity),
            title=title,
            expected="",
            source=note if others else "",
            cause=several[0][1].cause,
            members=tuple((machine, (one.saw if one.title == title else "") or one.title) for machine, one in several),
            fixes=fixes,
            act=identity.partition(".")[0],
            repaired=next(machine for machine, one in several if one.fixes == fixes),
        )


def _layer(identity: str) -> str:
    """Return the layer of a finding; that of its family where this version does not know it."""
    from tfgpu_doctor.findings.catalogue import DECLARATIONS  # 0.2 s, which a healthy fleet need not spend

    family = identity.partition(".")[0]
    found = DECLARATIONS.get(identity) or next(
        (one for one in DECLARATIONS.values() if one.id.startswith(family)), None
    )
    return found.layer if found else "Machine"


def _no_answer(machines: tuple[Machine, ...]) -> Iterator[Difference]:
    silent = [machine for machine in machines if not machine.results]
    if not silent:
        return
    yield Difference(
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
    )


def _explained(every: list[Difference]) -> Iterator[Difference]:
    """Put causes that affect the same nodes under the leading one."""
    by_nodes: dict[frozenset[str], list[Difference]] = {}
    for one in every:
        by_nodes.setdefault(frozenset(machine.name for machine, _ in one.members), []).append(one)
    for nodes, several in by_nodes.items():
        left = sorted(several, key=_lead)
        while left:
            leader, *rest = left
            below = [one for one in rest if _explains(leader, one, len(nodes))]
            left = [one for one in rest if one not in below]
            yield replace(leader, explains=tuple(dict.fromkeys(one.id for one in below if one.id != leader.id)))


def _lead(one: Difference) -> tuple[bool, int, int, int]:
    return one.observed, _LEADS.index(one.kind), _GRAVITY[_severity(one)], rank(one.layer)


def _explains(leader: Difference, other: Difference, nodes: int) -> bool:
    """Return whether the one that leads accounts for another one on the same nodes."""
    if other.kind == "finding" and leader.kind != "finding":
        return leader.layer == other.layer
    if other.kind == "finding":
        return False  # the doctor would have said so
    if _severity(other) is Severity.ERROR and _severity(leader) is not Severity.ERROR:
        return False
    if other.act == leader.act or other.layer == leader.layer or other.observed:
        return True
    return nodes >= BY_CHANCE and rank(leader.layer) <= rank(other.layer)


def _severity(one: Difference) -> Severity:
    return Severity.ERROR if one.kind == "baseline" else one.severity


def _badness(one: Difference) -> tuple[int, int, int, int, str]:
    return _GRAVITY[_severity(one)], _WORST.index(one.kind), -len(one.members), rank(one.layer), one.id


def _group(one: Difference, order: dict[str, int], matrix: Matrix) -> Group:
    members = sorted(one.members, key=lambda member: order[member[0].name])
    fixes = repair(one) if one.fixes is None else one.fixes
    why = {"baseline": _BASELINE, "difference": _ALIKE, "expectation": _ALIKE, "speed": _ALIKE}.get(one.kind, "")
    return Group(
        id=one.id,
        kind=one.kind,
        severity=_severity(one),
        layer=one.layer,
        title=one.title,
        # a version by itself could be an address
        expected=f"{label(one.id)} {one.expected}" if one.id.startswith("python.packages.") else one.expected,
        source=one.source,
        cause=one.cause or why,
        nodes=tuple(Member(node=machine.name, found=found) for machine, found in members),
        fixes=admitted(fixes, (one.repaired or one.members[0][0]).known(), matrix),
        explains=one.explains,
    )
