"""What a fleet comes to: its picture and its groups, a case for each node, metrics. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import get_args

from tfgpu_doctor.facts.about import LAYERS
from tfgpu_doctor.facts.report import EXIT_UNKNOWN, FailOn, Severity, failing
from tfgpu_doctor.facts.units import count
from tfgpu_doctor.fleet.nodes import compared
from tfgpu_doctor.fleet.picture import exit_code
from tfgpu_doctor.fleet.records import Common, Fleet, Group, Node, Verdict
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.outline import VERDICT_MARKS
from tfgpu_doctor.render.prometheus import gauge, origin, states
from tfgpu_doctor.render.shapes import (
    LEVELS,
    Annotation,
    Block,
    Case,
    Checks,
    Items,
    Level,
    Line,
    Metric,
    Outcome,
    Page,
    Sample,
    Suite,
    Table,
)

# what a first screen shows of the picture; -v and pages have all of it
_FIRST = {
    "host.distribution": "",
    "host.kernel": "kernel ",
    "gpus": "",
    "driver.version": "",
    "driver.cuda_supported": "CUDA up to ",
    **dict.fromkeys(("cudnn.runtime", "python.version", "tensorflow.version", "tensorflow.devices"), ""),
    "tensorflow.checks": "",
}
_MOST_VALUES, _MOST_NAMES, _MOST_GROUPS, _MOST_FOUND, _MOST_UNREAD = 3, 8, 12, 3, 5  # that a first screen shows
_MOST_RANGES = 4  # within brackets, which fit in a narrow terminal beside their label

# -------------------------------------------------------------------------------------------------------- for people


def page(fleet: Fleet, detail: formats.Detail = "shared") -> Page:
    """What the nodes have, and the groups; or the first of them."""
    about = f"tfgpu fleet {fleet.tool.version}, {_about(fleet)}"
    whole = Page("tfgpu fleet", (about,), VERDICT_MARKS[fleet.verdict], fleet.verdict, _verdict(fleet), ())
    blocks, unread, hint = [_block(group, whole=detail != "normal") for group in fleet.groups], _unread(fleet), ""
    values = tuple((row.label, _values(row, fleet)) for row in fleet.common)
    title, head = "All values, with the number of nodes", ("What", "Values")
    table = Table(title, head, values, is_named=True, is_folded=True)
    if detail == "normal":
        hint = "All nodes, values and fixes: tfgpu fleet -v" if blocks else ""
        blocks, table = list(_shortened(blocks)), table._replace(rows=())
        if (more := len(unread) - _MOST_UNREAD) > 0:
            unread = (*unread[:_MOST_UNREAD], f"and {count(more, 'more reason')}; -v shows all")
    below = (Items(unread, "Could not be read", "unknown"), Items(fleet.notes, mark="note"), table)
    return whole._replace(parts=(_first_rows(fleet), *blocks, *below), hint=hint, created=fleet.created)


def _shortened(blocks: list[Block]) -> Iterator[Block]:
    """Yield the first ones, each reason once; of the others the titles."""
    told = set[str]()
    for place, block in enumerate(blocks):
        lines = tuple(one for one in block.lines if one.label != "why" or one.text not in told)
        told.update(one.text for one in lines)
        yield block._replace(lines=lines if place < _MOST_GROUPS else ())


def _first_rows(fleet: Fleet) -> Table:
    """One row a layer: what most nodes have, and whether a group is about it."""
    texts: dict[str, list[str]] = {}
    for row in sorted((row for row in fleet.common if row.id in _FIRST), key=lambda row: [*_FIRST].index(row.id)):
        texts.setdefault(row.layer, []).append(f"{_FIRST[row.id]}{_values(row, fleet, _MOST_VALUES)}")
    grave = (group for group in reversed(fleet.groups) if group.severity is not Severity.NOTE)
    marks = {group.layer: group.severity.value for group in grave}  # that of the worst, which comes last
    shown = [layer for layer in LAYERS if layer in texts or layer in marks]
    rows: list[tuple[str, str]] = [(layer, "; ".join(texts.get(layer, ["see below"]))) for layer in shown]
    verdicts = Counter(node.verdict for node in fleet.nodes)
    words = ", ".join(f"{many} {word}" for word, many in verdicts.most_common())
    rows.append(("Nodes", f"{words} by their own results"))
    every = tuple(rows) if shown else ()
    return Table("Fleet", ("Layer", "What the nodes have"), every, (*(marks.get(layer, "ok") for layer in shown), ""))


def _values(row: Common, fleet: Fleet, most: int | None = None) -> str:
    """What nodes have of a fact: "580.65.06 (199), 550.54.15 (1)"; without numbers where all have the same."""
    if row.distinct == 1 and row.known == len(fleet.nodes):
        return row.values[0].value
    shown = row.values[:most]
    more = f", {row.distinct - len(shown)} more" if row.distinct > len(shown) else ""
    between = "; " if any(", " in one.value for one in shown) else ", "
    return between.join(f"{one.value} ({one.nodes})" for one in shown) + more


def _block(group: Group, *, whole: bool = False) -> Block:
    """A group as a finding is shown: which nodes, what was found there and what is expected, why, what repairs it."""
    most = None if whole else _MOST_NAMES
    by_found: dict[str, list[str]] = {}
    for member in group.nodes:
        by_found.setdefault(member.found, []).append(member.node)
    lines = [Line("nodes", folded((member.node for member in group.nodes), most))]
    several = list(by_found.items())[: None if whole else _MOST_FOUND]
    for found, names in several:
        if found not in group.title:
            lines.append(Line("found", f"{folded(names, most)}: {found}" if len(by_found) > 1 else found))
    if len(by_found) > len(several):
        lines.append(Line("", f"and {count(len(by_found) - len(several), 'more value')}"))
    if group.expected:
        lines.append(Line("expected", group.expected, group.source))
    lines.append(Line("why", group.cause))
    if group.explains:
        lines.append(Line("therefore", f"also odd there: {_labels(group.explains, 4 + 8 * whole)}"))
    lines += [Line("fix", fix.text, commands=fix.commands) for fix in group.fixes[: None if whole else 1]]
    if not group.expected and group.source:
        lines.append(Line("", group.source))
    return Block(group.severity.value, _title(group), tuple(lines), (group.id,))


def _labels(ids: Iterable[str], most: int) -> str:
    labels = [*dict.fromkeys(compared(one).label for one in ids)]
    return ", ".join(labels[:most]) + f" and {len(labels) - most} more" * (len(labels) > most)


def _title(group: Group) -> str:
    """Name a group: "driver 550.54.15 instead of 580.65.06: 1 node"."""
    return f"{group.title}: {count(len(group.nodes), 'node')}"


# ------------------------------------------------------------------------------------------------------------ for CI


def checks(fleet: Fleet, fail_on: FailOn = "error") -> Checks:
    """A case for each node, and one for whether all that was given could be read."""
    is_open, grave = exit_code(fleet, fail_on) == EXIT_UNKNOWN, failing(fail_on)
    problems: dict[str, list[tuple[Group, str]]] = {}  # of each node, the worst first
    for group in fleet.groups:
        for member in group.nodes:
            more = f" ({member.found})" if member.found not in group.title else ""
            problems.setdefault(member.node, []).append((group, f"{group.title}{more}"))
    cases = [_case(node, problems.get(node.name, []), grave, is_open) for node in fleet.nodes]
    whole = Case("all results were read", "tfgpu.fleet", details=(_about(fleet), *fleet.notes))
    unread = _unread(fleet)
    if unread or not fleet.nodes:
        message = _verdict(fleet) if not unread else f"{count(len(unread), 'part')} of files cannot be read"
        outcome: Outcome = "error" if is_open else "skipped"
        whole = whole._replace(outcome=outcome, kind="could not determine", message=message, details=unread)
    annotations = [_annotation(group, grave) for group in fleet.groups if group.severity is not Severity.NOTE]
    if whole.outcome != "passed":
        level: Level = "error" if whole.outcome == "error" else "warning"
        annotations.append(Annotation(level, f"tfgpu fleet: {whole.kind}", (whole.message, *whole.details)))
    log = (*map(_title, fleet.groups), f"tfgpu fleet: {fleet.verdict}: {_verdict(fleet)}")
    return Checks("tfgpu fleet", fleet.created, (Suite("tfgpu fleet", (whole, *cases)),), tuple(annotations), log)


def _annotation(group: Group, grave: frozenset[Severity]) -> Annotation:
    lines = tuple(f"{one.label}: {one.text}" if one.label else one.text for one in _block(group).lines)
    level: Level = LEVELS[group.severity] if group.severity in grave else "warning"
    return Annotation(level, f"tfgpu fleet: {_title(group)}", lines)


def _case(node: Node, problems: list[tuple[Group, str]], grave: frozenset[Severity], is_open: bool) -> Case:
    details = [f"{node.hardware}, {node.verdict}"]
    for group, text in problems:
        details.append(text)
        for fix in group.fixes:
            details += [f"fix: {fix.text}", *(f"  {command}" for command in fix.commands)]
    case = Case(node.name, f"tfgpu.fleet.{node.hardware}", details=tuple(details))
    found = [(group, text) for group, text in problems if group.severity in grave]
    if found:
        message = "; ".join(text for _, text in found)
        return case._replace(outcome="failure", kind=found[0][0].severity.value, message=message)
    if node.verdict == "unknown":
        # beside a problem, what is not known is no second one
        outcome: Outcome = "error" if is_open else "skipped"
        message = "its results do not say whether it works"
        return case._replace(outcome=outcome, kind="could not determine", message=message)
    return case


# ---------------------------------------------------------------------------------------------------- for monitoring


def metrics(fleet: Fleet) -> Iterator[Metric]:
    """The verdict, how many nodes have which one, and which nodes are in which group."""
    yield from origin("fleet", fleet.tool, fleet.created)
    about = "Verdict of the fleet; 1 for the one that holds."
    yield gauge("tfgpu_fleet_verdict", about, *states(get_args(Verdict), fleet.verdict))
    verdicts = Counter(node.verdict for node in fleet.nodes)
    hardware = Counter(node.hardware for node in fleet.nodes)
    severities = Counter(group.severity for group in fleet.groups)
    by_verdict = (Sample(verdicts[word], {"verdict": word}) for word in get_args(Verdict))
    yield gauge("tfgpu_fleet_nodes", "Nodes by the worst verdict of their results.", *by_verdict)
    by_gpus = (Sample(many, {"hardware": name}) for name, many in sorted(hardware.items()))
    yield gauge("tfgpu_fleet_hardware_nodes", "Nodes by their GPUs.", *by_gpus)
    yield gauge("tfgpu_fleet_unreadable_results", "Results that could not be read.", len(fleet.unreadable))
    by_severity = (Sample(severities[one], {"severity": one.value}) for one in Severity)
    yield gauge("tfgpu_fleet_groups", "Groups of nodes with the same problem or difference.", *by_severity)
    # those of one id are one series, as each differs from its own siblings
    members: dict[tuple[tuple[str, str], ...], set[str]] = {}
    for group in fleet.groups:
        labels = (("id", group.id), ("kind", group.kind), ("severity", group.severity.value))
        members.setdefault(labels, set()).update(one.node for one in group.nodes)
    sizes = (Sample(len(names), dict(labels)) for labels, names in members.items())
    yield gauge("tfgpu_fleet_group_nodes", "Nodes with this problem or difference.", *sizes)
    found = (Sample(1, {"node": one, **dict(labels)}) for labels, names in members.items() for one in sorted(names))
    yield gauge("tfgpu_fleet_node_problem", "1 for each problem and each difference of a node.", *found)


# ---------------------------------------------------------------------------------------------------------------- words


def folded(names: Iterable[str], most: int | None = None) -> str:
    """Return names of hosts in the way of Slurm and pdsh, in their order: "gpu-[001-004,007], login".

    Args:
        names: of hosts.
        most: how many of them, or ranges, to show; None: all.
    """
    by_stem: dict[tuple[str, int, str], list[tuple[int, int]]] = {}  # with first and last of each range
    for name in names:
        head, digits, tail = re.fullmatch(r"(.*?)(\d{0,12})(\D*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
        ranges = by_stem.setdefault((head, len(digits), tail), [])
        number = int(digits or 0)
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    every = [(stem, one) for stem, ranges in by_stem.items() for one in ranges]
    more = sum(last - first + 1 for _, (first, last) in every[most:]) if most else 0
    groups = groupby(every[:most], lambda pair: pair[0])
    parts = [text for stem, shown in groups for text in _in_brackets(stem, [one for _, one in shown])]
    return ", ".join(parts) + (f" and {more} more" if more else "")


def _in_brackets(stem: tuple[str, int, str], ranges: list[tuple[int, int]]) -> Iterator[str]:
    """Yield "gpu-[001-004,007]", in parts of so many ranges as a narrow terminal has room for."""
    head, width, tail = stem
    texts = [f"{first:0{width}}" + (f"-{last:0{width}}" if last > first else "") for first, last in ranges]
    for at in range(0, len(texts), _MOST_RANGES):
        numbers = ",".join(texts[at : at + _MOST_RANGES]) if width else ""
        yield f"{head}{numbers if not numbers or numbers.isdecimal() else f'[{numbers}]'}{tail}"


def _verdict(fleet: Fleet) -> str:
    """What the verdict means: "13 of 200 nodes need attention (2 problems, 7 warnings)"."""
    unread = f"; {count(len(fleet.unreadable), 'result')} could not be read" * bool(fleet.unreadable)
    if not fleet.nodes:
        return f"no result of a node was read{unread}"
    grave = [group for group in fleet.groups if group.severity is not Severity.NOTE]
    odd = set[str]().union(*((member.node for member in group.nodes) for group in grave))
    open_ones = sum(node.verdict == "unknown" and node.name not in odd for node in fleet.nodes)
    undecided = f"; of {open_ones} it is not known" * bool(open_ones)
    of = count(len(fleet.nodes), "node")
    if not odd:
        return f"{of}, none is odd{undecided}{unread}"
    severities = Counter(group.severity for group in grave)
    words = ((Severity.ERROR, "problem"), (Severity.WARNING, "warning"))
    counts = ", ".join(count(severities[one], word) for one, word in words if severities[one])
    needs = "needs" if len(odd) == 1 else "need"
    return f"{len(odd)} of {of} {needs} attention ({counts}){undecided}{unread}"


def _about(fleet: Fleet) -> str:
    """What was read: "200 nodes, 400 results"."""
    return f"{count(len(fleet.nodes), 'node')}, {count(fleet.results, 'result')}"


def _unread(fleet: Fleet) -> tuple[str, ...]:
    """What is no result, with its place: "reports/b.json, line 3: it is cut off"."""
    return tuple(f"{one.file}{f', line {one.line}' if one.line else ''}: {one.reason}" for one in fleet.unreadable)
