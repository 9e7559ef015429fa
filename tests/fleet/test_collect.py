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
from tfgpu_doctor.fleet.collect import (
    LARGEST,
    CollectError,
    Task,
    answer,
    line,
    names_of,
    node_result,
    srun_line,
    why_ray_failed,
)
from tfgpu_doctor.fleet.records import NodeResult
from tfgpu_doctor.plan.diagnosis import make_report

HOST = "gpu-1.internal"
REPORT = make_report(spoil(healthy(), {"host.name": known(HOST)}), MATRIX, source="live", timings={}).to_json()
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
        (REPORT, None),
        (b"module loaded\n" + REPORT + b"\nbye", None),
        (b"", none),
        (REPORT[:-2], broken),
        (b'{"schema": "other/1"}', none),
        (b'{"schema": "tfgpu.x/1", ' + b"[" * 100_000 + b"}", broken),
        (b'{"schema": "tfgpu.\xff"}', broken),
        (b'{"schema": "tfgpu.x/1"' + b" " * LARGEST + b"}", "its output is larger than 16 MiB"),
    ):
        found = node_result("gpu-1", output)
        assert found.failure == failure, output[:30]
        (text, empty) = line(found).split("\n")
        assert not empty and msgspec.json.decode(text, type=NodeResult).node == "gpu-1"
    # a reason is short and harmless
    found = node_result("gpu\x1b[31m\n1", b"", "a\x1b]0;b\x07\n" + "c" * 10_000)
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
    for does, output, failure in (
        ("head -c 3000000 /dev/zero | tr '\\0' x", b"x" * 3_000_000, "ended with exit code 0"),
        ("kill -9 $$", b"", "was killed by SIGKILL"),
        ("exec sleep 30", b"", "did not answer within 0.5 s"),
        ("echo No module named tfgpu_doctor >&2; exit 1", b"", "tfgpu is not installed there."),
    ):
        monkeypatch.setattr(sys, "executable", str(program(tmp_path / "bin/python", f"#!/bin/sh\n{does}\n")))
        found, why = answer(Task(("doctor",), 0.5 if "sleep" in does else 20))
        assert found == output and why.startswith(failure), does


@pytest.mark.full
def test_a_cluster_that_is_not_there() -> None:
    pytest.importorskip("ray")
    done = collect("--ray", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("tfgpu: no node could be asked: ") and "Connection refused" in done.stderr


# ------------------------------------------------------------------------------------------------------- Slurm

# What srun does, as Slurm 22.05 was seen to do it: files with labels, pieces of 1024 bytes, messages. {tasks} says what
# becomes of a task.
SRUN = r"""#!{python}
import os, subprocess, sys
words = sys.argv[1:]
options = dict(word[2:].partition("=")[::2] for word in words[: words.index("sh")] if word.startswith("--"))
files = [open(options[name].replace("%J", "7.0"), "wb") for name in ("output", "error")]
tasks = {tasks!r}
for number, fate in enumerate(tasks):
    if fate == "never":
        print("srun: error: Task launch for StepId=7.0 failed on node n%d: Communication connection failure" % number)
        continue
    environ = {{**os.environ, "SLURMD_NODENAME": "n%d" % number, "FATE": fate}}
    done = subprocess.run(words[words.index("sh"):], env=environ, capture_output=True)
    if fate == "lost":
        done.stdout = done.stdout.partition(b"tfgpu-exit")[0]
        print("srun: error: Node failure on n%d" % number)
    for file, data in zip(files, (done.stdout, done.stderr)):
        for line in data.splitlines():
            for at in range(0, max(len(line), 1), 1024):
                file.write(b"%d: " % number + line[at : at + 1024] + b"\n")
"""
# the interpreter on the nodes: prints a report, fails, is killed, or hangs
PYTHON = r"""#!/bin/sh
case $FATE in
    good|lost) [ $FATE = lost ] || cat {report}; exit 1 ;;
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
    done = cluster("good", "long", "bare", "usage", "killed", "slow", "never", "lost", timeout="1")
    missing = 'tfgpu is not installed there. To install it: python -m pip install "git+$TFGPU_SOURCE"'
    assert rows(done) == {
        "n0": "ok",
        "n1": "ok",
        "n2": missing,
        "n3": "ended with exit code 2: Error: No such option",
        "n4": "was killed by SIGKILL, or did not answer within 1 s",
        "n5": "did not answer within 1 s",
        "n6": "Communication connection failure",
        "n7": "Slurm says that the node failed",
    }
    assert done.returncode == 1
    assert done.stderr.endswith("tfgpu: 2 of 8 nodes answered\n")


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


# An srun that does not end. {job} is the job that it names by its file; {lines} is what it writes itself.
HOSTILE = r"""#!{python}
import sys, time
options = dict(word[2:].partition("=")[::2] for word in sys.argv[1:] if word.startswith("--"))
if {job!r}:
    with open(options["output"].replace("%J", {job!r}), "wb") as file:
        file.write(b"".join(b"%d: %s\n" % (n, line) for n, line in enumerate({tasks!r})))
for line in {lines!r}:
    print(line, file=sys.stderr, flush=True)
time.sleep(300)
"""
# what srun writes, the job that it names by its file, the allocation within which it runs → what is cancelled
QUEUED = "srun: job 42 queued and waiting for resources"
MARKS: tuple[tuple[list[str], str, str, str], ...] = (
    ([], "42.3", "", "42"),
    ([], "7.3", "7", "7.3"),
    ([], "42.3", "7", ""),
    ([], "", "", ""),
    ([QUEUED], "", "", "42"),
    (["0: " + QUEUED, QUEUED.replace("42", "--me"), QUEUED.replace("42", "٣")], "", "", ""),
)
TOLD = [b"tfgpu-node --me", b"tfgpu-node 4243", b"tfgpu-node n2", b"srun: job 4242 queued and waiting for resources"]


def hostile(folder: Path, lines: list[str], job: str) -> str:
    """PATH with that srun, and a scancel that writes down how it is called."""
    program(folder / "bin/srun", HOSTILE.format(python=sys.executable, lines=lines, job=job, tasks=TOLD))
    program(folder / "bin/scancel", f'#!/bin/sh\necho scancel "$@" >> {folder}/calls\n')
    return f"{folder / 'bin'}:{os.environ['PATH']}"


def calls(folder: Path) -> list[str]:
    return (folder / "calls").read_text().splitlines() if (folder / "calls").exists() else []


def test_what_is_cancelled_is_what_srun_names(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = Task(("doctor", "--format", "json"), 0.2)
    monkeypatch.setattr(collecting, "QUEUE", 0.5)
    for lines, job, within, expected in MARKS:
        folder = tmp_path_factory.mktemp("row")
        monkeypatch.setenv("PATH", hostile(folder, lines, job))
        monkeypatch.setenv("SLURM_JOB_ID", within)
        with guarded(60, waiting=True):
            if job:
                nodes = [one.node for one in collecting.by_slurm(task, 2, "python3", [])]
                assert nodes == ["--me", "4243"]  # of two tasks
            else:
                with pytest.raises(CollectError, match="srun: did not end in time"):
                    collecting.by_slurm(task, 2, "python3", [])
        assert calls(folder) == ([f"scancel {expected}"] if expected else []), (lines[:2], within)


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
        while not list(tmp_path.glob("tfgpu-*/42.3.out")):
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(number)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 128 + number, errors
    assert calls(tmp_path) == ["scancel 42"]
    assert not list(tmp_path.glob("tfgpu-*"))


def test_the_line_for_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    task = Task(("smoke", "--budget", "90", "--format", "json"), 180)
    words = srun_line(task, 2, "/x/py", ["--partition", "gpu a"], "/tmp/x")
    expected = {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=210", "--time=5"}
    assert {*expected, "--label", "--output=/tmp/x/%J.out", "--error=/tmp/x/%J.err", "--overlap"} <= {*words}
    assert words[words.index("--partition") :][:3] == ["--partition", "gpu a", "sh"]
    assert words[-9:] == ["180", "/x/py", "-m", "tfgpu_doctor", *task.arguments]


def test_what_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    two = ("--slurm", "--nodes", "2")
    for arguments, message, code in (
        ((), "give either --ray ADDRESS or --slurm", 2),
        (("--ray", "auto", "--slurm"), "give either --ray ADDRESS or --slurm", 2),
        ((*two, "explain"), "'explain' is not one of 'doctor', 'smoke', 'bench'", 2),
        ((*two, "--srun", "'"), "No closing quotation", 2),
        ((*two, "--output", "/nowhere/x"), "the folder /nowhere does not exist", 2),
        (("--slurm",), "--slurm needs --nodes N outside of an allocation", 2),
        (two, "no node could be asked: srun: No such file or directory", 3),
    ):
        with pytest.raises(SystemExit) as left:
            command(arguments, prog_name="collect")
        assert message in " ".join(capsys.readouterr().err.split()), arguments
        assert left.value.code == code
