"""Several machines: TF_CONFIG and Slurm, those that follow, the watch over the others, and the page about them."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import psutil
import pytest
import yaml

from tests.bench.fake_worker import Clock, FakeWorker, Workers
from tests.guard import eventually
from tests.tables import each, read_rows
from tfgpu_doctor.bench import cluster as cluster_module
from tfgpu_doctor.bench.cluster import Cluster, RequestError, Watch, config, follow, knock, parse, split, under_slurm
from tfgpu_doctor.bench.devices import DeviceError, Selection
from tfgpu_doctor.bench.plans.training import Cnn
from tfgpu_doctor.bench.results import BenchResult
from tfgpu_doctor.bench.runner.process import NoTensorFlowError, WorkerError, WorkerProcess
from tfgpu_doctor.cli.bench import command as group

PAGE = (Path(__file__).parents[2] / "docs" / "several-machines.md").read_text(encoding="utf-8")


def text(cluster: Any, kind: str = "worker", index: Any = 0) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def cluster(index: int = 0, hosts: Sequence[str] = ("a:1", "b:1")) -> Cluster:
    found = parse(config({"worker": list(hosts)}, index))
    assert found is not None
    return found


def test_workers_in_their_order_and_a_chief_first() -> None:
    found = cluster(1, ["a:2222", "b:2222"])
    assert (found.addresses, found.index, found.count) == (("a:2222", "b:2222"), 1, 2)
    assert found.name(0) == "worker 0 (a:2222)" and parse(found.config) == found
    jobs = {"worker": ["b:1", "c:1"], "chief": ["a:1"], "evaluator": ["e:1"]}
    for kind, index, place in (("chief", 0, 0), ("worker", "1", 2)):  # an index may be text
        led = parse(text(jobs, kind, index))
        assert led is not None and (led.addresses, led.index) == (("a:1", "b:1", "c:1"), place)
    for alone in ("{}", '{"cluster": {}}', text({"worker": ["a:1"]}), text({"chief": ["a:1"]}, "chief")):
        assert parse(alone) is None
    assert split("node-1.example:8888") == ("node-1.example", 8888) and split("[::1]:8888") == ("::1", 8888)


@each("wrong", read_rows(Path(__file__).with_name("rows.yaml"))["tf_config"])
def test_what_cannot_be_used_is_told(wrong: str) -> None:
    with pytest.raises(RequestError, match=r'^TF_CONFIG must be like {"cluster": .* at most one chief, no ps, and the'):
        parse(wrong)


def test_only_tasks_that_srun_started_are_several() -> None:
    assert under_slurm({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"})
    script = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
    for alone in ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, script, {}):
        assert not under_slurm(alone)


class Follower(FakeWorker):
    """Is led through two pieces of work."""

    done = ("steps", "end")

    def _follow(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"done": self.done[self.asked.count("follow") - 1]}


def test_every_type_has_a_process_of_its_own_and_all_are_ended() -> None:
    workers = Workers(1, Follower)
    follow(Cnn(dtypes=("float32", "tf32"), cluster=cluster(1)).part, workers, patience=1.0)
    assert [worker.asked for worker in workers.started] == [["hello", "prepare", "follow", "follow"]] * 2
    assert all(worker.closed for worker in workers.started)
    assert workers.started[0].devices == ["/GPU:0", "/task:0/GPU:0"]


@each(
    ("verb", "why", "error"),
    [
        ("hello", "killed by SIGILL", NoTensorFlowError),
        ("follow", "worker 0 (a:1) is not reachable: Connection refused", WorkerError),
        ("", "1 GPU requested", DeviceError),
    ],
)
def test_what_ends_the_process_here(verb: str, why: str, error: type[Exception]) -> None:
    def trouble(asked: str, _sample: int) -> None:
        if asked == verb:
            raise WorkerError(why)

    workers = Workers(0, Follower, trouble=trouble)
    plan = Cnn(selection=Selection(gpus=1, explicit=not verb), cluster=cluster(1))
    with pytest.raises(error, match=re.escape(why)):
        follow(plan.part, workers, patience=1.0)
    assert all(worker.closed for worker in workers.started)


REFUSED = "Connection refused"
GONE = rf"^worker 1 \(b:1\) is not reachable: {REFUSED}$"


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., SimpleNamespace]]:
    """Watches over a worker from its preparation on; of the other machine's answers, the last one comes for ever."""
    monkeypatch.setattr(cluster_module, "PERIOD", 0.01)
    monkeypatch.setattr(cluster_module, "SETTLE", 2.0)
    watches = []

    def start(*answers: str | None, patience: float = 60.0, spread: str = "workers", **options: Any) -> SimpleNamespace:
        here = SimpleNamespace(answers=list(answers), knocked=[])

        def door(address: str) -> str | None:
            here.knocked.append(address)
            found: str | None = here.answers.pop(0) if len(here.answers) > 1 else here.answers[0]
            return found

        monkeypatch.setattr(cluster_module, "knock", door)
        here.watch, here.worker = Watch(cluster(), patience), Follower(Clock(), **options)
        here.ask = partial(here.watch.over(here.worker).ask, 1.0)
        watches.append(here.watch)
        here.ask(do="prepare", workload="cnn", spread=spread, devices=["/CPU:0"], parameters={})
        return here

    yield start
    for one in watches:
        one.disarm()


def test_one_that_never_comes_ends_the_work_here_and_is_named(watch: Any) -> None:
    here = watch(REFUSED, patience=0.05)
    assert eventually(lambda: here.watch.lost)
    assert here.worker.closed and set(here.knocked) == {"b:1"}
    with pytest.raises(WorkerError, match=GONE):
        here.ask(do="sample", count=1, steps=1)


def test_an_error_here_is_explained_by_one_that_is_gone_and_else_stays_what_it_is(
    watch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trouble(verb: str, _sample: int) -> None:
        if verb == "verify":
            raise WorkerError("UnavailableError: Socket closed")

    here = watch(None, trouble=trouble)
    assert eventually(lambda: here.knocked)
    with monkeypatch.context() as patch, pytest.raises(WorkerError, match=r"^UnavailableError: Socket closed$"):
        patch.setattr(cluster_module, "SETTLE", 0.05)
        here.ask(do="verify")
    assert here.watch.lost is None and not here.worker.closed
    here.answers = [REFUSED]
    with pytest.raises(WorkerError, match=GONE):
        here.ask(do="verify")
    assert here.worker.closed


def test_looks_without_an_answer_that_are_not_three_in_a_row_are_no_loss(watch: Any) -> None:
    here = watch(None, REFUSED, REFUSED, None, REFUSED, REFUSED, None)
    assert eventually(lambda: len(here.knocked) > 10)
    assert here.watch.lost is None


@each("words", [["farewell"], ["follow", "follow"]])
def test_after_the_last_word_the_others_may_go(words: list[str], watch: Any) -> None:
    here = watch(None)
    for word in words:
        assert here.watch.armed
        here.ask(do=word)
    assert not here.watch.armed
    here.answers = [REFUSED]
    time.sleep(0.05)
    assert here.watch.lost is None and not here.worker.closed


def test_nobody_is_expected_by_a_case_of_this_machine_alone(watch: Any) -> None:
    here = watch(REFUSED, patience=0.01, spread="one device")
    assert not here.watch.armed and here.knocked == []


def test_a_real_door() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert knock(address) is None
    assert knock(address) == REFUSED


def test_what_the_page_tells_people_to_paste_can_be_read() -> None:
    typed = re.search(r"^export TF_CONFIG='(.*)'$", PAGE, re.MULTILINE)
    found = parse(typed.group(1)) if typed else None
    assert found is not None and (found.count, found.index) == (2, 0)
    known = {option for parameter in group.commands["cnn"].params for option in parameter.opts}
    used = {
        option for line in re.findall(r"tfgpu bench cnn([^\n`]*)", PAGE) for option in re.findall("--[a-z-]+", line)
    }
    assert used and used <= known


@pytest.mark.skipif(not Path("/bin/bash").exists(), reason="the manifest's script is for bash")
def test_the_kubernetes_manifest_makes_a_cluster() -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    service, job = yaml.safe_load_all("\n---\n".join(blocks))
    pod, name = job["spec"]["template"]["spec"], job["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"  # headless: the pods get names
    assert service["spec"]["selector"] == {"job-name": name}
    assert pod["subdomain"] == service["metadata"]["name"]
    (container,) = pod["containers"]
    script = container["args"][0].replace("exec tfgpu", "printenv TF_CONFIG; : exec tfgpu")
    environ = {"JOB_COMPLETION_INDEX": "1", "PATH": "/usr/bin:/bin"}
    found = parse(subprocess.check_output(["/bin/bash", "-c", script], env=environ, text=True, timeout=20))
    assert found is not None and found.index == 1
    assert found.count == job["spec"]["completions"] == job["spec"]["parallelism"]
    port = container["ports"][0]["containerPort"]
    assert found.addresses == tuple(f"{name}-{index}.{pod['subdomain']}:{port}" for index in range(2))


# --------------------------------------------------------- for real: each machine is a process on 127.0.0.1


def live(test: Callable[..., None]) -> Callable[..., None]:
    return pytest.mark.full(pytest.mark.tensorflow(test))


TINY = ("--batch-size", "8", "--min-samples", "3", "--deadline", "1")
LONG = ("--batch-size", "8", "--min-samples", "1000", "--deadline", "300")


@live
def test_slurm_numbers_its_tasks_in_the_order_of_its_nodes(tensorflow_python: str) -> None:
    slurm = {"SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "6", "SLURM_STEP_NODELIST": "node[2,9-10]"}
    environ = {**os.environ, **slurm, "SLURM_STEP_TASKS_PER_NODE": "2(x3)", "CUDA_VISIBLE_DEVICES": "-1"}
    with WorkerProcess(tensorflow_python, environ) as worker:
        worker.ask(120.0, do="hello")
        found = worker.ask(60.0, do="reference", workload="machines", task="slurm")
    nodes = [f"node{number}:{port}" for number in (2, 9, 10) for port in (8888, 8889)]
    assert found == {"cluster": {"worker": nodes}, "index": 3}


@pytest.fixture
def pair(tensorflow_python: str) -> Iterator[SimpleNamespace]:
    """Starts two workers on this machine, each its own `tfgpu bench cnn`; what is left of them is killed."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        addresses = [f"127.0.0.1:{server.getsockname()[1]}" for server in (one, two)]
    command = [sys.executable, "-m", "tfgpu_doctor", "bench", "cnn", "--python", tensorflow_python]
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": "-1", "COLUMNS": "200"}
    started: list[subprocess.Popen[str]] = []

    def start(index: int, *arguments: str) -> subprocess.Popen[str]:
        variables = {**environ, "TF_CONFIG": text({"worker": addresses}, index=index)}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen([*command, *arguments], text=True, env=variables, **pipes))
        return started[-1]

    yield SimpleNamespace(addresses=addresses, start=start)
    for process in started:
        process.kill()
        process.communicate(timeout=30)


def final(told: str) -> str:
    """Without the lines of progress that a slow machine prints ("after 13 s")."""
    return "".join(line for line in told.splitlines(keepends=True) if not line.startswith("tfgpu: after "))


@live
def test_two_train_together_and_the_first_reports(pair: Any, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    other = pair.start(1, *TINY, "--output", str(tmp_path / "other.json"))
    chief = pair.start(0, *TINY, "--output", str(file))
    printed, error = chief.communicate(timeout=240)
    silent, told = other.communicate(timeout=30)
    assert (chief.returncode, other.returncode) == (0, 0), error + told
    together, alone = msgspec.json.decode(file.read_bytes(), type=BenchResult).runs
    assert (together.label, alone.label) == ("2 workers, CPU", "CPU")
    assert together.verified and together.verified.ok
    names = [check.name for check in together.verified.checks]
    assert names[2:] == ["like one device", "same update", "replicas identical"]
    assert together.verified.checks[-1].saw == "10 of 10 weights in 2 replicas"
    assert together.placed_on == together.devices == ("/CPU:0", "/task:1/CPU:0")
    assert together.virtual  # both are this one machine
    assert "2 workers, CPU" in printed
    assert silent == "" and not (tmp_path / "other.json").exists()
    assert final(told) == f"tfgpu: worker 1 of 2 is done; worker 0 ({pair.addresses[0]}) prints the report\n"


@live
def test_one_that_dies_midway_ends_both(pair: Any, tmp_path: Path) -> None:
    file = tmp_path / "result.json"
    other, chief = pair.start(1, *LONG), pair.start(0, *LONG, "--output", str(file))
    assert eventually(lambda: file.exists() and b'"samples_s": [\n' in file.read_bytes(), 180), "no samples"
    here, there = (psutil.Process(one.pid).children(recursive=True) for one in (chief, other))
    for child in there:
        child.kill()
    died = time.monotonic()
    printed, _ = chief.communicate(timeout=60)
    assert time.monotonic() - died < 30
    _, told = other.communicate(timeout=60)
    assert (chief.returncode, other.returncode) == (1, 1)
    assert f"worker 1 ({pair.addresses[1]}) is not reachable" in printed
    assert final(told).startswith("tfgpu: worker 1 of 2: ") and "Traceback" not in told
    assert psutil.wait_procs([*here, *there], timeout=10)[1] == []
    together = msgspec.json.decode(file.read_bytes(), type=BenchResult).runs[0]
    assert together.throughput is None and together.failure


@live
def test_different_options_are_told(pair: Any) -> None:
    other, chief = pair.start(1, *TINY, "--dtype", "mixed_bfloat16"), pair.start(0, *TINY)
    printed, _ = chief.communicate(timeout=240)
    _, told = other.communicate(timeout=120)
    assert (chief.returncode, other.returncode) == (1, 1)
    assert "use the same command on each" in printed + told
