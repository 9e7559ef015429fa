"""What every sign gets besides its inputs: sources, the matrix, and commands for this very machine."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tfgpu_doctor.matrix.loader import Matrix
from tfgpu_doctor.plan.file_edits import FileEdits
from tfgpu_doctor.plan.fixes import Fixes
from tfgpu_doctor.plan.planned import PlannedEnvironment
from tfgpu_doctor.records.facts import Facts, Known, Unknown, look_up


@dataclass(frozen=True)
class Context:
    """The machine at hand. Signs read facts only through their parameters; this gives sources and fixes."""

    facts: Facts
    matrix: Matrix
    require_gpus: int | None = None
    planned: PlannedEnvironment | None = None  # of a manifest, before anything is installed
    derived: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)  # facts derived once, by name

    def source(self, path: str) -> str:
        """Where the fact at `path` was read; the reason, when it is unknown."""
        fact = look_up(self.facts, path)
        return fact.source if isinstance(fact, Known) else str(getattr(fact, "reason", path))

    @property
    def probed(self) -> bool:
        """Whether probes looked at this machine; else a pasted text is all there is."""
        return isinstance(self.facts.driver.unresponsive, Known) or isinstance(self.facts.messages, Unknown)

    def is_stated(self, path: str) -> bool:
        """Whether the fact at `path` is what a person wrote, not what a program printed."""
        fact = look_up(self.facts, path)
        return isinstance(fact, Known) and fact.grade == "stated"

    @cached_property
    def remedies(self) -> Fixes:
        """Commands that are right for this OS, this Python and this package manager."""
        return FileEdits(self.facts, self.matrix, self.planned) if self.planned else Fixes(self.facts, self.matrix)
