"""What a fleet shows in words, for terminals, pages and CI. Pure.

Text from outside is returned as it is; who prints it cleans or escapes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from tfgpu_doctor.fleet.records import Common, Fleet, Group, Member
from tfgpu_doctor.fleet.values import label
from tfgpu_doctor.records.about import LAYERS
from tfgpu_doctor.records.report import Severity
from tfgpu_doctor.records.units import count
from tfgpu_doctor.render.outline import Block, Line
from tfgpu_doctor.render.outlines.report import Layer

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


def verdict(fleet: Fleet) -> str:
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


def about(fleet: Fleet) -> str:
    """What was read: "200 nodes, 400 results; compared with baseline.json"."""
    parts = [f"{count(len(fleet.nodes), 'node')}, {count(fleet.results, 'result')}"]
    parts += [f"compared with {fleet.baseline}"] if fleet.baseline else []
    parts += [f"expected: {', '.join(fleet.expectations)}"] if fleet.expectations else []
    return "; ".join(parts)


def verdicts(fleet: Fleet) -> str:
    """ "197 ok, 3 degraded by their own results"."""
    counts = Counter[str](node.verdict for node in fleet.nodes)
    answered = ", ".join(f"{counts[word]} {word}" for word in MARKS if counts[word] and word != "no answer")
    silent = f"{counts['no answer']} without an answer" if counts["no answer"] else ""
    return "; ".join(filter(None, (answered and f"{answered} by their own results", silent)))


# -------------------------------------------------------------------------------------------------------- the picture


def stack(fleet: Fleet) -> Iterator[Layer]:
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


def picture(fleet: Fleet) -> tuple[tuple[str, str, str], ...]:
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


def title(group: Group) -> str:
    """ "driver 550.54.15 instead of 580.65.06: 1 node"."""
    return f"{group.title}: {count(len(group.nodes), 'node')}"


def block(group: Group, *, whole: bool = False) -> Block:
    """A group as a finding is shown: which nodes, what was found there and what is expected, why, what repairs it."""
    return Block(group.severity.value, title(group), tuple(_lines(group, whole)), (group.id,))


def brief(groups: Iterable[Group]) -> Iterator[Block]:
    """What a first screen needs: the first groups, each reason once; of the others and of notes the titles."""
    said: set[str] = set()
    for place, group in enumerate(groups):
        made = block(group)
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


def problems_of(fleet: Fleet) -> dict[str, list[tuple[Group, Member]]]:
    """For each node, the groups that it is in, the worst first."""
    found: dict[str, list[tuple[Group, Member]]] = {}
    for group in fleet.groups:
        for member in group.nodes:
            found.setdefault(member.node, []).append((group, member))
    return found


def told(group: Group, member: Member) -> str:
    """A group as it is on one node: "kernel 5.15.0-91-generic instead of 6.8.0-45-generic"."""
    if not member.found or member.found in group.title:
        return group.title
    return f"{group.title} ({member.found})"


def unread(fleet: Fleet) -> tuple[str, ...]:
    """What is no result, with its place: "reports/b.json, line 3: it is cut off"."""
    return tuple(
        f"{one.file}{f', line {one.line}' if one.line else ''}: {one.reason}"
        f"{f', and {one.count - 1} more in this file' if one.count > 1 else ''}"
        for one in fleet.unreadable
    )
