"""`tfgpu fleet collect`: one command of tfgpu on each node, started by an engine that the cluster has, Ray or Slurm.

A node that fails, or does not answer in time, has a line with the reason. The time limit is on the node, too, so that
what hangs there ends there, also where this process is killed. Checked with Slurm 22.05 and Ray 2.50.
"""

from __future__ import annotations

import json
import math
import os
import re
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from tfgpu_doctor.facts import reading, writing
from tfgpu_doctor.facts.facts import compact
from tfgpu_doctor.facts.printable import cut, escape_json, utf8
from tfgpu_doctor.fleet.records import NODE_SCHEMA, NodeResult
from tfgpu_doctor.probes.process import Completed, name_of, run, temporary_folder

LIMITS = {"doctor": 120.0, "smoke": 180.0, "bench": 1800.0}  # seconds that a node has to answer, where none are given
LARGEST = 16 << 20  # bytes of the output of one node
GRACE = 10.0  # seconds that a node has beyond its limit, to end what hangs and to say so
ENOUGH = 4 << 30  # bytes of results
_BEGIN = re.compile(rb'\{\s*"schema"\s*:\s*"tfgpu\.')
_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Exit)\b: .")


class CollectError(Exception):
    """No node could be asked; the message says why."""


class Task(NamedTuple):
    """A command of tfgpu, with a time limit."""

    arguments: tuple[str, ...]  # "doctor", "--format", "json"
    timeout: float  # seconds

    @property
    def too_slow(self) -> str:
        """Why a node has no result whose time is over."""
        return f"did not answer within {self.timeout:g} s"


def node_result(node: str, output: bytes, failure: str = "") -> NodeResult:
    """Return the line of a node that wrote this; `failure` is why there is no result in it."""
    reason = failure or "its output has no result of tfgpu"
    if begin := _BEGIN.search(output):
        reason = failure or "its output is cut off, or no JSON"
        if len(output) > LARGEST:
            output, reason = b"", f"its output is larger than {LARGEST >> 20} MiB"
        try:
            found, _ = json.JSONDecoder().raw_decode(output[begin.start() :].decode())
            return NodeResult(schema=NODE_SCHEMA, node=node, result=msgspec.Raw(compact(found)))
        except (ValueError, RecursionError):
            pass
    return NodeResult(schema=NODE_SCHEMA, node=node, failure=cut(" ".join(reason.split()), 300))


def line(result: NodeResult) -> str:
    """Return one line of JSON, harmless for terminals and CI systems."""
    return escape_json(compact(result).decode()) + "\n"


def why_it_failed(code: int | None, errors: Iterable[str]) -> str:
    """Return why a command of tfgpu ended without a result: by its exit code, and what it wrote to standard error."""
    lines = [text for one in errors if (text := one.strip())]
    if any("No module named" in one and "tfgpu_doctor" in one for one in lines):
        return 'tfgpu is not installed there. To install it: python -m pip install "git+$TFGPU_SOURCE"'
    last = next((one for one in reversed(lines) if _ERROR.match(one)), lines[-1] if lines else "")
    how = "ended without a result" if code is None else f"ended with exit code {code}"
    return f"{how}: {last}" if last else how


# ------------------------------------------------------------------------------------------------------------- Slurm

QUEUE = 3600.0  # seconds that Slurm has to start it
NODE, EXIT = b"tfgpu-node ", b"tfgpu-exit "
# With a label for each line, all tasks share a file that srun itself writes here: no folder need be shared with the
# nodes. srun replaces %J by the job and the step before a task runs, which no task can change
# (https://slurm.schedmd.com/srun.html, "filename pattern").
SCRIPT = f'echo "tfgpu-node $SLURMD_NODENAME"; timeout -k {GRACE:g} "$@"; echo "tfgpu-exit $?"'
_LOST = re.compile(r"(?:Node failure on|Task launch for .* failed on node) ([^\s:]+)(?:: (.*))?")
_QUEUED = re.compile(r"\Asrun: job ([0-9]{1,12}) queued and waiting for resources\Z")
_WRITTEN = re.compile(r"([0-9]{1,12})(\.[0-9]{1,12})\.out")


def srun_line(task: Task, nodes: int, python: str, options: Sequence[str], folder: str) -> list[str]:
    """Return the command that runs the task once on each of so many nodes."""
    return [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",  # within an allocation, the number of its tasks would count
        "--ntasks-per-node=1",
        "--label",
        f"--output={folder}/%J.out",
        f"--error={folder}/%J.err",
        "--kill-on-bad-exit=0",  # a task that is killed ends itself only
        f"--wait={math.ceil(task.timeout + 3 * GRACE)}",  # seconds from the end of the first task to that of the last
        "--no-kill",  # a node that fails ends itself only
        f"--time={math.ceil((task.timeout + GRACE) / 60) + 1}",
        "--input=none",
        "--job-name=tfgpu",
        *(["--overlap"] if "SLURM_JOB_ID" in os.environ else []),  # also while other steps of the job run
        *options,
        *("sh", "-c", SCRIPT, "tfgpu", f"{task.timeout:g}"),
        *(python, "-m", "tfgpu_doctor", *task.arguments),
    ]


def by_slurm(task: Task, nodes: int, python: str, options: Sequence[str]) -> list[NodeResult]:
    """Run the task by srun, and return what each node answered. Raises CollectError."""
    queued: list[str] = []
    with temporary_folder({}) as own:
        folder, ended = _folder(own), None
        try:
            ended = run(
                srun_line(task, nodes, python, options, folder),
                timeout=QUEUE + task.timeout,
                on_line=lambda text: queued.extend(_QUEUED.findall(text)),
                merged=True,
            )
        finally:  # also at Ctrl-C, SIGTERM and SIGHUP
            if ended is None or ended.timed_out:
                _cancel(folder, queued)
        output, errors = _by_task(folder, ".out", nodes), _by_task(folder, ".err", nodes)
    return _of_slurm(task, nodes, ended, output, errors)


def _of_slurm(
    task: Task, nodes: int, ended: Completed, output: dict[int, list[bytes]], errors: dict[int, list[bytes]]
) -> list[NodeResult]:
    """Return what came of each node, also of those on which nothing was started. Raises CollectError: of all."""
    told = re.findall(r"^srun: error: (.*)", ended.stdout, re.MULTILINE)
    why = ["srun ended without a word", *told][-1]
    if ended.timed_out or ended.error:
        why = f"srun: {ended.error or 'did not end in time'}"
    if not output:
        raise CollectError(why)
    failed = filter(None, map(_LOST.match, told))
    lost = {found[1]: found[2] or "Slurm says that the node failed" for found in failed}
    results = []
    for number, lines in sorted(output.items()):
        name = _name(lines) or f"task {number}"
        reason = _failure(task, lines[-1], errors.get(number, [])) or lost.get(name) or f"it was ended: {why}"
        results.append(node_result(name, b"".join(lines), reason))
    named = {one.node for one in results}
    results += [node_result(name, b"", reason) for name, reason in lost.items() if name not in named]
    silent = range(len(results), nodes)
    return results + [node_result(f"node {n + 1} of {nodes}", b"", f"nothing was started there: {why}") for n in silent]


def _name(lines: list[bytes]) -> str:
    """Return the name of the node on which a task wrote these lines."""
    return next((one for one in lines if one.startswith(NODE)), b"").removeprefix(NODE).decode(errors="replace")


def _failure(task: Task, last: bytes, errors: list[bytes]) -> str:
    """Return why a task has no result, by its last line, the exit code of `timeout`; "" where it is none."""
    if not re.fullmatch(EXIT + rb"\d{1,3}", last):
        return ""
    code = int(last.removeprefix(EXIT))
    if code > 128:
        return f"was killed by {name_of(code - 128)}, or {task.too_slow}"
    return task.too_slow if code == 124 else why_it_failed(code, [one.decode(errors="replace") for one in errors])


def _by_task(folder: str, ending: str, most: int) -> dict[int, list[bytes]]:
    """Return the lines of each task, without their labels; srun breaks lines after 1024 bytes."""
    output: dict[int, list[bytes]] = {}
    for file in Path(folder).glob(f"*{ending}"):
        for one in reading.read_whole(str(file), ENOUGH).split(b"\n"):
            if (found := re.match(rb" *(\d{1,7}): ", one)) and int(found[1]) < most:
                output.setdefault(int(found[1]), []).append(one[found.end() :])
    return output


def _cancel(folder: str, queued: list[str]) -> None:
    """End what still runs, or waits: of a killed srun, Slurm keeps the job until its time is over."""
    step = next(filter(None, map(_WRITTEN.fullmatch, os.listdir(folder))), None)
    if own := os.environ.get("SLURM_JOB_ID"):  # an allocation of the user, which stays
        jobs = [step[1] + step[2]] if step and step[1] == own else []
    else:
        jobs = [step[1]] if step else queued[:1]
    if jobs:
        run(["scancel", *jobs], timeout=20.0)


def _folder(own: dict[str, str]) -> str:
    """Return the folder for temporary files. Raises CollectError: there is none."""
    if "TMPDIR" not in own:
        raise CollectError("there is no folder for temporary files")
    return own["TMPDIR"]


# --------------------------------------------------------------------------------------------------------------- Ray
#
# Ray has a process of its own, because its C++ part aborts the process when the cluster cannot be reached, prints on
# both streams, and installs signal handlers. The process appends the names of the nodes to a file, then their results.

CONNECT = 90.0  # seconds to connect, and to write the last lines; Ray itself gives up after 60
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from tfgpu_doctor.fleet.collect import ray_child; ray_child()"
_LOG = re.compile(r"\[\d{4}-[\d:, -]{12,30} [A-Z] \d+ \d+\] (?:\(\S{1,30}\) )?\S+:\d+:\s*")  # of Ray's C++ part


def by_ray(address: str, task: Task) -> list[NodeResult]:
    """Run the task on every node of the cluster at `address`. Raises CollectError."""
    with temporary_folder({}) as own:
        file = Path(_folder(own), "nodes.jsonl")
        request = json.dumps([address, task.arguments, task.timeout, str(file)])
        # in /, as Ray gives the folder where its driver runs to every worker, as the place of modules
        argv = [sys.executable, "-c", _BOOT, str(Path(__file__).parents[2]), request]
        ended = run(argv, timeout=CONNECT + task.timeout + GRACE, cwd="/")
        written = reading.read_whole(str(file), ENOUGH) if file.exists() else b""
    errors = [_LOG.sub("", one) for one in ended.stderr.splitlines()]
    late = f"no answer within {ended.seconds:.0f} s" if ended.timed_out else ""
    why = late or ended.error or why_it_failed(ended.returncode, errors)
    lines = written[: written.rfind(b"\n") + 1].splitlines()  # the last one may be cut off
    if not lines:
        raise CollectError(why)
    silent = f"Ray's driver ended before it answered: {why}"
    found = {name: node_result(name, b"", silent) for name in msgspec.json.decode(lines[0], type=list[str])}
    found.update((one.node, one) for one in map(msgspec.json.Decoder(NodeResult).decode, lines[1:]))
    return [*found.values()]


def ray_child() -> None:
    """Ask every node that is alive; in a process of its own."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    address, arguments, timeout, file = json.loads(sys.argv[1])
    task = Task(tuple(arguments), timeout)
    if found := re.fullmatch(r"(?:ray://)?(\[[^\]]+\]|[^:/]+):(\d{1,5})", address):
        # raise OSError where nothing listens there: Ray would try for a minute, and not say why
        socket.create_connection((found[1].strip("[]"), int(found[2])), 10.0).close()
    options: dict[str, Any] = {} if address.startswith("ray://") else {"log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address, **options)  # Ray Client takes no options
    alive: list[dict[str, Any]] = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    names = names_of(alive)
    writing.append(file, compact(names) + b"\n", ENOUGH)
    ask = ray.remote(num_cpus=0, max_retries=0)(answer)
    pending: dict[Any, str] = {}
    for node, name in zip(alive, names, strict=True):
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        pending[ask.options(scheduling_strategy=there).remote(task)] = name
    deadline = time.monotonic() + timeout + GRACE
    while pending:
        ready, _ = ray.wait(list(pending), num_returns=1, timeout=max(deadline - time.monotonic(), 0.0))
        for asked in ready or list(pending):
            try:
                output, failure = ray.get(asked) if ready else (b"", task.too_slow)
            except ray.exceptions.RayError as error:
                output, failure = b"", why_ray_failed(error)
            if not ready:
                ray.cancel(asked, force=True)
            writing.append(file, utf8(line(node_result(pending.pop(asked), output, failure))), ENOUGH)
    ray.shutdown()


def names_of(nodes: list[dict[str, Any]]) -> list[str]:
    """Return the name of each node of Ray: the one that it was given, or its host's; unique."""
    names = []
    for node in nodes:
        address = node.get("NodeManagerAddress", "")
        given = node.get("NodeName", address)
        names.append(given if given not in ("", address) else node.get("NodeManagerHostname") or address)
    often = Counter(names)
    return [
        name if often[name] == 1 else f"{name} ({node['NodeID'][:12]})" for node, name in zip(nodes, names, strict=True)
    ]


def why_ray_failed(error: Exception) -> str:
    """Return what Ray says in many lines: what failed, without its advice."""
    kind, lines = type(error).__name__, str(error).splitlines()
    if kind in ("NodeDiedError", "WorkerCrashedError", "LocalRayletDiedError", "TaskUnschedulableError"):
        return f"the node, or Ray's worker on it, died ({kind})"
    return why_it_failed(None, lines) if lines else f"{kind}: no message"


def answer(task: Task) -> tuple[bytes, str]:
    """Run tfgpu on a node, in the Python of Ray's worker; return what it wrote, or why there is no result."""
    lines: list[bytes] = []  # run itself keeps the beginning and the end of what is long
    bounded = ["timeout", "-k", f"{GRACE:.0f}", str(math.ceil(task.timeout + GRACE))] if os.name == "posix" else []
    argv = [*bounded, sys.executable, "-m", "tfgpu_doctor", *task.arguments]
    done = run(argv, timeout=task.timeout, env=_environment(), on_line=lambda text: lines.append(utf8(text)))
    if done.timed_out or done.error:
        return b"", done.error or task.too_slow
    failure = f"was killed by {done.signal_name}" if done.signal_name else ""
    return b"".join(lines), failure or why_it_failed(done.returncode, done.stderr.splitlines())


def _environment() -> dict[str, str]:
    """Return the variables that this process was started with.

    For a task without CPUs and GPUs, Ray sets OMP_NUM_THREADS=1 (ray/_private/utils.py, set_omp_num_threads_if_unset),
    and before Ray 2.50 also CUDA_VISIBLE_DEVICES="" (set_visible_accelerator_ids): in the process itself, after its
    start. tfgpu is to see the GPUs and the threads of the node.
    """
    try:
        return psutil.Process().environ() or dict(os.environ)
    except psutil.Error:
        return {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES" or value}
