"""bench/worker.py for many tests: one process with one TensorFlow that acts as several workers, told apart by number.

Started as a script in the interpreter under test.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tfgpu_doctor" / "bench"))

import worker  # type: ignore[import-not-found]


class Several:
    """Hands every request to the worker of its number; the first one has imported TensorFlow and made the devices."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make, self.workers = make, {0: make()}

    def __getattr__(self, verb: str) -> Any:
        """What answers a request; what the workload answers goes through here, too."""
        return self if verb == "work" else partial(self.answer, verb)

    def answer(self, verb: str, request: dict[str, Any]) -> dict[str, Any]:
        """Run code, or let the worker of the number answer."""
        if "code" in request:
            scope = {"load": worker.load}
            exec(request["code"], scope)
            return {"answers": scope["answers"]}
        number, first = request.pop("number"), self.workers[0]
        if number not in self.workers:
            self.workers[number] = self.make()
            self.workers[number].tf, self.workers[number].cold = first.tf, dict(first.cold)
        one = self.workers[number]
        found: dict[str, Any] = getattr(one if verb in worker.OWN else one.work, verb)(request)
        return found


if __name__ == "__main__":
    real = worker.Worker
    worker.Worker = lambda: Several(real)
    worker.main()
