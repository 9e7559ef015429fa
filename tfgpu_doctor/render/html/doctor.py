"""The doctor's report as HTML: verdict, stack, and what was found; a page of its own, or part of another. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.records.facts import Facts, value_or
from tfgpu_doctor.records.report import Evidence, Finding, Fix, Report
from tfgpu_doctor.records.wording import problem_counts, verdict_sentence
from tfgpu_doctor.render.html.parts import command, element, folded, items, page, paragraph, section, table, text
from tfgpu_doctor.render.markdown.report import versions
from tfgpu_doctor.render.stack import stack
from tfgpu_doctor.render.terminal.report import left_open, told

_LOG = 40  # lines
_KIND = {"error": "bad", "warning": "warn", "note": ""}
_VERDICT = {"ok": "good", "degraded": "warn", "broken": "bad", "unknown": ""}
_MARK = {"ok": "ok", "error": "problem", "warning": "warning", "note": "note", "unknown": "unknown", "absent": "none"}


def render(report: Report) -> str:
    """A whole page."""
    name = "tfgpu explain" if report.source == "text" else "tfgpu doctor"
    about = f"{name} {report.tool.version}, matrix of {report.matrix.revision}, {report.created}"
    head = element("header", paragraph(about, "muted"), element("h1", text(f"{name}: {report.verdict}")))
    found = section("What was found", "found", body(report))
    return page(f"{name}: {report.verdict}", head + element("main", found, *_details(report.facts)))


def _details(facts: Facts) -> Iterator[str]:
    """What whoever helps asks for next, folded."""
    yield folded("Versions", table("Versions", ("what", "version", "read from"), versions(facts)))
    packages = [f"{package.name}=={package.version}" for package in value_or(facts.python.packages, ())]
    variables = [f"{name}={value}" for name, value in value_or(facts.variables, {}).items()]
    log = value_or(facts.tensorflow.log, ())[-_LOG:]
    for title, lines in (("Packages", packages), ("Variables", variables), ("Log (its end)", log)):
        shown = "\n".join(text(line) for line in lines)
        yield folded(f"{title} ({len(lines)})", element("pre", element("code", shown)) if lines else "")


def body(report: Report) -> str:
    """Verdict, stack and findings."""
    layers = told(stack(report)) if report.source == "text" else stack(report)
    titles = {finding.id: finding.title for finding in report.findings}
    shown = [one for one in report.findings if one.root_cause and not one.possible]
    return "".join(
        (
            verdict(report),
            table("The stack", ("Layer", "State", "Found"), [(one.name, _MARK[one.mark], one.text) for one in layers]),
            *(finding_of(one, titles) for one in shown),
            *(_open(reason, group) for reason, group in left_open(report)),
            _undetermined(report),
        )
    )


def verdict(report: Report) -> str:
    """One sentence."""
    words = element("strong", text(report.verdict)) + text(f": {verdict_sentence(report)}{problem_counts(report)}")
    return element("p", words, class_=f"verdict {_VERDICT[report.verdict]}".strip())


def finding_of(finding: Finding, titles: dict[str, str]) -> str:
    """One finding with its evidence and its ways out."""
    kind = _KIND[finding.severity.value]
    title = text(f"{finding.title} ") + element("span", text(finding.id), class_="muted")
    parts = [element("h3", title), element("dl", "".join(_described(finding, titles)))]
    parts += [_fix(fix) for fix in finding.fixes]
    if finding.docs and finding.docs.startswith("https://"):
        link = element("a", text(finding.docs), href=finding.docs, rel="noreferrer noopener")
        parts.append(element("p", "see ", link, class_="muted"))
    return element("article", *parts, **({"class_": kind} if kind else {}))


def _described(finding: Finding, titles: dict[str, str]) -> Iterator[str]:
    for item in finding.evidence:
        yield from _evidence(item)
    yield element("dt", "why") + element("dd", text(finding.cause))
    for one in finding.consequences:
        yield element("dt", "so") + element("dd", text(f"{titles.get(one, one)} ({one})"))


def _evidence(item: Evidence) -> Iterator[str]:
    def told_by(source: str | None) -> str:
        return element("span", text(f" from {source}"), class_="from") if source else ""

    yield element("dt", "saw") + element("dd", text(item.saw), told_by(item.source))
    if item.need:
        yield element("dt", "need") + element("dd", text(item.need), told_by(item.need_source))


def _fix(fix: Fix) -> str:
    return paragraph(fix.text) + "".join(command(line) for line in fix.commands)


def _open(reason: str, group: list[Finding]) -> str:
    fixes = "".join(_fix(fix) for fix in dict.fromkeys(fix for finding in group for fix in finding.fixes))
    named = items(f"{finding.title} ({finding.id})" for finding in group)
    return element("article", element("h3", "Left open by the text"), named, paragraph(reason), fixes)


def _undetermined(report: Report) -> str:
    if report.source == "text" or not report.undetermined:  # a text leaves most checks open
        return ""
    reasons: dict[str, list[str]] = {}
    for item in report.undetermined:
        reasons.setdefault(item.reason, []).append(item.id)
    rows = [(reason, ", ".join(ids)) for reason, ids in reasons.items()]
    return folded(
        f"Could not determine ({len(report.undetermined)})", table("Open checks", ("Because", "Checks"), rows)
    )
