"""A page for each finding: what it is, how to recognise it, how to distinguish it from similar findings, fixes.

The pages of a layer are in a YAML file of that name, in which messages and commands stand exactly as they are printed
and typed; below Windows, a command for cmd, and that for PowerShell behind it where it is another one. Severity, title
and link are not there: the findings declare them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from tfgpu_doctor.facts.facts import Record, encode
from tfgpu_doctor.facts.report import Severity
from tfgpu_doctor.facts.similar import similar

Platform = Literal[
    "Everywhere", "Linux", "Windows", "WSL2", "macOS", "Docker", "Podman", "Kubernetes", "Slurm", "Apptainer", "conda"
]


class Sign(Record, frozen=True):
    """A message or another symptom of a finding."""

    means: str  # which versions print it, and what it does not mean
    line: str | None = None  # what a program prints, word for word, with ... where it varies; None: it is not printed


class Check(Record, frozen=True):
    """How to distinguish a finding from similar ones; `tells_from` are their ids."""

    text: str
    commands: tuple[str, ...] = ()
    tells_from: tuple[str, ...] = ()


class Remedy(Record, frozen=True):
    """One fix, on one platform."""

    platform: Platform
    text: str
    example: tuple[str, ...] = ()  # lines for a file or a program, with their indentation
    commands: tuple[str, ...] = ()  # for a shell


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


@cache
def pages_of(layer: str) -> tuple[Page, ...]:
    """The pages of one layer (a key of LAYERS), in the order of its file."""
    import yaml  # deferred: 10 ms, for pages alone

    text = (Path(__file__).parent / f"{layer}.yaml").read_text(encoding="utf-8")
    pages = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return msgspec.convert([{"id": name, **page} for name, page in pages.items()], tuple[Page, ...])


def all_ids() -> tuple[str, ...]:
    """Every finding that has a page, layer by layer."""
    return tuple(page.id for layer in LAYERS for page in pages_of(layer))


def page_of(finding_id: str) -> Page | None:
    """The page of a finding; None if there is no such finding."""
    return next((page for layer in LAYERS for page in pages_of(layer) if page.id == finding_id), None)


def nearest(finding_id: str) -> tuple[str, ...]:
    """Ids similar to `finding_id`, however it is spelt, the most similar first; for a prefix ("cuda") all with it."""
    wanted, ids = finding_id.strip().lower().replace("_", "-").replace("/", "."), all_ids()
    exact = tuple(known for known in ids if known == wanted)
    of_layer = tuple(known for known in ids if known.split(".")[0] == wanted.rstrip("."))
    tails = (known for known in ids if known.split(".")[1] == wanted)
    near = dict.fromkeys((*tails, *similar(wanted, ids, _MOST_SUGGESTIONS)))
    return exact or of_layer or tuple(near)[:_MOST_SUGGESTIONS]


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
    """What the finding declares. Raises KeyError: no finding has that id."""
    from tfgpu_doctor.findings.catalogue import DECLARATIONS

    declared = DECLARATIONS[finding_id]
    return Headline(severities=(declared.severity,), titles=(declared.title,), docs=(declared.docs,))


def page_json(page: Page) -> bytes:
    """The page and its declaration, as JSON with two spaces of indentation and a newline at the end."""
    return encode(PageDocument(schema="tfgpu.page/1", headline=headline_of(page.id), page=page))
