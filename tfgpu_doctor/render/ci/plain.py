"""A finding as plain lines, unwrapped: for formats that have their own way of showing text (JUnit, annotations)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tfgpu_doctor.records.printable import clean
from tfgpu_doctor.records.report import Finding
from tfgpu_doctor.render.outline import LABEL_WIDTH, block

_LONGEST = 2000  # characters of one line


def lines_of(finding: Finding, titles: Mapping[str, str]) -> Iterator[str]:
    """Evidence, cause, consequences, fixes and their commands; `titles` has those of the consequences."""
    outline = block(finding, titles)
    for one in outline.lines:
        source = f" ← {one.source}" if one.source else ""
        about = f" ({one.id})" if one.id else ""
        yield line(f"{one.label:{LABEL_WIDTH}} {one.text}{source}{about}")
        for command in one.commands:
            # half a command would do something else
            whole = len(command) <= _LONGEST
            shown = command if whole else f"# a command of {len(command)} characters, in the JSON report"
            yield line(" " * (LABEL_WIDTH + 3) + shown)
    if outline.docs:
        yield line(f"{'see':{LABEL_WIDTH}} {outline.docs}")


def place_of(finding: Finding) -> tuple[str, int] | None:
    """The file and the line that a finding of `tfgpu check` is about."""
    for item in finding.evidence:
        path, colon, number = item.source.rpartition(":")
        if colon and number.isascii() and number.isdecimal() and len(number) < 8:
            return path, int(number)
    return None


def line(text: str) -> str:
    """One line of text from outside: control characters made visible, cut off where nobody reads on."""
    cleaned = clean(text)
    return cleaned if len(cleaned) <= _LONGEST + LABEL_WIDTH + 3 else cleaned[: _LONGEST - 1] + "…"
