"""Plans that are measured by fake workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.bench.fake_worker import Clock, FakeWorker
from tests.healthy import MATRIX, healthy
from tests.tables import read_rows
from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.plans.base import PlanBase
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.statistics import StoppingRule

QUICK = StoppingRule(deadline=1.0, min_samples=3)  # the runner's own clock is the real one here
ROWS = read_rows(Path(__file__).with_name("plans.yaml"))
ANSWERS: dict[str, dict[str, Any]] = ROWS["answers"]  # right ones to `verify`, by workload
BUS_ID = "0000:65:00.0"
CREATED = f"Created device /job:localhost/replica:0/task:0/device:GPU:0 with 9 MB memory:  -> pci bus id: {BUS_ID}, x\n"


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
        answers = worker.ask

        def ask(timeout: float, **request: Any) -> dict[str, Any]:
            self.requests.append(request)
            found = answers(timeout, **request)
            return found if self.answer is None or request["do"] != "verify" else dict(self.answer)

        worker.ask = ask  # type: ignore[method-assign]
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
