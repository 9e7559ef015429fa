"""A benchmark that was recorded on another machine, run again in the time of its recorded starts and samples."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, cycle
from typing import Any

from tests.bench.fake_worker import RIGHT, Clock, FakeWorker
from tests.bench.test_cnn import ONE
from tfgpu_doctor.bench.results import BenchResult, Run

STARTED = ("import", "list devices")  # parts of a start that come before anything is asked for
# Seconds that results do not hold, by what the lines of progress beside them leave (the verification; epochs of `fit`).
VERIFIES = {"matpow": 0.5, "cnn": 4.0}
FITS = {"matpow": 0.0, "cnn": 2.0}
CORRECT = {"matpow": RIGHT, "cnn": ONE}


class Replayed(FakeWorker):
    """Takes as long as the process of a recorded run did; other sizes of matrices take their share of that."""

    def __init__(self, clock: Clock, run: Run, workload: str, size: int) -> None:
        self.run, self.workload, self.size = run, workload, size
        self.part = 1.0  # of the recorded size that is computed now
        steps: Iterator[float] = chain(run.warmup_s, cycle(one / run.steps for one in run.samples_s))
        super().__init__(clock, steps)
        self.recorded = self.seconds

    def _hello(self, request: dict[str, Any]) -> dict[str, Any]:
        self.clock.now += sum(self.run.cold_start_s[part] for part in STARTED)
        return super()._hello(request)

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        self.part = request["parameters"].get("size", self.size) / self.size
        inputs = sum(took for part, took in self.run.cold_start_s.items() if part not in STARTED)
        self.clock.now += inputs * self.part**2
        return super()._prepare(request)

    def _sample(self, request: dict[str, Any]) -> dict[str, Any]:
        # a size that is only tried has the time of a usual sample, and leaves the warm-up to the size that is measured
        small = cycle([self.run.samples_s[0] / self.run.steps * self.part**3])
        self.seconds = self.recorded if self.part == 1.0 else small
        return super()._sample(request)

    def _verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        self.clock.now += VERIFIES[self.workload]
        return dict(CORRECT[self.workload])

    def _figures(self, request: dict[str, Any]) -> dict[str, Any]:
        self.clock.now += FITS[self.workload]
        return super()._figures(request)


class Replay:
    """Starts the processes of a recorded benchmark in their order."""

    def __init__(self, recorded: BenchResult) -> None:
        self.clock, self.recorded = Clock(), recorded
        self.waiting = list(recorded.runs)
        self.gpus = sum(run.label == "1 GPU" for run in recorded.runs[:2])

    def __call__(self) -> FakeWorker:
        size = self.recorded.parameters.get("size", 1)
        found = Replayed(self.clock, self.waiting.pop(0), self.recorded.workload, int(size or 1))
        found.gpus = self.gpus
        return found
