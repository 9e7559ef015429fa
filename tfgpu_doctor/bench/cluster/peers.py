"""Watches the other machines of a training: one that never comes, or is gone, ends the work here in time, by name.

TensorFlow's server of each worker listens at its address from the start of the training to its end, so that a
connection that is taken means that the process is there. TensorFlow itself would wait for a missing worker for an hour,
and a collective operation for ever.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from tfgpu_doctor.bench.cluster.membership import SPREAD, Cluster, split
from tfgpu_doctor.bench.runner.process import Worker, WorkerError

PERIOD = 1.0  # seconds between looks
ANSWER = 2.0  # seconds that a host may take to answer a connection
MISSES = 3  # looks in a row without an answer, after which a worker counts as gone
SETTLE = 5.0  # seconds after an error here within which a worker that is gone must show

Knock = Callable[[str], str | None]


def knock(address: str) -> str | None:
    """Say why nobody answers at an address; None where somebody does."""
    try:
        with socket.create_connection(split(address), timeout=ANSWER):
            return None
    except TimeoutError:
        return f"no answer within {ANSWER:g} s"
    except OSError as error:
        return error.strerror or str(error)


class Watch:
    """Looks at all other workers once a second, from :meth:`arm` to :meth:`disarm`.

    Args:
        patience: seconds within which all must have been seen.
    """

    def __init__(self, cluster: Cluster, patience: float, knock: Knock = knock) -> None:
        """Nothing is watched yet."""
        self._cluster, self._patience, self._knock = cluster, patience, knock
        self._others = [index for index in range(cluster.count) if index != cluster.index]
        self._workers: list[Worker] = []
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self.lost: str | None = None  # which worker is missed, as a sentence without its end

    def over(self, worker: Worker) -> Watched:
        """The same worker, which is ended when another machine is lost."""
        self._workers.append(worker)
        return Watched(worker, self)

    def arm(self) -> None:
        """The others are expected from now on."""
        self.disarm()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, args=(self._stop,), name="peers", daemon=True)
        self._thread.start()

    def disarm(self) -> None:
        """The others may go."""
        self._stop.set()
        self._thread = None

    @property
    def armed(self) -> bool:
        """Whether the others are expected."""
        return self._thread is not None

    def _look(self, stop: threading.Event) -> None:
        began = time.monotonic()
        missing: dict[int, str] = dict.fromkeys(self._others, "")  # not seen yet, and why
        misses = dict.fromkeys(self._others, 0)
        while not stop.is_set():
            for index in self._others:
                why = self._knock(self._cluster.addresses[index])
                if why is None:
                    missing.pop(index, None)
                    misses[index] = 0
                elif index in missing:
                    missing[index] = why
                else:
                    misses[index] += 1
                    if misses[index] >= MISSES:
                        return self._give_up(stop, f"{self._cluster.name(index)} is no longer reachable: {why}")
            if missing and time.monotonic() - began >= self._patience:
                return self._give_up(stop, self._never_came(missing))
            stop.wait(PERIOD)
        return None

    def _never_came(self, missing: Mapping[int, str]) -> str:
        names = ", ".join(f"{self._cluster.name(index)}: {why}" for index, why in missing.items())
        return (
            f"not reachable within {self._patience:g} s: {names}; start the same command on every machine, and open "
            "these ports between them"
        )

    def _give_up(self, stop: threading.Event, why: str) -> None:
        if not stop.is_set():
            self.lost = why
            for worker in self._workers:
                worker.close()

    def settle(self) -> str | None:
        """After an error here: wait for a moment for the reason to show, which may be that a worker is gone."""
        end = time.monotonic() + SETTLE
        while self.armed and self.lost is None and time.monotonic() < end:
            time.sleep(0.1)
        return self.lost


class Watched:
    """A worker whose errors are explained by the machine that is missing, where one is."""

    def __init__(self, worker: Worker, watch: Watch) -> None:
        """Watch over one worker."""
        self._worker, self._watch = worker, watch

    def ask(self, timeout: float, **request: Any) -> dict[str, Any]:
        """Send a request; the others are expected from the preparation of their common work to its end.

        Raises WorkerError: as the worker does; or another machine is lost.
        """
        if self._watch.lost:
            raise WorkerError(self._watch.lost)
        if request["do"] == "prepare" and request["spread"] == SPREAD:
            self._watch.arm()
        try:
            answer = self._worker.ask(timeout, **request)
        except WorkerError as error:
            if lost := self._watch.settle():
                raise WorkerError(lost) from error
            raise
        if request["do"] == "farewell" or answer.get("done") == "end":
            self._watch.disarm()
        return answer

    def log(self) -> str:
        """What the process wrote to its standard error."""
        return self._worker.log()

    def close(self) -> None:
        """End the process."""
        self._worker.close()
