"""What changed between two reports, what of it matters, and which change explains a finding that is new or gone. Pure.

Both reports are judged anew by the same rules, so that only the facts differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from tfgpu_doctor import __version__
from tfgpu_doctor.compare.acts import acts
from tfgpu_doctor.compare.counterfactuals import Counterfactuals, reads
from tfgpu_doctor.compare.differences import Difference, differences
from tfgpu_doctor.compare.records import SCHEMA, Change, Comparison, Explanation, FindingChange, Side, Weight
from tfgpu_doctor.compare.words import arrow
from tfgpu_doctor.diagnosis.engine import Diagnosis, diagnose
from tfgpu_doctor.diagnosis.reports import works
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import matches
from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.records.facts import Facts, Known, Python, about, look_up, value_or
from tfgpu_doctor.records.report import (
    EXIT_OK,
    EXIT_PROBLEM,
    EXIT_UNKNOWN,
    FailOn,
    Finding,
    MatrixInfo,
    Report,
    Severity,
    Tool,
    judge,
)
from tfgpu_doctor.records.units import memory_size

_SHARED_PREFIXES = frozenset({"/", "/usr", "/usr/local", "/opt", "/opt/local"})


def compare(
    good: Report,
    bad: Report,
    matrix: Matrix,
    created: str,
    *,
    names: tuple[str, str] = ("GOOD", "BAD"),
    require_gpus: int | None = None,
) -> Comparison:
    """Compare two reports; `created` is the time, `names` are what the reports are called."""
    ours, theirs = _aligned(good.facts, bad.facts), bad.facts
    before, after = (diagnose(facts, matrix, require_gpus=require_gpus) for facts in (good.facts, bad.facts))
    changes = differences(ours, theirs)
    undoable = acts(changes, ours, theirs)
    forward = Counterfactuals(theirs, ours, matrix, undoable, require_gpus=require_gpus)
    backward = Counterfactuals(ours, theirs, matrix, undoable, require_gpus=require_gpus)
    findings = tuple(_findings(before, after, forward.open_in_source(after), backward.open_in_source(before)))
    explanations = tuple(
        (forward if one.status == "new" else backward).explain(one.id)
        for one in findings
        if one.status in ("new", "gone") and not _follows_from_one_alike(one, findings)
    )
    weigh = _Weighing(matrix, ours, theirs, [before, after], findings, explanations)
    return Comparison(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        matrix=MatrixInfo(revision=matrix.revision, source=", ".join(matrix.layers) or "bundled"),
        created=created,
        good=_side(good, names[0], before),
        bad=_side(bad, names[1], after),
        machines=tuple(_machines(good.facts, bad.facts)),
        notes=tuple(_notes(((good, before), (bad, after)), names, require_gpus)),
        changes=tuple(weigh.change(one) for one in changes),
        findings=findings,
        explanations=explanations,
    )


def without_noise(comparison: Comparison) -> Comparison:
    """Leave out what differs from minute to minute and explains nothing."""
    kept = tuple(one for one in comparison.changes if one.weight != "noise")
    return msgspec.structs.replace(comparison, changes=kept)


def exit_code(comparison: Comparison, fail_on: FailOn) -> int:
    """0 nothing new at or above `fail_on`, 1 something is, 3 it cannot be told."""
    if fail_on == "never":
        return EXIT_OK
    failing = {Severity.ERROR} | ({Severity.WARNING} if fail_on == "warning" else set())
    grave = [one for one in comparison.findings if one.severity in failing and one.inside == "bad"]
    if any(one.status == "new" for one in grave):
        return EXIT_PROBLEM
    is_unclear = any(one.status == "unjudged" and one.root_cause for one in grave)
    return EXIT_UNKNOWN if is_unclear or comparison.bad.verdict == "unknown" else EXIT_OK


def _side(report: Report, name: str, judged: Diagnosis) -> Side:
    return Side(
        name=name,
        created=report.created,
        tool=report.tool.version,
        matrix=report.matrix.revision,
        verdict=judge(judged.findings, works=works(report.facts)),
    )


# ------------------------------------------------------------------------------------------------ alignment


def _aligned(good: Facts, bad: Facts) -> Facts:
    """GOOD's facts as if its environment lay in BAD's folder, so that only what lies in it differs."""
    prefixes = [_prefix(facts.python) for facts in (good, bad)]
    if None in prefixes or prefixes[0] == prefixes[1] or _SHARED_PREFIXES & set(prefixes):
        return good
    pattern = re.compile(re.escape(prefixes[0] or "") + r"(?=[\\/\"':\s]|$)")
    text = pattern.sub(lambda _: prefixes[1] or "", msgspec.json.encode(good).decode())
    folders = [_library_folder(facts.python) for facts in (good, bad)]
    if all(folders) and folders[0] != folders[1]:
        text = text.replace(f"{prefixes[1]}/{folders[0]}/", f"{prefixes[1]}/{folders[1]}/")
    moved = msgspec.json.decode(text, type=Facts)
    where = {"executable": good.python.executable, "prefix": good.python.prefix}
    return msgspec.structs.replace(moved, python=msgspec.structs.replace(moved.python, **where))


def _prefix(python: Python) -> str | None:
    prefix = value_or(python.prefix, None)
    return None if prefix is None or "\\" in prefix or '"' in prefix else prefix.rstrip("/")


def _library_folder(python: Python) -> str | None:
    version = value_or(python.version, None)
    return None if version is None else "lib/python" + ".".join(version.split(".")[:2])


# ------------------------------------------------------------------------------------- what is said above all


def _machines(good: Facts, bad: Facts) -> Iterator[str]:
    """How the hardware or the system differs; nothing where one machine may have been compared with itself."""
    for path in ("host.os", "host.machine", "host.distribution", "host.cpu_model"):
        before, after = (look_up(facts, path) for facts in (good, bad))
        if isinstance(before, Known) and isinstance(after, Known) and before.value != after.value:
            yield arrow(about(path).label, before.value, after.value)
    models = [{value_or(gpu.name, "") for gpu in value_or(facts.gpus, ())} - {""} for facts in (good, bad)]
    if all(models) and not (models[0] <= models[1] or models[1] <= models[0]):
        yield arrow("GPU", *(", ".join(sorted(names)) for names in models))
    memory = [value_or(facts.host.memory, 0) for facts in (good, bad)]
    if all(memory) and abs(memory[0] - memory[1]) > 0.2 * max(memory):
        yield arrow("memory", *map(memory_size, memory))


def _notes(
    sides: Iterable[tuple[Report, Diagnosis]], names: tuple[str, str], require_gpus: int | None
) -> Iterator[str]:
    for (report, judged), name in zip(sides, names, strict=True):
        then, now = {one.id for one in report.findings}, {one.id for one in judged.findings}
        if require_gpus is None:
            then -= {"gpu.fewer-than-required"}
        for ids, text in ((then - now, "not found in {} by today's rules"), (now - then, "found in {} by today's")):
            if ids:
                by = f"which tfgpu {report.tool.version} with the matrix of {report.matrix.revision} judged otherwise"
                yield f"{', '.join(sorted(ids))}: {text.format(name)}, {by}"


# ------------------------------------------------------------------------------------------------- findings


def _findings(
    good: Diagnosis, bad: Diagnosis, open_in_good: set[str], open_in_bad: set[str]
) -> Iterator[FindingChange]:
    """New ones first, then those that cannot be compared, those that remain, and those that are gone."""
    ours, theirs = ({one.id: one for one in diagnosis.findings} for diagnosis in (good, bad))
    changed = [
        *(_finding(one, "unjudged" if one.id in open_in_good else "new", "bad") for one in bad.findings),
        *(_finding(one, "unjudged" if one.id in open_in_bad else "gone", "good") for one in good.findings),
    ]
    order = ("new", "unjudged", "remains", "gone")
    both = [
        msgspec.structs.replace(
            _finding(one, "remains", "both"), before=ours[one.id].title if ours[one.id].title != one.title else None
        )
        for one in bad.findings
        if one.id in ours
    ]
    alone = [one for one in changed if not (one.id in ours and one.id in theirs)]
    found = sorted((*alone, *both), key=lambda one: order.index(one.status))
    for one in found:
        yield msgspec.structs.replace(one, follows_from=_root_of(one, found, good if one.inside == "good" else bad))


def _finding(one: Finding, status: Any, inside: Any) -> FindingChange:
    return FindingChange(
        id=one.id, status=status, inside=inside, severity=one.severity, root_cause=one.root_cause, title=one.title
    )


def _root_of(one: FindingChange, found: list[FindingChange], diagnosis: Diagnosis) -> str | None:
    """The root cause that a consequence follows from; of several, one that is just as new, or just as gone."""
    if one.root_cause:
        return None
    patterns = DECLARATIONS[one.id].explained_by if one.id in DECLARATIONS else ()
    status = {other.id: other.status for other in found}
    roots = [root.id for root in diagnosis.findings if root.root_cause]
    likely = [root for root in roots if matches(root, patterns) and status.get(root) == one.status]
    named = [root.id for root in diagnosis.findings if one.id in root.consequences]
    return next(iter((*likely, *named)), None)


def _follows_from_one_alike(one: FindingChange, findings: Iterable[FindingChange]) -> bool:
    """Whether the finding follows from another that is just as new, or just as gone."""
    return any(other.id == one.follows_from and other.status == one.status for other in findings)


# -------------------------------------------------------------------------------------------------- weighing


class _Weighing:
    """Says of each difference how much it matters."""

    def __init__(
        self,
        matrix: Matrix,
        good: Facts,
        bad: Facts,
        judged: list[Diagnosis],
        findings: tuple[FindingChange, ...],
        explanations: tuple[Explanation, ...],
    ) -> None:
        self._explained: dict[str, list[str]] = {}
        for one in explanations:
            for change in one.changes:
                self._explained.setdefault(change, []).append(one.finding)
        self._reads = {one.id: reads(one.id, matrix, good, bad) for one in findings}
        self._texts = {
            one.id: " ".join((one.title, one.cause, *(f"{item.saw} {item.source}" for item in one.evidence)))
            for diagnosis in judged
            for one in diagnosis.findings
        }

    def change(self, one: Difference) -> Change:
        """The record of a difference."""
        explained = tuple(self._explained.get(one.id, ()))
        connected = tuple(finding for finding in self._reads if self._is_connected(one, finding))
        weight: Weight = "explains" if explained else "connected" if connected else "can-matter"
        if one.grade == "noise" and not explained:
            weight = "noise"
        return Change(
            id=one.id,
            layer=one.layer,
            status=one.status,
            text=one.text,
            good=one.good,
            bad=one.bad,
            weight=weight,
            findings=explained or connected,
        )

    def _is_connected(self, difference: Difference, finding: str) -> bool:
        """A rule reads the fact; of a collection, the finding must name the element."""
        path = difference.path
        if path.path not in self._reads[finding]:
            return False
        if path.key is None or path.path == "gpus":
            return True
        return re.search(rf"(?<![\w-]){re.escape(path.key)}(?![\w-])", self._texts[finding]) is not None
