"""A report of tfgpu among the pasted lines, as text or as Markdown.

Only headings are read, so that reports with older labels (saw, need, why, so, do) are understood as well.

>>> from tfgpu_doctor.parsers.text.lines import Line
>>> text = '''$ tfgpu doctor
... tfgpu doctor 0.1.0, matrix of 2026-11-21
...
...   ✗ GPU        none
...
... ✗ This machine has no NVIDIA GPU  gpu.none
...     found     no NVIDIA device ← /sys/bus/pci/devices
...
... ✗ broken: TensorFlow cannot use the GPU (1 problem)
... $ python train.py'''
>>> found, rest = split([Line(n, line) for n, line in enumerate(text.splitlines(), 1)])
>>> [(message.line, message.values) for message in found]
[(6, {'id': 'gpu.none', 'severity': 'error', 'title': 'This machine has no NVIDIA GPU'})]
>>> [line.text for line in rest]
['$ tfgpu doctor', '$ python train.py']
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from tfgpu_doctor.parsers.text.lines import Line
from tfgpu_doctor.records.facts import Message
from tfgpu_doctor.records.printable import cut

_HEAD = re.compile(r"^\W*(?:<sub>)?tfgpu (?:doctor|explain) \d+\.\d+\S*, matrix of \d")
_VERDICT = re.compile(r"^\W*(?:ok|degraded|broken|unknown)(?:\*\*)?: ")
_ID = r"(?P<id>[a-z0-9]+\.[a-z0-9]+(?:-[a-z0-9]+)*)"
_FINDING = re.compile(rf"^(?:### )?(?P<mark>[✗x!⚠iℹ?]) (?P<title>\S.*?) (?: |<sub>){_ID}(?:</sub>)?$")
_WRAPPED = re.compile(r"^(?:### )?(?P<mark>[✗x!⚠iℹ]) (?P<title>\S.*)$")
_ID_ALONE = re.compile(rf"^ {{2}}(?P<more>.*?)(?:^|(?<= ) ?){_ID}$")
_SEVERITIES = {"✗": "error", "x": "error", "!": "warning", "⚠": "warning", "i": "note", "ℹ": "note"}
_SHOWN = 300
_TITLE_LINES = 4  # over which a narrow terminal may wrap a title


def split(lines: Sequence[Line]) -> tuple[tuple[Message, ...], Sequence[Line]]:
    """The findings of the report, as messages, and the lines that do not belong to it."""
    start = next((place for place, line in enumerate(lines) if _HEAD.match(line.text)), None)
    if start is None:
        return (), lines
    # Markdown begins with the verdict, and an empty line
    start = next((n for n in range(max(start - 2, 0), start) if _VERDICT.match(lines[n].text)), start)
    last = [place for place, line in enumerate(lines) if _VERDICT.match(line.text) and place > start + 2]
    folded = [place for place, line in enumerate(lines) if line.text.strip() == "</details>"]
    end = max([*last, *folded], default=len(lines) - 1)
    return tuple(_findings(lines[start : end + 1])), [*lines[:start], *lines[end + 1 :]]


def _findings(lines: Sequence[Line]) -> Iterator[Message]:
    """A title with its id, which a narrow terminal moves to the next line."""
    for place, line in enumerate(lines):
        match = _FINDING.match(line.text)
        title, finding_id = (match["title"], match["id"]) if match else (None, None)
        opening = match or _WRAPPED.match(line.text)
        if opening and not match:
            title, finding_id = _wrapped(opening["title"], lines[place + 1 : place + _TITLE_LINES])
        if opening and title and finding_id:
            severity = _SEVERITIES.get(opening["mark"], "error")
            values = {"id": finding_id, "severity": severity, "title": title.strip()}
            yield Message("own-finding", line.number, cut(line.text.strip(), _SHOWN), values)


def _wrapped(begin: str, following: Sequence[Line]) -> tuple[str | None, str | None]:
    """A title and its id, put together from the lines below the first."""
    title = begin
    for line in following:
        if below := _ID_ALONE.match(line.text):
            return f"{title} {below['more']}".strip(), below["id"]
        if not re.match(r" {2}\S", line.text):
            break
        title = f"{title} {line.text.strip()}"
    return None, None
