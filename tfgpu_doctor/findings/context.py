"""What every rule gets besides the facts it needs: sources, the matrix, and commands for this very machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.fixes import Remedies
from tfgpu_doctor.records.facts import Facts, Known, look_up


@dataclass(frozen=True)
class Context:
    """The case at hand. Rules read facts only through what they declare; this gives sources and remedies."""

    facts: Facts
    matrix: Matrix
    require_gpus: int | None = None
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # facts derived once, by name

    def source(self, path: str) -> str:
        """Where the fact at `path` was read; the reason, when it is unknown."""
        fact = look_up(self.facts, path)
        return fact.source if isinstance(fact, Known) else str(getattr(fact, "reason", path))

    @cached_property
    def remedies(self) -> Remedies:
        """Commands that are right for this OS, this Python and this package manager."""
        return Remedies(self.facts, self.matrix)
