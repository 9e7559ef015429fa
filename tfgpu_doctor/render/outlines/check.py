"""What `tfgpu check` found: the files, the findings at their lines, and the changes. Pure."""

from __future__ import annotations

from tfgpu_doctor.records.checked import Checked
from tfgpu_doctor.records.report import FailOn
from tfgpu_doctor.render.check_words import meaning
from tfgpu_doctor.render.ci.plain import place_of
from tfgpu_doctor.render.outline import block
from tfgpu_doctor.render.outlines.report import (
    annotated,
    finding_case,
    head,
    no_verdict,
    titles_of,
    verdict_case,
    verdict_line,
)
from tfgpu_doctor.render.shapes import Case, Checks, Code, Items, Page, Suite, Table

_COMMAND = "tfgpu check"


def page(checked: Checked) -> Page:
    """The files, the findings, what is open, and the changes that --fix makes or made."""
    report, titles = checked.report, titles_of(checked.report.findings)
    files = Table("Files", ("File", "Contains"), tuple((one.label, one.content) for one in checked.files))
    left = (f"Not changed by --fix: {one}" for one in checked.not_changed)
    reasons = tuple(dict.fromkeys((*(item.reason for item in report.undetermined), *left)))
    title = "Changed" if checked.fixed else "tfgpu check --fix would change"
    found = (block(finding, titles) for finding in report.findings)
    changes = Code(title, tuple(checked.difference), "diff")
    return head(report, _COMMAND, meaning(report), (files, *found, Items(reasons), changes))


def checks(checked: Checked, fail_on: FailOn = "error") -> Checks:
    """A suite for each file, a case for each finding on its lines."""
    report, files = checked.report, dict.fromkeys(one.path for one in checked.files)
    titles, words = titles_of(report.findings), meaning(report)
    cases: dict[str, list[Case]] = {file: [] for file in files}
    alone = [verdict_case(report, _COMMAND, words, fail_on)]
    for finding in report.findings:
        file = (place_of(finding) or ("", 0))[0]
        case = Case(finding.id, file if file in cases else "tfgpu.check")
        cases.get(file, alone).append(finding_case(case, finding, titles, fail_on))
    found = (Suite(file, tuple(here) or (Case("no problems found", file),)) for file, here in cases.items())
    marked = zip(annotated(report.findings, titles), report.findings, strict=True)
    return Checks(
        _COMMAND,
        report.created,
        (Suite("Verdict", tuple(alone)), *found),
        (
            *(one._replace(place=place_of(finding)) for one, finding in marked),
            *no_verdict(report, _COMMAND, words, fail_on),
        ),
        (verdict_line(report, _COMMAND, words),),
    )
