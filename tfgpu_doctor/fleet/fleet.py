"""Results of many nodes → the fleet: its picture, its groups, its verdict. Pure.

gathered = read_fleet(["reports/"])
fleet = judge_fleet(gathered, matrix, now())

Nodes with the same problem are one group. Where two things are seen on exactly the same nodes, one may explain the
other: a finding explains differences, what lies lower in the stack explains what lies higher, and what somebody can
change explains what follows from it. On one or two nodes that can be chance, so there only what belongs together is put
together: one layer, one act, or what merely follows.
"""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from tfgpu_doctor import __version__
from tfgpu_doctor.compare.differences import short
from tfgpu_doctor.fleet.differences import Difference, differences
from tfgpu_doctor.fleet.nodes import ABSENT, Machine, Speed, Value, compared, gpu_fields, label, machines, paths, rank
from tfgpu_doctor.fleet.reading import Gathered
from tfgpu_doctor.fleet.records import SCHEMA, Common, Fleet, Group, Kind, Member, Verdict
from tfgpu_doctor.fleet.records import Value as Shown
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.gate import admitted
from tfgpu_doctor.records.facts import about
from tfgpu_doctor.records.printable import cut
from tfgpu_doctor.records.report import (
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
from tfgpu_doctor.records.units import count

BY_CHANCE = 3  # nodes, below which two things on the same nodes may have nothing to do with each other
_MOST_KINDS = 3  # of hardware, whose expectations a group shows
_LONGEST_SAW = 300  # characters of what is shown of one node
_CAUSES: dict[Kind, str] = {
    "difference": "nodes of one kind should be alike: what differs is a mistake, a defect or a change half done",
    "baseline": "the node has changed since the baseline: a mistake, a defect, or time for a new baseline",
}
_GRAVITY = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}
# what leads where several are of the same nodes, and what is shown first
_LEADS: tuple[Kind, ...] = ("no answer", "baseline", "finding", "difference", "speed")
_WORST: tuple[Kind, ...] = ("no answer", "finding", "baseline", "difference", "speed")


def judge_fleet(
    gathered: Gathered, matrix: Matrix, created: str, *, good: Gathered | None = None, baseline: str = ""
) -> Fleet:
    """Compare the nodes.

    Args:
        gathered: what `read_fleet` read.
        matrix: that this version has, which repairs are held against; the reports were judged by that of their own.
        created: the time, as reports have it.
        good: earlier results, to compare with instead of the many.
        baseline: what these are called.
    """
    found, notes = machines(gathered.results)
    answered = tuple(one for one in found if one.main.kind)
    before = tuple(one for one in machines(good.results)[0] if one.main.kind) if good else ()
    groups = _groups(found, differences(answered, before, baseline), matrix)
    return Fleet(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=matrix.info,
        created=created,
        verdict=_verdict(groups, found, readable=not gathered.unreadable),
        results=sum(one.kind is not None for one in gathered.results),
        baseline=baseline or None,
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
_MISSING = Value(ABSENT)
_PACKAGES = ("tensorflow", "keras", "numpy", "protobuf", "nvidia-cuda-runtime-cu12", "nvidia-cudnn-cu12")


def common(machines: tuple[Machine, ...]) -> list[Common]:
    """Return the rows of the picture, in the order of the stack; facts that no node knows are left out."""
    rows = [_row("gpus", "GPUs", Counter(one.main.hardware for one in machines))] if machines else []
    for path in paths():
        known = [one.main.values[path] for one in machines if path in one.main.values]
        names = _names_below(path) if known else []
        rows += [_row(name, label(name), Counter(one.get(name, _MISSING).text for one in known)) for name in names]
    rows += _gpu_rows(machines)
    return sorted(rows, key=lambda row: rank(row.layer))


def _names_below(path: str) -> list[str]:
    """Return the values of a fact that have a row: of packages those that matter; none of what is long."""
    if path == "python.packages":
        return [f"{path}.{name}" for name in _PACKAGES]
    return [] if path in _TOO_LONG or about(path).key else [path]


def _gpu_rows(machines: tuple[Machine, ...]) -> Iterator[Common]:
    """Yield the rows about GPUs; a node counts for each value."""
    for name in (f"gpus.{field}" for field in gpu_fields() if field != "name"):
        sets = [{gpu[name].text for gpu in one.main.gpus or () if name in gpu} for one in machines]
        if known := sum(map(bool, sets)):
            yield _row(name, f"{label(name)} of GPUs", Counter(one for texts in sets for one in texts), known)


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


def _groups(machines: tuple[Machine, ...], found: Iterable[Difference], matrix: Matrix) -> tuple[Group, ...]:
    """Return all groups, the worst first, with repairs that nothing which is known of the node speaks against."""
    answered = [one for one in machines if one.main.kind]
    silent = [one for one in machines if not one.main.kind]
    causes = [*_findings(answered), *_failed_runs(answered), *_no_answer(silent), *_together(found)]
    order = {machine.name: number for number, machine in enumerate(machines)}
    return tuple(_group(one, order, matrix) for one in sorted(_explained(causes), key=_badness))


def _findings(machines: Iterable[Machine]) -> Iterator[Difference]:
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
        yield Difference(
            id=cut(identity, 100),
            kind="finding",
            severity=min((one.severity for _, one in several), key=_GRAVITY.__getitem__),
            layer=_layer(identity),
            title=cut(title, _LONGEST_SAW),
            expected="",
            source=note if others else "",
            cause=several[0][1].cause,
            members=tuple((machine, _saw(one, title)) for machine, one in several),
            fixes=fixes,
            act=identity.partition(".")[0],
        )


def _saw(finding: Finding, title: str) -> str:
    """Return what was seen on a node; its title where that is another one than that of the group."""
    saw = finding.evidence[0].saw if finding.evidence and finding.title == title else ""
    return cut(saw or finding.title, _LONGEST_SAW)


def _layer(identity: str) -> str:
    """Return the layer of a finding; that of its family where this version does not know it."""
    from tfgpu_doctor.findings.catalogue import DECLARATIONS  # 0.2 s, which a healthy fleet need not spend

    family = identity.partition(".")[0]
    if family == "smoke":
        return "Compute"
    alike = (one for one in DECLARATIONS.values() if one.id.startswith(f"{family}."))
    found = DECLARATIONS.get(identity) or next(alike, None)
    return found.layer if found else "Machine"


def _failed_runs(machines: Iterable[Machine]) -> Iterator[Difference]:
    """Yield runs whose result was wrong, and runs that failed."""
    found: dict[str, list[tuple[Machine, Speed]]] = {}
    for machine in machines:
        for one in machine.speeds:
            if one.failure:
                how = "wrong" if one.wrong else "failed"
                found.setdefault(f"{one.workload}/{one.label}/{one.dtype}/{how}", []).append((machine, one))
    for identity, several in found.items():
        by_node: dict[str, tuple[Machine, dict[str, None]]] = {}
        for machine, one in several:
            text = f"{one.device}: {one.failure}" if one.device else one.failure
            by_node.setdefault(machine.name, (machine, {}))[1][text] = None
        first = several[0][1]
        how = "computes wrong results" if first.wrong else "fails"
        yield Difference(
            id=identity,
            kind="finding",
            layer="Compute",
            title=f"{first.workload} on {first.label} in {first.dtype} {how}",
            expected="",
            source="",
            members=tuple((machine, "; ".join(texts)) for machine, texts in by_node.values()),
            act="run",
            cause="results of this node cannot be relied on" if first.wrong else "this node cannot run this work",
            severity=Severity.ERROR,
            fixes=(_AGAIN,),
        )


def _no_answer(silent: list[Machine]) -> Iterator[Difference]:
    if silent:
        yield Difference(
            id="no-answer",
            kind="no answer",
            severity=Severity.ERROR,
            layer="Machine",
            title="no answer",
            expected="a result",
            source="",
            cause="a node that does not answer may be down, cut off, or hang when its driver is asked",
            members=tuple((one, one.main.failure) for one in silent),
            fixes=(Fix(text="Ask the node alone", commands=("ssh NODE tfgpu doctor --format json",)),),
            act="no-answer",
        )


def _together(found: Iterable[Difference]) -> Iterator[Difference]:
    """Join the same difference of siblings of several kinds.

    What is expected of each kind stands with the kind, since a slow H200 is faster than a good L4.
    """
    by_key: dict[tuple[str, str, str, str], list[Difference]] = {}
    for one in found:
        by_key.setdefault((one.id, one.kind, one.value, one.title), []).append(one)
    for first, *others in by_key.values():
        if not others:
            yield first
            continue
        members = {machine.name: (machine, saw) for one in (*others, first) for machine, saw in one.members}
        sources = list(dict.fromkeys((one.expected, one.source) for one in (first, *others)))
        hidden = f", and of {count(len(sources) - _MOST_KINDS, 'other kind')}" if len(sources) > _MOST_KINDS else ""
        if len({expected for expected, _ in sources}) == 1:
            expected, source = first.expected, ", ".join(by for _, by in sources[:_MOST_KINDS]) + hidden
        else:
            expected = ", ".join(f"{value} ({by})" for value, by in sources[:_MOST_KINDS]) + hidden
            source = ""
        yield replace(first, members=tuple(members.values()), expected=expected, source=source)


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
    if other.kind == "finding":  # of two findings, the doctor would have said so
        return leader.kind != "finding" and leader.layer == other.layer
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
    is_finding = one.kind in ("finding", "no answer")
    fixes = one.fixes if is_finding else (_fix(one),)
    return Group(
        id=one.id,
        kind=one.kind,
        severity=_severity(one),
        layer=one.layer,
        title=one.title,
        # a version by itself could be an address
        expected=f"{label(one.id)} {one.expected}" if one.id.startswith("python.packages.") else one.expected,
        source=one.source,
        cause=one.cause or _CAUSES.get(one.kind, ""),
        nodes=tuple(Member(node=machine.name, found=saw) for machine, saw in members),
        fixes=admitted(fixes, one.members[0][0].main.facts, matrix),
        explains=one.explains,
    )


# -------------------------------------------------------------------------------------------------------------- repairs
#
# What a finding advises stands with the finding; here is what to do about differences that no finding explains. Options
# of nvidia-smi: its manual, https://docs.nvidia.com/deploy/nvidia-smi/index.html

_AGAIN = Fix(
    text="Test every GPU of the node again, several times, and read the reason",
    commands=("tfgpu smoke --repeat 5 -v",),
)
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
    **dict.fromkeys(("gpus.memory_total", "gpus.fault", "driver.xid_events"), _ERRORS),
}
_SWITCHES = {"gpus.ecc_mode": "-e", "gpus.mig_mode": "-mig", "gpus.persistence_mode": "-pm"}  # options of nvidia-smi
_WATTS = re.compile(r"(\d+(?:\.\d+)?) W")
_PACKAGE = re.compile(r"[A-Za-z0-9][\w.-]*")
_VERSION = re.compile(r"\d[\w.+!-]*")


def _fix(one: Difference) -> Fix:
    """Return the repair of a difference: to have what the others have."""
    wanted, name = one.expected, label(one.id)
    if one.act == "speed":
        return Fix(text=_SLOW[0], commands=_SLOW[1:])
    if one.id in _REPAIRS:
        text, *commands = _REPAIRS[one.id]
        return Fix(text=text, commands=tuple(commands))
    kind, _, key = one.id.partition("python.packages.")
    if not kind and _PACKAGE.fullmatch(key) and wanted == ABSENT:
        return Fix(text=f"Uninstall {key}", commands=(f"{_interpreter(one)} -m pip uninstall -y {key}",))
    if not kind and _PACKAGE.fullmatch(key) and _VERSION.fullmatch(wanted):
        return Fix(text=f"Install {key} {wanted}", commands=(f"{_interpreter(one)} -m pip install {key}=={wanted}",))
    if one.id.startswith("variables.") and name.isidentifier():
        if wanted == ABSENT:
            return Fix(text=f"Find where {name} is set, and remove it there", commands=(f"unset {name}",))
        return Fix(text=f"Set {name} as elsewhere", commands=(f"export {name}={shlex.quote(wanted)}",))
    if one.id in _SWITCHES and wanted in ("on", "off"):
        command = f"sudo nvidia-smi {_SWITCHES[one.id]} {int(wanted == 'on')}"
        return Fix(text=f"Turn {name} {wanted}", commands=(command,))
    if one.id == "gpus.power_limit" and (watts := _WATTS.fullmatch(wanted)):
        return Fix(text=f"Set the power limit to {wanted}", commands=(f"sudo nvidia-smi -pl {float(watts[1]):g}",))
    field = name if wanted == ABSENT else f"{name} {wanted}"
    text = f"Give the node the image or the setting that is expected: {field}"
    return Fix(text=text, commands=("tfgpu doctor",))


def _interpreter(one: Difference) -> str:
    """Return the interpreter of these nodes; "python" where they differ."""
    path = "python.executable"
    values = (machine.main.values for machine, _ in one.members)
    found = {known[path][path].text for known in values if path in known}
    return shlex.quote(next(iter(found))) if len(found) == 1 else "python"
