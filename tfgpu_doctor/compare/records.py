"""What `tfgpu compare` says of two reports: the records that become JSON."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.facts.facts import Document, Record
from tfgpu_doctor.facts.report import MatrixInfo, Severity, Tool, Verdict

SCHEMA = "tfgpu.compare/1"

# changed, added, removed: the machine differs; unexamined, lost: only one report knows (not GOOD, not BAD)
Status = Literal["changed", "added", "removed", "unexamined", "lost"]
FindingStatus = Literal["new", "gone", "remains", "unjudged"]
Inside = Literal["good", "bad", "both"]  # the reports that have a finding
How = Literal["change", "changes", "observed"]
REAL: tuple[Status, ...] = ("changed", "added", "removed")
# explains: it stands in an explanation; connected: a sign of a finding that differs reads it
Weight = Literal["explains", "connected", "can-matter"]


class Side(Record, frozen=True):
    """One of the two reports."""

    name: str
    created: str
    tool: str  # version that wrote it
    matrix: str  # revision that judged it then
    verdict: Verdict  # by the rules of this version


class Change(Record, frozen=True):
    """One thing that differs between the two machines."""

    id: str  # "python.packages.numpy", "driver.version", "variables.LD_LIBRARY_PATH"
    layer: str  # of the stack, as the doctor names it
    status: Status
    text: str  # "numpy 1.26.4 → 2.1.0"
    good: str | None
    bad: str | None
    weight: Weight
    findings: tuple[str, ...] = ()  # ids of the findings that it explains, or whose signs read it


class FindingChange(Record, frozen=True):
    """A finding of either report. `unjudged`: the other report lacks the facts to tell whether it held there."""

    id: str
    status: FindingStatus
    inside: Inside
    severity: Severity
    root_cause: bool
    title: str
    before: str | None = None  # the title in GOOD, when both have the finding and it reads otherwise there
    follows_from: str | None = None  # the root cause of the same report that it is a consequence of


class Explanation(Record, frozen=True):
    """Why a finding is new or gone.

    The changes are those of facts that the signs of the finding read. `how` is "change" for one thing that somebody
    changed, "changes" for several, of which each alone may be the cause, and "observed" when nothing differs but what
    was observed.
    """

    finding: str
    how: How
    changes: tuple[str, ...]  # ids, the most telling first


class Comparison(Document, frozen=True):
    """What changed between two reports, what of it matters, and what it explains."""

    schema: str
    tool: Tool
    matrix: MatrixInfo
    created: str  # UTC
    good: Side
    bad: Side
    machines: tuple[str, ...]  # how the two machines differ, when they are not the same one
    notes: tuple[str, ...]  # what to know before reading on: findings that this version judges otherwise
    changes: tuple[Change, ...]
    findings: tuple[FindingChange, ...]
    explanations: tuple[Explanation, ...]
