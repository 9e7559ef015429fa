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
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import psutil

from tfgpu_doctor.facts import reading, writing
from tfgpu_doctor.facts.facts import compact
from tfgpu_doctor.facts.printable import cut, escape_json, utf8
from tfgpu_doctor.fleet.reading import documents
from tfgpu_doctor.fleet.records import NODE_SCHEMA, NodeResult
from tfgpu_doctor.probes.driver_child import say
from tfgpu_doctor.probes.process import FATAL, name_of, run, temporary_folder
from tfgpu_doctor.probes.systems import find

LIMITS = {"doctor": 120.0, "smoke": 180.0, "bench": 1800.0}  # seconds that a node has to answer, where none are given
LARGEST = 16 << 20  # bytes of the output of one node
GRACE = 10.0  # seconds that a node has beyond its limit, to end what hangs and to say so
ENOUGH = 4 << 30  # bytes of results
_ERROR = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Exit)\b: .")
Progress = Callable[[str, int, int], object]  # node that has started or answered, how many have, of how many


class Task(NamedTuple):
    """A command of tfgpu, with a time limit."""

    arguments: tuple[str, ...]  # "doctor", "--format", "json"
    timeout: float  # seconds

    @property
    def too_slow(self) -> str:
        """Why a node has no result whose time is over."""
        return f"did not answer within {self.timeout:g} s"


class Collected(NamedTuple):
    """What came of it. Without any node, `error` says why."""

    nodes: list[NodeResult]
    error: str = ""


def node_result(node: str, output: Iterable[bytes], failure: str = "") -> NodeResult:
    """Return the line of a node that wrote these lines; `failure` is why there is no result among them."""
    found = [one for one in documents(output) if b'"tfgpu.' in one.data]
    reason = failure or ("its output is cut off, or no JSON" if found else "its output has no result of tfgpu")
    if found and len(found[0].data) > LARGEST:
        reason = f"its output is larger than {LARGEST >> 20} MiB"
    elif found:
        try:
            result = msgspec.Raw(msgspec.json.format(found[0].data, indent=-1))
            msgspec.json.decode(result, type=dict[str, Any])
            return NodeResult(schema=NODE_SCHEMA, node=node, result=result)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
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
LATE = 2 * GRACE  # seconds between the starts of the first and the last task, and beyond the time limit of each
MARK = "tfgpu-node"
# srun itself writes the file, and replaces %J by the job and the step before a task runs, which no task can change
# (https://slurm.schedmd.com/srun.html, "filename pattern"; src/srun/libsrun/fname.c of Slurm).
OUTPUT = "%J.txt"
SCRIPT = f'echo "{MARK} $SLURMD_NODENAME" >&2; exec timeout -k {GRACE:g} "$@"'
_LABEL = re.compile(r" *(\d{1,7}): (.*)")
_ENDED = re.compile(r"srun: error: \S+: tasks? ([\d,-]+): (.*)")
_LOST = re.compile(r"srun: error: (?:Node failure on (\S+)|Task launch for .* failed on node (\S+?): (.*))")
_QUEUED = re.compile(r"srun: job ([0-9]{1,12}) queued and waiting for resources")
_WRITTEN = re.compile(r"([0-9]{1,12})\.([0-9]{1,12})\.txt")


def srun_line(task: Task, nodes: int, python: str, options: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """Return the command that runs the task once on each of so many nodes."""
    return [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",  # within an allocation, the number of its tasks would count
        "--ntasks-per-node=1",
        "--label",  # the lines of all nodes come mixed
        "--kill-on-bad-exit=0",  # an exit code of 1 is a diagnosis; not KillOnBadExit of slurm.conf
        "--wait=0",  # the slow ones are waited for; not WaitTime of slurm.conf
        "--no-kill",  # a node that fails ends itself only
        f"--time={math.ceil((task.timeout + GRACE) / 60) + 1}",
        "--input=none",
        "--job-name=tfgpu",
        *(["--overlap"] if environ.get("SLURM_JOB_ID") else []),  # also while other steps of the job run
        *options,
        *("sh", "-c", SCRIPT, "tfgpu", f"{task.timeout:g}"),
        *(python, "-m", "tfgpu_doctor", *task.arguments),
    ]


class _Srun:
    """What srun and the tasks wrote to standard error. A line with a label is a task's, which may say anything."""

    def __init__(self) -> None:
        self.nodes: dict[int, str] = {}  # task → node
        self.errors: dict[int, list[str]] = {}  # task → its last lines
        self.ended: dict[int, str] = {}  # task → "Killed"
        self.lost: dict[str, str] = {}  # node → why
        self.queued = self.last = ""  # the job that waits in the queue; the last error of srun

    def take(self, text: str, most: int) -> bool:
        """Read a line; True if one of the tasks, of which there are `most`, has begun."""
        if found := _LABEL.fullmatch(text):
            number, words = int(found[1]), found[2].split()
            if words[:1] == [MARK] and len(words) == 2 and number not in self.nodes and number < most:
                self.nodes[number] = words[1]
                return True
            if number < most:
                self.errors[number] = [*self.errors.get(number, [])[-50:], found[2]]
        elif found := _ENDED.match(text):
            for first, last in re.findall(r"(\d{1,7})(?:-(\d{1,7}))?", found[1]):
                self.ended.update(dict.fromkeys(range(int(first), min(int(last or first) + 1, most)), found[2]))
        elif found := _LOST.match(text):
            self.lost[found[1] or found[2]] = found[3] or "Slurm says that the node failed"
        elif found := _QUEUED.match(text):
            self.queued = found[1]
        if text.startswith("srun: error: "):
            self.last = text.removeprefix("srun: error: ")
        return False

    def failure(self, number: int, task: Task, cut_off: str) -> str:
        """Return why a task has no result, as far as that is known; `cut_off` is why srun was ended, if it was."""
        how = self.ended.get(number, "")
        code = int(found[1]) if (found := re.match(r"Exited with exit code (\d{1,9})", how)) else None
        if code == 124:  # of the program `timeout`
            return task.too_slow
        if code in FATAL:
            return f"was killed by {name_of(FATAL[code])}, or {task.too_slow}"
        if how and code is None:
            return f"srun: {how}"
        lost = "" if how else cut_off or self.lost.get(self.nodes[number], "")
        return lost or why_it_failed(code, self.errors.get(number, ()))


def by_slurm(argv: Sequence[str], task: Task, nodes: int, progress: Progress) -> Collected:
    """Run the line of `srun_line`, and return what each node answered."""
    srun = _Srun()
    begun: list[float] = []

    def take(text: str) -> float | None:
        if not srun.take(text, nodes):
            return None
        begun.append(time.monotonic())
        progress(srun.nodes[next(reversed(srun.nodes))], len(srun.nodes), nodes)
        return min(task.timeout + LATE, begun[0] - begun[-1] + task.timeout + 2 * LATE)

    with temporary_folder({}) as own:
        if "TMPDIR" not in own:
            return Collected([], "there is no folder for temporary files")
        folder = own["TMPDIR"]
        # through a pipe, a thousand reports could come faster than they are read
        line_of_srun = [argv[0], f"--output={os.path.join(folder, OUTPUT)}", "--error=all", *argv[1:]]
        try:
            ended = run(line_of_srun, timeout=QUEUE, on_line=take, merged=True)
        except BaseException:  # Ctrl-C, SIGTERM and SIGHUP
            _cancel(folder, srun.queued)
            raise
        if ended.timed_out:
            _cancel(folder, srun.queued)
        output = _by_task(folder) if srun.nodes else {}
    if not srun.nodes:
        late = f"Slurm has not started it within {QUEUE / 60:.0f} minutes" if ended.timed_out else ""
        return Collected([], late or ended.error or srun.last or "srun ended without a word")
    return Collected(_of_srun(srun, output, task, nodes, task.too_slow if ended.timed_out else ""))


def _of_srun(srun: _Srun, output: dict[int, list[bytes]], task: Task, nodes: int, cut_off: str) -> list[NodeResult]:
    """Return what came of each node, also of those on which nothing was started."""
    found = [
        node_result(name, output.get(number, []), srun.failure(number, task, cut_off))
        for number, name in sorted(srun.nodes.items())
    ]
    found += [node_result(name, [], why) for name, why in srun.lost.items() if name not in srun.nodes.values()]
    why = cut_off or f"srun started nothing there: {srun.last}"
    return [*found, *(node_result(f"node {n + 1} of {nodes}", [], why) for n in range(len(found), nodes))]


def _by_task(folder: str) -> dict[int, list[bytes]]:
    """Return the lines of each task, without their labels."""
    output: dict[int, list[bytes]] = {}
    for one in b"".join(reading.read_whole(str(file), ENOUGH) for file in Path(folder).glob("*.txt")).split(b"\n"):
        label, colon, content = one.partition(b": ")
        if colon and label.strip().isdigit() and len(label) < 10:
            output.setdefault(int(label), []).append(content)
    return output


def _cancel(folder: str, queued: str) -> None:
    """End what still runs, or waits: of a killed srun, Slurm keeps the job until its time is over.

    The job is the one that srun named, by the file that it writes or while it waited for it; a task cannot choose it.
    """
    named = next(filter(None, map(_WRITTEN.fullmatch, os.listdir(folder))), None)
    if own := os.environ.get("SLURM_JOB_ID"):  # an allocation of the user, which stays
        job = f"{named[1]}.{named[2]}" if named and named[1] == own else ""
    else:
        job = named[1] if named else queued
    if job:
        run(["scancel", job], timeout=20.0)


# --------------------------------------------------------------------------------------------------------------- Ray
#
# Ray has a process of its own, because its C++ part aborts the process when the cluster cannot be reached, prints on
# both streams, and installs signal handlers. The process appends a line to a file for each node.

CONNECT = 90.0  # seconds; Ray itself gives up after 60
END = 30.0  # seconds to write the last lines, and to leave the cluster
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from tfgpu_doctor.fleet.collect import ray_child; ray_child()"
_LOG = re.compile(r"\[\d{4}-[\d:, -]{12,30} [A-Z] \d+ \d+\] (?:\(\S{1,30}\) )?\S+:\d+:\s*")  # of Ray's C++ part


def by_ray(address: str, task: Task, progress: Progress) -> Collected:
    """Ask every node of the cluster at `address`."""
    names: list[str] = []
    done: set[str] = set()

    def take(text: str) -> float | None:
        try:
            told = msgspec.json.decode(text, type=dict[str, Any])
        except (msgspec.DecodeError, RecursionError):
            return None  # Ray's
        if isinstance(told.get("nodes"), list) and not names:
            names.extend(map(str, told["nodes"]))
            return task.timeout + GRACE + END
        if told.get("node") in names:
            done.add(told["node"])
            progress(told["node"], len(done), len(names))
        return None

    with temporary_folder({}) as own:
        if "TMPDIR" not in own:
            return Collected([], "there is no folder for temporary files")
        file = Path(own["TMPDIR"], "nodes.jsonl")
        request = json.dumps([address, task.arguments, task.timeout, str(file)])
        # in /, as Ray gives the folder where its driver runs to every worker, as the place of modules
        argv = [sys.executable, "-c", _BOOT, str(Path(__file__).parents[2]), request]
        ended = run(argv, timeout=CONNECT, cwd="/", on_line=take)
        written = reading.read_whole(str(file), ENOUGH) if file.exists() else b""
    why = f"no answer within {ended.seconds:.0f} s" if ended.timed_out else ""
    why = (
        why or ended.error or why_it_failed(ended.returncode, (_LOG.sub("", one) for one in ended.stderr.splitlines()))
    )
    if not names:
        return Collected([], why)
    whole = written[: written.rfind(b"\n") + 1]  # the last line may be cut off
    found = [msgspec.json.decode(one, type=NodeResult) for one in whole.splitlines()]
    missing = [name for name in names if name not in {one.node for one in found}]
    return Collected(
        [*found, *(node_result(name, [], f"Ray's driver ended before it answered: {why}") for name in missing)]
    )


def ray_child() -> None:
    """Ask every node that is alive; in a process of its own."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    address, arguments, timeout, file = json.loads(sys.argv[1])
    if found := re.fullmatch(r"(?:ray://)?(\[[^\]]+\]|[^:/]+):(\d{1,5})", address):
        # raise OSError where nothing listens there: Ray would try for a minute, and not say why
        socket.create_connection((found[1].strip("[]"), int(found[2])), 10.0).close()
    options: dict[str, Any] = {} if address.startswith("ray://") else {"log_to_driver": False, "logging_level": "ERROR"}
    ray.init(address, **options)  # Ray Client takes no options
    alive: list[dict[str, Any]] = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    names = names_of(alive)
    say(nodes=names)
    ask = ray.remote(num_cpus=0, max_retries=0)(answer)
    pending: dict[Any, str] = {}
    for node, name in zip(alive, names, strict=True):
        there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        pending[ask.options(scheduling_strategy=there).remote(arguments, timeout)] = name
    deadline = time.monotonic() + timeout + GRACE
    while pending:
        ready, _ = ray.wait(list(pending), num_returns=1, timeout=max(deadline - time.monotonic(), 0.0))
        for asked in ready or list(pending):
            output, failure = _answered(ray, asked) if ready else ([], f"did not answer within {timeout:g} s")
            ray.cancel(asked, force=True)  # what has answered has ended
            result = node_result(pending.pop(asked), output, failure)
            writing.append(file, utf8(line(result)), ENOUGH)
            say(node=result.node)
    ray.shutdown()


def _answered(ray: Any, asked: Any) -> tuple[list[bytes], str]:
    try:
        return ray.get(asked)  # type: ignore[no-any-return]
    except ray.exceptions.RayError as error:
        return [], why_ray_failed(error)


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


def answer(arguments: Sequence[str], timeout: float) -> tuple[list[bytes], str]:
    """Run tfgpu on a node, in the Python of Ray's worker; return the lines that it wrote, or why there are none."""
    environ = _environment()
    program = find("timeout", environ) if os.name == "posix" else None
    bounded = [program, "-k", f"{GRACE:.0f}", str(math.ceil(timeout + GRACE))] if program else []
    lines: list[bytes] = []  # run itself keeps the beginning and the end of what is long

    def take(text: str) -> None:
        lines.append(utf8(text))

    argv = [*bounded, sys.executable, "-m", "tfgpu_doctor", *arguments]
    done = run(argv, timeout=timeout, env=environ, on_line=take)
    if done.timed_out or done.error:
        return [], done.error or f"did not answer within {timeout:g} s"
    failure = f"was killed by {done.signal_name}" if done.signal_name else ""
    return lines, failure or why_it_failed(done.returncode, done.stderr.splitlines())


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
