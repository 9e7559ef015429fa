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
from pathlib import Path

from tfgpu_doctor.files import reading
from tfgpu_doctor.fleet.collect.task import GRACE, LARGEST, Collected, Progress, Task, node_result, why_it_failed
from tfgpu_doctor.fleet.records import NodeResult
from tfgpu_doctor.fleet.unwrapping import unfolded
from tfgpu_doctor.probes.process import FATAL, FLOOD, Completed, name_of, run, temporary_folder

QUEUE = 3600.0  # seconds that Slurm has to start it
ENOUGH = 4 << 30  # bytes of results
LATE = 2 * GRACE  # seconds between the starts of the first and the last task, and beyond the time limit of each
NOISE = 4_000_000  # characters that may come before the first task has started
ASK = 20.0  # seconds that scancel has
MARK = "tfgpu-node"
TOO_SLOW = 124  # exit code of timeout; 137 where it had to kill, or where somebody else did
# Each task says where it runs. The time limit is on the node, so that what hangs there ends there.
_WHERE = "$SLURMD_NODENAME $SLURM_STEP_NODELIST"
# srun itself writes the file, and replaces %J by the job and the step before a task runs, which no task can change
# (https://slurm.schedmd.com/srun.html, "filename pattern"; src/srun/libsrun/fname.c of Slurm).
OUTPUT = "%J.txt"
SCRIPT = f'echo "{MARK} {_WHERE}" >&2; exec timeout -k {GRACE:g} "$@"'
_LABEL = re.compile(r" *(\d{1,7}): (.*)")
_ENDED = re.compile(r"srun: error: \S+: tasks? ([\d,-]+): (.*)")
_CODE = re.compile(r"Exited with exit code (\d{1,9})")
_LOST = re.compile(r"srun: error: (?:Node failure on (\S+)|Task launch for .* failed on node (\S+?): (.*))")
_QUEUED = re.compile(r"srun: job ([0-9]{1,12}) queued and waiting for resources")
_WRITTEN = re.compile(r"([0-9]{1,12})\.([0-9]{1,12})\.txt")
_RANGE = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")


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
    queued: str = ""  # the job, "1234", of which srun said that it waits in the queue
    hosts: str = ""  # "gpu-[01-04]"
    errors: dict[int, list[str]] = field(default_factory=dict)  # task → its last lines
    begun: dict[int, float] = field(default_factory=dict)  # task → time on our clock
    ended: dict[int, tuple[str, float]] = field(default_factory=dict)  # task → "Killed", and when
    lost: dict[str, str] = field(default_factory=dict)  # node → why
    last: str = ""  # error of srun
    noise: int = 0  # characters before the first task had begun

    def take(self, text: str) -> int | None:
        """A line; the number of a task that has begun.

        A line with a label is a task's, so that it may say anything: it names its node, and nothing that is run here.
        """
        found = _LABEL.fullmatch(text)
        words = found[2].split() if found else []
        if found and words[:1] == [MARK] and len(words) >= 3 and int(found[1]) not in self.nodes:
            self.hosts = self.hosts or words[-1]
            self.nodes[int(found[1])] = words[1]
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
            self.queued = found[1]
        if not self.nodes:
            self.noise += len(text) + 1
        if text.startswith("srun: error: "):
            self.last = text.removeprefix("srun: error: ")
        return None

    def failure(self, number: int, task: Task, python: str, cut_off: str) -> str:
        """Why a task has no result, as far as that is known; `cut_off` is why srun was ended, if it was."""
        how, when = self.ended.get(number, ("", 0.0))
        code = int(found[1]) if (found := _CODE.match(how)) else None
        late = when - self.begun[number] >= task.timeout
        if code == TOO_SLOW or (code in FATAL and late):
            return task.too_slow
        if cut_off and not how:
            return cut_off
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
            return 0.0 if heard.noise > NOISE else None
        progress(heard.nodes[number], "", len(heard.nodes), nodes)
        first = min(heard.begun.values())
        return min(task.timeout + LATE, first + task.timeout + 2 * LATE - time.monotonic())

    with temporary_folder({}) as own:
        if "TMPDIR" not in own:
            return Collected([], "there is no folder for temporary files")
        folder = own["TMPDIR"]
        # srun itself writes the file, here; through a pipe, a thousand reports could come faster than they are read
        argv = [line[0], f"--output={os.path.join(folder, OUTPUT)}", "--error=all", *line[1:]]
        try:
            ended = run(argv, timeout=QUEUE, on_line=take, merged=True)
        except BaseException:  # Ctrl-C, SIGTERM and SIGHUP
            _cancel(folder, heard.queued)
            raise
        if ended.timed_out:
            _cancel(folder, heard.queued)
        output = _by_task(folder) if heard.nodes else {}
    if not heard.nodes:
        return Collected([], _why_nothing(heard, ended))
    flood = f"the tasks wrote more than {FLOOD / 1e6:.0f} MB to standard error, and were ended"
    cut_off = (flood if ended.flooded else task.too_slow) if ended.timed_out else ""
    found: list[NodeResult] = []
    for number, name in sorted(heard.nodes.items()):
        failure = heard.failure(number, task, python, cut_off)
        found.append(node_result(name, output.get(number, []), failure))
    started = set(heard.nodes.values())
    for name in unfolded(heard.hosts, nodes):
        if name not in started:
            why = heard.lost.get(name, "") or cut_off or f"srun started nothing there: {heard.last}"
            found.append(node_result(name, [], why))
    return Collected(found)


def _why_nothing(heard: _Heard, ended: Completed) -> str:
    if heard.noise > NOISE or ended.flooded:
        return f"srun wrote more than {NOISE / 1e6:.0f} MB before it had started anything"
    if ended.timed_out:
        return f"Slurm has not started it within {QUEUE / 60:.0f} minutes"
    return ended.error or heard.last or "srun ended without a word"


def _by_task(folder: str) -> dict[int, list[bytes]]:
    """The lines of each task, without their labels."""
    output: dict[int, list[bytes]] = {}
    sizes: dict[int, int] = {}
    whole = b"".join(reading.read_whole(str(file), ENOUGH) for file in Path(folder).glob("*.txt"))
    for one in whole.split(b"\n"):
        label, colon, content = one.partition(b": ")
        if colon and label.strip().isdigit() and len(label) < 10:
            number = int(label)
            sizes[number] = sizes.get(number, 0) + len(content)
            if sizes[number] <= LARGEST + 1:
                output.setdefault(number, []).append(content)
    return output


def _cancel(folder: str, queued: str, environ: Mapping[str, str] = os.environ) -> None:
    """End what still runs, or waits: of a killed srun, Slurm keeps the job until its time is over.

    The job is the one that srun named, by the file that it writes or while it waited for it; a task cannot choose it.
    """
    named = next(filter(None, map(_WRITTEN.fullmatch, os.listdir(folder))), None)
    if own := environ.get("SLURM_JOB_ID"):  # an allocation of the user, which stays
        job = f"{named[1]}.{named[2]}" if named and named[1] == own else ""
    else:
        job = named[1] if named else queued
    if job:
        run(["scancel", job], timeout=ASK)
