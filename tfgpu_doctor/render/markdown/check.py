"""What `tfgpu check` found, as Markdown for the summary of a job or a comment: the files, the findings, the changes."""

from __future__ import annotations

from tfgpu_doctor.records.checked import Checked
from tfgpu_doctor.records.wording import problem_counts
from tfgpu_doctor.render.check_words import meaning
from tfgpu_doctor.render.console import MARKS
from tfgpu_doctor.render.markdown.report import LONGEST, escape, fenced, show_block, table
from tfgpu_doctor.render.outline import VERDICT_MARKS, block

_MOST_FILES = 100


def render(checked: Checked) -> str:
    """The page, at most :data:`LONGEST` characters; what does not fit is counted."""
    report = checked.report
    mark = MARKS[VERDICT_MARKS[report.verdict]].markdown
    head = f"**{mark} {escape(report.verdict)}**: {escape(meaning(report))}{problem_counts(report)}"
    tool = f"tfgpu check {report.tool.version}, matrix of {report.matrix.revision}, {report.created}"
    files = table(("File", "Contains"), ((one.label, one.content) for one in checked.files[:_MOST_FILES]))
    parts = [head, f"<sub>{escape(tool)}</sub>", files]
    parts += [show_block(block(finding, {})) for finding in report.findings]
    reasons = (*dict.fromkeys(item.reason for item in report.undetermined), *checked.not_changed)
    parts += ["\n".join(f"- {escape(reason)}" for reason in reasons)] if reasons else []
    if checked.changes:
        parts.append("**Changed**" if checked.fixed else "**`tfgpu check --fix` would change**")
        parts.append(fenced(checked.difference, "diff"))
    page, left_out = parts[:3], 0
    for part in parts[3:]:
        if sum(map(len, page)) + len(part) > LONGEST - 1000:
            left_out += 1
        else:
            page.append(part)
    page += [f"{left_out} more parts are too long for this page"] if left_out else []
    return "\n\n".join(page) + "\n"
