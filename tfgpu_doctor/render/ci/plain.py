"""A finding as plain lines, unwrapped: for formats that have their own way of showing text (JUnit, annotations)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfgpu_doctor.records.report import Finding
from tfgpu_doctor.render.console import clean

_MOST_EVIDENCE = 12
_LONGEST = 2000  # characters of one line


def lines_of(finding: Finding, titles: Mapping[str, str]) -> Iterator[str]:
    """Evidence, cause, consequences, fixes and their commands; `titles` has those of the consequences."""
    for item in finding.evidence[:_MOST_EVIDENCE]:
        yield line(f"saw  {_with_source(item.saw, item.source)}")
        if item.need:
            yield line(f"need {_with_source(item.need, item.need_source)}")
    if len(finding.evidence) > _MOST_EVIDENCE:
        yield f"     and {len(finding.evidence) - _MOST_EVIDENCE} more"
    yield line(f"why  {finding.cause}")
    for one in finding.consequences:
        yield line(f"so   {titles.get(one, one)} ({one})")
    for fix in finding.fixes:
        yield line(f"do   {fix.text}")
        for command in fix.commands:
            # half a command would do something else
            too_long = len(command) > _LONGEST
            yield (
                f"     # a command of {len(command)} characters, in the JSON report"
                if too_long
                else line(f"     {command}")
            )
    if finding.docs:
        yield line(f"see  {finding.docs}")


def line(text: str) -> str:
    """One line of text from outside: control characters made visible, cut off where nobody reads on."""
    cleaned = clean(text)
    return cleaned if len(cleaned) <= _LONGEST + 5 else cleaned[: _LONGEST - 1] + "…"


def _with_source(text: str, source: str | None) -> str:
    return f"{text} ← {source}" if source else text
