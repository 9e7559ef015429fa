"""What a smoke test comes to: a line, a case and a few metrics for each check. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import get_args

from msgspec.structs import replace

from tfgpu_doctor.facts.facts import Known, value_or
from tfgpu_doctor.facts.report import Finding, Fix, Report, Severity
from tfgpu_doctor.facts.units import count
from tfgpu_doctor.plan.windows_shell import quoted
from tfgpu_doctor.render.ci import lines_of
from tfgpu_doctor.render.formats import Detail
from tfgpu_doctor.render.outline import block, titles_of
from tfgpu_doctor.render.outlines import report as doctor
from tfgpu_doctor.render.prometheus import gauge, origin, rate, states
from tfgpu_doctor.render.shapes import Case, Checks, Metric, Outcome, Page, Part, Sample, Suite, Table, problems
from tfgpu_doctor.smoke.records import Smoke, SmokeCheck, Status, Verdict

MARKS = {"ok": "ok", "failed": "error", "not run": "absent", "unknown": "unknown"}
WORDS = {"ok": "ok", "failed": "failed", "not run": "not run", "unknown": "could not determine"}
_COMMAND = "tfgpu smoke"
_DOCTOR = re.compile(r"\btfgpu doctor(?=(?: --python (?:'[^']*'|\"[^\"]*\"|\S+))? --require-gpus )")


def page(smoke: Smoke, detail: Detail = "shared") -> Page:
    """A table of the checks, and what the doctor found."""
    rows = _rows(smoke, detail)
    table = Table("Checks", ("Check", "Found"), tuple(row[1:] for row in rows), tuple(row[0] for row in rows))
    word, _, counts = verdict(smoke).partition(": ")
    below: tuple[Part, ...] = ()
    if detail == "full":
        below = tuple(block(finding, titles_of(smoke.report.findings)) for finding in failing(smoke))
    elif detail == "shared":
        below = (doctor.page(_report(smoke)),)
    about = f"{_COMMAND} {smoke.tool.version}, {machine(smoke)}"
    whole = Page(_COMMAND, (about,), MARKS[smoke.verdict], f"{_COMMAND} {word}", counts, (table, *below))
    return whole._replace(created=smoke.created, hint=_hint(smoke))


def _rows(smoke: Smoke, detail: Detail) -> list[tuple[str, str, str]]:
    """Return mark, check and outcome of each row; in brief, checks that were not run for one reason share a row."""
    reasons = Counter(check.why for check in smoke.checks if check.status == "not run" and check.why)
    skipped = {why: number for why, number in reasons.items() if detail == "normal" and number > 1}
    alone = [check for check in smoke.checks if check.status != "not run" or check.why not in skipped]
    rows = [(MARKS[check.status], title(check), outcome(check)) for check in alone]
    return rows + [("absent", count(number, "check"), f"not run: {why}") for why, number in skipped.items()]


def _hint(smoke: Smoke) -> str:
    """Return the command that shows more, where the doctor's check is not ok."""
    if not any(check.name == "doctor" and check.status in ("failed", "unknown") for check in smoke.checks):
        return ""
    python, system = smoke.report.facts.python.executable, value_or(smoke.report.facts.host.os, None)
    required = smoke.parameters.get("require_gpus", 1)  # without the option, the doctor misses a GPU, too
    asked = f" --python {quoted(python.value, system)}" if isinstance(python, Known) else ""
    return f"Next: tfgpu doctor{asked}" + (f" --require-gpus {required}" if required != 1 else "")


def checks(smoke: Smoke) -> Checks:
    """A case for each check, an annotation for each that is not ok."""
    cases = tuple(_case(check, smoke) for check in smoke.checks)
    lines = (
        f"{one.name}: {one.on + ': ' if one.on else ''}{'ok: ' if one.status == 'ok' else ''}{outcome(one)}"
        for one in smoke.checks
    )
    log = (*lines, f"{_COMMAND}: {verdict(smoke)}")
    return Checks(_COMMAND, smoke.created, (Suite(_COMMAND, cases),), problems(_COMMAND, cases), log)


def _case(check: SmokeCheck, smoke: Smoke) -> Case:
    details: list[str] = []
    for finding in failing(smoke) if check.name == "doctor" else ():
        title_line = f"{finding.title} ({finding.id})"
        lines = lines_of(finding, titles_of(smoke.report.findings))
        details += lines if title_line in check.why else (title_line, *lines)
    seconds = 0.0 if check.name == "import" else check.seconds  # which is within the time of the others
    case = Case(title(check), "tfgpu.smoke", seconds=seconds, details=tuple(details))
    if check.status == "ok":
        return case._replace(details=(outcome(check), *case.details))
    # beside a failure, what could not be run for it is no second problem
    is_skipped = check.status == "not run" and smoke.verdict == "failed"
    kind: Outcome = "failure" if check.status == "failed" else "skipped" if is_skipped else "error"
    return case._replace(outcome=kind, kind=WORDS[check.status], message=outcome(check))


def metrics(smoke: Smoke) -> Iterator[Metric]:
    """The verdict, and of each check its status and speed."""
    software = {name: smoke.software.get(name, "") for name in ("tensorflow", "python")}
    yield from origin("smoke", smoke.tool, smoke.created, software)
    about = "Verdict of the test; 1 for the one that holds."
    yield gauge("tfgpu_smoke_verdict", about, *states(get_args(Verdict), smoke.verdict))
    statuses, speeds = list[Sample](), dict[str, list[Sample]]()
    for check in smoke.checks:
        where = {"check": check.name, "device": check.on}
        statuses += states(get_args(Status), check.status, "status", where)
        if check.throughput:
            speeds.setdefault(rate(check.throughput.unit), []).append(Sample(check.throughput.value, where))
    yield gauge("tfgpu_smoke_check", "Status of a check; 1 for the one that holds.", *statuses)
    for name, samples in speeds.items():
        yield gauge(f"tfgpu_smoke_check_{name}", "Speed that a check measured.", *samples)


# ---------------------------------------------------------------------------------------------------------------- words


def machine(smoke: Smoke) -> str:
    """What was tested: "TensorFlow 2.21.0, Python 3.12.3, 2 × NVIDIA H200"."""
    names = (("TensorFlow", "tensorflow"), ("Python", "python"))
    parts = [f"{name} {smoke.software[key]}" for name, key in names if key in smoke.software]
    parts += [f"{smoke.gpus.count(name)} × {name}" for name in dict.fromkeys(smoke.gpus)] or ["no GPU"]
    return ", ".join(parts)


def title(check: SmokeCheck) -> str:
    """ "matpow, GPU 0"."""
    return f"{check.name}, {check.on}" if check.on else check.name


def outcome(check: SmokeCheck) -> str:
    """How the check ended, with figure and reason."""
    what = "; ".join(filter(None, (check.saw, check.why)))
    return ": ".join(filter(None, ("" if what and check.status == "ok" else WORDS[check.status], what)))


def verdict(smoke: Smoke) -> str:
    """ "failed: 1 failed, 2 not run of 6 checks (41 s of 60 s)"."""
    counts = Counter(check.status for check in smoke.checks if check.status != "ok")
    parts = [f"{many} {WORDS[status]}" for status, many in counts.most_common()]
    what = f"{', '.join(parts)} of {len(smoke.checks)} checks" if parts else f"all {len(smoke.checks)} checks"
    return f"{WORDS[smoke.verdict]}: {what} ({smoke.seconds:.0f} s of {smoke.budget_s:g} s)"


def failing(smoke: Smoke) -> tuple[Finding, ...]:
    """The findings that make the doctor's check fail."""
    if all(check.status == "ok" for check in smoke.checks if check.name == "doctor"):
        return ()
    return tuple(one for one in _report(smoke).findings if one.root_cause and one.severity is Severity.ERROR)


def _report(smoke: Smoke) -> Report:
    """Return the report of the doctor, whose commands with an option of this gate are this gate's."""

    def repair(fix: Fix) -> Fix:
        return replace(fix, commands=tuple(_DOCTOR.sub(_COMMAND, one) for one in fix.commands))

    findings = (replace(one, fixes=tuple(map(repair, one.fixes))) for one in smoke.report.findings)
    return replace(smoke.report, findings=tuple(findings))
