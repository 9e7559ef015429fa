"""Who takes part where several machines train together: TF_CONFIG, or the same out of Slurm; follow, and watch others.

The chief (the job "chief", or worker 0) leads and reports. Parameter servers belong to another strategy; an evaluator
takes no part.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.bench.devices import Case, GpuFound, Job, RequestError
from tfgpu_doctor.bench.runner.process import Asked, Worker, WorkerError, Workers, prepare

SPREAD = "workers"


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
    except (ValueError, RecursionError) as error:
        raise RequestError(f"TF_CONFIG is not JSON: {error}") from error
    jobs, task = (found.get(part) if isinstance(found, dict) else None for part in ("cluster", "task"))
    if not jobs:
        return None
    if not isinstance(jobs, dict) or not isinstance(task, dict):
        raise RequestError('TF_CONFIG needs {"cluster": {"worker": [addresses]}, "task": {"type": …, "index": …}}')
    chiefs, workers = (tuple(jobs.get(job, ())) for job in ("chief", "worker"))
    if wrong := _wrong(jobs, chiefs, workers):
        raise RequestError(f"TF_CONFIG {wrong}")
    own, index = {"chief": chiefs, "worker": workers}.get(str(task.get("type")), ()), str(task.get("index"))
    if not index.isdecimal() or int(index) >= len(own):  # Kubernetes fills in text
        raise RequestError(f"TF_CONFIG: the task {task.get('type')} {task.get('index')} is not one of its workers")
    place = int(index) + (len(chiefs) if task["type"] == "worker" else 0)
    return Cluster((*chiefs, *workers), place, text) if len(chiefs) + len(workers) > 1 else None


def _wrong(jobs: Mapping[str, Any], chiefs: Sequence[Any], workers: Sequence[Any]) -> str | None:
    """Say what cannot be used of the jobs of TF_CONFIG."""
    if "ps" in jobs:
        return "lists parameter servers, which this benchmark does not use: remove the job ps"
    addresses = [*chiefs, *workers]
    if bad := [one for one in addresses if not isinstance(one, str) or not split(one)[1]]:
        return f"lists {bad[0]!r}, which is not an address; write host:port"
    if len(set(addresses)) < len(addresses):
        return "lists an address twice"
    return "lists several chiefs; there can be only one" if len(chiefs) > 1 else None


def config(cluster: Mapping[str, Sequence[str]], index: int) -> str:
    """Return TF_CONFIG for a worker of a cluster of workers."""
    return json.dumps({"cluster": {"worker": list(cluster["worker"])}, "task": {"type": "worker", "index": index}})


def under_slurm(environ: Mapping[str, str]) -> bool:
    """True if this is one of several tasks that srun has started. A batch script itself is none."""
    tasks = environ.get("SLURM_STEP_NUM_TASKS", "")
    return tasks.isdecimal() and int(tasks) > 1 and "SLURM_PROCID" in environ


def split(address: str) -> tuple[str, int]:
    """Return host and port of "host:port" or "[::1]:port"; port 0 where there is none, or no host."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if host and port.isdecimal() and int(port) < 65536 else 0


# ---------------------------------------------------------------------------------------------------------------------
# On machines other than the first: do what the first one leads, type by type, to its end.


def follow(
    plan: Callable[[Sequence[GpuFound]], Sequence[Job]],
    start: Callable[[], Worker],
    *,
    patience: float,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> int:
    """Take part in every job of the plan, each in a process of its own; returns how many pieces of work were done.

    Args:
        plan: this machine's jobs, by the GPUs that TensorFlow lists; the same jobs as the first machine's.
        start: starts a worker.
        patience: seconds that may pass between two pieces of work.

    Raises:
        NoTensorFlowError: TensorFlow does not start.
        WorkerError: a machine is gone, or this one's part failed.
        DeviceError: the GPUs that were asked for are not there.
    """
    done = 0
    progress("starting TensorFlow", 0.0)
    with Workers(start) as workers:
        workers.first()
        for job in plan(workers.found):
            worker, label = workers.take(job.key), job.case.label
            progress(f"{label}: waiting for the other machines", 0.0)
            prepare(worker, job)
            progress(f"{label}: working", 0.0)
            while worker.ask(max(patience, job.patience), do="follow")["done"] != "end":
                done += 1
            workers.drop(job.key)
    return done


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

Knock = Callable[[str], str | None]


def knock(address: str) -> str | None:
    """Say why nobody answers at an address; None where somebody does."""
    try:
        with socket.create_connection(split(address), timeout=ANSWER):
            return None
    except TimeoutError:
        return f"no answer within {ANSWER:g} s"
    except UnicodeError:
        return "this cannot be the name of a host"
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
        self._workers: list[Worker] = []
        self._stop = threading.Event()
        self.armed = False  # the others are expected
        self.lost: str | None = None  # which worker is missed, as a sentence without its end

    def over(self, worker: Worker) -> Worker:
        """Return the same worker, ended when another machine is lost, which then explains its errors."""
        self._workers.append(worker)
        return Asked(worker, self._ask)

    def arm(self) -> None:
        """The others are expected from now on."""
        self._stop.set()
        self._stop, self.armed = threading.Event(), True
        threading.Thread(target=self._look, args=(self._stop,), name="peers", daemon=True).start()

    def disarm(self) -> None:
        """The others may go."""
        self._stop.set()
        self.armed = False

    def _look(self, stop: threading.Event) -> None:
        """Look at the others again and again, until one is missed."""
        began, others = time.monotonic(), dict(enumerate(self._cluster.addresses))
        del others[self._cluster.index]
        unseen = dict.fromkeys(others, "")  # why not seen yet
        misses = dict.fromkeys(others, 0)  # looks without an answer
        while not (stop.is_set() or self.lost):
            for index, address in others.items():
                why = self._knock(address)
                misses[index] = 0 if why is None else misses[index] + 1
                if why is None:
                    unseen.pop(index, None)
                elif index in unseen:
                    unseen[index] = why
                elif misses[index] >= MISSES:
                    self._give_up(stop, f"{self._cluster.name(index)} is no longer reachable: {why}")
            if unseen and time.monotonic() - began >= self._patience:
                names = ", ".join(f"{self._cluster.name(index)}: {why}" for index, why in unseen.items())
                advice = "start the same command on every machine, and open these ports between them"
                self._give_up(stop, f"not reachable within {self._patience:g} s: {names}; {advice}")
            stop.wait(PERIOD)

    def _give_up(self, stop: threading.Event, why: str) -> None:
        if not stop.is_set():
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
