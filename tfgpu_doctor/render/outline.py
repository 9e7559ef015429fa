"""What a report shows, before any markup: blocks of labelled lines; and the page of a finding. Pure.

Text from outside (titles, evidence, commands) is returned as it is; who prints it cleans or escapes it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import structs

from tfgpu_doctor.facts.facts import Fact, Facts, Known, value_or
from tfgpu_doctor.facts.report import Finding, Fix, Report, Severity, is_answered, root_causes
from tfgpu_doctor.findings import pages
from tfgpu_doctor.findings.symptoms import WITHOUT_CAUSE
from tfgpu_doctor.render.shapes import Block, Code, Items, Line, Page, Part, Table

LABEL_WIDTH = 9  # characters of the longest label
_MOST_NAMED = 4  # harmless lines
_SHORT = 160  # characters of an evidence on a first screen
_MOST_EVIDENCE = 24  # of one finding; the JSON report has all

VERDICT_MARKS = {"ok": "ok", "degraded": "warning", "broken": "error", "unknown": "unknown"}

_DRIVER_LIBRARIES = ("libcuda.so", "libnvidia-ml.so")

_LOG = 40  # lines at the end of TensorFlow's log
# what shows most of a machine on which tfgpu is not installed
_TO_PASTE = (
    "nvidia-smi",
    "python -m pip list",
    "python -c \"import tensorflow as tf; print(tf.config.list_physical_devices('GPU'), "
    'tf.sysconfig.get_build_info())"',
)


_MORE = Block(
    "unknown",
    "To find out more",
    (
        Line("fix", "On that machine, with the Python of that TensorFlow", commands=("tfgpu doctor",)),
        Line("fix", "Or paste the whole output, with what these print", commands=_TO_PASTE),
    ),
)


def blocks(report: Report) -> Iterator[Block]:
    """Yield problems and warnings, possible causes, notes; where a text shows nothing, what would show more."""
    titles = {finding.id: finding.title for finding in report.findings}
    certain = root_causes(report.findings)
    possible = list(_possible_causes(report))
    # what stands below the possible causes: the commands that decide between them, and fixes for any cause
    general = [fix for finding in certain if possible and finding.id in WITHOUT_CAUSE for fix in finding.fixes]
    below = [*general, *_asked(report, certain)]
    for finding in certain:
        if finding.severity is not Severity.NOTE:
            yield block(structs.replace(finding, fixes=tuple(fix for fix in finding.fixes if fix not in below)), titles)
    if possible:
        yield from possible[:-1]
        yield possible[-1]._replace(lines=(*possible[-1].lines, *map(_fix, general)))
    yield from _notes(report, certain, titles)


def _notes(report: Report, certain: list[Finding], titles: Mapping[str, str]) -> Iterator[Block]:
    """Yield answers, other notes, and what would show more where a text shows nothing."""
    for finding in sorted(certain, key=lambda one: not one.answers):
        if finding.severity is Severity.NOTE:
            yield block(finding, titles)
    if report.verdict == "unknown" and report.source == "text" and not is_answered(report):
        yield _MORE


def _asked(report: Report, certain: list[Finding]) -> Iterator[Fix]:
    """Yield fixes of what is certain that ask for no more than what decides between the possible causes."""
    deciding = [fix for finding in report.findings if finding.possible for fix in finding.fixes if fix.decides]
    asked = {command for fix in deciding for command in (*fix.commands, "tfgpu doctor")}
    every = (fix for finding in certain for fix in finding.fixes)
    return (fix for fix in every if fix.decides and asked.issuperset(fix.commands))


def least(report: Report) -> Iterator[Block]:
    """The first problem with its first fix; where it has none, the likeliest cause and what decides on it."""
    shown = [block for block in blocks(report) if block.mark != "note" or block.answers]
    causes = [line for block in shown for line in block.labelled("cause")]
    if shown and not shown[0].labelled("cause"):
        fixes = shown[0].labelled("fix")[:1]
        yield shown[0]._replace(lines=fixes, docs="")
        if fixes:
            return
    if causes:
        fixes = tuple(line for block in shown if block.labelled("cause") for line in block.labelled("fix"))[:1]
        yield Block("unknown", f"Possible cause: {causes[0].text}", fixes, (causes[0].id,))


def brief(block: Block) -> Block:
    """Return what a first screen needs: first evidence, why, what follows, two fixes; an answer's steps.

    Of a note its title; of harmless lines, which they are.
    """
    if block.mark == "unknown":
        return block
    if block.answers:
        return block._replace(lines=(*block.labelled("why"), *block.labelled("fix")), docs="")
    if block.mark == "note":
        named = (
            block.labelled("found")[:_MOST_NAMED] if block.ids == ("benign.log",) else ()
        )  # which lines are harmless
        return block._replace(lines=tuple(map(_shortened, named)), docs="")
    # the evidence up to the first that says what is expected, else the first two; consequences in one line
    evidence = [line for line in block.lines if line.label in ("found", "expected")]
    end = next((place for place, line in enumerate(evidence) if line.label == "expected"), 1)
    therefore = block.labelled("therefore")
    if len(therefore) > 1:
        therefore = (therefore[0]._replace(text="; ".join(line.text for line in therefore), id=""),)
    lines = (
        *map(_shortened, evidence[: min(end, 2) + 1]),
        *block.labelled("why"),
        *therefore,
        *block.labelled("fix")[:2],
    )
    return block._replace(lines=lines, docs="")


def _shortened(line: Line) -> Line:
    """Cut the text at a blank, and mark that there is more; the number of its line leads to the rest."""
    text = line.text
    short = text if len(text) <= _SHORT else f"{text[:_SHORT].rpartition(' ')[0] or text[:_SHORT]} ..."
    return line._replace(text=short)


def block(finding: Finding, titles: Mapping[str, str]) -> Block:
    """Return one finding: evidence, cause, consequences, fixes; `titles` has those of its consequences."""
    lines = list(_found(finding))
    if finding.cause:
        lines.append(Line("why", finding.cause))
    lines += [Line("therefore", titles.get(other, other), id=other) for other in finding.consequences]
    lines += map(_fix, finding.fixes)
    docs = finding.docs or ""
    return Block(finding.severity.value, finding.title, tuple(lines), (finding.id,), docs, finding.answers)


def _found(finding: Finding) -> Iterator[Line]:
    for item in finding.evidence[:_MOST_EVIDENCE]:
        yield Line("found", item.saw, item.source)
        if item.need:
            yield Line("expected", item.need, item.need_source or "")
    if len(finding.evidence) > _MOST_EVIDENCE:
        yield Line("", f"and {len(finding.evidence) - _MOST_EVIDENCE} more")


def _fix(fix: Fix) -> Line:
    return Line("fix", fix.text, commands=fix.commands)


def _possible_causes(report: Report) -> Iterator[Block]:
    """The causes that a text leaves open, those with one reason together; what decides stands with the last of them."""
    groups: dict[str, list[Finding]] = {}
    for finding in report.findings:
        if finding.possible:
            groups.setdefault(finding.cause, []).append(finding)
    advised = [dict.fromkeys(fix for finding in group for fix in finding.fixes) for group in groups.values()]
    for place, (reason, group) in enumerate(groups.items(), 1):
        fixes = [fix for fix in advised[place - 1] if not any(fix in later for later in advised[place:])]
        below = (Line("why", reason), *map(_fix, fixes))
        if len(group) == 1:
            title, lines = f"Possible cause: {group[0].title}", (*_found(group[0]), *below)
        else:
            causes = [Line("cause", finding.title, id=finding.id) for finding in group]
            title, lines = "Possible causes", (*causes, *below)
        yield Block("unknown", title, lines, tuple(finding.id for finding in group))


def skipped(report: Report) -> list[tuple[str, int]]:
    """Return why checks could not be made, and how many for each reason, the commonest reason first."""
    none = value_or(report.facts.driver.libcuda, None) == ()  # one name for all that there is no driver to ask for
    reasons = Counter(
        "no NVIDIA driver" if none and any(name in item.reason for name in _DRIVER_LIBRARIES) else item.reason
        for item in report.undetermined
        if report.source != "text"
    )
    return reasons.most_common()


def open_checks(report: Report) -> tuple[Table, ...]:
    """Return the checks that could not be made, as a table; nothing for a text, which leaves most checks open."""
    reasons: dict[str, list[str]] = {}
    for item in report.undetermined if report.source != "text" else ():
        reasons.setdefault(item.reason, []).append(item.id)
    rows = tuple((reason, ", ".join(ids)) for reason, ids in reasons.items())
    title = f"Could not determine ({len(report.undetermined)})"
    return (Table(title, ("Because", "Checks"), rows, is_folded=True),) if rows else ()


def details(facts: Facts) -> tuple[Part, ...]:
    """Return versions, packages, variables and the end of the log."""
    packages = [f"{package.name}=={package.version}" for package in value_or(facts.python.packages, ())]
    variables = [f"{name}={value}" for name, value in value_or(facts.variables, {}).items()]
    return (
        Table("Versions", ("what", "version", "read from"), tuple(_versions(facts)), is_folded=True),
        Code(f"Packages ({len(packages)})", tuple(packages), is_folded=True),
        Code(f"Variables ({len(variables)})", tuple(variables), is_folded=True),
        Code("Log (its end)", value_or(facts.tensorflow.log, ())[-_LOG:], is_folded=True),
    )


def _versions(facts: Facts) -> Iterator[tuple[str, str, str]]:
    """The facts that whoever reads an issue asks for first."""
    single: dict[str, Fact[str]] = {
        "TensorFlow": facts.tensorflow.version,
        "Python": facts.python.version,
        "interpreter": facts.python.executable,
        "driver": facts.driver.version,
        "CUDA supported by the driver": facts.driver.cuda_supported,
        "cuDNN": facts.cudnn.runtime,
        "system": facts.host.distribution,
        "kernel": facts.host.kernel,
        "C library": facts.host.libc,
        "container": facts.host.container,
    }
    for name, fact in single.items():
        if isinstance(fact, Known):
            yield name, fact.value, fact.source
    for kit in value_or(facts.cuda.toolkits, ()):
        yield "CUDA toolkit", f"{kit.version or 'of unknown version'} in {kit.path}", kit.source
    for phase in facts.tensorflow.phases:
        if phase.outcome not in ("ok", "skipped"):
            yield f"phase {phase.name}", phase.exception or phase.outcome, phase.note or ""


# --------------------------------------------------------------------------------------------- the page of a finding


def finding_page(found: pages.Page) -> Page:
    """Return a finding's page: what it is, how to recognise, confirm and fix it, sources."""
    headline = pages.headline_of(found.id)
    signs = []
    for sign in found.recognise:
        printed = [Line("printed", sign.line)] if sign.line is not None else []
        signs += [*printed, Line("means" if printed else "sign", sign.means)]
    checks = []
    for check in found.checks:
        beside = [Line("", f"distinguishes it from {', '.join(check.tells_from)}")] if check.tells_from else []
        checks += [Line("check", check.text, commands=check.commands), *beside]
    fixes: dict[str, list[Line]] = {}
    for remedy in found.fixes:
        line = Line("fix", remedy.text, commands=(*remedy.example, *remedy.commands))
        fixes.setdefault(remedy.platform, []).append(line)
    parts: tuple[Part, ...] = (
        Items(headline.titles),
        Items((found.what,)),
        Block("", "How to recognise it", tuple(signs)),
        Block("", "How to confirm it", tuple(checks)),
        *(Block("", f"How to fix it: {platform}", tuple(lines)) for platform, lines in fixes.items()),
        Block("", "Sources", tuple(Line("", source.title, commands=(source.url,)) for source in found.sources)),
        Code("See also", tuple(link for link in headline.docs if link not in {one.url for one in found.sources})),
    )
    named = " or ".join(severity.value for severity in headline.severities)
    return Page("tfgpu explain", (), headline.severities[0].value, found.id, named, parts, is_brief=True)
