"""One time limit for all runs of a benchmark: how much of it each group gets, and what no longer fits."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import NamedTuple

from tfgpu_doctor.bench.runner.budget import Clock, Limit


class Start(NamedTuple):
    """What the start of a run takes as long as another one of its kind."""

    label: str
    is_new: bool  # the process


@dataclass
class Schedule:
    """The time that all runs share; without a limit until `begin`. What a group leaves over, later ones get."""

    clock: Clock = time.monotonic
    end: float = math.inf  # of everything
    until: float = math.inf  # of the group at work
    limit: Limit = field(default_factory=Limit)  # what the workers' answers are waited for under
    starts: dict[Start, float] = field(default_factory=dict)  # seconds that the longest of each kind took
    not_run: list[str] = field(default_factory=list)  # names of runs for which there was no time
    _runs: float = 0.0  # that are expected
    _done: float = 0.0  # of them
    _group: float = 0.0  # of them, at work
    _opened: float = 0.0

    def begin(self, runs: float, seconds: float) -> None:
        """So many runs have so many seconds from now."""
        self._runs, self.end = runs, self.clock() + seconds

    def begin_group(self, runs: float) -> None:
        """Some of the runs begin; they get the share of the time that is left."""
        now = self.clock()
        share = runs / max(self._runs - self._done, runs)
        self._group, self._opened = runs, now
        self.until = self.end if math.isinf(self.end) else now + max(self.end - now, 0.0) * share

    def end_group(self) -> None:
        """They are over."""
        self._done += self._group
        self._group = 0.0

    def skip(self, runs: int) -> None:
        """So many runs do not take place, for another reason than time."""
        self._done += runs

    def started(self, start: Start, seconds: float) -> None:
        """The start of a run took so long."""
        self.starts[start] = max(self.starts.get(start, 0.0), seconds)

    def has_room(self, start: Start, needed: float) -> bool:
        """Whether another run can start and take samples for `needed` seconds; the first one of all always can."""
        alike = [took for known, took in self.starts.items() if known.is_new == start.is_new]
        took = self.starts.get(start, max(alike or self.starts.values(), default=-math.inf))
        return self.clock() + took + needed <= self.end

    def progress(self, finished: float = 0.0) -> float:
        """The progress over all runs, from 0 to 1; `finished` are how many of the group are over."""
        spent = self.until - self._opened
        by_time = (self.clock() - self._opened) / spent if 0 < spent < math.inf else 0.0
        part = min(max(by_time * self._group, finished), self._group)
        return min((self._done + part) / max(self._runs, self._done + self._group, 1.0), 1.0)
