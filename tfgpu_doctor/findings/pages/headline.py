"""The declaration of a finding, combined with its page."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.findings.catalogue import DECLARATIONS
from tfgpu_doctor.findings.pages.records import Page
from tfgpu_doctor.records.facts import Record, encode
from tfgpu_doctor.records.report import Severity

SCHEMA: Literal["tfgpu.page/1"] = "tfgpu.page/1"


class Headline(Record, frozen=True):
    """Severity, title and link of the declaration; tuples, because the format once allowed several."""

    severities: tuple[Severity, ...]
    titles: tuple[str, ...]
    docs: tuple[str, ...]


class PageDocument(Record, frozen=True):
    """A page as JSON."""

    schema: Literal["tfgpu.page/1"]
    headline: Headline
    page: Page


def headline_of(finding_id: str) -> Headline:
    """What the finding declares.

    Raises:
        KeyError: no finding has that id.
    """
    declared = DECLARATIONS[finding_id]
    return Headline(severities=(declared.severity,), titles=(declared.title,), docs=(declared.docs,))


def further_links(page: Page) -> tuple[str, ...]:
    """Links of the declaration that are not among the sources of the page."""
    named = {source.url for source in page.sources}
    return tuple(link for link in headline_of(page.id).docs if link not in named)


def page_json(page: Page) -> bytes:
    """The page and its declaration, as JSON with two spaces of indentation and a newline at the end."""
    document = PageDocument(schema=SCHEMA, headline=headline_of(page.id), page=page)
    return encode(document)
