"""What a smoke test shows in words, for terminals, pages and CI. Pure.

Text from outside is returned as it is; who prints it cleans or escapes it.
"""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.records.report import Finding, Severity
from tfgpu_doctor.render.ci.plain import lines_of
from tfgpu_doctor.render.outlines.report import titles_of
from tfgpu_doctor.smoke.records import Smoke, SmokeCheck

MARKS = {"ok": "ok", "failed": "error", "not run": "absent", "unknown": "unknown"}
WORDS = {"ok": "ok", "failed": "failed", "not run": "not run", "unknown": "could not determine"}


def machine(smoke: Smoke) -> str:
    """What was tested: "TensorFlow 2.21.0, Python 3.12.3, 2 × NVIDIA H200"."""
    names = {"tensorflow": "TensorFlow", "python": "Python"}
    parts = [f"{names[name]} {version}" for name, version in smoke.software.items() if name in names]
    parts += [f"{smoke.gpus.count(name)} × {name}" for name in dict.fromkeys(smoke.gpus)] or ["no GPU"]
    return ", ".join(parts)


def title(check: SmokeCheck) -> str:
    """ "matpow, GPU 0"."""
    return f"{check.name}, {check.on}" if check.on else check.name


def outcome(check: SmokeCheck) -> str:
    """How the check ended, how often, with figure and reason."""
    word = WORDS[check.status] if check.status != "ok" else ""
    often = f"{check.passed} of {check.rounds} ok" if check.rounds > 1 and check.ran else ""
    status = ", ".join(part for part in (word, often) if part)
    what = "; ".join(part for part in (check.saw, check.why) if part)
    return ": ".join(part for part in (status, what) if part) or WORDS[check.status]


def verdict(smoke: Smoke) -> str:
    """ "failed: 1 failed, 2 not run of 6 checks (41 s of 60 s)"."""
    words = {"failed": "failed", "unknown": "could not be determined", "not run": "not run"}
    counts = {status: sum(check.status == status for check in smoke.checks) for status in words}
    parts = [f"{counts[status]} {word}" for status, word in words.items() if counts[status]]
    what = f"{', '.join(parts)} of {len(smoke.checks)} checks" if parts else f"all {len(smoke.checks)} checks"
    return f"{WORDS[smoke.verdict]}: {what} ({smoke.seconds:.0f} s of {smoke.budget_s:g} s)"


def findings_behind(check: SmokeCheck, smoke: Smoke) -> Iterator[str]:
    """For the doctor's check, the findings that make it fail, as plain lines."""
    titles = titles_of(smoke.report.findings)
    for finding in failing(smoke) if check.name == "doctor" else ():
        yield f"{finding.title} ({finding.id})"
        yield from lines_of(finding, titles)


def failing(smoke: Smoke) -> tuple[Finding, ...]:
    """The findings that make the doctor's check fail."""
    if all(check.status == "ok" for check in smoke.checks if check.name == "doctor"):
        return ()
    return tuple(one for one in smoke.report.findings if one.root_cause and one.severity is Severity.ERROR)
