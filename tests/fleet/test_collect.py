"""`tfgpu fleet collect`: its lines, its refusals, and Slurm by a stand-in for srun that speaks as Slurm 22.05."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.guard import guarded
from tests.healthy import MATRIX, healthy, known, spoil
from tfgpu_doctor.cli.fleet import collect as command
from tfgpu_doctor.fleet import collect as collecting
from tfgpu_doctor.fleet.collect import LARGEST, Task, answer, line, names_of, node_result, srun_line, why_ray_failed
from tfgpu_doctor.fleet.records import NodeResult
from tfgpu_doctor.plan.diagnosis import make_report

HOST = "gpu-1.internal"
REPORT = make_report(spoil(healthy(), {"host.name": known(HOST)}), MATRIX, source="live", timings={}).to_json()
LINES = REPORT.splitlines()
Done = subprocess.CompletedProcess[str]


def collect(*arguments: str, timeout: float = 60, **environ: str) -> Done:
    """The command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "tfgpu_doctor", "fleet", "collect", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), **environ},
    )


def rows(done: Done) -> dict[str, Any]:
    """node → "ok", or why there is no result."""
    every = [json.loads(one) for one in done.stdout.splitlines()]
    assert all(one["schema"] == "tfgpu.node/1" and (one["result"] is None) == bool(one["failure"]) for one in every)
    return {one["node"]: one["failure"] or "ok" for one in every}


def test_a_line_of_a_node() -> None:
    none, broken = "its output has no result of tfgpu", "its output is cut off, or no JSON"
    for output, failure in (
        (LINES, None),
        ([b"module loaded", *LINES, b"bye"], None),
        ([], none),
        (LINES[:-1], broken),
        ([b"{", b'"schema": "other/1"', b"}"], none),
        ([b'{"schema": "tfgpu.x/1", ' + b"[" * 100_000 + b"}"], broken),
        ([b"{", b'"schema": "tfgpu.\xff"', b"}"], broken),
        ([b"}", b"{"], none),
        ([b'{"schema": "tfgpu.x/1"' + b" " * LARGEST + b"}"], "its output is larger than 16 MiB"),
    ):
        found = node_result("gpu-1", output)
        assert found.failure == failure, output[:3]
        (text, empty) = line(found).split("\n")
        assert not empty and msgspec.json.decode(text, type=NodeResult).node == "gpu-1"
    # a reason is short and harmless
    found = node_result("gpu\x1b[31m\n1", [], "a\x1b]0;b\x07\n" + "c" * 10_000)
    assert line(found)[:-1].isprintable() and len(found.failure or "") <= 300


# --------------------------------------------------------------------------------------------------------- Ray


def test_names_and_failures_of_ray() -> None:
    base = {"NodeManagerHostname": "gpu-1", "NodeManagerAddress": "10.0.0.1", "NodeName": "10.0.0.1"}
    one, other = {"NodeID": "a" * 20, **base}, {"NodeID": "b", **base}
    assert names_of([one, {**other, "NodeName": "head"}]) == ["gpu-1", "head"]
    assert names_of([one, other]) == [f"gpu-1 ({'a' * 12})", "gpu-1 (b)"]
    assert names_of([{**one, "NodeManagerHostname": ""}]) == ["10.0.0.1"]
    died = type("NodeDiedError", (Exception,), {})("Task failed\nadvice")
    for error, expected in (
        (died, "the node, or Ray's worker on it, died (NodeDiedError)"),
        (ValueError("ray::answer()\nNo module named 'tfgpu_doctor.fleet'"), "tfgpu is not installed there. To install"),
        (ValueError("ray::answer() (pid=1)\nOSError: no space\n\n"), "ended without a result: OSError: no space"),
        (ValueError(""), "ValueError: no message"),
    ):
        assert why_ray_failed(error).startswith(expected)


def test_what_ray_runs_on_a_node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for does, lines, failure in (
        ("head -c 3000000 /dev/zero | tr '\\0' x", [b"x" * 3_000_000], "ended with exit code 0"),
        ("kill -9 $$", [], "was killed by SIGKILL"),
        ("exec sleep 30", [], "did not answer within 0.5 s"),
        ("echo No module named tfgpu_doctor >&2; exit 1", [], "tfgpu is not installed there."),
    ):
        monkeypatch.setattr(sys, "executable", str(program(tmp_path / "bin/python", f"#!/bin/sh\n{does}\n")))
        found, why = answer(["doctor"], 0.5 if "sleep" in does else 20)
        assert found == lines and why.startswith(failure), does


def test_a_cluster_that_is_not_there() -> None:
    pytest.importorskip("ray")
    done = collect("--ray", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("tfgpu: no node could be asked: ") and "Connection refused" in done.stderr


# ------------------------------------------------------------------------------------------------------- Slurm

# What srun does for three nodes, as Slurm 22.05 was seen to do it: labels, pieces of 1024 bytes, messages. {tasks} says
# what becomes of a task.
SRUN = r"""#!{python}
import os, subprocess, sys
words = sys.argv[1:]
options = dict(word[2:].partition("=")[::2] for word in words[: words.index("sh")] if word.startswith("--"))
out = open(options["output"].replace("%J", "7.0"), "wb")
tasks = {tasks!r}
for number, fate in enumerate(tasks):
    if fate == "never":
        continue
    names = {{"SLURMD_NODENAME": "n%d" % number}}
    names["SLURM_STEP_NODELIST"] = "n[0-%d]" % (len(tasks) - 1)
    done = subprocess.run(words[words.index("sh"):], env={{**os.environ, **names, "FATE": fate}}, capture_output=True)
    for stream, data in ((out, done.stdout), (sys.stdout.buffer, done.stderr)):
        for line in data.splitlines():
            for at in range(0, max(len(line), 1), 1024):
                stream.write(b"%d: " % number + line[at : at + 1024] + b"\n")
    if done.returncode < 0:
        print("srun: error: n%d: task %d: Killed" % (number, number), flush=True)
    elif done.returncode:
        print("srun: error: n%d: task %d: Exited with exit code %d" % (number, number, done.returncode), flush=True)
    sys.stdout.flush()
for number, fate in enumerate(tasks):
    if fate == "never":
        print("srun: error: Task launch for StepId=7.0 failed on node n%d: Communication connection failure" % number)
"""
# the interpreter on the nodes: prints a report, fails, is killed, or hangs
PYTHON = r"""#!/bin/sh
case $FATE in
    good) cat {report}; exit 1 ;;
    long) printf '{{\n"schema": "tfgpu.report/1", "a": "'; head -c 5000 /dev/zero | tr '\0' 'x'; printf '"\n}}\n' ;;
    bare) echo "$0: No module named tfgpu_doctor" >&2; exit 1 ;;
    usage) echo "Error: No such option" >&2; exit 2 ;;
    killed) kill -9 $$ ;;
    slow) exec sleep 30 ;;
esac
"""


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


@pytest.fixture
def cluster(tmp_path: Path) -> Any:
    """Slurm with nodes whose tasks have these fates."""

    def one(*fates: str, **options: str) -> Done:
        (tmp_path / "report.json").write_bytes(REPORT)
        python = program(tmp_path / "bin/there", PYTHON.format(report=tmp_path / "report.json"))
        program(tmp_path / "bin/srun", SRUN.format(python=sys.executable, tasks=fates))
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        arguments = [f"--{name}={value}" for name, value in options.items()]
        return collect("--slurm", "--python", str(python), *arguments, PATH=path, SLURM_JOB_NUM_NODES=str(len(fates)))

    return one


def test_slurm(cluster: Any) -> None:
    done = cluster("good", "long", "bare", "usage", "killed", "slow", "never", timeout="1")
    missing = 'tfgpu is not installed there. To install it: python -m pip install "git+$TFGPU_SOURCE"'
    assert rows(done) == {
        "n0": "ok",
        "n1": "ok",
        "n2": missing,
        "n3": "ended with exit code 2: Error: No such option",
        "n4": "srun: Killed",
        "n5": "did not answer within 1 s",
        "n6": "Communication connection failure",
    }
    assert done.returncode == 1
    assert done.stderr.endswith("tfgpu: 2 of 7 nodes answered\n")


def test_a_good_cluster_and_one_that_starts_nothing(cluster: Any, tmp_path: Path) -> None:
    done = cluster("good", "good", output=str(tmp_path / "nodes.jsonl"))
    assert (done.returncode, done.stdout) == (0, "")
    lines = (tmp_path / "nodes.jsonl").read_text().splitlines()
    assert [json.loads(one)["result"] for one in lines] == [json.loads(REPORT)] * 2
    error = "Unable to allocate resources: Invalid partition"
    program(tmp_path / "bin/srun", f"#!/bin/sh\necho 'srun: error: {error}' >&2; exit 1\n")
    done = collect("--slurm", "--nodes=2", PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == f"tfgpu: no node could be asked: {error}\n"


# An srun whose tasks write what they like to standard error, and do not end. {job} is the job that srun itself names.
HOSTILE = r"""#!{python}
import os, sys, time
options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
if {job!r}:
    open(options["output"].replace("%J.txt", {job!r} + ".txt"), "wb").close()
while True:
    for line in {lines!r}:
        print(line, file=sys.stderr, flush=True)
    if not {repeats!r}:
        time.sleep(300)
    time.sleep({repeats!r})
"""
# what tasks write, the seconds until they write it again, the job that srun names by its file, the allocation
# within which it runs → what is cancelled
BEGUN, MANY = "0: tfgpu-node n1", [f"{number}: tfgpu-node n{number}" for number in range(1000)]
MARKS: tuple[tuple[list[str], float, str, str, str], ...] = (
    ([BEGUN], 0, "42.3", "", "42"),
    (["0: tfgpu-node --me"], 0, "42.3", "", "42"),
    ([BEGUN, "0: tfgpu-node 4243"], 0, "7.3", "7", "7.3"),
    ([BEGUN], 0, "", "", ""),
    (["0: srun: job 4242 queued and waiting for resources", "0: x"], 0, "", "", ""),
    (["srun: job 42 queued and waiting for resources"], 0, "", "", "42"),
    (["srun: job --me queued and waiting for resources", "srun: job ٣ queued and waiting"], 0, "", "", ""),
    ([BEGUN], 0.01, "42.0", "", "42"),  # the same task begins again and again
    (MANY, 0.3, "42.0", "", "42"),  # and other ones
    ([BEGUN, *["0: y"] * 10_000], 1e-9, "42.0", "", "42"),
    (["0: " + "x" * 1000] * 1000, 1e-9, "42.0", "", "42"),  # before any has begun
)


def hostile(folder: Path, lines: list[str], job: str, repeats: float = 0) -> str:
    """PATH with that srun, and programs of Slurm that write down how they are called."""
    program(
        folder / "bin/srun",
        HOSTILE.format(python=sys.executable, lines=lines, job=job, repeats=repeats),
    )
    for name in ("scancel", "scontrol", "squeue"):
        program(folder / "bin" / name, f'#!/bin/sh\necho {name} "$@" >> {folder}/calls\n')
    return f"{folder / 'bin'}:{os.environ['PATH']}"


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []


def test_what_tasks_write_is_no_argument_and_puts_nothing_off(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(("doctor", "--format", "json"), 0.2)
    for lines, repeats, job, within, expected in MARKS:
        monkeypatch.setattr(collecting, "LATE", 0.2)
        monkeypatch.setattr(collecting, "QUEUE", 3.0 if repeats else 0.4)
        folder = tmp_path_factory.mktemp("row")
        monkeypatch.setenv("PATH", hostile(folder, lines, job, repeats))
        monkeypatch.setenv("SLURM_JOB_ID", within)
        with guarded(60, waiting=True):
            found = collecting.by_slurm(["srun", "sh", "-c", "x"], task, 2, lambda *_: None)
        assert calls(folder) == ([f"scancel {expected}"] if expected else []), (lines[:2], within)
        late, flood = "did not answer within 0.2 s", "srun wrote more than 256 MB, and was ended"
        assert {one.failure for one in found.nodes} <= {late, flood}
        assert len(found.nodes) == (2 if any("tfgpu-node" in line for line in lines) else 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_signal_cancels_the_job(number: signal.Signals, tmp_path: Path) -> None:
    path = hostile(tmp_path, [], "42.3")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")}
    environ["TMPDIR"] = str(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-m", "tfgpu_doctor", "fleet", "collect", "--slurm", "--nodes=1"],
        env={**environ, "PATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as running:
        while not list(tmp_path.glob("tfgpu-*/42.3.txt")):
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(number)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 128 + number, errors
    assert calls(tmp_path) == ["scancel 42"]
    assert not list(tmp_path.glob("tfgpu-*"))


def test_the_line_for_slurm() -> None:
    task = Task(("smoke", "--budget", "90", "--format", "json"), 180)
    words = srun_line(task, 2, "/x/py", ["--partition", "gpu a"], {"SLURM_JOB_ID": "7"})
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0", "--time=5"} <= {
        *words
    }
    assert "--overlap" in words and words[words.index("--partition") :][:3] == ["--partition", "gpu a", "sh"]
    assert words[-9:] == ["180", "/x/py", "-m", "tfgpu_doctor", *task.arguments]


def test_what_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    two = ("--slurm", "--nodes", "2")
    for arguments, message in (
        ((), "give either --ray ADDRESS or --slurm"),
        (("--ray", "auto", "--slurm"), "give either --ray ADDRESS or --slurm"),
        (("--ray", "auto", "--nodes", "2"), "--nodes, --srun and --python are for --slurm"),
        ((*two, "doktor"), "No command 'doktor' to run on nodes. Did you mean doctor?"),
        ((*two, "explain"), "No command 'explain' to run on nodes."),
        ((*two, "doctor", "--format=text"), "--format=text cannot be given to doctor"),
        ((*two, "bench"), "bench needs a workload"),
        ((*two, "--srun", "'"), "No closing quotation"),
        ((*two, "--output", "/nowhere/x"), "the folder /nowhere does not exist"),
        (("--slurm",), "--slurm needs --nodes N outside of an allocation"),
        (two, "srun is not on PATH"),
        (("--ray", "auto"), f"To install it: {sys.executable} -m pip install ray==VERSION"),
    ):
        with pytest.raises(SystemExit) as left:
            command(arguments, prog_name="collect")
        assert left.value.code == 2
        assert message in " ".join(capsys.readouterr().err.split()), arguments
