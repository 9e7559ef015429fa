"""The doctor's report as HTML: verdict, stack, and what was found; a page of its own, or part of another. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.records.report import Report
from tfgpu_doctor.records.wording import problem_counts, verdict_sentence
from tfgpu_doctor.render.console import MARKS
from tfgpu_doctor.render.html.parts import command, element, folded, page, paragraph, section, table, text
from tfgpu_doctor.render.outline import VERDICT_MARKS, Block, Detail, Line, blocks, details, open_checks
from tfgpu_doctor.render.stack import layers_of


def render(report: Report) -> str:
    """A whole page."""
    name = "tfgpu explain" if report.source == "text" else "tfgpu doctor"
    about = f"{name} {report.tool.version}, matrix of {report.matrix.revision}, {report.created}"
    head = element("header", paragraph(about, "muted"), element("h1", text(f"{name}: {report.verdict}")))
    found = section("What was found", "found", body(report))
    return page(f"{name}: {report.verdict}", head + element("main", found, *map(_detail, details(report.facts))))


def body(report: Report) -> str:
    """Verdict, stack and findings."""
    layers = [(layer.name, MARKS[layer.mark].word, layer.text) for layer in layers_of(report)]
    stack = table("The stack", ("Layer", "State", "Found"), layers)
    return "".join((verdict(report), stack, *map(_block, blocks(report)), *map(_detail, open_checks(report))))


def verdict(report: Report) -> str:
    """One sentence."""
    words = element("strong", text(report.verdict)) + text(f": {verdict_sentence(report)}{problem_counts(report)}")
    return element("p", words, class_=f"verdict {MARKS[VERDICT_MARKS[report.verdict]].page}".strip())


def _block(block: Block) -> str:
    """A finding, or what else has a heading and labelled lines."""
    named = element("span", text(block.ids[0]), class_="muted") if len(block.ids) == 1 else ""
    parts = [element("h3", text(f"{block.title} ") + named)]
    parts.append(element("dl", *(piece for line in block.lines if line.label != "fix" for piece in _described(line))))
    for line in block.lines:
        if line.label == "fix":
            parts += [paragraph(line.text), *map(command, line.commands)]
    if block.docs.startswith("https://"):
        link = element("a", text(block.docs), href=block.docs, rel="noreferrer noopener")
        parts.append(element("p", "see ", link, class_="muted"))
    kind = MARKS[block.mark].page
    return element("article", *parts, **({"class_": kind} if kind else {}))


def _described(line: Line) -> Iterator[str]:
    about = f" from {line.source}" if line.source else f" ({line.id})" if line.id else ""
    yield element("dt", text(line.label))
    yield element("dd", text(line.text), element("span", text(about), class_="from") if about else "")


def _detail(detail: Detail) -> str:
    if detail.rows:
        return folded(detail.title, table(detail.title, detail.head, detail.rows))
    lines = "\n".join(map(text, detail.lines))
    return folded(detail.title, element("pre", element("code", lines)))
