"""What a fleet comes to: its picture and its groups, a case for each node, metrics. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from tfgpu_doctor.fleet.fleet import exit_code
from tfgpu_doctor.fleet.records import Fleet, Group, Member, Node, NodeVerdict, Verdict
from tfgpu_doctor.records.report import EXIT_UNKNOWN, FailOn, Severity, failing
from tfgpu_doctor.records.units import count
from tfgpu_doctor.render import fleet_words as words
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.outline import Block, Detail
from tfgpu_doctor.render.prometheus import created, gauge, info, states
from tfgpu_doctor.render.shapes import (
    Annotation,
    Case,
    Checks,
    Items,
    Level,
    Metric,
    Outcome,
    Page,
    Part,
    Sample,
    Suite,
    Table,
)

_COMMAND = "tfgpu fleet"
_MOST_UNREAD = 5  # parts of files that a first screen names
_MOST_NODES = 1_000  # odd ones in the table of a page
_LEVELS: dict[Severity, Level] = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


# -------------------------------------------------------------------------------------------------------- for people


def page(fleet: Fleet, detail: formats.Detail = "shared") -> Page:
    """What the nodes have, the groups, the nodes that are not ok; or the first of them, or the worst group."""
    about = f"{_COMMAND} {fleet.tool.version}, {words.about(fleet)}"
    whole = Page(_COMMAND, (about,), words.MARKS[fleet.verdict], fleet.verdict, words.verdict(fleet), ())
    if detail == "least":
        return whole._replace(parts=tuple(_worst(fleet)), is_brief=True)
    layers = [(layer.mark, layer.name, layer.text) for layer in words.stack(fleet)]
    layers += [("", "Nodes", words.verdicts(fleet))] if layers else []
    picture = Table(
        "Fleet",
        ("Layer", "What the nodes have"),
        tuple(layer[1:] for layer in layers),
        tuple(layer[0] for layer in layers),
    )
    blocks = [words.block(group, whole=True) for group in fleet.groups]
    shown, unread, hint = blocks, list(words.unread(fleet)), ""
    if detail == "normal":
        shown = list(words.brief(fleet.groups))
        hint = "All nodes, values and fixes: tfgpu fleet -v" if shown != blocks else ""
        more = len(unread) - _MOST_UNREAD
        unread[_MOST_UNREAD:] = [f"and {count(more, 'more reason')}; -v shows all"] if more > 0 else []
    parts: tuple[Part, ...] = (
        picture,
        *(_values(fleet) if detail == "full" else ()),
        *shown,
        Items(tuple(unread), "Could not be read", "unknown"),
        Items(fleet.notes, mark="note"),
    )
    if detail == "shared":
        values = Detail("All values, with the number of nodes", ("Layer", "What", "Values"), words.picture(fleet))
        parts = (*parts, _odd_nodes(fleet), values)
    return whole._replace(parts=parts, hint=hint, created=fleet.created)


def _worst(fleet: Fleet) -> Iterator[Block]:
    for group in fleet.groups[:1]:
        block = words.block(group)
        yield block._replace(lines=tuple(line for line in block.lines if line.label in ("nodes", "fix"))[:2])


def _values(fleet: Fleet) -> Iterator[Table]:
    """Every fact that nodes know, with the number of nodes that have each value, a table for each layer."""
    rows = words.picture(fleet)
    for place, layer in enumerate(dict.fromkeys(layer for layer, _, _ in rows)):
        title = layer if place else f"{layer} (number of nodes)"
        yield Table(title, ("What", "Values"), tuple(row[1:] for row in rows if row[0] == layer), is_named=True)


def _odd_nodes(fleet: Fleet) -> Detail:
    problems = words.problems_of(fleet)
    odd = [node for node in fleet.nodes if node.verdict != "ok" or node.name in problems]
    rows = tuple(
        (node.name, node.verdict, node.hardware, _summary(node, problems.get(node.name, [])))
        for node in odd[:_MOST_NODES]
    )
    more = len(odd) - len(rows)
    title = f"Nodes that are not like the others ({len(odd)}{f', of which {len(rows)} are shown' if more else ''})"
    return Detail(title, ("Node", "Verdict of its results", "GPUs", "Because"), rows)


def _summary(node: Node, problems: list[tuple[Group, Member]]) -> str:
    return "; ".join(words.told(group, member) for group, member in problems) or node.reason or ", ".join(node.findings)


# ------------------------------------------------------------------------------------------------------------ for CI


def checks(fleet: Fleet, fail_on: FailOn = "error") -> Checks:
    """A case for each node, and one for whether all that was given could be read."""
    code = exit_code(fleet, fail_on)
    grave = failing(fail_on)
    problems = words.problems_of(fleet)
    cases = tuple(_case(node, problems.get(node.name, []), grave, code) for node in fleet.nodes)
    whole = Case("all results were read", "tfgpu.fleet", details=(words.about(fleet), *fleet.notes))
    unread = words.unread(fleet)
    if unread or not fleet.nodes:
        is_open = code == EXIT_UNKNOWN
        message = words.verdict(fleet) if not unread else f"{count(len(unread), 'part')} of files cannot be read"
        whole = whole._replace(
            outcome="error" if is_open else "skipped", kind="could not determine", message=message, details=unread
        )
    annotations = [_annotation(group, grave) for group in fleet.groups if group.severity is not Severity.NOTE]
    if whole.outcome != "passed":
        level: Level = "error" if whole.outcome == "error" else "warning"
        annotations.append(Annotation(level, f"{_COMMAND}: {whole.kind}", (whole.message, *whole.details)))
    log = (*(words.title(group) for group in fleet.groups), f"{_COMMAND}: {fleet.verdict}: {words.verdict(fleet)}")
    suite = Suite(_COMMAND, (whole, *cases))
    return Checks(_COMMAND, fleet.created, (suite,), tuple(annotations), log)


def _case(node: Node, problems: list[tuple[Group, Member]], grave: frozenset[Severity], code: int) -> Case:
    case = Case(node.name, f"tfgpu.fleet.{node.hardware}", details=tuple(_details(node, problems)))
    found = [(group, member) for group, member in problems if group.severity in grave]
    if found:
        message = "; ".join(words.told(group, member) for group, member in found)
        return case._replace(outcome="failure", kind=found[0][0].severity.value, message=message)
    if node.verdict == "unknown":
        # beside a problem, what is not known is no second one
        outcome: Outcome = "error" if code == EXIT_UNKNOWN else "skipped"
        message = "its results do not say whether it works"
        return case._replace(outcome=outcome, kind="could not determine", message=message)
    return case


def _details(node: Node, problems: list[tuple[Group, Member]]) -> Iterator[str]:
    yield f"{node.hardware}, {node.verdict}{f': {node.reason}' if node.reason else ''}"
    for group, member in problems:
        yield words.told(group, member)
        for fix in group.fixes:
            yield f"fix: {fix.text}"
            yield from (f"  {command}" for command in fix.commands)


def _annotation(group: Group, grave: frozenset[Severity]) -> Annotation:
    lines = [f"{line.label}: {line.text}" if line.label else line.text for line in words.block(group).lines]
    level = _LEVELS[group.severity] if group.severity in grave else "warning"
    return Annotation(level, f"{_COMMAND}: {words.title(group)}", tuple(lines))


# ---------------------------------------------------------------------------------------------------- for monitoring


def metrics(fleet: Fleet) -> Iterator[Metric]:
    """The verdict, how many nodes have which one, and which nodes are in which group."""
    yield info("fleet", fleet.tool, baseline=fleet.baseline or "")
    yield created("fleet", fleet.created)
    about = "Verdict of the fleet; 1 for the one that holds."
    yield states("tfgpu_fleet_verdict", about, get_args(Verdict), fleet.verdict)
    verdicts = Counter(node.verdict for node in fleet.nodes)
    yield gauge(
        "tfgpu_fleet_nodes",
        "Nodes by the worst verdict of their results.",
        *(Sample(verdicts[word], {"verdict": word}) for word in get_args(NodeVerdict)),
    )
    hardware = Counter(node.hardware for node in fleet.nodes if node.results)
    yield gauge(
        "tfgpu_fleet_hardware_nodes",
        "Nodes by their GPUs.",
        *(Sample(many, {"hardware": name}) for name, many in sorted(hardware.items())),
    )
    yield gauge("tfgpu_fleet_gpus", "GPUs that the nodes list.", Sample(sum(node.gpus or 0 for node in fleet.nodes)))
    unread = sum(one.count for one in fleet.unreadable)
    yield gauge("tfgpu_fleet_unreadable_results", "Results that could not be read.", Sample(unread))
    severities = Counter(group.severity for group in fleet.groups)
    yield gauge(
        "tfgpu_fleet_groups",
        "Groups of nodes with the same problem or difference.",
        *(Sample(severities[one], {"severity": one.value}) for one in Severity),
    )
    yield from _of_groups(fleet)


def _of_groups(fleet: Fleet) -> Iterator[Metric]:
    """Groups of one id are one series: each differs from what its own siblings have."""
    members: dict[tuple[str, str, str], set[str]] = {}
    for group in fleet.groups:
        members.setdefault((group.id, group.kind, group.severity.value), set()).update(one.node for one in group.nodes)
    labels = {key: dict(zip(("id", "kind", "severity"), key, strict=True)) for key in members}
    yield gauge(
        "tfgpu_fleet_group_nodes",
        "Nodes with this problem or difference.",
        *(Sample(len(names), labels[key]) for key, names in members.items()),
    )
    yield gauge(
        "tfgpu_fleet_node_problem",
        "1 for each problem and each difference of a node.",
        *(Sample(1, {"node": name, **labels[key]}) for key, names in members.items() for name in sorted(names)),
    )
