"""The process that talks to a Ray cluster: it submits a task to every node, and appends a line to a file for each.

Ray has a process of its own, because its C++ part aborts the process when the cluster cannot be reached, prints on
both streams, and installs signal handlers. What goes wrong before the nodes are known is an exception that is not
caught: its last line is the reason.
"""

from __future__ import annotations

import json
import logging
import re
import socket
import sys
import threading
import time
from collections import Counter
from typing import Any

from tfgpu_doctor.files import writing
from tfgpu_doctor.fleet.collect.node import answer
from tfgpu_doctor.fleet.collect.task import GRACE, line, node_result
from tfgpu_doctor.probes.driver_child import say
from tfgpu_doctor.records.printable import utf8

CONNECT = 10.0  # seconds
LOOK = 5.0  # seconds between two looks at which nodes are alive
MOST = 1 << 40  # bytes of the file; the parent has the limit
MISSING = (
    "tfgpu is not installed there. To install it, in the environment that runs Ray on that node: "
    'python -m pip install "git+$TFGPU_SOURCE"'
)
# of ray/core/generated/common_pb2.py, NodeDeathInfo.Reason: it was asked to go, or was not needed any more
LEFT = {1: "EXPECTED_TERMINATION", 4: "AUTOSCALER_DRAIN_IDLE"}


def main() -> None:
    """Do what the first argument asks, as JSON: address, arguments, timeout, file."""
    request = json.loads(sys.argv[1])
    import ray

    _reach(request["address"])
    if request["address"].startswith("ray://"):
        ray.init(request["address"])  # Ray Client takes no other options
    else:
        ray.init(request["address"], log_to_driver=False, logging_level=logging.ERROR)
    every: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    nodes = [node for node in every if _counts(node, every)]
    names = _names(nodes)
    say(nodes=[names[node["NodeID"]] for node in nodes])
    Asking(ray, request, names).run(nodes)
    ray.shutdown()


def _reach(address: str) -> None:
    """Raise OSError where nothing listens at the address: Ray would try for a minute, and not say why."""
    if found := re.fullmatch(r"(?:ray://)?(\[[^\]]+\]|[^:/]+):(\d{1,5})", address):
        socket.create_connection((found[1].strip("[]"), int(found[2])), CONNECT).close()


def _counts(node: dict[str, Any], nodes: list[dict[str, Any]]) -> bool:
    """Whether a node is one of the cluster: not one that has left, nor an earlier life of one that is alive."""
    if node["Alive"]:
        return True
    is_back = any(one["Alive"] and _place(one) == _place(node) for one in nodes)
    return not is_back and node.get("DeathReason") not in LEFT


def _place(node: dict[str, Any]) -> tuple[str, str, str]:
    address = node.get("NodeManagerAddress", "")
    return node.get("NodeManagerHostname", ""), address, node.get("NodeName", address)


def _names(nodes: list[dict[str, Any]]) -> dict[str, str]:
    """The name of each node by its id: the one that it was given, or its host's; unique."""
    names = {}
    for node in nodes:
        host, address, given = _place(node)
        names[node["NodeID"]] = given if given not in ("", address) else host or address
    often = Counter(names.values())
    return {key: name if often[name] == 1 else f"{name} ({key[:12]})" for key, name in names.items()}


class Asking:
    """Asks every node, and writes a line for each."""

    def __init__(self, ray: Any, request: dict[str, Any], names: dict[str, str]) -> None:
        """Take the module, what to ask, and the names of the nodes."""
        self._ray, self._request, self._names = ray, request, names
        self._dead: dict[str, dict[str, Any]] = {}

    def run(self, nodes: list[dict[str, Any]]) -> None:
        """Wait until each has answered, has died, or its time is over."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        ray, timeout = self._ray, self._request["timeout"]
        ask = ray.remote(num_cpus=0, max_retries=0)(answer)
        pending: dict[Any, str] = {}
        for node in nodes:
            if node["Alive"]:
                there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
                asked = ask.options(scheduling_strategy=there).remote(self._request["arguments"], timeout)
                pending[asked] = node["NodeID"]
            else:
                self._write(node["NodeID"], [], _death(node))
        deadline = time.monotonic() + timeout + GRACE
        threading.Thread(target=self._look, daemon=True).start()
        while pending and (left := deadline - time.monotonic()) > 0:
            ready, _ = ray.wait(list(pending), num_returns=1, timeout=min(left, 1.0))
            for one in ready:
                self._take(one, pending.pop(one))
            for asked in [one for one, key in pending.items() if key in self._dead]:
                key = pending.pop(asked)
                self._write(key, [], _death(self._dead[key]))
        for asked, key in pending.items():
            ray.cancel(asked, force=True)
            self._write(key, [], f"did not answer within {timeout:g} s")

    def _look(self) -> None:
        """See which nodes have died: a task there may never end, and whoever waits for it hears nothing.

        In a thread, since this call blocks for a minute where the head of the cluster has died, and the tasks still
        answer.
        """
        while True:
            time.sleep(LOOK)
            try:
                self._dead = {node["NodeID"]: node for node in self._ray.nodes() if not node["Alive"]}
            except (self._ray.exceptions.RayError, ConnectionError, RuntimeError):
                return  # the driver is leaving, or the connection is lost: the time limit decides

    def _take(self, asked: Any, key: str) -> None:
        try:
            lines, failure = self._ray.get(asked)
        except self._ray.exceptions.RayError as error:
            lines, failure = [], _explained(error)
        self._write(key, lines, failure)

    def _write(self, key: str, lines: list[bytes], failure: str) -> None:
        result = node_result(self._names[key], lines, failure)
        writing.append(self._request["file"], utf8(line(result)), MOST)
        say(node=result.node, failure=result.failure or "")


def _death(node: dict[str, Any]) -> str:
    message = node.get("DeathReasonMessage") or "its raylet ended, or cannot be reached"
    return f"the node died: {message}"


def _explained(error: Exception) -> str:
    """What Ray says in many lines: what failed, without its advice."""
    text = str(error)
    if "No module named 'tfgpu_doctor" in text:
        return MISSING
    kind = type(error).__name__
    if kind in ("NodeDiedError", "WorkerCrashedError", "LocalRayletDiedError", "TaskUnschedulableError"):
        return f"the node, or Ray's worker on it, died ({kind})"
    lines = [one.strip() for one in text.splitlines() if one.strip()]
    return f"{kind}: {lines[-1] if lines else 'no message'}"
