"""What a doctor's report comes to, and what is common to all that show findings. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import get_args

from tfgpu_doctor.diagnosis.selection import chosen
from tfgpu_doctor.findings import pages
from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.declaration import matches
from tfgpu_doctor.records.facts import Facts, Known, value_or
from tfgpu_doctor.records.report import (
    EXIT_OK,
    EXIT_UNKNOWN,
    FailOn,
    Finding,
    Report,
    Severity,
    Verdict,
    exit_code,
    fails,
)
from tfgpu_doctor.records.units import count
from tfgpu_doctor.records.wording import problem_counts, verdict_sentence
from tfgpu_doctor.render.ci.plain import lines_of
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import VERDICT_MARKS, Block, blocks, brief, details, least, open_checks, skipped
from tfgpu_doctor.render.outlines.gauges import created, gauge, info, states
from tfgpu_doctor.render.shapes import (
    Annotation,
    Case,
    Checks,
    Items,
    Level,
    Metric,
    Outcome,
    Page,
    Part,
    Sample,
    Suite,
    Table,
)
from tfgpu_doctor.render.stack import layers_of

_SEVERITIES = tuple(severity.value for severity in Severity)
_VERDICTS = get_args(Verdict)
LEVELS: dict[Severity, Level] = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "notice"}


def command_of(report: Report) -> str:
    """The command that makes such a report: a pasted text is explained."""
    return "tfgpu explain" if report.source == "text" else "tfgpu doctor"


def page(report: Report, detail: Detail = "shared") -> Page:
    """The stack, what was found, and what whoever helps asks for next; or a screen of it, or the first problem."""
    whole = head(report, command_of(report), verdict_sentence(report), ())
    if value_or(report.facts.host.os, "") == "windows":
        whole = whole._replace(language="bat")
    if detail == "least":
        return whole._replace(parts=tuple(least(report)), is_brief=True)
    layers, found = layers_of(report), tuple(blocks(report))
    stack = Table(
        "The stack",
        ("Layer", "Found"),
        tuple((layer.name, layer.text) for layer in layers),
        tuple(layer.mark for layer in layers),
    )
    if detail == "normal":
        return _first_screen(whole, report, stack, found)
    facts = details(report.facts) if detail == "shared" else ()
    return whole._replace(parts=(stack, *found, *open_checks(report), *facts))


def _first_screen(whole: Page, report: Report, stack: Table, found: tuple[Block, ...]) -> Page:
    shown = tuple(map(brief, found))
    reasons = skipped(report) if report.verdict == "unknown" else ()
    open_ones = Items(
        tuple(f"skipped, {reason}: {count(number, 'check')}" for reason, number in reasons), "", "unknown"
    )
    hint = ""
    if [block.lines for block in shown] != [block.lines for block in found]:
        about = next((f"; tfgpu explain {block.ids[0]}" for block in shown if len(block.ids) == 1), "")
        hint = f"All evidence and fixes: {whole.title} -v{about}"
    return whole._replace(parts=(stack, *shown, open_ones), hint=hint)


def head(report: Report, command: str, meaning: str, parts: tuple[Part, ...]) -> Page:
    """A page with the verdict of a report."""
    about = f"{command} {report.tool.version}, matrix of {report.matrix.revision}"
    sentence, mark = meaning + problem_counts(report), VERDICT_MARKS[report.verdict]
    return Page(command, (about,), mark, report.verdict, sentence, parts, created=report.created)


# ---------------------------------------------------------------------------------------------------------------- CI


def checks(report: Report, fail_on: FailOn = "error", only: tuple[str, ...] = (), skip: tuple[str, ...] = ()) -> Checks:
    """A case for each check; `only` and `skip` are the checks that were asked for, where not all were."""
    command, meaning = command_of(report), verdict_sentence(report)
    return Checks(
        command,
        report.created,
        (
            Suite("Verdict", (verdict_case(report, command, meaning, fail_on),)),
            *_layers(report, fail_on, chosen(only, skip)),
        ),
        (
            *annotated((finding for finding in report.findings if finding.root_cause), titles_of(report.findings)),
            *no_verdict(report, command, meaning, fail_on),
        ),
        (verdict_line(report, command, meaning),),
    )


def verdict_line(report: Report, command: str, meaning: str) -> str:
    """ "tfgpu doctor: broken: TensorFlow cannot use the GPU (1 problem)"."""
    return f"{command}: {report.verdict}: {meaning}{problem_counts(report)}"


def verdict_case(report: Report, command: str, meaning: str, fail_on: FailOn) -> Case:
    """Whether there is an answer; that the answer is bad, the checks say."""
    text = f"{report.verdict}: {meaning}{problem_counts(report)}"
    case = Case("a verdict could be reached", command.replace(" ", "."), details=(text,))
    code = exit_code(report, fail_on)
    if report.verdict != "unknown" or code not in (EXIT_OK, EXIT_UNKNOWN):
        return case
    outcome: Outcome = "error" if code == EXIT_UNKNOWN else "skipped"
    return case._replace(outcome=outcome, kind="could not determine", message=meaning, details=_reasons(report))


def no_verdict(report: Report, command: str, meaning: str, fail_on: FailOn) -> Iterator[Annotation]:
    """What is said where there is no verdict."""
    if report.verdict == "unknown":
        level: Level = "error" if exit_code(report, fail_on) == EXIT_UNKNOWN else "warning"
        yield Annotation(level, f"{command}: {meaning}", _reasons(report) or ("nothing more is known",))


def _reasons(report: Report) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item.reason for item in report.undetermined))


def annotated(findings: Iterable[Finding], titles: Mapping[str, str]) -> Iterator[Annotation]:
    """One for each finding; `titles` has those of their consequences."""
    for finding in findings:
        name = f"{finding.title} ({finding.id})"
        yield Annotation(LEVELS[finding.severity], name, tuple(lines_of(finding, titles)))


def titles_of(findings: Iterable[Finding]) -> dict[str, str]:
    """Titles by id."""
    return {finding.id: finding.title for finding in findings}


def finding_case(case: Case, finding: Finding, titles: Mapping[str, str], fail_on: FailOn) -> Case:
    """The case of a check that found something: red where it makes the exit code 1."""
    lines = tuple(lines_of(finding, titles))
    if fails(finding, fail_on):
        return case._replace(outcome="failure", kind=finding.severity.value, message=finding.title, details=lines)
    return case._replace(details=(f"{finding.severity.value}: {finding.title}", *lines))


def _layers(report: Report, fail_on: FailOn, checked: Iterable[str] | None) -> Iterator[Suite]:
    """One suite for each layer. A pasted text is no check of what it does not tell."""
    wanted = {finding.id for finding in report.findings} | {finding.id for finding in report.undetermined}
    if report.source != "text":
        wanted |= set(pages.all_ids() if checked is None else checked)
    for layer, title in pages.LAYERS.items():
        ids = [one.id for one in pages.pages_of(layer) if one.id in wanted]
        yield Suite(title, tuple(_check(one, layer, report, fail_on) for one in ids))


def _check(finding_id: str, layer: str, report: Report, fail_on: FailOn) -> Case:
    case = Case(finding_id, f"{command_of(report).replace(' ', '.')}.{layer}")
    finding = next((finding for finding in report.findings if finding.id == finding_id), None)
    if finding is not None:
        return _found(case, finding, report, fail_on)
    reason = next((item.reason for item in report.undetermined if item.id == finding_id), None)
    if reason is not None:
        return case._replace(outcome="skipped", kind="could not determine", message=f"could not determine: {reason}")
    settled = _settled_by(finding_id, report)
    if settled:
        return case._replace(outcome="skipped", kind="not judged apart", message=f"not judged apart from {settled}")
    return case


def _found(case: Case, finding: Finding, report: Report, fail_on: FailOn) -> Case:
    titles = titles_of(report.findings)
    if finding.root_cause:
        return finding_case(case, finding, titles, fail_on)
    above = next((cause.id for cause in report.findings if finding.id in cause.consequences), "another finding")
    message = f"follows from {above}: {finding.title}"
    return case._replace(
        outcome="skipped", kind="consequence", message=message, details=tuple(lines_of(finding, titles))
    )


def _settled_by(finding_id: str, report: Report) -> str | None:
    """The finding beside which this check says nothing of its own: it was not made, or would be a consequence."""
    declared = DECLARATIONS.get(finding_id)
    for found in report.findings:
        if declared and matches(found.id, (*declared.pointless_after, *declared.explained_by)):
            return found.id
    return None


# -------------------------------------------------------------------------------------------------------- monitoring


def metrics(report: Report) -> Iterator[Metric]:
    """The verdict, what was found, and what the machine has: versions are labels of tfgpu_doctor_info."""
    facts, roots = report.facts, [one for one in report.findings if one.root_cause and not one.possible]
    versions = {
        "tensorflow": facts.tensorflow.version,
        "python": facts.python.version,
        "driver": facts.driver.version,
        "driver_cuda": facts.driver.cuda_supported,
        "cudnn": facts.cudnn.runtime,
        "os": facts.host.os,
    }
    known = {name: value_or(fact, "") for name, fact in versions.items()}
    yield info("doctor", report.tool, matrix=report.matrix.revision, **known)
    yield created("doctor", report.created)
    yield states(
        "tfgpu_doctor_verdict", "Verdict of the diagnosis; 1 for the one that holds.", _VERDICTS, report.verdict
    )
    counts = Counter(one.severity.value for one in roots)
    yield gauge(
        "tfgpu_doctor_findings",
        "Root causes that were found.",
        *(Sample(counts[severity], {"severity": severity}) for severity in _SEVERITIES),
    )
    yield gauge(
        "tfgpu_doctor_finding",
        "1 for each root cause that was found.",
        *(Sample(1, {"id": one.id, "severity": one.severity.value}) for one in roots),
    )
    open_ones = len(report.undetermined)
    yield gauge("tfgpu_doctor_undetermined_checks", "Checks that could not be made.", Sample(open_ones))
    if (total := report.timings.get("total")) is not None:
        yield gauge("tfgpu_doctor_duration_seconds", "Time that the diagnosis took.", Sample(total))
    yield from _gpus(facts)


def _gpus(facts: Facts) -> Iterator[Metric]:
    """How many GPUs there are and TensorFlow lists; nothing where it is unknown."""
    if isinstance(facts.gpus, Known):
        yield gauge("tfgpu_doctor_gpus", "GPUs that the driver lists.", Sample(len(facts.gpus.value)))
    if isinstance(facts.tensorflow.devices, Known):
        listed = sum(device.kind == "GPU" for device in facts.tensorflow.devices.value)
        yield gauge("tfgpu_doctor_tensorflow_gpus", "GPUs that TensorFlow lists.", Sample(listed))
    gpus = {str(gpu.index): gpu for gpu in value_or(facts.gpus, ())}
    names = (
        Sample(
            1,
            {"gpu": index, "name": value_or(gpu.name, ""), "compute_capability": value_or(gpu.compute_capability, "")},
        )
        for index, gpu in gpus.items()
    )
    yield gauge("tfgpu_doctor_gpu_info", "Name and compute capability of a GPU.", *names)
    memory = (
        Sample(gpu.memory_total.value, {"gpu": index})
        for index, gpu in gpus.items()
        if isinstance(gpu.memory_total, Known)
    )
    yield gauge("tfgpu_doctor_gpu_memory_bytes", "Memory of a GPU.", *memory)
