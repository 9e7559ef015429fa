"""A worker without a process: it takes its times from a list and moves a clock by them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import cycle
from pathlib import Path
from typing import Any

from tests.healthy import MATRIX, healthy
from tests.tables import read_rows
from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.plans.base import PlanBase
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.statistics import StoppingRule

QUICK = StoppingRule(deadline=1.0, min_samples=3)  # the runner's own clock is the real one here
ROWS = read_rows(Path(__file__).with_name("plans.yaml"))
ANSWERS: dict[str, dict[str, Any]] = ROWS["answers"]  # right ones to `verify`, by workload
RIGHT = ANSWERS["matpow"]
WRONG = {"rms": 0.3, "worst_row": 0.5}
BUS_ID = "0000:65:00.0"
CREATED = f"Created device /job:localhost/replica:0/task:0/device:GPU:0 with 9 MB memory:  -> pci bus id: {BUS_ID}, x\n"


class Clock:
    """Seconds that pass only when a fake worker says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class FakeWorker:
    """Answers as a worker does; `trouble` may answer, or raise, in its place."""

    def __init__(
        self,
        clock: Clock,
        seconds: float | Iterable[float] = 0.1,
        trouble: Callable[[str, int], dict[str, Any] | None] = lambda _verb, _sample: None,
        gpus: int = 0,
    ) -> None:
        self.clock = clock
        self.seconds = cycle([seconds] if isinstance(seconds, float) else seconds)
        self.trouble = trouble
        self.gpus = gpus
        self.asked: list[str] = []
        self.requests: list[dict[str, Any]] = []
        self.answer: dict[str, Any] | None = None  # to `verify`
        self.sizes: list[int] = []
        self.samples = 0
        self.closed = False
        self.load = 2.0  # CPUs that it keeps busy
        self.workload = "matpow"
        self.devices: list[str] = []

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Answer one request."""
        if self.closed:
            raise WorkerError("asked after the end")
        verb = request["do"]
        self.asked.append(verb)
        self.requests.append({**request, "timeout": timeout})
        answer: dict[str, Any] = getattr(self, f"_{verb}")(request)
        return {**answer, **(self.trouble(verb, self.samples) or {})}

    def _hello(self, _request: dict[str, Any]) -> dict[str, Any]:
        gpus = [{"name": "NVIDIA H200", "compute_capability": "9.0"}] * self.gpus
        return {"tensorflow": "2.21.0", "numpy": "2.4.6", "python": "3.12.3", "gpus": gpus}

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        self.workload, self.devices = request["workload"], list(request["devices"])
        self.sizes.append(request["parameters"].get("size"))
        return {"cold": {"import": 1.5}}

    def _sample(self, request: dict[str, Any]) -> dict[str, Any]:
        taken = [next(self.seconds) * request["steps"] for _ in range(request["count"])]
        self.samples += len(taken)
        self.clock.now += sum(taken)
        found = {"placed_on": self.devices, "misplaced": None, "rechecked": [], "waited": None, "busy": 0.0}
        return {"samples": [(seconds, self.load) for seconds in taken], **found}

    def _verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        return dict(self.answer or ANSWERS[self.workload])

    def _reference(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {}

    _farewell = _reference

    def log(self) -> str:
        """Nothing was logged."""
        return ""

    def close(self) -> None:
        """No more answers."""
        self.closed = True


class Workers:
    """Starts fake workers, and remembers them and what they were asked; `answer` is what `verify` gives."""

    def __init__(
        self, gpus: int = 0, kind: type[FakeWorker] = FakeWorker, answer: dict[str, Any] | None = None, **options: Any
    ) -> None:
        self.clock, self.gpus, self.kind, self.answer, self.options = Clock(), gpus, kind, answer, options
        self.started: list[FakeWorker] = []
        self.requests: list[dict[str, Any]] = []

    def __call__(self) -> FakeWorker:
        """Start one."""
        worker = self.kind(self.clock, gpus=self.gpus, **self.options)
        worker.requests, worker.answer = self.requests, self.answer
        self.started.append(worker)
        return worker

    def asked(self, verb: str) -> list[dict[str, Any]]:
        """Return the requests of that kind."""
        return [request for request in self.requests if request["do"] == verb]


def measured(
    plan: type[PlanBase],
    workers: Any,
    environment: Any = None,
    rule: StoppingRule = QUICK,
    **settings: Any,
) -> BenchResult:
    """Measure a plan; settings of `Selection` are told from its own by their names."""
    selected = {name: settings.pop(name) for name in Selection.__dataclass_fields__ if name in settings}
    made = plan(**{"selection": Selection(**selected), **settings})
    found = Session(made, MATRIX, environment or healthy(), workers, rule).run()
    assert all(worker.closed for worker in getattr(workers, "started", ()))
    return found
