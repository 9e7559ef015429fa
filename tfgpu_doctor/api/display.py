"""How notebooks show the results of the API: the page of `--format html`, as a part of theirs."""

from __future__ import annotations

from tfgpu_doctor.records.fact import Document, show_as_html

# name of a record → the kind that it is for renderers; by name, so that nothing is imported before it is shown
_KINDS = {
    "Report": "report",
    "Plan": "plan",
    "Checked": "check",
    "BenchResult": "bench",
    "Comparison": "report comparison",
    "BenchComparison": "bench comparison",
    "Smoke": "smoke",
    "Fleet": "fleet",
}


def html(document: Document) -> str | None:
    """The result as a fragment of HTML; None where it has none, so that its text is shown."""
    from tfgpu_doctor.render.formats import page_of
    from tfgpu_doctor.render.html.page import fragment

    kind = _KINDS.get(type(document).__name__)
    return fragment(page_of(kind)(document)) if kind else None


show_as_html(html)
