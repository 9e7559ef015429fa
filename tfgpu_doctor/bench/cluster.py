"""Who takes part where several machines train together: TF_CONFIG, or the same out of Slurm. Pure.

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
from tfgpu_doctor.bench.runner.process import Worker, WorkerError
from tfgpu_doctor.bench.runner.workers import hello, prepare
from tfgpu_doctor.bench.session import NoTensorFlowError

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

    def name(self, index: int) -> str:
        """One of them, for people."""
        return f"worker {index} ({self.addresses[index]})"

    def first_gpu(self, each: int, found: int) -> int:
        """The first GPU of this worker, where workers on one host share out GPUs that all of them see.

        Where each sees its own alone (Slurm's --gpus-per-task, a container's), that is 0.
        """
        host = _host(self.addresses[self.index])
        alike = [index for index, address in enumerate(self.addresses) if _host(address) == host]
        return alike.index(self.index) * each if found >= each * len(alike) else 0

    def together(self, gpus: int, first: int) -> Case:
        """The case of all workers with `gpus` GPUs each, or their CPUs where that is 0; as this worker names it.

        Args:
            first: this worker's first GPU.
        """
        kind, each = ("GPU", gpus) if gpus else ("CPU", 1)
        here = [f"/{kind}:{place}" for place in range(each)]
        others = [f"/task:{index}{name}" for index in range(self.count) if index != self.index for name in here]
        what = "CPU" if not gpus else f"{gpus} GPU{'s' * (gpus != 1)}{' each' * (self.count > 1)}"
        visible = tuple(range(first, first + gpus))
        virtual = not gpus and self.share_a_host()  # one CPU, called by several names
        return Case(f"{self.count} workers, {what}", (*here, *others), visible, SPREAD, virtual)

    def share_a_host(self) -> bool:
        """Whether some of them are on one machine."""
        return len({_host(address) for address in self.addresses}) < self.count


def parse(text: str) -> Cluster | None:
    """Read TF_CONFIG; None where it names one worker alone, which is no cluster.

    Raises RequestError: it cannot be read, or this process has no part in such a training.
    """
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"TF_CONFIG is not JSON: {error}") from error
    jobs, task = (config.get(part) if isinstance(config, dict) else None for part in ("cluster", "task"))
    if not jobs:
        return None
    if not isinstance(jobs, dict) or not isinstance(task, dict):
        raise RequestError('TF_CONFIG needs {"cluster": {"worker": [addresses]}, "task": {"type": …, "index": …}}')
    if "ps" in jobs:
        raise RequestError("TF_CONFIG lists parameter servers, which this benchmark does not use: remove the job ps")
    known = {job: tuple(jobs.get(job, ())) for job in ("chief", "worker")}
    addresses = (*known["chief"], *known["worker"])
    _check_addresses(addresses)
    if len(known["chief"]) > 1:
        raise RequestError("TF_CONFIG lists several chiefs; there can be only one")
    job, index = task.get("type"), _number(task.get("index"))
    if job not in known or index is None or not 0 <= index < len(known[job]):
        raise RequestError(f"TF_CONFIG: the task {job} {task.get('index')} is not one of its workers")
    if len(addresses) < 2:
        return None
    return Cluster(addresses, index + (len(known["chief"]) if job == "worker" else 0), text)


def _check_addresses(addresses: Sequence[Any]) -> None:
    for address in addresses:
        if not isinstance(address, str) or not _port(address):
            raise RequestError(f"TF_CONFIG: {address!r} is not an address; write host:port")
    if len(set(addresses)) < len(addresses):
        raise RequestError("TF_CONFIG lists an address twice")


def config(cluster: Mapping[str, Sequence[str]], index: int) -> str:
    """TF_CONFIG for a worker of a cluster of workers."""
    return json.dumps({"cluster": {"worker": list(cluster["worker"])}, "task": {"type": "worker", "index": index}})


def under_slurm(environ: Mapping[str, str]) -> bool:
    """Whether this is one of several tasks that srun has started. A batch script itself is none."""
    tasks = environ.get("SLURM_STEP_NUM_TASKS", "")
    return tasks.isdecimal() and int(tasks) > 1 and "SLURM_PROCID" in environ


def split(address: str) -> tuple[str, int]:
    """Host and port of "host:port" or "[::1]:port"."""
    return _host(address), _port(address) or 0


def _host(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def _port(address: str) -> int | None:
    host, _, port = address.rpartition(":")
    return int(port) if host and port.isdecimal() and 0 < int(port) < 65536 else None


def _number(value: Any) -> int | None:
    text = str(value)  # Kubernetes fills in text
    return int(text) if text.isdecimal() else None


# ---------------------------------------------------------------------------------------------------------------------
# On machines other than the first: do what the first one leads, type by type, to its end.


def follow(
    plan: Callable[[Sequence[GpuFound]], Sequence[tuple[Case, Job]]],
    start: Callable[[], Worker],
    *,
    patience: float,
    progress: Callable[[str, float], None] = lambda *_: None,
) -> int:
    """Take part in every job of the plan, each in a process of its own; returns how many pieces of work were done.

    Args:
        plan: this machine's cases and jobs, by the GPUs that TensorFlow lists; the same jobs as the first machine's.
        start: starts a worker.
        patience: seconds that may pass between two pieces of work.

    Raises:
        NoTensorFlowError: TensorFlow does not start.
        WorkerError: a machine is gone, or this one's part failed.
        DeviceError: the GPUs that were asked for are not there.
    """
    done = 0
    progress("starting TensorFlow", 0.0)
    worker: Worker | None = start()
    try:
        _, found = _greeted(worker)
        for case, job in plan(found):
            if worker is None:
                worker = start()
                _greeted(worker)
            progress(f"{case.label}: waiting for the other machines", 0.0)
            prepare(worker, case, job)
            progress(f"{case.label}: working", 0.0)
            while worker.ask(max(patience, job.patience), do="follow")["done"] != "end":
                done += 1
            worker.close()
            worker = None
    finally:
        if worker is not None:
            worker.close()
    return done


def _greeted(worker: Worker | None) -> tuple[dict[str, str], tuple[GpuFound, ...]]:
    assert worker is not None
    try:
        return hello(worker)
    except WorkerError as error:
        raise NoTensorFlowError(str(error)) from error


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
