"""Findings, the report that carries them, what its verdict means, its exit code; what `tfgpu check` adds to it."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Annotated, Literal, TypeVar

import msgspec

from tfgpu_doctor.facts.about import public
from tfgpu_doctor.facts.facts import Document, Facts, Known, Message, Record, lists_gpu, value_or
from tfgpu_doctor.facts.units import count

SCHEMA = "tfgpu.report/1"

_Saved = TypeVar("_Saved", bound=Record)

Verdict = Literal["ok", "degraded", "broken", "unknown"]
FailOn = Literal["error", "warning", "never"]

EXIT_OK, EXIT_PROBLEM, EXIT_USAGE, EXIT_UNKNOWN = 0, 1, 2, 3


_SHOWN = 300  # characters of a message that quotes a file
_MARK = b"\xef\xbb\xbf"  # byte order mark, which PowerShell writes


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

    @property
    def place(self) -> tuple[str, int] | None:
        """The file and the line where it was seen; None where that is no line of a file."""
        path, colon, number = self.source.rpartition(":")
        is_line = colon and number.isascii() and number.isdecimal() and len(number) < 8
        return (path, int(number)) if is_line else None


class Edit(Record, frozen=True):
    """A change of one line of a file that was checked."""

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


# why a cause is possible that nothing in a text shows, and to whose reports the text is hardly alike
GUESSED = "the text does not show why; a few reports that are somewhat similar had this cause"


# of a text that tells of its own cure
OVER = "the text says that it is solved"


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

    @property
    def is_guess(self) -> bool:
        """Whether hardly a word of a text speaks for it, so that a first screen leaves it out."""
        return self.possible and self.cause == GUESSED


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


class ReadFile(Record, frozen=True):
    """One environment: its file and what it names."""

    label: str  # "requirements.txt", "compose.yaml, service trainer"
    path: str
    content: str  # "tensorflow==2.15.1; Python 3.11"
    unread: bool = False  # the file is broken


class Checked(Document, frozen=True):
    """A check; its JSON is that of the report."""

    report: Report
    target: str  # "RTX 4090 (compute capability 8.9), driver 570.86.10"
    files: tuple[ReadFile, ...]

    def to_json(self) -> bytes:
        """The report as JSON."""
        return self.report.to_json()


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
        return msgspec.json.decode(data.removeprefix(_MARK), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"{name} is not a valid {what}: {_reason(error)}") from error


def schema_of(data: bytes, name: str, what: str = "report") -> str:
    """What a saved file says that it is: "tfgpu.report/1"; `what` it should be stands in the message.

    Raises ReportError: it says nothing of the kind.
    """
    data = data.removeprefix(_MARK)
    try:
        return msgspec.json.decode(data, type=_Header).schema
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"{name} is not a saved {what}: {_why(data, error)}") from error


def short(text: str) -> str:
    """What stands in the file, at a length that a sentence bears: both ends."""
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN // 2]} ... {text[-_SHOWN // 2 :]}"


def _reason(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else short(str(error))


def _why(data: bytes, error: Exception) -> str:
    """What is wrong with data that is no JSON with a schema."""
    if not data.strip():
        return "it is empty"
    if data.lstrip()[:1] == b"<":
        return "it is a page; give the JSON that --output FILE.json wrote"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "it is UTF-16, as PowerShell's > writes it; write it with --output FILE instead"
    if isinstance(error, msgspec.ValidationError):
        return "it is JSON of something else, without a schema that tfgpu knows"
    return "it is cut off" if "truncated" in str(error) else _reason(error)


def other_kind(kind: str, schema: str, command: str, reads: str) -> str:
    """What a file of schema `kind` is, to a `command` that reads `schema`, which people call `reads`."""
    kind = short(kind)
    family, _, version = kind.partition("/")
    ours, _, newest = schema.partition("/")
    if family != ours:
        return f"is JSON of schema {kind!r}; {command} reads {reads}"
    newer = version.isdecimal() and int(version) > int(newest)
    advice = "; that is newer: update tfgpu, or write it again with this version" if newer else ""
    return f"has schema {kind!r}; this version of tfgpu reads {schema!r}{advice}"


class _Header(msgspec.Struct):
    schema: str


def root_causes(findings: Iterable[Finding]) -> list[Finding]:
    """Return those that hold for certain, and that no other explains."""
    return [finding for finding in findings if finding.root_cause and not finding.possible]


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
    graves = (Severity.ERROR, Severity.WARNING)
    return frozenset(graves[: {"never": 0, "error": 1, "warning": 2}[fail_on]])


def fails(finding: Finding, fail_on: FailOn) -> bool:
    """Whether a finding makes the exit code 1; one that is only possible shows no problem."""
    return not finding.possible and finding.severity in failing(fail_on)


def exit_code(report: Report, fail_on: FailOn) -> int:
    """Map a report to the exit code of the contract."""
    # an error, then, is but the symptom whose cause is open; a question that is answered leaves nothing open
    is_open = report.verdict == "unknown" and not is_answered(report)
    graves = (finding for finding in report.findings if not (is_open and finding.severity is Severity.ERROR))
    return exit_status(fail_on, any(fails(finding, fail_on) for finding in graves), is_open)


def exit_status(fail_on: FailOn, is_failed: bool, is_open: bool) -> int:
    """Return the exit code of the contract for what is at or above `fail_on`, or could not be determined."""
    if fail_on == "never":
        return EXIT_OK
    return EXIT_PROBLEM if is_failed else EXIT_UNKNOWN if is_open else EXIT_OK


# what the verdict means, for every renderer, and for what judges reports (smoke)
_MEANING = {
    "ok": "TensorFlow can use the GPU",
    "degraded": "TensorFlow uses the GPU, but with problems",
    "broken": "TensorFlow cannot use the GPU",
    "unknown": "could not determine whether TensorFlow can use the GPU",
}
_NEVER = {  # by finding or by phase that failed
    "tf.not-installed": "TensorFlow is not installed in this Python",
    "tf.shadowed": "Python imports another module instead of TensorFlow",
    "import": "TensorFlow cannot be imported",
    "devices": "TensorFlow fails to list its devices",
}
_ON_CPU = {  # where no GPU is required, or the checks that miss one were left out
    "ok": "TensorFlow runs on the CPU",
    "degraded": "TensorFlow runs on the CPU, but with problems",
    "broken": "TensorFlow fails on the CPU",
}
_MEANING_OF_TEXT = {
    "ok": "according to this text TensorFlow uses the GPU",
    "degraded": "according to this text TensorFlow works, but with problems",
    "broken": "this text shows a problem",
    "unknown": "this text shows nothing that explains a failure",
}
_NOT_SHOWN = "the text does not show whether TensorFlow uses a GPU"


def verdict_sentence(report: Report) -> str:
    """What the verdict means."""
    if report.source == "text":
        cut = next((one for one in value_or(report.facts.messages, ()) if one.kind == "text-cut"), None)
        lines = cut.values.get("lines", "some") if cut else ""
        return _meaning_of_text(report) + (f"; {lines} lines were too long to be examined as a whole" if cut else "")
    tensorflow = report.facts.tensorflow
    if report.verdict == "ok" and not isinstance(tensorflow.devices, Known):
        return "everything that TensorFlow needs is in place (it was not started)"
    if report.verdict == "broken" and (reason := _never_started(report)):
        return reason
    return _on_cpu(report) or _MEANING[report.verdict]


def _on_cpu(report: Report) -> str | None:
    """What holds of the CPU, where no GPU is listed and that is no problem; None: elsewhere."""
    if report.verdict not in _ON_CPU or lists_gpu(value_or(report.facts.tensorflow.devices, None)):
        return None
    missed = next((one.severity for one in report.findings if one.id == "gpu.not-visible"), None)
    if missed is Severity.NOTE:
        return f"{_ON_CPU[report.verdict]}; no GPU is required"
    is_left_out = missed is None and report.verdict != "broken"
    return f"{_ON_CPU[report.verdict]}; the checks that miss a GPU were left out" if is_left_out else None


def _never_started(report: Report) -> str | None:
    """What keeps TensorFlow from being used at all, whatever the GPU."""
    seen = {one.id for one in report.findings if not one.possible}
    seen |= {one.name for one in report.facts.tensorflow.phases if one.outcome in ("raised", "died", "timeout")}
    return next((text for name, text in _NEVER.items() if name in seen), None)


def _meaning_of_text(report: Report) -> str:
    on_cpu = report.verdict == "ok" and not lists_gpu(value_or(report.facts.tensorflow.devices, None))
    if is_answered(report) and (on_cpu or report.verdict == "unknown"):
        is_over = any(OVER in fix.text for one in report.findings for fix in one.fixes)
        return OVER if is_over else f"this text shows no failure{_what_is_answered(report)}"
    if is_unanswered(report):
        return "this text shows no failure, and asks what tfgpu does not answer"
    if program := is_other(report):
        return f"this text is about {program}; tfgpu diagnoses TensorFlow"
    if on_cpu:
        return "this text shows no problem; TensorFlow computes on the CPU"
    if report.verdict != "unknown" or not report.findings:
        return _MEANING_OF_TEXT[report.verdict]
    return _what_is_open([finding for finding in report.findings if finding.severity is not Severity.NOTE])


def _what_is_answered(report: Report) -> str:
    if all(one.id in HARMLESS for one in report.findings if one.answers):
        return ": its log lines are harmless"
    asked = _first_question(report)
    return f"; its question is answered{' in part' if asked and 'more' in asked.values else ''}"


def _what_is_open(grave: list[Finding]) -> str:
    if not grave:
        return f"only harmless lines; {_NOT_SHOWN}"
    if possible := [finding for finding in grave if finding.possible and not finding.is_guess]:
        return f"this text leaves {count(len(possible), 'possible cause')} open"
    if all(one.id.startswith("perf.") for one in grave):
        return "this text shows no failure; it is about speed"
    return "no cause was found in this text" if any(one.possible for one in grave) else _NOT_SHOWN


def is_other(report: Report) -> str:
    """The program that a text is about, where that is not TensorFlow and nothing is found; else empty."""
    other = (one for one in value_or(report.facts.messages, ()) if one.kind == "other-framework")
    return next((one.values.get("program", "") for one in other if not report.findings), "")


HARMLESS = ("benign.log", "tensorrt.missing-benign")  # findings about lines that need no action


def is_answered(report: Report) -> bool:
    """Whether a text only asks, and there is an answer."""
    found = report.findings
    return all(one.severity is Severity.NOTE for one in found) and any(one.answers for one in found)


def is_unanswered(report: Report) -> bool:
    """Whether a text only asks, and there is no answer."""
    asked = _first_question(report)
    refused = any(one.kind == "conda-unsatisfiable" for one in value_or(report.facts.messages, ()))  # by an installer
    only_asks = report.source == "text" and asked is not None and asked.values.get("trouble") == "no" and not refused
    # the words that tell of trouble are English ones
    shown = [one for one in report.findings if not (one.is_guess and asked and asked.text.isascii())]
    return only_asks and all(one.severity is Severity.NOTE and not one.answers for one in shown)


def _first_question(report: Report) -> Message | None:
    return next((one for one in value_or(report.facts.messages, ()) if one.kind == "question"), None)


def problem_counts(report: Report) -> str:
    """How many problems and warnings: " (2 problems, 1 warning)"; empty without any, or where only a text complains."""
    if report.source == "text" and report.verdict == "unknown":
        return ""
    causes = [one.severity for one in root_causes(report.findings)]
    words = ((causes.count(Severity.ERROR), "problem"), (causes.count(Severity.WARNING), "warning"))
    counts = [count(number, word) for number, word in words if number]
    return f" ({', '.join(counts)})" if counts else ""
