"""A finding's page: what it is, how to recognise, confirm and fix it, sources. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tfgpu_doctor.findings import pages
from tfgpu_doctor.findings.pages import further_links, headline_of
from tfgpu_doctor.render.shapes import Block, Code, Items, Line, Page, Part


def page(found: pages.Page) -> Page:
    """The whole page."""
    headline = headline_of(found.id)
    named = " or ".join(severity.value for severity in headline.severities)
    fixes: dict[str, list[Line]] = {}
    for remedy in found.fixes:
        fixes.setdefault(remedy.platform, []).append(
            Line("fix", remedy.text, commands=(*remedy.example, *remedy.commands))
        )
    parts: tuple[Part, ...] = (
        Items(headline.titles, mark=""),
        Items((found.what,)),
        Block("", "How to recognise it", tuple(_signs(found))),
        Block("", "How to confirm it", tuple(_checks(found))),
        *(Block("", f"How to fix it: {platform}", tuple(lines)) for platform, lines in fixes.items()),
        Block("", "Sources", tuple(Line("", source.title, commands=(source.url,)) for source in found.sources)),
        Code("See also", further_links(found)),
    )
    return Page("tfgpu explain", (), headline.severities[0].value, found.id, named, parts, is_brief=True)


def _signs(found: pages.Page) -> Iterator[Line]:
    """A printed line, and what it means."""
    for sign in found.recognise:
        if sign.line is not None:
            yield Line("printed", sign.line)
        yield Line("means" if sign.line is not None else "sign", sign.means)


def _checks(found: pages.Page) -> Iterator[Line]:
    for check in found.checks:
        yield Line("check", check.text, commands=check.commands)
        if check.tells_from:
            yield Line("", f"distinguishes it from {', '.join(check.tells_from)}")
