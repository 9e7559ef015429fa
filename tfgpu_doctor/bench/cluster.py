"""Who takes part where several machines train together: TF_CONFIG, or the same out of Slurm; follow, and watch others.

The chief (the job "chief", or worker 0) leads and reports. Parameter servers belong to another strategy; an evaluator
takes no part.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.bench.devices import Case, GpuFound, Job, RequestError
from tfgpu_doctor.bench.runner.process import Asked, Worker, WorkerError, Workers, prepare

SPREAD = "workers"
EXAMPLE = '{"cluster": {"worker": ["host:port", …]}, "task": {"type": "worker", "index": 0}}'
RULES = "each address once, at most one chief, no ps, and the task one of those that are listed"


@dataclass(frozen=True)
class Cluster:
    """Addresses of all workers, "host:port", in the order of their replicas; and which of them this is."""

    addresses: tuple[str, ...]
    index: int
    config: str  # TF_CONFIG for the processes

    @property
    def count(self) -> int:
        """How many workers."""
        return len(self.addresses)

    @property
    def _hosts(self) -> list[str]:
        return [split(address)[0] for address in self.addresses]

    def name(self, index: int) -> str:
        """Return what one of them is called, for people."""
        return f"worker {index} ({self.addresses[index]})"

    def first_gpu(self, each: int, found: int) -> int:
        """Return the first GPU of this worker, where workers on one host share out GPUs that all of them see.

        Where each sees its own alone (Slurm's --gpus-per-task, a container's), that is 0.
        """
        host, before = self._hosts[self.index], self._hosts[: self.index]
        return before.count(host) * each if found >= each * self._hosts.count(host) else 0

    def together(self, gpus: int, first: int) -> Case:
        """Return the case of all workers with `gpus` GPUs each, or their CPUs where that is 0; as this one names it.

        Args:
            first: this worker's first GPU.
        """
        kind, each = ("GPU", gpus) if gpus else ("CPU", 1)
        here = [f"/{kind}:{place}" for place in range(each)]
        others = [f"/task:{index}{name}" for index in range(self.count) if index != self.index for name in here]
        what = "CPU" if not gpus else f"{gpus} GPU{'s' * (gpus != 1)} each"
        visible = tuple(range(first, first + gpus))
        virtual = not gpus and self.share_a_host()  # one CPU, called by several names
        return Case(f"{self.count} workers, {what}", (*here, *others), visible, SPREAD, virtual)

    def share_a_host(self) -> bool:
        """True if some of them are on one machine."""
        return len(set(self._hosts)) < self.count


def parse(text: str) -> Cluster | None:
    """Read TF_CONFIG; None where it names one worker alone, which is no cluster.

    Raises RequestError: it cannot be read, or this process has no part in such a training.
    """
    try:
        found = json.loads(text)
        jobs = found.get("cluster") or {}
        parts = {"chief": tuple(jobs.get("chief", ())), "worker": tuple(jobs.get("worker", ()))}
        addresses = parts["chief"] + parts["worker"]
        once = len({*map(split, addresses)}) == len(addresses)
        if not once or len(parts["chief"]) > 1 or "ps" in jobs:
            raise ValueError
        if len(addresses) < 2:
            return None
        kind, index = found["task"]["type"], int(found["task"]["index"])  # Kubernetes fills in text
        if index not in range(len(parts[kind])):
            raise ValueError
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"TF_CONFIG must be like {EXAMPLE}; {RULES}") from error
    return Cluster(addresses, index + (len(parts["chief"]) if kind == "worker" else 0), text)


def config(cluster: Mapping[str, Sequence[str]], index: int) -> str:
    """Return TF_CONFIG for a worker of a cluster of workers."""
    return json.dumps({"cluster": {"worker": list(cluster["worker"])}, "task": {"type": "worker", "index": index}})


def under_slurm(environ: Mapping[str, str]) -> bool:
    """True if this is one of several tasks that srun has started. A batch script itself is none."""
    tasks = environ.get("SLURM_STEP_NUM_TASKS", "")
    return tasks.isdecimal() and int(tasks) > 1 and "SLURM_PROCID" in environ


def split(address: str) -> tuple[str, int]:
    """Return host and port of "host:port" or "[::1]:port". Raises ValueError: it is neither."""
    host, _, port = address.rpartition(":")
    if not host or not 0 < int(port) < 65536:
        raise ValueError(address)
    return host.strip("[]"), int(port)


# ---------------------------------------------------------------------------------------------------------------------
# On machines other than the first: do what the first one leads, type by type, to its end.


def follow(
    plan: Callable[[Sequence[GpuFound]], Sequence[Job]],
    start: Callable[[], Worker],
    *,
    patience: float,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> None:
    """Take part in every job of the plan, each in a process of its own.

    Args:
        plan: this machine's jobs, by the GPUs that TensorFlow lists; the same jobs as the first machine's.
        start: starts a worker.
        patience: seconds that may pass between two pieces of work.

    Raises:
        NoTensorFlowError: TensorFlow does not start.
        WorkerError: a machine is gone, or this one's part failed.
        DeviceError: the GPUs that were asked for are not there.
    """
    progress("starting TensorFlow", 0.0)
    with Workers(start) as workers:
        workers.first()
        for job in plan(workers.found):
            worker, label = workers.take(job.key), job.case.label
            progress(f"{label}: waiting for the other machines", 0.0)
            prepare(worker, job)
            progress(f"{label}: working", 0.0)
            while worker.ask(max(patience, job.patience), do="follow")["done"] != "end":
                pass
            workers.drop(job.key)


# ---------------------------------------------------------------------------------------------------------------------
# Watches the other machines of a training: one that never comes, or is gone, ends the work here in time, by name.
#
# TensorFlow's server of each worker listens at its address from the start of the training to its end, so that a
# connection that is taken means that the process is there. TensorFlow itself would wait for a missing worker for an
# hour, and a collective operation for ever.


PERIOD = 1.0  # seconds between looks
ANSWER = 2.0  # seconds that a host may take to answer a connection
MISSES = 3  # looks in a row without an answer, after which a worker counts as gone
SETTLE = 5.0  # seconds after an error here within which a worker that is gone must show


def knock(address: str) -> str | None:
    """Say why nobody answers at an address; None where somebody does."""
    try:
        with socket.create_connection(split(address), timeout=ANSWER):
            return None
    except (OSError, ValueError) as error:  # also for what cannot be the name of a host
        return getattr(error, "strerror", None) or str(error)


class Watch:
    """Looks at all other workers once a second, from :meth:`arm` to :meth:`disarm`.

    Args:
        patience: seconds within which all must have been seen.
    """

    def __init__(self, cluster: Cluster, patience: float) -> None:
        """Nothing is watched yet."""
        self._cluster, self._patience = cluster, patience
        self._workers: list[Worker] = []
        self.armed: threading.Event | None = None  # while the others are expected; set when they may go
        self.lost: str | None = None  # which worker is missed, as a sentence without its end

    def over(self, worker: Worker) -> Worker:
        """Return the same worker, ended when another machine is lost, which then explains its errors."""
        self._workers.append(worker)
        return Asked(worker, self._ask)

    def arm(self) -> None:
        """The others are expected from now on."""
        self.disarm()
        self.armed = threading.Event()
        threading.Thread(target=self._look, args=(self.armed,), name="peers", daemon=True).start()

    def disarm(self) -> None:
        """The others may go."""
        if self.armed:
            self.armed.set()
        self.armed = None

    def _look(self, stop: threading.Event) -> None:
        """Look at the others again and again, until one is missed."""
        began, seen, misses = time.monotonic(), set[int](), Counter[int]()
        others = [index for index in range(self._cluster.count) if index != self._cluster.index]
        while not stop.is_set():
            for index in others:
                if (why := knock(self._cluster.addresses[index])) is None:
                    seen.add(index)
                    misses[index] = 0
                    continue
                misses[index] += 1
                missed = misses[index] >= MISSES if index in seen else time.monotonic() - began >= self._patience
                if missed and not stop.is_set():
                    return self._give_up(f"{self._cluster.name(index)} is not reachable: {why}")
            stop.wait(PERIOD)

    def _give_up(self, why: str) -> None:
        self.lost = why
        for worker in self._workers:
            worker.close()

    def _ask(self, worker: Worker, timeout: float, **request: Any) -> dict[str, Any]:
        """Send a request; the others are expected from the preparation of their common work to its end.

        Raises WorkerError: as the worker does; or another machine is lost.
        """
        if self.lost:
            raise WorkerError(self.lost)
        if request["do"] == "prepare" and request["spread"] == SPREAD:
            self.arm()
        try:
            answer = worker.ask(timeout, **request)
        except WorkerError as error:
            end = time.monotonic() + SETTLE  # for the reason to show, which may be that a worker is gone
            while self.armed and self.lost is None and time.monotonic() < end:
                time.sleep(0.1)
            if self.lost:
                raise WorkerError(self.lost) from error
            raise
        if request["do"] == "farewell" or answer.get("done") == "end":
            self.disarm()
        return answer
