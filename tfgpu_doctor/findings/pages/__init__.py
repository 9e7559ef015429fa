"""A page for each finding: what it is, how to recognise it, how to distinguish it from similar findings, fixes.

The pages of a layer are in a text file of that name, in which messages and commands stand exactly as they are printed
and typed. Severity, title and link are not there: the findings declare them.

# a comment
@ cuda.missing
What it is, in two to four sentences; a text may
continue on the next lines.
> a line that a program prints, word for word, with ... where it varies
= Which versions print it, and what it does not mean. Without a line above it: a symptom that is not printed.
? How to distinguish this finding from others.
  $ a command, never wrapped; below Windows, one for cmd, and that for PowerShell behind it where it is another
  -> ids.of other.findings
* Linux: One fix on one platform (records.Platform).
  | a line for a file or a program:
  |   its indentation is kept
  $ a command
& Title of a source | https://where.it/is
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec

from tfgpu_doctor.records.facts import Record, encode
from tfgpu_doctor.records.report import Severity
from tfgpu_doctor.records.similar import similar

Platform = Literal[
    "Everywhere", "Linux", "Windows", "WSL2", "macOS", "Docker", "Podman", "Kubernetes", "Slurm", "Apptainer", "conda"
]


class Sign(Record, frozen=True):
    """A message or another symptom of a finding.

    `line` is what a program prints, word for word, with ... where it varies; None for a symptom that is not printed.
    `means` says which versions print it, and what it does not mean.
    """

    means: str
    line: str | None = None


class Check(Record, frozen=True):
    """How to distinguish a finding from similar ones; `tells_from` are their ids."""

    text: str
    commands: tuple[str, ...] = ()
    tells_from: tuple[str, ...] = ()


class Remedy(Record, frozen=True):
    """One fix, on one platform.

    `example` are lines for a file or a program, with their indentation; `commands` are for a shell.
    """

    platform: Platform
    text: str
    example: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class Source(Record, frozen=True):
    """A document that the page is based on."""

    title: str
    url: str


class Page(Record, frozen=True):
    """Everything about one finding."""

    id: str
    what: str
    recognise: tuple[Sign, ...]
    checks: tuple[Check, ...]
    fixes: tuple[Remedy, ...]
    sources: tuple[Source, ...]


_ENTRY = re.compile(r"([@>=?*&]|  \$|  ->|  \|) (.*)")
_WRAPPED = ("@", "=", "?", "*")  # texts that may continue on the next lines
_PARTS = {"  $": "commands", "  ->": "tells_from", "  |": "example"}


class PageError(ValueError):
    """A page is not well-formed; the message names the file, and the line or the page."""


def read_pages(text: str, name: str) -> tuple[Page, ...]:
    """Parse a file of pages; `name` is used in messages.

    Raises:
        PageError: a line that belongs to nothing, or a page without one of its parts.
    """
    entries: list[tuple[int, str, str]] = []  # number of the line, mark, text
    for number, line in enumerate(text.splitlines(), start=1):
        if entry := _ENTRY.match(line):
            entries.append((number, entry[1], entry[2].rstrip()))
        elif line.strip() and not line.startswith("#"):
            if not entries or entries[-1][1] not in _WRAPPED:
                raise PageError(f"{name}:{number}: this line continues nothing")
            start, mark, before = entries[-1]
            entries[-1] = (start, mark, f"{before} {line.strip()}")
    pages: list[dict[str, Any]] = []
    for number, mark, content in entries:
        try:
            _add(pages, mark, content)
        except (LookupError, ValueError) as error:
            raise PageError(f"{name}:{number}: {content!r} does not belong here") from error
    return tuple(_page(page, name) for page in pages)


def _add(pages: list[dict[str, Any]], mark: str, text: str) -> None:
    if mark == "@":
        finding_id, _, what = text.partition(" ")
        pages.append({"id": finding_id, "what": what, "recognise": [], "checks": [], "fixes": [], "sources": []})
        return
    page = pages[-1]
    signs = page["recognise"]
    if mark == ">":
        signs.append({"line": text, "means": ""})
    elif mark == "=" and signs and not signs[-1]["means"]:
        signs[-1]["means"] = text
    elif mark == "=":
        signs.append({"means": text})
    elif mark == "?":
        page["checks"].append({"text": text, "commands": [], "tells_from": []})
    elif mark == "*":
        platform, text = text.split(": ", 1)
        page["fixes"].append({"platform": platform, "text": text, "example": [], "commands": []})
    elif mark == "&":
        title, url = text.rsplit(" | https://", 1)
        page["sources"].append({"title": title, "url": f"https://{url}"})
    else:
        item = (page["fixes"] or page["checks"])[-1]
        item[_PARTS[mark]] += text.split() if mark == "  ->" else [text]


def _page(page: dict[str, Any], name: str) -> Page:
    if lacking := [part for part in ("what", "recognise", "fixes", "sources") if not page[part]]:
        raise PageError(f"{name}: {page['id']} lacks {', '.join(lacking)}")
    try:
        return msgspec.convert(page, Page)
    except msgspec.ValidationError as error:
        raise PageError(f"{name}: {page['id']}: {error}") from error


# file → heading, from the hardware up
LAYERS = {
    "driver": "NVIDIA driver",
    "gpu": "GPU",
    "container": "Containers and WSL2",
    "python": "Python and packages",
    "tensorflow": "TensorFlow",
    "cuda": "CUDA libraries",
    "cudnn": "cuDNN",
    "xla": "XLA",
    "memory": "GPU memory",
    "several_gpus": "Several GPUs",
    "performance": "Performance",
    "environment": "Environment variables",
    "harmless": "Harmless messages",
}
_MOST_SUGGESTIONS = 3


def all_ids() -> tuple[str, ...]:
    """Every finding that has a page, layer by layer."""
    return tuple(page.id for layer in LAYERS for page in pages_of(layer))


def page_of(finding_id: str) -> Page | None:
    """The page of a finding; None if there is no such finding."""
    return next((page for layer in LAYERS for page in pages_of(layer) if page.id == finding_id), None)


@cache
def pages_of(layer: str) -> tuple[Page, ...]:
    """The pages of one layer (a key of LAYERS), in the order of its file."""
    name = f"{layer}.txt"
    return read_pages((Path(__file__).parent / name).read_text(encoding="utf-8"), name)


def nearest(finding_id: str) -> tuple[str, ...]:
    """Ids similar to `finding_id`, the most similar first; for a prefix ("cuda") all ids with that prefix.

    Upper case, "_" for "-" and "/" for "." are accepted.
    """
    wanted = finding_id.strip().lower().replace("_", "-").replace("/", ".")
    ids = all_ids()
    if wanted in ids:
        return (wanted,)
    if of_layer := tuple(known for known in ids if known.split(".")[0] == wanted.rstrip(".")):
        return of_layer
    tails = tuple(known for known in ids if wanted and known.split(".")[1] == wanted)
    close = similar(wanted, ids, _MOST_SUGGESTIONS)
    return tuple(dict.fromkeys((*tails, *close)))[:_MOST_SUGGESTIONS]


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
    from tfgpu_doctor.findings.catalogue import DECLARATIONS

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
