"""tfgpu on each node of a Slurm allocation, by srun.

Checked with Slurm 22.05; the options are those of https://slurm.schedmd.com/srun.html.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.files import reading
from tfgpu_doctor.fleet.collect.task import GRACE, LARGEST, Collected, Progress, Task, node_result, why_it_failed
from tfgpu_doctor.fleet.records import NodeResult
from tfgpu_doctor.probes.exit_codes import FATAL, name_of
from tfgpu_doctor.probes.process import run
from tfgpu_doctor.probes.temporary import temporary_folder

QUEUE = 3600.0  # seconds that Slurm has to start it
ENOUGH = 4 << 30  # bytes of results
ASK = 20.0  # seconds that scontrol and scancel have
MARK = "tfgpu-node"
TOO_SLOW = 124  # exit code of timeout; 137 where it had to kill, or where somebody else did
# Each task says where it runs. The time limit is on the node, so that what hangs there ends there.
_WHERE = "$SLURMD_NODENAME $SLURM_JOB_ID $SLURM_STEP_ID $SLURM_STEP_NODELIST"
SCRIPT = f'echo "{MARK} {_WHERE}" >&2; exec timeout -k {GRACE:g} "$@"'
_LABEL = re.compile(r" *(\d{1,7}): (.*)")
_ENDED = re.compile(r"srun: error: \S+: tasks? ([\d,-]+): (.*)")
_CODE = re.compile(r"Exited with exit code (\d+)")
_LOST = re.compile(r"srun: error: (?:Node failure on (\S+)|Task launch for .* failed on node (\S+?): (.*))")
_QUEUED = re.compile(r"srun: job (\d+) queued and waiting for resources")
_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")


def allocated(environ: Mapping[str, str]) -> int | None:
    """The number of nodes of the allocation that this process runs in; None outside of one."""
    found = environ.get("SLURM_JOB_NUM_NODES") or environ.get("SLURM_NNODES") or ""
    return int(found) if re.fullmatch(r"[1-9]\d{0,5}", found) else None


def srun_line(task: Task, nodes: int, python: str, options: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The command that runs the task once on each of so many nodes."""
    minutes = math.ceil((task.timeout + GRACE) / 60) + 1
    return [
        "srun",
        f"--nodes={nodes}",
        f"--ntasks={nodes}",  # within an allocation, the number of its tasks would count
        "--ntasks-per-node=1",
        "--label",  # the lines of all nodes come mixed
        "--kill-on-bad-exit=0",  # an exit code of 1 is a diagnosis; not KillOnBadExit of slurm.conf
        "--wait=0",  # the slow ones are waited for; not WaitTime of slurm.conf
        "--no-kill",  # a node that fails ends itself only
        f"--time={minutes}",
        "--input=none",
        "--job-name=tfgpu",
        *(["--overlap"] if environ.get("SLURM_JOB_ID") else []),  # also while other steps of the job run
        *options,
        *("sh", "-c", SCRIPT, "tfgpu", f"{task.timeout:g}"),
        *(python, "-m", "tfgpu_doctor", *task.arguments),
    ]


@dataclass
class _Heard:
    """What srun and the tasks wrote to standard error."""

    nodes: dict[int, str] = field(default_factory=dict)  # task → node
    job: str = ""  # "1234"; known while it waits in the queue, too
    step: str = ""  # "0"
    hosts: str = ""  # "gpu-[01-04]"
    errors: dict[int, list[str]] = field(default_factory=dict)  # task → its last lines
    begun: dict[int, float] = field(default_factory=dict)  # task → time on our clock
    ended: dict[int, tuple[str, float]] = field(default_factory=dict)  # task → "Killed", and when
    lost: dict[str, str] = field(default_factory=dict)  # node → why
    last: str = ""  # error of srun

    def take(self, text: str) -> int | None:
        """A line; the number of a task that has begun."""
        if (found := _LABEL.fullmatch(text)) and (words := found[2].split())[:1] == [MARK] and len(words) == 5:
            _, node, self.job, self.step, self.hosts = words
            self.nodes[int(found[1])] = node
            self.begun[int(found[1])] = time.monotonic()
            return int(found[1])
        if found:
            self.errors.setdefault(int(found[1]), []).append(found[2])
            del self.errors[int(found[1])][:-50]
        elif found := _ENDED.match(text):
            self.ended.update(dict.fromkeys(_numbers(found[1]), (found[2], time.monotonic())))
        elif found := _LOST.match(text):
            self.lost[found[1] or found[2]] = found[3] or "Slurm says that the node failed"
        elif found := _QUEUED.match(text):
            self.job = found[1]
        if text.startswith("srun: error: "):
            self.last = text.removeprefix("srun: error: ")
        return None

    def failure(self, number: int, task: Task, python: str, timed_out: bool) -> str:
        """Why a task has no result, as far as that is known."""
        how, when = self.ended.get(number, ("", 0.0))
        code = int(found[1]) if (found := _CODE.match(how)) else None
        late = when - self.begun[number] >= task.timeout
        if code == TOO_SLOW or (code in FATAL and late) or (timed_out and not how):
            return task.too_slow
        if code in FATAL:
            return f"was killed by {name_of(FATAL[code])}"
        if how and code is None:
            return f"srun: {how}"
        lost = "" if how else self.lost.get(self.nodes[number], "")
        return lost or why_it_failed(code, "\n".join(self.errors.get(number, ())), python)


def _numbers(text: str) -> Iterator[int]:
    """ "0,3-5" → 0, 3, 4, 5."""
    for found in _RANGE.finditer(text):
        first, last = int(found[1]), int(found[2] or found[1])
        yield from range(first, min(last, first + 100_000) + 1)


def collect(line: Sequence[str], task: Task, nodes: int, python: str, progress: Progress) -> Collected:
    """Run the line, and return what each node answered."""
    heard = _Heard()

    def take(text: str) -> float | None:
        if (number := heard.take(text)) is None:
            return None
        progress(heard.nodes[number], "", len(heard.nodes), nodes)
        return task.timeout + 2 * GRACE

    with temporary_folder({}) as own:
        if "TMPDIR" not in own:
            return Collected([], "there is no folder for temporary files")
        file = os.path.join(own["TMPDIR"], "output.txt")
        # srun itself writes the file, here; through a pipe, a thousand reports could come faster than they are read
        argv = [line[0], f"--output={file}", "--error=all", *line[1:]]
        try:
            ended = run(argv, timeout=QUEUE, on_line=take, merged=True)
        except KeyboardInterrupt:
            _cancel(heard)
            raise
        if ended.timed_out:
            _cancel(heard)
        output = _by_task(file) if heard.nodes else {}
    if not heard.nodes:
        slow = f"Slurm has not started it within {QUEUE / 60:.0f} minutes" if ended.timed_out else ""
        return Collected([], slow or ended.error or heard.last or "srun ended without a word")
    found: list[NodeResult] = []
    for number, name in sorted(heard.nodes.items()):
        failure = heard.failure(number, task, python, ended.timed_out)
        found.append(node_result(name, output.get(number, []), failure))
    for name in _hosts(heard.hosts):
        if name not in heard.nodes.values():
            why = task.too_slow if ended.timed_out else f"srun started nothing there: {heard.last}"
            found.append(node_result(name, [], heard.lost.get(name, "") or why))
    return Collected(found)


def _by_task(file: str) -> dict[int, list[bytes]]:
    """The lines of each task, without their labels."""
    output: dict[int, list[bytes]] = {}
    sizes: dict[int, int] = {}
    try:
        whole = reading.read_whole(file, ENOUGH)
    except FileNotFoundError:
        return {}
    for one in whole.split(b"\n"):
        label, colon, content = one.partition(b": ")
        if colon and label.strip().isdigit() and len(label) < 10:
            number = int(label)
            sizes[number] = sizes.get(number, 0) + len(content)
            if sizes[number] <= LARGEST + 1:
                output.setdefault(number, []).append(content)
    return output


def _hosts(listed: str) -> list[str]:
    """ "gpu-[01-02]" → gpu-01, gpu-02, as scontrol says it."""
    done = run(["scontrol", "show", "hostnames", listed], timeout=ASK)
    return done.stdout.split() if done.returncode == 0 else []


def _cancel(heard: _Heard, environ: Mapping[str, str] = os.environ) -> None:
    """End what still runs, or waits: of a killed srun, Slurm keeps the job until its time is over."""
    within = bool(environ.get("SLURM_JOB_ID"))  # an allocation of the user, which stays
    if heard.job and (heard.step or not within):
        run(["scancel", f"{heard.job}.{heard.step}" if within else heard.job], timeout=ASK)
