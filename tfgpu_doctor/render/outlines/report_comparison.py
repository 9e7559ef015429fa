"""What a comparison of two reports comes to: what changed, and a block and a case for each finding. Pure."""

from __future__ import annotations

from tfgpu_doctor.compare.comparison import exit_code, is_failing, is_open
from tfgpu_doctor.compare.records import Comparison, FindingChange
from tfgpu_doctor.records.report import EXIT_UNKNOWN, FailOn
from tfgpu_doctor.render import compare_words as words
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import VERDICT_MARKS, Block, Line
from tfgpu_doctor.render.outlines.report import LEVELS
from tfgpu_doctor.render.shapes import Annotation, Case, Checks, Items, Outcome, Page, Part, Suite, Table

_COMMAND = "tfgpu compare"


def page(comparison: Comparison, everything: bool = False, detail: Detail = "shared") -> Page:
    """What changed layer by layer, the findings that are new or gone with their causes, and those in both."""
    everything = everything or detail == "full"
    shown = words.what_differs(comparison, everything)
    mark, summary = words.summary(comparison, shown)
    about = f"{_COMMAND} {comparison.tool.version}, matrix of {comparison.matrix.revision}"
    whole = Page(_COMMAND, (about,), mark, _COMMAND, summary, (), is_brief=detail == "least")
    if detail == "least":
        return whole
    both = (("good", comparison.good), ("bad", comparison.bad))
    sides = Table(
        "Reports",
        ("Side", "Report"),
        tuple((label, f"{side.name}  {side.created}  {side.verdict}") for label, side in both),
        tuple(VERDICT_MARKS[side.verdict] for _, side in both),
    )
    rows: list[tuple[str, str, str]] = []
    for layer in words.layers(shown, everything):
        rows += [(words.mark_of(change, comparison), layer.name, change.text) for change in layer.changes]
        rows += [("", layer.name, f"and {layer.left_out} more, which --all lists")] if layer.left_out else []
    differ = words.machines(comparison)
    parts: tuple[Part, ...] = (
        sides,
        Items((differ,) if differ else (), mark="warning"),
        Items(comparison.notes, mark="note"),
        Table(
            "What changed",
            ("Layer", "Change"),
            tuple(row[1:] for row in rows),
            tuple(row[0] for row in rows),
            is_named=True,
        ),
        Items(tuple(words.not_examined(comparison, shown)), mark="unknown"),
        *(words.block_of(comparison, one) for one in words.findings_shown(comparison) if one.status != "remains"),
        *map(_remaining, words.still_there(comparison)),
    )
    return whole._replace(parts=parts)


def _remaining(finding: FindingChange) -> Block:
    return Block(finding.severity.value, words.title_of(finding), (Line("status", "still there"),), (finding.id,))


def checks(comparison: Comparison, fail_on: FailOn = "error", everything: bool = False) -> Checks:
    """A case for each finding: red where it is new, and what cannot be compared where that decides."""
    code = exit_code(comparison, fail_on)
    _, summary = words.summary(comparison, words.what_differs(comparison, everything))
    found = words.findings_shown(comparison)
    cases = tuple(_case(one, comparison, fail_on, code) for one in found)
    verdict = Case("a verdict could be reached", "tfgpu.compare", details=(summary,))
    if code == EXIT_UNKNOWN and not any(case.outcome == "error" for case in cases):
        about = f"could not determine the verdict of {comparison.bad.name}"
        verdict = verdict._replace(outcome="error", kind="could not determine", message=about)
    problems = tuple(
        Annotation(LEVELS[one.severity], f"{one.title} ({one.id})", case.details)
        for one, case in zip(found, cases, strict=True)
        if one.status in ("new", "unjudged") and one.inside == "bad"
    )
    problems += (Annotation("error", f"{_COMMAND}: {verdict.message}", (summary,)),) if verdict.message else ()
    suites = (Suite("Verdict", (verdict,)), Suite("Findings", cases))
    return Checks(_COMMAND, comparison.created, suites, problems, (f"{_COMMAND}: {summary}",))


def _case(finding: FindingChange, comparison: Comparison, fail_on: FailOn, code: int) -> Case:
    case, severity = Case(finding.id, "tfgpu.compare"), finding.severity.value
    if finding.status == "remains":
        return case._replace(details=(f"{severity}: {words.title_of(finding)}", "in both reports"))
    lines = tuple(f"{line.label:9} {line.text}" for line in words.block_of(comparison, finding).lines)
    if is_failing(finding, fail_on):
        return case._replace(outcome="failure", kind=severity, message=finding.title, details=lines)
    if is_open(finding, fail_on):
        outcome: Outcome = "error" if code == EXIT_UNKNOWN else "skipped"
        return case._replace(outcome=outcome, kind="could not determine", message=finding.title, details=lines)
    return case._replace(details=(f"{severity}: {finding.title}", *lines))
