"""A smoke test as Markdown: a table of the checks, and the doctor's report folded under it."""

from __future__ import annotations

from tfgpu_doctor.render.console import MARKS
from tfgpu_doctor.render.markdown.report import LONGEST, escape, folded, table
from tfgpu_doctor.render.markdown.report import render as report_page
from tfgpu_doctor.render.smoke_words import MARKS as STATUS_MARKS
from tfgpu_doctor.render.smoke_words import machine, outcome, title, verdict
from tfgpu_doctor.smoke.records import Smoke


def render(smoke: Smoke) -> str:
    """The whole page."""
    head = f"**{_symbol(smoke.verdict)} tfgpu smoke {escape(verdict(smoke))}**"
    tool = f"tfgpu smoke {smoke.tool.version}, {machine(smoke)}, {smoke.created}"
    rows = ((_symbol(check.status), title(check), outcome(check)) for check in smoke.checks)
    page = "\n\n".join([head, f"<sub>{escape(tool)}</sub>", table(("", "Check", "Found"), rows)])
    report = folded("tfgpu doctor", report_page(smoke.report))
    return f"{page}\n\n{report}\n" if len(page) + len(report) < LONGEST else f"{page}\n"


def _symbol(status: str) -> str:
    return MARKS[STATUS_MARKS[status]].markdown
