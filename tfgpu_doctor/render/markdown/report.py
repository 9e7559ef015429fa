"""A report for an issue on GitHub: short, with what is long folded, and nothing in it that acts as markup.

GitHub looks for mentions and issue numbers in the rendered text, where an escaped character is a plain one again; an
empty HTML comment between the sign and the name is what keeps them apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from tfgpu_doctor.records.facts import Fact, Facts, Known, value_or
from tfgpu_doctor.records.report import Finding, Report
from tfgpu_doctor.records.wording import problem_counts, verdict_sentence
from tfgpu_doctor.render.console import clean
from tfgpu_doctor.render.stack import stack
from tfgpu_doctor.render.terminal.report import left_open, told

LONGEST = 60_000  # characters; GitHub takes 65 536
_LONGEST_TEXT = 600  # characters of one text
_LONGEST_COMMAND = 2000
_MOST_EVIDENCE = 12
_MARKS = {"ok": "✓", "error": "✗", "warning": "⚠", "note": "ℹ", "unknown": "?", "absent": "–"}
_VERDICTS = {"ok": "✓", "degraded": "⚠", "broken": "✗", "unknown": "?"}

_URL = re.compile(r"(https?://[^\s<>\"'`|\\*\[\](){}]+)")
_HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_MARKUP = re.compile(r"[&<>\\`*_\[\]|~$]")
_LINKED = re.compile(
    r"@(?=\w)|#(?=\d)|(?<=\b[Gg][Hh]-)(?=\d)|(?<=\b[Ww]{3})(?=\.)|(?:(?<=^:)|(?<=\D:))(?=[a-z0-9_+-]+:)"
)


def escape(text: str, longest: int = _LONGEST_TEXT) -> str:
    """Make text from outside plain in Markdown: no markup, HTML, mention, issue number or emoji; one line, cut off."""
    text = clean(text.replace("\n", " ").replace("\r", " "))
    if len(text) > longest:
        text = text[: longest - 1] + "…"
    pieces = _URL.split(text)
    return "".join(piece if number % 2 else _plain(piece) for number, piece in enumerate(pieces))


def _plain(text: str) -> str:
    apart = _LINKED.sub(lambda match: match[0] + "\0", text)
    escaped = _MARKUP.sub(lambda match: _HTML.get(match[0]) or "\\" + match[0], apart)
    return escaped.replace("\0", "<!-- -->")


def fenced(lines: Iterable[str], language: str = "") -> str:
    """A code block that its content cannot end."""
    content = [clean(line) for line in lines]
    longest = max((len(run) for line in content for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence + language, *content, fence])


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A table of escaped cells."""
    lines = [head, ("---",) * len(head)]
    lines += [tuple(escape(cell) for cell in row) for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def folded(title: str, body: str) -> str:
    """What the reader opens on demand."""
    return f"<details><summary>{escape(title)}</summary>\n\n{body}\n\n</details>"


def render(report: Report) -> str:
    """The whole page, at most :data:`LONGEST` characters; what does not fit is named."""
    roots = [finding for finding in report.findings if finding.root_cause]
    titles = {finding.id: finding.title for finding in report.findings}
    page = [_head(report), _stack(report)]
    room = LONGEST - 1000 - sum(map(len, page))
    left_out = []
    windows = value_or(report.facts.host.os, "") == "windows"
    language = "bat" if windows else "sh"
    blocks = [(one.id, _finding(one, titles, language)) for one in roots if not one.possible]
    blocks += [
        (", ".join(one.id for one in group), _left_open(why, group, language)) for why, group in left_open(report)
    ]
    for ids, block in blocks:
        if len(block) + 2 > room:
            left_out.append(ids)
            continue
        page.append(block)
        room -= len(block) + 2
    if left_out:
        page.append(f"{len(left_out)} more are too long for this page: {escape(', '.join(left_out))}")
    for block in _details(report):
        if len(block) + 2 <= room:
            page.append(block)
            room -= len(block) + 2
    return "\n\n".join(page) + "\n"


def _head(report: Report) -> str:
    command = "tfgpu explain" if report.source == "text" else "tfgpu doctor"
    tool = f"{command} {report.tool.version}, matrix of {report.matrix.revision}"
    verdict = f"**{_VERDICTS[report.verdict]} {escape(report.verdict)}**: {escape(verdict_sentence(report))}"
    return f"{verdict}{problem_counts(report)}\n\n<sub>{escape(tool)}, {escape(report.created)}</sub>"


def _stack(report: Report) -> str:
    layers = told(stack(report)) if report.source == "text" else stack(report)
    return table(("", "Layer", "Found"), ((_MARKS[one.mark], one.name, one.text) for one in layers))


def _finding(finding: Finding, titles: dict[str, str], language: str) -> str:
    mark = _MARKS[finding.severity.value]
    blocks = [f"### {mark} {escape(finding.title, 200)} <sub>{escape(finding.id)}</sub>"]
    blocks.append("\n".join(_facts_of(finding, titles)))
    for fix in finding.fixes:
        blocks.append(f"**do** {escape(fix.text)}")
        if fix.commands:
            blocks.append(fenced(map(_command, fix.commands), language))
    if finding.docs and _URL.fullmatch(finding.docs):
        blocks.append(f"**see** <{finding.docs}>")
    return "\n\n".join(blocks)


def _left_open(reason: str, group: list[Finding], language: str) -> str:
    """Other causes that would look the same, in one block."""
    blocks = ["### ? Left open by the text"]
    items = [f"- or {escape(one.title, 200)} <sub>{escape(one.id)}</sub>" for one in group]
    blocks.append("\n".join([*items, f"- **why** {escape(reason)}"]))
    for fix in dict.fromkeys(fix for one in group for fix in one.fixes):
        blocks.append(f"**do** {escape(fix.text)}")
        if fix.commands:
            blocks.append(fenced(map(_command, fix.commands), language))
    return "\n\n".join(blocks)


def _facts_of(finding: Finding, titles: dict[str, str]) -> Iterator[str]:
    for item in finding.evidence[:_MOST_EVIDENCE]:
        yield f"- **saw** {_with_source(item.saw, item.source)}"
        if item.need:
            yield f"- **need** {_with_source(item.need, item.need_source)}"
    if len(finding.evidence) > _MOST_EVIDENCE:
        yield f"- and {len(finding.evidence) - _MOST_EVIDENCE} more"
    yield f"- **why** {escape(finding.cause)}"
    for one in finding.consequences:
        yield f"- **so** {escape(titles.get(one, one))} <sub>{escape(one)}</sub>"


def _with_source(text: str, source: str | None) -> str:
    return escape(text) + (f" ← <sub>{escape(source, 200)}</sub>" if source else "")


def _command(command: str) -> str:
    """A command whole, or not at all: half of one would do something else."""
    if len(command) > _LONGEST_COMMAND:
        return f"# a command of {len(command)} characters, in the JSON report"
    return command


# ------------------------------------------------------------------------------------------------- details


def _details(report: Report) -> Iterator[str]:
    if report.undetermined and report.source != "text":  # a text leaves most checks open
        reasons: dict[str, list[str]] = {}
        for item in report.undetermined:
            reasons.setdefault(item.reason, []).append(item.id)
        rows = ((reason, ", ".join(ids)) for reason, ids in reasons.items())
        yield folded(f"Could not determine ({len(report.undetermined)})", table(("Because", "Checks"), rows))
    found = list(versions(report.facts))
    if found:
        yield folded("Versions", table(("", "", "from"), found))
    packages = value_or(report.facts.python.packages, ())
    if packages:
        lines = [f"{package.name}=={package.version}" for package in packages]
        yield folded(f"Packages ({len(lines)})", fenced(lines))
    variables = value_or(report.facts.variables, {})
    if variables:
        yield folded(f"Variables ({len(variables)})", fenced(f"{name}={value}" for name, value in variables.items()))
    log = value_or(report.facts.tensorflow.log, ())
    if log:
        yield folded("Log (its end)", fenced(line[:300] for line in log[-40:]))


def versions(facts: Facts) -> Iterator[tuple[str, str, str]]:
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
