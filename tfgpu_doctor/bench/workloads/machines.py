"""Several machines that train together: MultiWorkerMirroredStrategy, led by worker 0.

Worker 0, the chief, is told by its parent what to do. Every piece of work in which all take part begins with a small
all-reduce that carries what the chief wants; the others wait in it. So all of them run the same steps, and no more.

The parent has put TF_CONFIG into the environment. Nothing of TensorFlow may have been initialised before.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from .training import copies, place, short, summing

ELSEWHERE = "/task:"  # how names of other machines' devices begin
WORK = ("end", "steps", "verify")  # what worker 0 may want; the small all-reduce carries its place here


def reference(task: str) -> dict[str, Any]:
    """Ask Slurm, by TensorFlow's resolver, who takes part: {"cluster": {"worker": [address, …]}, "index": …}.

    The GPUs are shared out by the parent, as without Slurm; asking for one GPU a task only keeps the resolver from
    running nvidia-smi, and from dividing by the GPUs that a CPU node lacks.
    """
    import tensorflow as tf

    assert task == "slurm", task
    tasks = int(os.environ["SLURM_STEP_NUM_TASKS"])
    resolver = tf.distribute.cluster_resolver.SlurmClusterResolver(
        gpus_per_node=tasks, gpus_per_task=1, auto_set_gpu=False
    )
    workers = list(resolver.cluster_spec().as_dict()["worker"])
    # It sorts the hosts by name, node10 before node2, where Slurm numbers the tasks in the order of its list of nodes
    # (TensorFlow 2.21, slurm_cluster_resolver.py, cluster_spec), so that worker 1 would not be where its address says.
    hosts = list(getattr(resolver, "_task_configuration", {}))
    if hosts:
        workers.sort(key=lambda address: hosts.index(address.rpartition(":")[0]))
    return {"cluster": {"worker": workers}, "index": resolver.task_id}


class Machines:
    """The strategy, and sums over all workers of small vectors.

    Args:
        devices: of all workers, in their order; those of others begin with ELSEWHERE.
        index, count: of this worker, and of all.
    """

    def __init__(self, devices: Sequence[str], index: int, count: int) -> None:
        """Wait for all workers, for as long as the parent lets us."""
        import tensorflow as tf

        known = tf.distribute.experimental
        # TensorFlow's own choice, AUTO, is its ring over gRPC even between GPUs (collective_param_resolver_local.cc:
        # NCCL only where the hint says so).
        summing_by = "NCCL" if any("GPU" in name for name in devices) else "RING"
        options = known.CommunicationOptions(implementation=known.CommunicationImplementation(summing_by))
        self.strategy = tf.distribute.MultiWorkerMirroredStrategy(communication_options=options)
        self.index, self.count = index, count
        self.local = list(self.strategy.extended.worker_devices)
        self.elsewhere = [name for name in devices if name.startswith(ELSEWHERE)]
        self.first = index * len(self.local)  # number of this worker's first replica
        want = [name for name in devices if name not in self.elsewhere]
        here, replicas = [short(name) for name in self.local], int(self.strategy.num_replicas_in_sync)
        if here != want or replicas != len(devices):
            raise ValueError(f"{replicas} replicas, here on {', '.join(here)}, not {want}")
        self._sum = summing(self.strategy)

    def agree(self, text: str) -> None:
        """Make sure that all workers were asked for the same. Raises ValueError: they were not."""
        mine = zlib.crc32(text.encode())
        found = self.gather([float(mine)])
        if any(one != [mine] for one in found):
            raise ValueError("the machines were started with different options: use the same command on each")

    def gather(self, values: Sequence[float]) -> list[list[float]]:
        """Return what each worker gives, in their order; each must give as many."""
        import numpy as np

        slots = np.zeros((self.count, len(values)))
        slots[self.index] = values

        def mine(index: int) -> Any:
            return slots * (index == 0)

        first, *_ = self._sum(place(self.strategy, self.local, mine, self.first))
        found: list[list[float]] = first.numpy().tolist()
        return found

    def lead(self, what: str, number: int = 0) -> None:
        """Tell the others what comes; only worker 0 does."""
        self.gather([float(WORK.index(what)), float(number)])

    def follow(self, work: dict[str, Callable[[int], Any]]) -> str:
        """Wait for what worker 0 wants, and do it; returns its name, "end" where there is no more."""
        place, number = map(int, self.gather([0.0, 0.0])[0])
        if place:
            work[WORK[place]](number)
        return WORK[place]

    def identical(self, weights: Sequence[Any]) -> tuple[int, int]:
        """Return how many weights all replicas of all workers hold bit by bit alike, and how many there are."""
        sums = []
        for weight in weights:
            here = {zlib.crc32(one.numpy().tobytes()) for one in copies(self.strategy, weight)}
            sums.append(float(here.pop()) if len(here) == 1 else -1.0 - self.index)
        found = self.gather(sums)
        return sum(len(set(one)) == 1 for one in zip(*found)), len(sums)
