"""What a resolver answered for the requirements of one environment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """The versions that uv or pip has chosen, or its words where it found none."""

    program: str  # "uv"
    python: str  # "3.12", that it was asked for
    versions: tuple[tuple[str, str], ...] = ()  # by name
    refusal: str | None = None
