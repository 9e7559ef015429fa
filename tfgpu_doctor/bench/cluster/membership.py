"""Who takes part where several machines train together: TF_CONFIG, or the same out of Slurm. Pure.

The chief (the job "chief", or worker 0) leads and reports. Parameter servers belong to another strategy; an evaluator
takes no part.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.bench.devices import Case

SPREAD = "workers"


class ClusterError(Exception):
    """The description of the cluster cannot be used; the message says what is wrong with it."""


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

    Raises ClusterError: it cannot be read, or this process has no part in such a training.
    """
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ClusterError(f"TF_CONFIG is not JSON: {error}") from error
    jobs, task = (config.get(part) if isinstance(config, dict) else None for part in ("cluster", "task"))
    if not jobs:
        return None
    if not isinstance(jobs, dict) or not isinstance(task, dict):
        raise ClusterError('TF_CONFIG needs {"cluster": {"worker": [addresses]}, "task": {"type": …, "index": …}}')
    if "ps" in jobs:
        raise ClusterError("TF_CONFIG lists parameter servers, which this benchmark does not use: remove the job ps")
    known = {job: tuple(jobs.get(job, ())) for job in ("chief", "worker")}
    addresses = (*known["chief"], *known["worker"])
    _check_addresses(addresses)
    if len(known["chief"]) > 1:
        raise ClusterError("TF_CONFIG lists several chiefs; there can be only one")
    job, index = task.get("type"), _number(task.get("index"))
    if job not in known or index is None or not 0 <= index < len(known[job]):
        raise ClusterError(f"TF_CONFIG: the task {job} {task.get('index')} is not one of its workers")
    if len(addresses) < 2:
        return None
    return Cluster(addresses, index + (len(known["chief"]) if job == "worker" else 0), text)


def _check_addresses(addresses: Sequence[Any]) -> None:
    for address in addresses:
        if not isinstance(address, str) or not _port(address):
            raise ClusterError(f"TF_CONFIG: {address!r} is not an address; write host:port")
    if len(set(addresses)) < len(addresses):
        raise ClusterError("TF_CONFIG lists an address twice")


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
