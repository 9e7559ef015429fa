"""What a finding's page is made of. Severity, title and link are not here: the rules declare them."""

from __future__ import annotations

from typing import Literal

from tfgpu_doctor.records.facts import Record

Platform = Literal[
    "Everywhere", "Linux", "Windows", "WSL2", "macOS", "Docker", "Podman", "Kubernetes", "Slurm", "Apptainer", "conda"
]


class Sign(Record, frozen=True):
    """Something to recognise a finding by.

    `line` is what a program prints, word for word but for ... where it varies; None for what is not printed.
    `means` says which versions print it, and what it does not mean.
    """

    means: str
    line: str | None = None


class Check(Record, frozen=True):
    """What decides between a finding and those that look like it; `tells_from` are their ids."""

    text: str
    commands: tuple[str, ...] = ()
    tells_from: tuple[str, ...] = ()


class Remedy(Record, frozen=True):
    """One way out, on one platform.

    `example` are lines for a file or a program, with their indentation; `commands` are for a shell.
    """

    platform: Platform
    text: str
    example: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


class Source(Record, frozen=True):
    """A document that says so."""

    title: str
    url: str


class Page(Record, frozen=True):
    """Everything about one finding for somebody who meets it for the first time."""

    id: str
    what: str
    recognise: tuple[Sign, ...]
    checks: tuple[Check, ...]
    fixes: tuple[Remedy, ...]
    sources: tuple[Source, ...]
