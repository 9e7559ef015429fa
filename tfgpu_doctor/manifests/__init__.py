"""What a project's files ask for, read from their text: a file a format, pure text to records with line numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """Where something is written: the file as the user named it, and the line, counted from 1."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Requirement:
    """A package that a file asks pip for.

    ``name`` is normalized (``tensorflow-gpu``), ``specifier`` is PEP 440's (``""``: any version), ``written`` is the
    requirement as the file has it, without comments and options, so that a fix can name what to replace.
    """

    place: Place
    name: str
    specifier: str
    extras: tuple[str, ...] = ()
    marker: str | None = None
    written: str = ""


class ManifestError(ValueError):
    """A file cannot be read as what it is; the message starts with ``path:line``."""
