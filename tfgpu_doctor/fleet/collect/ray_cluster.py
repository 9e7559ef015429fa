"""tfgpu on each node of a Ray cluster."""

from __future__ import annotations

import json
import os
import re
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from tfgpu_doctor.files import reading
from tfgpu_doctor.fleet.collect.task import GRACE, Collected, Progress, Task, last_error, node_result
from tfgpu_doctor.fleet.records import NodeResult
from tfgpu_doctor.probes.process import FLOOD, Completed, run, temporary_folder

CONNECT = 90.0  # seconds; Ray itself gives up after 60
END = 30.0  # seconds to write the last lines, and to leave the cluster
ENOUGH = 4 << 30  # bytes of results
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from tfgpu_doctor.fleet.collect.ray_child import main; main()"
# Ray's own messages do not say it: "Failed to connect", and "connection timeout" of the client
TOKEN = (
    ". If the cluster requires a token, set RAY_AUTH_MODE=token, and the token as RAY_AUTH_TOKEN or in "
    "~/.ray/auth_token (https://docs.ray.io/en/latest/ray-security/token-auth.html)"
)
_LOG = re.compile(r"\[\d{4}-[\d:, -]{12,30} [A-Z] \d+ \d+\] (?:\(\S{1,30}\) )?\S+:\d+:\s*")  # of Ray's C++ part
_NOWHERE = "/"  # Ray gives the folder where its driver runs to every worker, as the place of modules


def collect(address: str, task: Task, progress: Progress) -> Collected:
    """Ask every node of the cluster at `address`."""
    names: list[str] = []
    done: set[str] = set()

    def take(text: str) -> float | None:
        try:
            said = json.loads(text)
        except (ValueError, RecursionError):
            return None  # Ray's
        if isinstance(said, dict) and isinstance(said.get("nodes"), list) and not names:
            names.extend(map(str, said["nodes"]))
            return task.timeout + GRACE + END
        if isinstance(said, dict) and said.get("node") in names:
            done.add(said["node"])
            progress(said["node"], str(said.get("failure", "")), len(done), len(names))
        return None

    with temporary_folder({}) as own:
        if "TMPDIR" not in own:
            return Collected([], "there is no folder for temporary files")
        file = os.path.join(own["TMPDIR"], "nodes.jsonl")
        request = {"address": address, "arguments": task.arguments, "timeout": task.timeout, "file": file}
        # in the folder for temporary files of the user: there Ray looks for the cluster on this machine
        argv = [sys.executable, "-c", _BOOT, str(Path(__file__).parents[3]), json.dumps(request)]
        ended = run(argv, timeout=CONNECT, cwd=_NOWHERE, on_line=take)
        found = _read(file)
    why = _why(ended)
    if not names:
        wants = "Unauthenticated" in ended.stderr or ("ConnectionError: " in why and "RAY_AUTH_MODE" not in os.environ)
        return Collected([], (why or ended.error or "Ray ended without a word") + (TOKEN if wants else ""))
    missing = [name for name in names if name not in {one.node for one in found}]
    lost = f"Ray's driver ended before the node had answered: {why}"
    return Collected([*found, *(node_result(name, [], lost) for name in missing)])


def _why(ended: Completed) -> str:
    """How Ray's driver ended."""
    if ended.flooded:
        return f"Ray wrote more than {FLOOD / 1e6:.0f} MB"
    if ended.timed_out:
        return f"no answer within {ended.seconds:.0f} s"
    return last_error(_LOG.sub("", text) for text in ended.stderr.splitlines())


def _read(file: str) -> list[NodeResult]:
    """The lines of a driver that may have ended before its first one, or within its last one."""
    found: list[NodeResult] = []
    with suppress(FileNotFoundError, msgspec.DecodeError):
        for one in reading.read_whole(file, ENOUGH).splitlines():
            found.append(msgspec.json.decode(one, type=NodeResult))  # one by one, so that those before a cut line stay
    return found
