"""What a report shows, before any markup: blocks of labelled lines; and the page of a finding. Pure.

Text from outside (titles, evidence, commands) is returned as it is; who prints it cleans or escapes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from msgspec import structs

from tfgpu_doctor.facts.facts import Fact, Facts, Known, value_or
from tfgpu_doctor.facts.report import (
    GUESSED,
    HARMLESS,
    Finding,
    Fix,
    Report,
    Severity,
    is_other,
    is_unanswered,
    root_causes,
)
from tfgpu_doctor.findings import pages
from tfgpu_doctor.findings.engine import ASK_DOCTOR, LIKE_OTHERS, WHICHEVER
from tfgpu_doctor.findings.symptoms import WITHOUT_CAUSE
from tfgpu_doctor.render.shapes import Block, Code, Items, Line, Page, Part, Table

LABEL_WIDTH = 9  # characters of the longest label
_MOST_NAMED = 4  # harmless lines
_MOST_REASONS = 3  # of them with what they say
_SHORT = 120  # characters of an evidence on a first screen
_MOST_EVIDENCE = 24  # of one finding; the JSON report has all

VERDICT_MARKS = {"ok": "ok", "degraded": "warning", "broken": "error", "unknown": "unknown"}

_RAISED = ("tf.import-failed", "tf.run-failed")
_LOG = 40  # lines at the end of TensorFlow's log
_OTHERS = 2  # causes beside the likeliest
_MOST_TO_DECIDE = (None, 2, 2, 1)  # commands, by how much is left out
_NO_OTHER_COMMANDS, _FEW_WORDS, _NO_OTHERS, LEAST = 2, 3, 4, 5  # how much is left out where it is too long
_LOGGED = re.compile(r"^(?:\S+ +){0,6}\S+\.(?:cc|cpp|h|py):\d+\] +(?=\S)")  # when and where a program logged a line
_FOLDERS = re.compile(r"(?<![\w/.])/(?:[^/\s:'\"]+/){3,}(?=[^/\s])")  # of a path, before its last part
# what shows most of a machine on which tfgpu is not installed
_TO_PASTE = (
    "nvidia-smi",
    "python -m pip list",
    'python -c "import tensorflow as tf; print(tf.__version__, tf.test.is_built_with_cuda(), '
    'tf.test.is_gpu_available())"',  # of every release
)


_MORE = Block(
    "unknown",
    "To find out more",
    (
        Line("fix", "On that machine, with the Python of that TensorFlow", commands=("tfgpu doctor",)),
        Line("fix", "Or paste the whole output, with what these print", commands=_TO_PASTE),
    ),
)


_NO_ANSWER = Block(
    "unknown",
    "Not answered here",
    (
        Line("fix", "What a program needs, and what it will have, its documentation and its authors say"),
        Line("fix", "Which TensorFlow, CUDA, cuDNN, Python and driver go with a GPU", commands=("tfgpu plan",)),
    ),
)


def blocks(report: Report) -> Iterator[Block]:
    """Yield causes as a first screen names them, all of them, then notes; where a text shows nothing, what would."""
    titles = titles_of(report.findings)
    for finding in _causes(report):
        title = f"Possible cause: {finding.title}" if finding.possible else finding.title
        yield block(structs.replace(finding, title=title), titles, "unknown" if finding.possible else "")
    notes = (one for one in root_causes(report.findings) if one.severity is Severity.NOTE)
    for finding in sorted(notes, key=lambda one: not one.answers):
        yield block(finding, titles)
    yield from _to_find_out(report)


def titles_of(findings: Iterable[Finding]) -> dict[str, str]:
    """Return the titles by id, as consequences are named: of a TensorFlow that raised something, with that."""

    def named(one: Finding) -> str:
        raised = one.evidence[0].saw if one.id in _RAISED and one.evidence else ""
        return f"{one.title}: {raised}" if raised not in one.title else one.title

    return {finding.id: named(finding) for finding in findings}


def _to_find_out(report: Report) -> Iterator[Block]:
    """Yield what would show more of a text that shows nothing."""
    told = is_other(report) or any(one.answers or one.id in HARMLESS for one in report.findings)
    for_python = all(one.kind != "not-python" for one in value_or(report.facts.messages, ()))
    if report.verdict == "unknown" and report.source == "text" and for_python and not told:
        yield _NO_ANSWER if is_unanswered(report) else _MORE


def answer(report: Report, left_out: int = 0) -> Iterator[Part]:
    """Yield a first screen of a text: the likeliest cause and what to type, others with what decides, what is harmless.

    A symptom is no cause: it stands among what the text tells. Where that is too long, more is `left_out`, up to
    LEAST: which lines are harmless and other ways of an answer; what decides on other causes; words of the likeliest
    and the second of the others; the others, where the likeliest has a repair; that, if it is only possible, and of an
    answer beside it what to type.
    """
    notes = [one for one in root_causes(report.findings) if one.severity is Severity.NOTE]
    causes = _causes(report)
    first = _likeliest(causes[0], left_out) if causes else Block("", "", ())
    shown = {command for line in first.lines for command in line.commands}  # each once
    yield from (_steps(finding, left_out, beside=bool(shown)) for finding in notes if finding.answers)
    if causes:
        others = tuple(_other(one, shown, left_out) for one in causes[1 : 1 + _others(causes[0], left_out)])
        yield first
        if others:
            yield Block("", "Also possible" if causes[1].possible else "Beside it", others)
    yield Items(tuple(_told(notes, without="benign.log" if left_out and causes else "")), mark="note")
    if not causes:
        yield from _to_find_out(report)


def _others(first: Finding, left_out: int) -> int:
    """How many causes stand beside the first; its repair is worth more than they are, unless it is theirs, too."""
    own = [fix for fix in first.fixes if not fix.decides]
    if left_out >= _NO_OTHERS and own and not own[0].text.startswith(WHICHEVER):
        return 0
    return _OTHERS - (left_out >= _FEW_WORDS)


def _told(notes: list[Finding], without: str) -> Iterator[str]:
    """Notes that answer nothing, each in a line; of harmless lines, which they are."""
    for one in notes:
        lines = one.evidence[:2] if one.id == "benign.log" else ()
        named = "; ".join(_cut(_LOGGED.sub("", item.saw), _SHORT // 4) for item in lines)
        if not one.answers and one.id != without:
            yield f"{one.title}: {named}" if named else one.title


def _steps(finding: Finding, left_out: int, *, beside: bool) -> Block:
    """An answer with what to type; what is shown beside it says what to type, too."""
    whole = brief(block(finding, {}))
    why = tuple(line for line in whole.lines if line.label != "fix")
    if finding.id == "benign.log":  # lines, each with what it says
        why = why[: 2 * max(_MOST_REASONS - left_out, 1)]
    elif left_out >= _FEW_WORDS:
        why = tuple(line._replace(text=line.text.partition(". ")[0]) for line in why)
    fixes = [line for line in whole.labelled("fix") if not (left_out and line.text.startswith("Or "))]
    return whole._replace(lines=(*why, *(() if beside and left_out >= LEAST else fixes)))


def _causes(report: Report) -> list[Finding]:
    """What is certain, then what is possible, the likeliest first; symptoms only where nothing else is; no guess.

    Nor, beside a certain cause, what only stands for it in similar reports.
    """
    grave = [one for one in root_causes(report.findings) if one.severity is not Severity.NOTE]
    is_known = any(one.id not in WITHOUT_CAUSE and one.severity is Severity.ERROR for one in grave)
    left_out = (GUESSED, *LIKE_OTHERS) if is_known else (GUESSED,)
    possible = [finding for finding in report.findings if finding.possible and finding.cause not in left_out]
    certain = [one for one in grave if not possible or one.id not in WITHOUT_CAUSE]
    return [*certain, *possible]


def _likeliest(finding: Finding, left_out: int) -> Block:
    """A cause with its first evidence, the reason in a sentence, and what repairs it, or else what decides."""
    whole, is_guess = block(finding, {}, "unknown" if finding.possible else ""), finding.cause in LIKE_OTHERS
    few = left_out >= _FEW_WORDS
    end = r"\. |; " if few else r"\. "
    why = [] if is_guess else [line._replace(text=re.split(end, line.text)[0]) for line in whole.labelled("why")]
    kind = "As in similar reports: " if is_guess else "Most likely: " if finding.possible else ""
    found = () if is_guess else _first_found(whole)
    shown = (_shortened(line, _SHORT // (2 if few else 1)) for line in found)
    lines = (*shown, *why, *map(_fix, _to_type(finding, left_out)))
    return whole._replace(title=f"{kind}{finding.title}", lines=lines, docs="")


def _first_found(block: Block) -> list[Line]:
    """The first evidence, with what is expected instead."""
    lines = [line for line in block.lines if line.label in ("found", "expected")]
    return lines[: 2 if [line.label for line in lines[:2]] == ["found", "expected"] else 1]


def _to_type(finding: Finding, left_out: int) -> list[Fix]:
    """The first fix that repairs; of what is possible, what decides, if it comes first; what can be typed, too."""
    decide = [fix for fix in finding.fixes if fix.decides]
    repairs = [fix for fix in finding.fixes if not fix.decides]
    if finding.possible and decide[:1] == [*finding.fixes[:1]]:
        return _to_decide(decide[:1], repairs[:1], left_out)
    fixes = (repairs or decide)[:1]
    if fixes and not fixes[0].commands:
        fixes += [fix for fix in finding.fixes[1:] if fix.commands][:1]
    return fixes


def _to_decide(decide: list[Fix], repairs: list[Fix], left_out: int) -> list[Fix]:
    """What decides, in few commands where all are too long, and what repairs then."""
    most = _MOST_TO_DECIDE[min(left_out, _FEW_WORDS)]
    fixes = [structs.replace(fix, commands=fix.commands[:most]) for fix in decide]
    fixes += repairs if left_out < LEAST else []
    said_below = (ASK_DOCTOR,) if len(fixes) == 1 or left_out >= _FEW_WORDS else None
    return [one for one in fixes if one.commands != said_below]


def _other(finding: Finding, shown: set[str], left_out: int) -> Line:
    """Another cause in a line, with a command, not yet shown, that decides on it, or what repairs a certain one."""
    fixes = sorted(finding.fixes, key=lambda fix: fix.decides is not finding.possible)
    most = 1 if finding.possible else 2
    whole = (fix.commands for fix in fixes if fix.decides or len(fix.commands) <= most)  # no first of several steps
    ways = ([one for one in way if one not in (ASK_DOCTOR, *shown)] for way in whole)
    commands = next(filter(None, ways), [])[:most]
    commands = commands if left_out < _NO_OTHER_COMMANDS else []
    shown.update(commands)
    return Line("", finding.title, id=finding.id, commands=tuple(commands))


def least(report: Report) -> Iterator[Block]:
    """The first problem with its first fix; where it has none, the likeliest cause and what decides on it."""
    shown = [block for block in blocks(report) if block.mark != "note" or block.answers]
    if report.source == "text" and (causes := _causes(report)):  # as on the first screen
        shown = [_likeliest(causes[0], 0)]
    for one in (*shown[:1], *(block for block in shown if block.mark == "unknown")):
        if fixes := one.labelled("fix")[: 2 if one.mark == "unknown" else 1]:
            yield one._replace(lines=fixes, docs="")
            return
    yield from (one._replace(lines=(), docs="") for one in shown[:1])


def brief(block: Block) -> Block:
    """Return what a first screen needs: first evidence, why, what follows, two fixes; an answer's steps.

    Of a note its title; of harmless lines, which they are.
    """
    if block.answers:
        why = tuple(_reasons(block)) if block.ids == ("benign.log",) else block.labelled("why")
        return block._replace(lines=(*why, *block.labelled("fix")), docs="")
    if block.mark == "note":
        named = block.labelled("found")[:_MOST_NAMED] if block.ids == ("benign.log",) else ()  # harmless lines
        return block._replace(lines=tuple(map(_shortened, named)), docs="")
    # the evidence up to the first that says what is expected, else the first two; consequences in one line
    evidence = [line for line in block.lines if line.label in ("found", "expected")]
    end = next((place for place, line in enumerate(evidence) if line.label == "expected"), 1)
    therefore = tuple(map(_shortened, block.labelled("therefore")))
    if len(therefore) > 1:
        therefore = (therefore[0]._replace(text="; ".join(line.text for line in therefore), id=""),)
    lines = (
        *map(_shortened, evidence[: min(end, 2) + 1]),
        *block.labelled("why"),
        *therefore,
        *block.labelled("fix")[:2],
    )
    return block._replace(lines=lines, docs="")


def _reasons(harmless: Block) -> Iterator[Line]:
    """The first lines, each with what it says."""
    shown = [line for line in harmless.lines if line.label in ("found", "expected")]
    for line in shown[: 2 * _MOST_REASONS]:
        is_line = line.label == "found"
        yield _shortened(line, _SHORT // 2) if is_line else Line("why", line.text.removeprefix("nothing: "))


def _shortened(line: Line, most: int = _SHORT) -> Line:
    """Cut the text at a blank, and mark that there is more; the number of its line leads to the rest."""
    text = _LOGGED.sub("", line.text)
    return line._replace(text=_cut(text if len(text) <= most else _FOLDERS.sub(".../", text), most))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most].rpartition(' ')[0] or text[:most]} ..."


def block(finding: Finding, titles: Mapping[str, str], mark: str = "") -> Block:
    """Return one finding: evidence, cause, consequences, fixes; `titles` has those of its consequences."""
    lines = list(_found(finding))
    if finding.cause:
        lines.append(Line("why", finding.cause))
    lines += [Line("therefore", titles.get(other, other), id=other) for other in finding.consequences]
    lines += map(_fix, finding.fixes)
    docs = finding.docs or ""
    return Block(mark or finding.severity.value, finding.title, tuple(lines), (finding.id,), docs, finding.answers)


def _found(finding: Finding) -> Iterator[Line]:
    for item in finding.evidence[:_MOST_EVIDENCE]:
        yield Line("found", item.saw, item.source)
        if item.need:
            yield Line("expected", item.need, item.need_source or "")
    if len(finding.evidence) > _MOST_EVIDENCE:
        yield Line("", f"and {len(finding.evidence) - _MOST_EVIDENCE} more")


def _fix(fix: Fix) -> Line:
    return Line("fix", fix.text, commands=fix.commands)


def open_checks(report: Report) -> Table:
    """Return the checks that could not be made, as a table; nothing for a text, which leaves most checks open."""
    reasons: dict[str, list[str]] = {}
    for item in report.undetermined if report.source != "text" else ():
        reasons.setdefault(item.reason, []).append(item.id)
    rows = tuple((reason, ", ".join(ids)) for reason, ids in reasons.items())
    title = f"Could not determine ({len(report.undetermined)})"
    return Table(title, ("Because", "Checks"), rows, is_folded=True)


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
