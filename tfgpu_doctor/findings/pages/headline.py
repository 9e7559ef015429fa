"""What the rules declare about a finding, put together with its page."""

from __future__ import annotations

from typing import Literal

import msgspec

import tfgpu_doctor.diagnosis.engine  # noqa: F401 - it registers every rule
from tfgpu_doctor.findings.declaration import RULES, Rule
from tfgpu_doctor.findings.pages.records import Page
from tfgpu_doctor.records.facts import Record
from tfgpu_doctor.records.report import Severity

SCHEMA: Literal["tfgpu.page/1"] = "tfgpu.page/1"
_GRAVEST_FIRST = tuple(Severity)
_RULES = "tfgpu_doctor.findings."
# rules that repeat or suspect what others find: their titles and severities say nothing of the finding itself
_ECHOES = {f"{_RULES}said_by_us", f"{_RULES}said_possible"}


class Headline(Record, frozen=True):
    """Severities, gravest first; titles, as reports show them; links, the first of which is shown in reports."""

    severities: tuple[Severity, ...]
    titles: tuple[str, ...]
    docs: tuple[str, ...]


class PageDocument(Record, frozen=True):
    """A page as JSON."""

    schema: Literal["tfgpu.page/1"]
    headline: Headline
    page: Page


def headline_of(finding_id: str) -> Headline:
    """What the rules of that id declare; those over facts before those over what programs say.

    Raises:
        KeyError: no rule has that id.
    """
    mine = [one for one in RULES if one.id == finding_id]
    rules = sorted((one for one in mine if one.decide.__module__ not in _ECHOES), key=_hears) or mine
    if not rules:
        raise KeyError(finding_id)
    return Headline(
        severities=tuple(sorted({one.severity for one in rules}, key=_GRAVEST_FIRST.index)),
        titles=tuple(dict.fromkeys(one.title for one in rules)),
        docs=tuple(dict.fromkeys(one.docs for one in rules)),
    )


def _hears(one: Rule) -> bool:
    return one.decide.__module__.startswith(f"{_RULES}said_")


def further_links(page: Page) -> tuple[str, ...]:
    """Links of the rules that are not among the page's sources."""
    named = {source.url for source in page.sources}
    return tuple(link for link in headline_of(page.id).docs if link not in named)


def page_json(page: Page) -> bytes:
    """The page and what the rules declare, as JSON with two spaces of indentation and a newline at the end."""
    document = PageDocument(schema=SCHEMA, headline=headline_of(page.id), page=page)
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
