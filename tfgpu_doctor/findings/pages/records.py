"""The parts of a finding's page. Severity, title and link are not here: the findings declare them."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.records.facts import Record

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
