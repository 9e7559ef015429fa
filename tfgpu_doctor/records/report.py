"""Findings, the report that carries them, its verdict and its exit code."""

from __future__ import annotations

import enum
from typing import Annotated, Literal, TypeVar

import msgspec

from tfgpu_doctor.records.about import public
from tfgpu_doctor.records.fact import Document
from tfgpu_doctor.records.facts import Facts, Record

SCHEMA = "tfgpu.report/1"

_Saved = TypeVar("_Saved", bound=Record)

Verdict = Literal["ok", "degraded", "broken", "unknown"]
FailOn = Literal["error", "warning", "never"]

EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, EXIT_UNKNOWN = 0, 1, 2, 3


_SHOWN = 300  # characters of a message that quotes a file


class ReportError(Exception):
    """A saved report cannot be used; the message says where and why."""


class Severity(enum.Enum):
    """How much a finding hurts: TensorFlow cannot use the GPU or run; it runs badly; harmless."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class Evidence(Record, frozen=True):
    """What was seen and where; what it should be and who says so."""

    saw: str
    source: str
    need: str | None = None
    need_source: str | None = None


class Edit(Record, frozen=True):
    """A change of one line of a file that was checked; `tfgpu check --fix` makes it."""

    path: str
    line: int  # from 1
    old: str  # as it is written there
    new: str = ""  # in its place; empty to remove it
    beside: bool = False  # `old` stays, and `new` is added next to it


class Fix(Record, frozen=True):
    """One way out: a sentence, and the commands to paste or the edits of files to make."""

    text: str
    commands: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()

    @property
    def decides(self) -> bool:
        """Whether it repairs nothing, and shows which of several possible causes holds."""
        return self.text.startswith("To decide")


class Alternative(Fix, frozen=True):
    """A fix to make instead of those before it; plan/gate.py puts "Or" before it, where there are any."""


class Finding(Record, frozen=True):
    """One problem. `root_cause` is false when another finding explains it; `possible` is true when it is only open."""

    id: Annotated[str, public("id")]
    severity: Severity
    root_cause: bool
    title: str
    cause: str
    evidence: tuple[Evidence, ...]
    fixes: tuple[Fix, ...]
    consequences: Annotated[tuple[str, ...], public("consequences")] = ()
    docs: Annotated[str | None, public("documentation")] = None
    possible: bool = False  # a pasted text leaves it open: another cause that would look the same
    answers: bool = False  # no fault: it answers what a pasted text asks


class Undetermined(Record, frozen=True):
    """A check that could not be made, and which fact was missing."""

    id: Annotated[str, public("id")]
    reason: str


class Tool(Record, frozen=True):
    """The program that wrote the report."""

    name: str
    version: str


class MatrixInfo(Record, frozen=True):
    """The compatibility matrix that judged."""

    revision: Annotated[str, public("revision")]
    source: str = "bundled"


class Report(Document, frozen=True):
    """A complete diagnosis; JSON and back is the identity."""

    schema: Annotated[str, public("schema")]
    tool: Annotated[Tool, public("tool")]
    matrix: MatrixInfo
    created: Annotated[str, public("created")]  # UTC, "2026-11-21T06:36:00Z"
    source: Annotated[Literal["live", "report", "text"], public("source")]
    verdict: Annotated[Verdict, public("verdict")]
    facts: Facts
    timings: dict[str, float]  # seconds
    findings: tuple[Finding, ...]
    undetermined: tuple[Undetermined, ...] = ()
    resolved: tuple[()] = ()  # of earlier versions, whose reports have it

    def in_brief(self) -> str:
        """The verdict and the causes."""
        causes = [finding.id for finding in self.findings if finding.root_cause]
        return f"{self.verdict}; {', '.join(causes)}" if causes else self.verdict


def load_report(data: bytes, name: str, command: str = "tfgpu doctor --from") -> Report:
    """Decode a saved report; `name` and the `command` that reads it stand in the message.

    Raises ReportError: not JSON, not a report, or one of another schema version.
    """
    kind = schema_of(data, name)
    if kind != SCHEMA:
        raise ReportError(f"{name} {other_kind(kind, SCHEMA, command, 'a doctor report')}")
    return decode_saved(data, Report, name, "report")


def decode_saved(data: bytes, kind: type[_Saved], name: str, what: str) -> _Saved:
    """Decode a file whose schema is known to fit; `name` and `what` it should be stand in the message.

    Raises ReportError: its fields are not those of `kind`.
    """
    try:
        return msgspec.json.decode(without_mark(data), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"{name} is not a valid {what}: {_reason(error)}") from error


def without_mark(data: bytes) -> bytes:
    """The data without a byte order mark, which PowerShell writes."""
    return data.removeprefix(b"\xef\xbb\xbf")


def schema_of(data: bytes, name: str) -> str:
    """What a saved file says that it is: "tfgpu.report/1".

    Raises ReportError: it says nothing of the kind.
    """
    data = without_mark(data)
    if not data.strip():
        raise ReportError(f"{name} is not a saved report: it is empty")
    try:
        return msgspec.json.decode(data, type=_Header).schema
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"{name} is not a saved report: {_why(data, error)}") from error


def short(text: str) -> str:
    """What stands in the file, at a length that a sentence bears: both ends."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else short(str(error))


def _why(data: bytes, error: Exception) -> str:
    """What is wrong with data that is no JSON with a schema."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "it is UTF-16, as PowerShell's > writes it; write it with --output FILE instead"
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as wrong:
        return f"it is not UTF-8 ({wrong.reason} at byte {wrong.start})"
    if isinstance(error, msgspec.ValidationError):
        return "it is JSON of something else, without a schema that tfgpu knows"
    return "it is cut off" if "truncated" in str(error) else _reason(error)


_NAMES = {
    "tfgpu.report": "a doctor report",
    "tfgpu.bench": "a bench result",
    "tfgpu.compare": "a comparison",
    "tfgpu.bench-compare": "a comparison",
    "tfgpu.plan": "a plan",
    "tfgpu.smoke": "the result of a smoke test",
    "tfgpu.checks": "the list of checks",
}


def other_kind(kind: str, schema: str, command: str, reads: str) -> str:
    """What a file of schema `kind` is, to a `command` that reads `schema`, which people call `reads`."""
    kind = short(kind)
    family, _, version = kind.partition("/")
    ours, _, newest = schema.partition("/")
    if family != ours:
        return f"is {_NAMES.get(family, f'JSON of schema {kind!r}')}; {command} reads {reads}"
    newer = version.isdecimal() and int(version) > int(newest)
    advice = "; that is newer: update tfgpu, or write it again with this version" if newer else ""
    return f"has schema {kind!r}; this version of tfgpu reads {schema!r}{advice}"


class _Header(msgspec.Struct):
    schema: str


def judge(findings: tuple[Finding, ...], *, works: bool | None) -> Verdict:
    """Sum up what holds. `works`: the GPU was seen to work; None when that could not be determined."""
    severities = {finding.severity for finding in findings if not finding.possible}
    if Severity.ERROR in severities:
        return "broken"
    if works is None:
        return "unknown"
    return "degraded" if Severity.WARNING in severities else "ok"


def failing(fail_on: FailOn) -> frozenset[Severity]:
    """The severities that make the exit code 1."""
    at_least: dict[FailOn, tuple[Severity, ...]] = {
        "error": (Severity.ERROR,),
        "warning": (Severity.ERROR, Severity.WARNING),
        "never": (),
    }
    return frozenset(at_least[fail_on])


def fails(finding: Finding, fail_on: FailOn) -> bool:
    """Whether a finding makes the exit code 1; one that is only possible shows no problem."""
    return not finding.possible and finding.severity in failing(fail_on)


def exit_code(report: Report, fail_on: FailOn) -> int:
    """Map a report to the exit code of the contract."""
    if fail_on == "never":
        return EXIT_OK
    if any(fails(finding, fail_on) for finding in report.findings):
        return EXIT_PROBLEM
    return EXIT_UNKNOWN if report.verdict == "unknown" else EXIT_OK
