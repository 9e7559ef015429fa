"""`tfgpu fleet collect`: its lines, its refusals, and Slurm by a stand-in for srun that speaks as Slurm 22.05."""

from __future__ import annotations

import json
import os
import shlex
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
from tfgpu_doctor.cli.fleet.collect import command
from tfgpu_doctor.findings.engine import make_report
from tfgpu_doctor.fleet.collect import slurm
from tfgpu_doctor.fleet.collect.node import _bounded, answer
from tfgpu_doctor.fleet.collect.ray_child import _counts, _explained, _names
from tfgpu_doctor.fleet.collect.ray_cluster import _LOG, _read
from tfgpu_doctor.fleet.collect.task import LARGEST, last_error, line, node_result, task, why_it_failed
from tfgpu_doctor.fleet.reading import Gathering
from tfgpu_doctor.fleet.records import NodeResult

HOST = "gpu-1.internal"
REPORT = make_report(spoil(healthy(), {"host.name": known(HOST)}), MATRIX, source="live", timings={}).to_json()
LINES = REPORT.splitlines()
Done = subprocess.CompletedProcess[str]


def collect(*arguments: str, timeout: float = 60, **environ: str) -> Done:
    """The command in a process of its own."""
    code = "import sys; from tfgpu_doctor.__main__ import main; from tfgpu_doctor.cli.fleet.collect import command; "
    return subprocess.run(
        [sys.executable, "-c", code + "command(prog_name='collect')", *arguments],
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


# ------------------------------------------------------------------------------------------------------- lines


def test_a_line_of_a_node(subtests: pytest.Subtests) -> None:
    for output, failure in [
        (LINES, None),
        ([b"module loaded", *LINES, b"bye"], None),
        ([b"{", b'"schema": "tfgpu.re', b'port/1", "a": "b', b"c", b'"', b"}"], None),  # as srun breaks a long line
        ([], "its output has no result"),
        (LINES[:-1], "its output has no result"),
        ([*LINES[:5], b"}"], "its output is cut off, or no JSON"),
        ([b"{", b'"schema": "other/1"', b"}"], "its output is no result of tfgpu"),
        ([b"{", b'"schema": ["tfgpu."]', b"}"], "its output is no result of tfgpu"),
        ([b"{", b"[" * 100_000, b"}"], "its output is cut off, or no JSON"),
        ([b"{", b'"\xff"', b"}"], "its output is cut off, or no JSON"),
        ([b"}", b"{"], "its output has no result"),
        ([b"{", b" " * LARGEST, b"}"], "its output is larger than 16 MiB"),
    ]:
        with subtests.test(output=output):
            found = node_result("gpu-1", output)
            assert found.failure == failure
            (text, empty) = line(found).split("\n")
            assert not empty and msgspec.json.decode(text, type=NodeResult).node == "gpu-1"


def test_a_reason_is_short_and_harmless() -> None:
    found = node_result("gpu\x1b[31m\n1", [], "a\x1b]0;b\x07\n" + "c" * 10_000)
    text = line(found)
    assert text.isprintable() or text[:-1].isprintable()
    assert len(found.failure or "") <= 300


def test_the_fleet_reads_the_lines() -> None:
    gathering = Gathering()
    whole = line(node_result("gpu-1", LINES)) + line(node_result("gpu-2", [], "did not answer within 120 s"))
    gathering.take_file(whole.encode(), "nodes.jsonl")
    found = gathering.gathered()
    assert [(one.node, one.failure) for one in found.results] == [
        ("gpu-1", ""),
        ("gpu-2", "did not answer within 120 s"),
    ]
    assert not found.unreadable


def test_the_name_in_the_line_counts_over_that_in_front(subtests: pytest.Subtests) -> None:
    for name, label, expected in [
        ("there", "", "there"),
        ("there", "gpu-1: ", "there"),
        (HOST, "gpu-1: ", HOST),
    ]:
        with subtests.test(name=name):
            gathering = Gathering()
            gathering.take_file((label + line(node_result(name, LINES))).encode(), "nodes.jsonl")
            assert [one.node for one in gathering.gathered().results] == [expected]


def test_why_a_command_failed() -> None:
    missing = "/x/python: No module named tfgpu_doctor"
    assert why_it_failed(1, missing, "/x/python").startswith(
        "tfgpu is not installed there. To install it: /x/python -m"
    )
    assert (
        why_it_failed(2, "Usage: tfgpu\nError: No such option\n", "p")
        == "ended with exit code 2: Error: No such option"
    )
    assert why_it_failed(None, "", "p") == "ended without a result"
    assert (
        last_error(["Traceback", "ray.exceptions.RaySystemError: no", " @ 0x7f main"])
        == "ray.exceptions.RaySystemError: no"
    )


# --------------------------------------------------------------------------------------------------------- Ray


def node(key: str, **changes: Any) -> dict[str, Any]:
    """A row of ray.nodes()."""
    base = {"NodeID": key, "Alive": True, "NodeManagerHostname": "gpu-1", "NodeManagerAddress": "10.0.0.1"}
    return {**base, "NodeName": changes.get("NodeManagerAddress", "10.0.0.1"), **changes}


def test_nodes_of_ray_have_unique_names() -> None:
    assert _names([node("a" * 20), node("b", NodeName="head")]) == {"a" * 20: "gpu-1", "b": "head"}
    assert _names([node("a" * 20), node("b")]) == {"a" * 20: f"gpu-1 ({'a' * 12})", "b": "gpu-1 (b)"}
    assert _names([node("a", NodeManagerHostname="")]) == {"a": "10.0.0.1"}


def test_dead_nodes_count_where_nobody_sent_them_away() -> None:
    alive, dead = node("a"), node("b", Alive=False, NodeManagerHostname="gpu-2")
    assert _counts(alive, [alive, dead]) and _counts(dead, [alive, dead])
    assert not _counts({**dead, "DeathReason": 1}, [alive, dead])
    assert not _counts({**alive, "NodeID": "c", "Alive": False}, [alive, dead])  # an earlier life of it


def test_what_ray_says_in_many_lines(subtests: pytest.Subtests) -> None:
    for error, expected in [
        (
            type("NodeDiedError", (Exception,), {})("Task failed\nadvice"),
            "the node, or Ray's worker on it, died (NodeDiedError)",
        ),
        (
            ValueError("ray::answer()\nNo module named 'tfgpu_doctor.fleet'"),
            "tfgpu is not installed there. To install it",
        ),
        (ValueError("ray::answer() (pid=1)\nOSError: no space\n\n"), "ValueError: OSError: no space"),
        (ValueError(""), "ValueError: no message"),
    ]:
        with subtests.test(error=error):
            assert _explained(error).startswith(expected)


def test_what_ray_runs_on_a_node(tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests) -> None:
    for does, lines, failure in [
        ("echo '{'; echo '}'; exit 1", [b"{", b"}"], "ended with exit code 1"),
        ("kill -9 $$", [], "was killed by SIGKILL"),
        ("exec sleep 30", [], "did not answer within 0.5 s"),
        ("echo No module named tfgpu_doctor >&2; exit 1", [], "tfgpu is not installed there."),
    ]:
        with subtests.test(does=does), pytest.MonkeyPatch.context() as monkeypatch:
            tmp_path = tmp_path_factory.mktemp("row")
            monkeypatch.setattr(sys, "executable", str(program(tmp_path / "bin/python", f"#!/bin/sh\n{does}\n")))
            found, why = answer(["doctor"], 0.5 if "sleep" in does else 20)
            assert found == lines and why.startswith(failure)


def test_what_ray_runs_has_an_end_without_ray() -> None:
    assert _bounded(119.5, {"PATH": "/usr/bin:/bin"})[1:] == ["-k", "10", "130"]
    assert _bounded(120, {"PATH": "/nowhere"}) == []


def test_an_answer_of_ray_that_was_cut_off_is_none(tmp_path: Path) -> None:
    whole = line(node_result("a", LINES, None))
    (tmp_path / "nodes.jsonl").write_text(f"{whole}{whole[:-20]}")
    assert [one.node for one in _read(str(tmp_path / "nodes.jsonl"))] == ["a"]


def test_a_line_of_rays_log() -> None:
    text = "[2026-11-23 15:07:56,400 E 12799 12819] rpc_client.h:204: Failed to connect to GCS within 60 seconds."
    assert _LOG.sub("", text) == "Failed to connect to GCS within 60 seconds."


def test_a_cluster_that_is_not_there() -> None:
    pytest.importorskip("ray")
    done = collect("--ray", "127.0.0.1:1")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.endswith(
        "tfgpu: no node could be asked: ConnectionRefusedError: [Errno 111] Connection refused\n"
    )


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
    assert rows(done) == {
        "n0": "ok",
        "n1": "ok",
        "n2": rows(done)["n2"],
        "n3": "ended with exit code 2: Error: No such option",
        "n4": "srun: Killed",
        "n5": "did not answer within 1 s",
        "n6": "Communication connection failure",
    }
    assert rows(done)["n2"].startswith("tfgpu is not installed there. To install it: /")
    assert done.returncode == 1
    assert done.stderr.endswith("tfgpu: 2 of 7 nodes answered\n")


def test_a_good_cluster(cluster: Any, tmp_path: Path) -> None:
    done = cluster("good", "good", output=str(tmp_path / "nodes.jsonl"))
    assert (done.returncode, done.stdout) == (0, "")
    lines = (tmp_path / "nodes.jsonl").read_text().splitlines()
    results = [json.loads(one)["result"] for one in lines]
    assert results == [json.loads(REPORT)] * 2


def test_a_cluster_that_starts_nothing(tmp_path: Path) -> None:
    program(
        tmp_path / "bin/srun",
        "#!/bin/sh\necho 'srun: error: Unable to allocate resources: Invalid partition' >&2; exit 1\n",
    )
    done = collect("--slurm", "--nodes=2", PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "tfgpu: no node could be asked: Unable to allocate resources: Invalid partition\n"


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
MARKS = {  # what is written → the job that srun names by the name of its file, the one that is cancelled, and within 7
    "a mark": (["0: tfgpu-node n1 n1"], "42.3", "42", ""),
    "an option as a job": (["0: tfgpu-node n1 --me 0 n1"], "42.3", "42", ""),
    "another job": (["0: tfgpu-node n1 4242 0 n1", "0: tfgpu-node n1 4243 0 n1"], "42.3", "42", ""),
    "an option as the nodes": (["0: tfgpu-node n1 --me"], "7.3", "7", "7.3"),
    "an allocation": (["0: tfgpu-node n1 9 9 n1"], "7.3", "7", "7.3"),
    "no job is known": (["0: tfgpu-node n1 4242 0 n1"], "", "", ""),
    "a label before srun's words": (["0: srun: job 4242 queued and waiting for resources", "0: x"], "", "", ""),
    "in the queue": (["srun: job 42 queued and waiting for resources"], "", "42", ""),
    "no number": (["srun: job --me queued and waiting for resources", "srun: job ٣ queued and waiting"], "", "", ""),
}


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


def collected(path: str, monkeypatch: pytest.MonkeyPatch, nodes: int = 2) -> slurm.Collected:
    """What the nodes answered."""
    monkeypatch.setenv("PATH", path)
    with guarded(60, waiting=True):
        return slurm.collect(["srun", "sh", "-c", "x"], task(("doctor",), 0.2), nodes, "python", lambda *_: None)


def test_no_word_of_a_task_becomes_an_argument(
    tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for within in ["", "7"]:
        for name in MARKS:
            with subtests.test(within=within, name=name), pytest.MonkeyPatch.context() as monkeypatch:
                tmp_path = tmp_path_factory.mktemp("row")
                lines, job, *cancelled = MARKS[name]
                monkeypatch.setattr(slurm, "LATE", 0.1)
                monkeypatch.setattr(slurm, "QUEUE", 0.4)
                monkeypatch.delenv("SLURM_JOB_ID", raising=False)
                if within:
                    monkeypatch.setenv("SLURM_JOB_ID", within)
                collected(hostile(tmp_path, lines, job), monkeypatch)
                expected = cancelled[bool(within)]
                assert calls(tmp_path) == ([f"scancel {expected}"] if expected else [])


@pytest.mark.parametrize(
    ("lines", "repeats"),
    [
        (["0: tfgpu-node n1 4242 0 n1"], 0.01),  # the same task begins again and again
        ([f"{number}: tfgpu-node n{number} n" for number in range(1000)], 0.3),  # and other ones
        (["0: " + "x" * 1000] * 1000, 1e-9),  # before any has begun
        (["0: tfgpu-node n1 4242 0 n1", *["0: y"] * 10_000], 1e-9),
    ],
    ids=["one mark", "many marks", "a flood", "a flood after a mark"],
)
def test_nothing_that_a_task_writes_puts_off_the_end(
    lines: list[str], repeats: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm, "LATE", 0.2)
    found = collected(hostile(tmp_path, lines, "42.0", repeats), monkeypatch)
    assert calls(tmp_path) == ["scancel 42"]
    flood = "srun wrote more than 4 MB before it had started anything"
    assert (found.error, {one.failure for one in found.nodes} - {"did not answer within 0.2 s"}) == (
        ("", set()) if found.nodes else (flood, set())
    )


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
    done = collect(
        "--slurm", "--nodes=2", "--print", "--srun=--partition 'gpu a'", "--python=/x/py", "smoke", "--repeat", "2"
    )
    words = shlex.split(done.stdout)
    assert (done.returncode, words[0]) == (0, "srun")
    assert {"--nodes=2", "--ntasks=2", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0", "--time=5"} <= {
        *words
    }
    assert words[words.index("--partition") :][:3] == ["--partition", "gpu a", "sh"]
    assert words[-8:] == ["180", "/x/py", "-m", "tfgpu_doctor", "smoke", "--repeat", "2", "--format", "json"][-8:]


def test_numbers_of_tasks_are_bounded() -> None:
    assert list(slurm._numbers("0,3-5")) == [0, 3, 4, 5]
    assert len(list(slurm._numbers("0-9999999"))) == 100_001
    assert slurm.allocated({"SLURM_JOB_NUM_NODES": "x"}) is None and slurm.allocated({"SLURM_NNODES": "3"}) == 3


# ------------------------------------------------------------------------------------------------------- usage


def test_what_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory, subtests: pytest.Subtests
) -> None:
    for arguments, message in [
        ([], "give either --ray ADDRESS or --slurm"),
        (["--ray", "auto", "--slurm"], "give either --ray ADDRESS or --slurm"),
        (["--ray", "auto", "--nodes", "2"], "--nodes, --srun, --python and --print are for --slurm"),
        (["--ray", "auto", "--print"], "--nodes, --srun, --python and --print are for --slurm"),
        (["--slurm", "--nodes", "2", "doktor"], "No command 'doktor' to run on nodes. Did you mean doctor?"),
        (["--slurm", "--nodes", "2", "explain"], "No command 'explain' to run on nodes."),
        (["--slurm", "--nodes", "2", "doctor", "--format=text"], "--format=text cannot be given to doctor"),
        (["--slurm", "--nodes", "2", "bench"], "bench needs a workload"),
        (["--slurm", "--nodes", "2", "--srun", "'", "--print"], "No closing quotation"),
        (["--slurm", "--nodes", "2", "--output", "/nowhere/x"], "the folder /nowhere does not exist"),
        (["--slurm"], "--slurm needs --nodes N outside of an allocation"),
        (["--slurm", "--nodes", "2"], "srun is not on PATH. Where Slurm is, run: srun --nodes=2 "),
    ]:
        with subtests.test(arguments=arguments), pytest.MonkeyPatch.context() as monkeypatch:
            tmp_path = tmp_path_factory.mktemp("row")
            for name in ("SLURM_JOB_NUM_NODES", "SLURM_NNODES"):
                monkeypatch.delenv(name, raising=False)
            monkeypatch.setenv("PATH", str(tmp_path))
            with pytest.raises(SystemExit) as left:
                command(arguments, prog_name="collect")
            assert left.value.code == 2
            assert message in capsys.readouterr().err


def test_without_ray(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as left:
        command(["--ray", "auto"], prog_name="collect")
    assert left.value.code == 2
    assert f"To install it: {sys.executable} -m pip install ray==VERSION" in capsys.readouterr().err.replace("\n", " ")


def test_default_limits() -> None:
    assert [task((name,)).timeout for name in ("doctor", "smoke", "bench")] == [120, 180, 1800]
    assert task(("bench", "cnn"), 5) == (("bench", "cnn", "--format", "json"), 5)
