"""What a fleet comes to: its picture and its groups, a case for each node, metrics. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import get_args

from tfgpu_doctor.fleet.fleet import exit_code
from tfgpu_doctor.fleet.records import Common, Fleet, Group, Member, Node, NodeVerdict, Verdict
from tfgpu_doctor.fleet.values import label
from tfgpu_doctor.records.about import LAYERS
from tfgpu_doctor.records.report import EXIT_UNKNOWN, FailOn, Severity, failing
from tfgpu_doctor.records.units import count
from tfgpu_doctor.render import formats
from tfgpu_doctor.render.outlines.report import Layer
from tfgpu_doctor.render.prometheus import created, gauge, info, states
from tfgpu_doctor.render.shapes import (
    Annotation,
    Block,
    Case,
    Checks,
    Detail,
    Items,
    Level,
    Line,
    Metric,
    Outcome,
    Page,
    Part,
    Sample,
    Suite,
    Table,
)

MARKS = {"ok": "ok", "degraded": "warning", "broken": "error", "unknown": "unknown", "no answer": "error"}
# what a first screen shows of the picture, by layer; -v and pages have all of it
_FIRST = (
    *("host.distribution", "host.kernel", "gpus", "driver.version", "driver.cuda_supported", "cudnn.runtime"),
    *("python.version", "tensorflow.version", "tensorflow.devices", "tensorflow.checks"),
)
_LABELS = {"host.kernel": "kernel ", "driver.cuda_supported": "CUDA up to "}
_MOST_VALUES = 3  # of a row of the first screen
_MOST_NAMES = 8  # of hosts, or ranges of them, that a first screen shows of a group
_LONGEST_SET = 42  # characters of "gpu-[001-004,007]", which fits in a narrow terminal beside its label
_MOST_GROUPS = 12  # that a first screen shows in full
_MOST_FOUND = 3  # different values of a group that a first screen shows
_NUMBER = re.compile(r"\d{1,12}")


_COMMAND = "tfgpu fleet"
_MOST_UNREAD = 5  # parts of files that a first screen names
_MOST_NODES = 1_000  # odd ones in the table of a page
_LEVELS: dict[Severity, Level] = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


# -------------------------------------------------------------------------------------------------------- for people


def page(fleet: Fleet, detail: formats.Detail = "shared") -> Page:
    """What the nodes have, the groups, the nodes that are not ok; or the first of them, or the worst group."""
    about = f"{_COMMAND} {fleet.tool.version}, {_about(fleet)}"
    whole = Page(_COMMAND, (about,), MARKS[fleet.verdict], fleet.verdict, _verdict(fleet), ())
    if detail == "least":
        return whole._replace(parts=tuple(_worst(fleet)), is_brief=True)
    layers = [(layer.mark, layer.name, layer.text) for layer in _stack(fleet)]
    layers += [("", "Nodes", _verdicts(fleet))] if layers else []
    picture = Table(
        "Fleet",
        ("Layer", "What the nodes have"),
        tuple(layer[1:] for layer in layers),
        tuple(layer[0] for layer in layers),
    )
    blocks = [_block(group, whole=True) for group in fleet.groups]
    shown, unread, hint = blocks, list(_unread_results(fleet)), ""
    if detail == "normal":
        shown = list(_brief(fleet.groups))
        hint = "All nodes, values and fixes: tfgpu fleet -v" if shown != blocks else ""
        more = len(unread) - _MOST_UNREAD
        unread[_MOST_UNREAD:] = [f"and {count(more, 'more reason')}; -v shows all"] if more > 0 else []
    parts: tuple[Part, ...] = (
        picture,
        *(_all_values(fleet) if detail == "full" else ()),
        *shown,
        Items(tuple(unread), "Could not be read", "unknown"),
        Items(fleet.notes, mark="note"),
    )
    if detail == "shared":
        values = Detail("All values, with the number of nodes", ("Layer", "What", "Values"), _picture(fleet))
        parts = (*parts, _odd_nodes(fleet), values)
    return whole._replace(parts=parts, hint=hint, created=fleet.created)


def _worst(fleet: Fleet) -> Iterator[Block]:
    for group in fleet.groups[:1]:
        block = _block(group)
        yield block._replace(lines=tuple(line for line in block.lines if line.label in ("nodes", "fix"))[:2])


def _all_values(fleet: Fleet) -> Iterator[Table]:
    """Every fact that nodes know, with the number of nodes that have each value, a table for each layer."""
    rows = _picture(fleet)
    for place, layer in enumerate(dict.fromkeys(layer for layer, _, _ in rows)):
        title = layer if place else f"{layer} (number of nodes)"
        yield Table(title, ("What", "Values"), tuple(row[1:] for row in rows if row[0] == layer), is_named=True)


def _odd_nodes(fleet: Fleet) -> Detail:
    problems = _problems_of(fleet)
    odd = [node for node in fleet.nodes if node.verdict != "ok" or node.name in problems]
    rows = tuple(
        (node.name, node.verdict, node.hardware, _summary(node, problems.get(node.name, [])))
        for node in odd[:_MOST_NODES]
    )
    more = len(odd) - len(rows)
    title = f"Nodes that are not like the others ({len(odd)}{f', of which {len(rows)} are shown' if more else ''})"
    return Detail(title, ("Node", "Verdict of its results", "GPUs", "Because"), rows)


def _summary(node: Node, problems: list[tuple[Group, Member]]) -> str:
    return "; ".join(_told(group, member) for group, member in problems) or node.reason or ", ".join(node.findings)


# ------------------------------------------------------------------------------------------------------------ for CI


def checks(fleet: Fleet, fail_on: FailOn = "error") -> Checks:
    """A case for each node, and one for whether all that was given could be read."""
    code = exit_code(fleet, fail_on)
    grave = failing(fail_on)
    problems = _problems_of(fleet)
    cases = tuple(_case(node, problems.get(node.name, []), grave, code) for node in fleet.nodes)
    whole = Case("all results were read", "tfgpu.fleet", details=(_about(fleet), *fleet.notes))
    unread = _unread_results(fleet)
    if unread or not fleet.nodes:
        is_open = code == EXIT_UNKNOWN
        message = _verdict(fleet) if not unread else f"{count(len(unread), 'part')} of files cannot be read"
        whole = whole._replace(
            outcome="error" if is_open else "skipped", kind="could not determine", message=message, details=unread
        )
    annotations = [_annotation(group, grave) for group in fleet.groups if group.severity is not Severity.NOTE]
    if whole.outcome != "passed":
        level: Level = "error" if whole.outcome == "error" else "warning"
        annotations.append(Annotation(level, f"{_COMMAND}: {whole.kind}", (whole.message, *whole.details)))
    log = (*(_title(group) for group in fleet.groups), f"{_COMMAND}: {fleet.verdict}: {_verdict(fleet)}")
    suite = Suite(_COMMAND, (whole, *cases))
    return Checks(_COMMAND, fleet.created, (suite,), tuple(annotations), log)


def _case(node: Node, problems: list[tuple[Group, Member]], grave: frozenset[Severity], code: int) -> Case:
    case = Case(node.name, f"tfgpu.fleet.{node.hardware}", details=tuple(_details(node, problems)))
    found = [(group, member) for group, member in problems if group.severity in grave]
    if found:
        message = "; ".join(_told(group, member) for group, member in found)
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
        yield _told(group, member)
        for fix in group.fixes:
            yield f"fix: {fix.text}"
            yield from (f"  {command}" for command in fix.commands)


def _annotation(group: Group, grave: frozenset[Severity]) -> Annotation:
    lines = [f"{line.label}: {line.text}" if line.label else line.text for line in _block(group).lines]
    level = _LEVELS[group.severity] if group.severity in grave else "warning"
    return Annotation(level, f"{_COMMAND}: {_title(group)}", tuple(lines))


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


# ---------------------------------------------------------------------------------------------------------------- words


def folded(names: Iterable[str], most: int | None = None) -> str:
    """Names of hosts in the way of Slurm and pdsh, in their order: "gpu-[001-004,007], login".

    Args:
        names: of hosts.
        most: how many of them, or ranges, to show; None: all.
    """
    by_stem: dict[tuple[str, str], list[str]] = {}
    for name in names:
        found = next(iter(reversed(list(_NUMBER.finditer(name)))), None)  # the last one
        stem = (name[: found.start()], name[found.end() :]) if found else (name, "")
        by_stem.setdefault(stem, []).append(found[0] if found else "")
    ranges: dict[tuple[str, str, int], list[tuple[int, int]]] = {}
    for (head, tail), several in by_stem.items():
        is_padded = any(len(digits) > 1 and digits[0] == "0" for digits in several)
        for digits in several:
            _extend(ranges.setdefault((head, tail, len(digits) if is_padded else 0), []), int(digits or -1))
    return _joined(ranges, most)


def _extend(ranges: list[tuple[int, int]], number: int) -> None:
    if ranges and ranges[-1][1] + 1 == number:
        ranges[-1] = (ranges[-1][0], number)
    else:
        ranges.append((number, number))


def _joined(ranges: dict[tuple[str, str, int], list[tuple[int, int]]], most: int | None) -> str:
    parts, left = [], sum(map(len, ranges.values())) if most is None else most
    more = 0
    for (head, tail, width), several in ranges.items():
        shown, hidden = several[: max(left, 0)], several[max(left, 0) :]
        left -= len(shown)
        more += sum(last - first + 1 for first, last in hidden)
        texts = [f"{first:0{width}}" + (f"-{last:0{width}}" if last > first else "") for first, last in shown]
        if shown and shown[0][0] < 0:
            parts.append(head)
        elif shown:
            parts += [
                f"{head}{inside if inside.isdecimal() else f'[{inside}]'}{tail}"
                for inside in _in_parts(texts, _LONGEST_SET - len(head) - len(tail))
            ]
    return ", ".join(parts) + (f" and {more} more" if more else "")


def _in_parts(texts: list[str], longest: int) -> Iterator[str]:
    """Ranges with commas between them, so many that no line must break within a number."""
    part = ""
    for text in texts:
        if part and len(part) + len(text) >= longest:
            yield part
            part = ""
        part += f",{text}" if part else text
    yield part


def _verdict(fleet: Fleet) -> str:
    """What the verdict means: "13 of 200 nodes need attention (2 problems, 7 warnings)"."""
    if not fleet.nodes:
        return f"no result of a node was read{_unread(fleet)}"
    odd = {member.node for group in fleet.groups if group.severity is not Severity.NOTE for member in group.nodes}
    open_ones = sum(node.verdict == "unknown" and node.name not in odd for node in fleet.nodes)
    of = count(len(fleet.nodes), "node")
    what = f"{len(odd)} of {of} {'needs' if len(odd) == 1 else 'need'} attention" if odd else f"{of}, none is odd"
    undecided = f"; of {open_ones} it is not known" if open_ones else ""
    return f"{what}{_counts(fleet)}{undecided}{_unread(fleet)}"


def _counts(fleet: Fleet) -> str:
    severities = Counter(group.severity for group in fleet.groups)
    words = ((Severity.ERROR, "problem"), (Severity.WARNING, "warning"))
    counts = [count(severities[one], word) for one, word in words if severities[one]]
    return f" ({', '.join(counts)})" if counts else ""


def _unread(fleet: Fleet) -> str:
    parts = sum(one.count for one in fleet.unreadable)
    return f"; {count(parts, 'result')} could not be read" if parts else ""


def _about(fleet: Fleet) -> str:
    """What was read: "200 nodes, 400 results; compared with baseline.json"."""
    parts = [f"{count(len(fleet.nodes), 'node')}, {count(fleet.results, 'result')}"]
    parts += [f"compared with {fleet.baseline}"] if fleet.baseline else []
    parts += [f"expected: {', '.join(fleet.expectations)}"] if fleet.expectations else []
    return "; ".join(parts)


def _verdicts(fleet: Fleet) -> str:
    """ "197 ok, 3 degraded by their own results"."""
    counts = Counter[str](node.verdict for node in fleet.nodes)
    answered = ", ".join(f"{counts[word]} {word}" for word in MARKS if counts[word] and word != "no answer")
    silent = f"{counts['no answer']} without an answer" if counts["no answer"] else ""
    return "; ".join(filter(None, (answered and f"{answered} by their own results", silent)))


# -------------------------------------------------------------------------------------------------------- the picture


def _stack(fleet: Fleet) -> Iterator[Layer]:
    """One line a layer: what most nodes have, and whether a group is about it."""
    by_layer: dict[str, list[str]] = {}
    for row in sorted((row for row in fleet.common if row.id in _FIRST), key=lambda row: _FIRST.index(row.id)):
        if row.values:
            by_layer.setdefault(row.layer, []).append(f"{_LABELS.get(row.id, '')}{_values(row, fleet, _MOST_VALUES)}")
    worst: dict[str, Severity] = {}
    for group in reversed(fleet.groups):  # the worst stands first
        if group.kind != "no answer":
            worst[group.layer] = group.severity
    for layer in LAYERS:
        mark = {Severity.ERROR: "error", Severity.WARNING: "warning"}.get(worst.get(layer, Severity.NOTE), "ok")
        texts = by_layer.get(layer)
        if texts or mark != "ok":
            yield Layer(layer, mark, "; ".join(texts or ("see below",)))  # type: ignore[arg-type]


def _picture(fleet: Fleet) -> tuple[tuple[str, str, str], ...]:
    """All that nodes know: layer, label, values."""
    return tuple((row.layer, row.label, _values(row, fleet)) for row in fleet.common)


def _values(row: Common, fleet: Fleet, most: int | None = None) -> str:
    """What nodes have of a fact: "580.65.06 (199), 550.54.15 (1)"; without numbers where all have the same."""
    if row.distinct == 1 and row.known == len(fleet.nodes):
        return row.values[0].value
    shown = row.values[:most]
    more = f", {row.distinct - len(shown)} more" if row.distinct > len(shown) else ""
    between = "; " if any(", " in one.value for one in shown) else ", "
    return between.join(f"{one.value} ({one.nodes})" for one in shown) + more


# --------------------------------------------------------------------------------------------------------- the groups


def _title(group: Group) -> str:
    """ "driver 550.54.15 instead of 580.65.06: 1 node"."""
    return f"{group.title}: {count(len(group.nodes), 'node')}"


def _block(group: Group, *, whole: bool = False) -> Block:
    """A group as a finding is shown: which nodes, what was found there and what is expected, why, what repairs it."""
    return Block(group.severity.value, _title(group), tuple(_lines(group, whole)), (group.id,))


def _brief(groups: Iterable[Group]) -> Iterator[Block]:
    """What a first screen needs: the first groups, each reason once; of the others and of notes the titles."""
    said: set[str] = set()
    for place, group in enumerate(groups):
        made = _block(group)
        if place >= _MOST_GROUPS or group.severity is Severity.NOTE:
            yield made._replace(lines=())
            continue
        yield made._replace(lines=tuple(line for line in made.lines if line.label != "why" or line.text not in said))
        said.add(group.cause)


def _lines(group: Group, whole: bool) -> Iterator[Line]:
    most = None if whole else _MOST_NAMES
    by_found: dict[str, list[str]] = {}
    for member in group.nodes:
        by_found.setdefault(member.found, []).append(member.node)
    yield Line("nodes", folded((member.node for member in group.nodes), most))
    several = list(by_found.items()) if whole else list(by_found.items())[:_MOST_FOUND]
    for found, names in several:
        of = f"{folded(names, most)}: " if len(by_found) > 1 else ""
        if found not in group.title:
            yield Line("found", f"{of}{found}")
    if len(by_found) > len(several):
        yield Line("", f"and {count(len(by_found) - len(several), 'more value')}")
    if group.expected:
        yield Line("expected", group.expected, group.source)
    yield Line("why", group.cause)
    if group.explains:
        yield Line("therefore", f"also odd there: {', '.join(dict.fromkeys(map(label, group.explains)))}")
    fixes = group.fixes if whole else group.fixes[:2]
    for fix in fixes:
        yield Line("fix", fix.text, commands=fix.commands)
    if not group.expected and group.source:
        yield Line("", group.source)


def _problems_of(fleet: Fleet) -> dict[str, list[tuple[Group, Member]]]:
    """For each node, the groups that it is in, the worst first."""
    found: dict[str, list[tuple[Group, Member]]] = {}
    for group in fleet.groups:
        for member in group.nodes:
            found.setdefault(member.node, []).append((group, member))
    return found


def _told(group: Group, member: Member) -> str:
    """A group as it is on one node: "kernel 5.15.0-91-generic instead of 6.8.0-45-generic"."""
    if not member.found or member.found in group.title:
        return group.title
    return f"{group.title} ({member.found})"


def _unread_results(fleet: Fleet) -> tuple[str, ...]:
    """What is no result, with its place: "reports/b.json, line 3: it is cut off"."""
    return tuple(
        f"{one.file}{f', line {one.line}' if one.line else ''}: {one.reason}"
        f"{f', and {one.count - 1} more in this file' if one.count > 1 else ''}"
        for one in fleet.unreadable
    )
