"""Several machines: TF_CONFIG and Slurm, those that follow, the watch over the others, and the page about them."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bench.fake_worker import Clock, FakeWorker
from tests.guard import eventually
from tests.tables import each, read_rows
from tfgpu_doctor.bench import cluster as cluster_module
from tfgpu_doctor.bench.cluster import Cluster, RequestError, Watch, config, follow, knock, parse, split, under_slurm
from tfgpu_doctor.bench.devices import DeviceError, Selection
from tfgpu_doctor.bench.plans.training import Cnn
from tfgpu_doctor.bench.runner.process import NoTensorFlowError, WorkerError

TWO = {"worker": ["a:2222", "b:2222"]}
PAGE = (Path(__file__).parents[2] / "docs" / "several-machines.md").read_text(encoding="utf-8")


def text(cluster: Any, kind: str = "worker", index: Any = 0) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def cluster(index: int = 0, hosts: Sequence[str] = ("a:1", "b:1")) -> Cluster:
    found = parse(config({"worker": list(hosts)}, index))
    assert found is not None
    return found


def test_workers_in_their_order_and_a_chief_first() -> None:
    found = cluster(1, TWO["worker"])
    assert (found.addresses, found.index, found.count) == (("a:2222", "b:2222"), 1, 2)
    assert found.name(0) == "worker 0 (a:2222)" and parse(found.config) == found
    jobs = {"worker": ["b:1", "c:1"], "chief": ["a:1"], "evaluator": ["e:1"]}
    chief, worker = parse(text(jobs, "chief")), parse(text(jobs, "worker", "1"))  # an index may be text
    assert chief is not None and worker is not None and chief.addresses == ("a:1", "b:1", "c:1")
    assert (chief.index, worker.index) == (0, 2)
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


# ------------------------------------------------------------------------------------------------ those that follow


class Follower(FakeWorker):
    """Is led through some pieces of work."""

    def __init__(self, pieces: Sequence[str] = ("verify", "steps", "end"), **options: Any) -> None:
        super().__init__(Clock(), **options)
        self.pieces = list(pieces)

    def _follow(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"done": self.pieces.pop(0)}


def test_every_type_has_a_process_of_its_own_and_all_are_ended() -> None:
    workers = [Follower(gpus=1), Follower(("steps", "end"), gpus=1)]
    waiting = list(workers)
    plan = Cnn(dtypes=("float32", "tf32"), cluster=cluster(1))
    follow(plan.part, lambda: waiting.pop(0), patience=1.0)
    assert [worker.asked for worker in workers] == [
        ["hello", "prepare", "follow", "follow", "follow"],
        ["hello", "prepare", "follow", "follow"],
    ]
    assert all(worker.closed for worker in workers)
    assert workers[0].devices == ["/GPU:0", "/task:0/GPU:0"]


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

    worker = Follower(trouble=trouble)
    plan = Cnn(selection=Selection(gpus=1, explicit=not verb), cluster=cluster(1))
    with pytest.raises(error, match=re.escape(why)):
        follow(plan.part, lambda: worker, patience=1.0)
    assert worker.closed


# ------------------------------------------------------------------------------------------------ the watch


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "PERIOD", 0.01)
    monkeypatch.setattr(cluster_module, "SETTLE", 2.0)


class Door:
    """Whether the other machine answers."""

    def __init__(self, *, is_open: bool) -> None:
        self.is_open = is_open
        self.knocked: list[str] = []

    def __call__(self, address: str) -> str | None:
        self.knocked.append(address)
        return None if self.is_open else "Connection refused"


def common(worker: Any, spread: str = "workers") -> None:
    worker.ask(1.0, do="prepare", spread=spread, devices=["/CPU:0"], parameters={})


@pytest.fixture
def started(quick: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., tuple[Watch, Any, FakeWorker]]]:
    watches = []

    def start(door: Door, patience: float = 60.0, **options: Any) -> tuple[Watch, Any, FakeWorker]:
        monkeypatch.setattr(cluster_module, "knock", door)
        watch, worker = Watch(cluster(0, TWO["worker"]), patience), Follower(("end",), **options)
        watches.append(watch)
        return watch, watch.over(worker), worker

    yield start
    for watch in watches:
        watch.disarm()


def test_one_that_never_comes_ends_the_work_here_and_is_named(started: Any) -> None:
    door = Door(is_open=False)
    watch, watched, worker = started(door, 0.05)
    common(watched)
    assert eventually(lambda: watch.lost)
    assert worker.closed and set(door.knocked) == {"b:2222"}
    with pytest.raises(WorkerError, match=r"^worker 1 \(b:2222\) is not reachable: Connection refused$"):
        watched.ask(1.0, do="sample", count=1, steps=1)


def test_one_that_is_gone_is_named_even_where_tensorflow_says_something_else(started: Any) -> None:
    door = Door(is_open=True)

    def trouble(verb: str, _sample: int) -> None:
        if verb == "sample":
            door.is_open = False
            raise WorkerError("UnavailableError: Socket closed")

    _, watched, worker = started(door, trouble=trouble)
    common(watched)
    assert eventually(lambda: door.knocked)
    with pytest.raises(WorkerError, match=r"^worker 1 \(b:2222\) is not reachable: Connection refused$"):
        watched.ask(1.0, do="sample", count=1, steps=1)
    assert worker.closed


def test_an_error_here_stays_what_it_is_while_the_others_answer(started: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_module, "SETTLE", 0.05)

    def trouble(verb: str, _sample: int) -> None:
        if verb == "verify":
            raise WorkerError("the result is wrong")

    watch, watched, worker = started(Door(is_open=True), trouble=trouble)
    common(watched)
    with pytest.raises(WorkerError, match=r"^the result is wrong$"):
        watched.ask(1.0, do="verify")
    assert watch.lost is None and not worker.closed


@pytest.mark.usefixtures("quick")
def test_one_look_without_an_answer_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([None, "no answer", "no answer", None, "no answer", "no answer"])
    knocks = []

    def sometimes(address: str) -> str | None:
        knocks.append(address)
        return next(answers, None)

    monkeypatch.setattr(cluster_module, "knock", sometimes)
    watch = Watch(cluster(), 60.0)
    watch.arm()
    assert eventually(lambda: len(knocks) > 10)
    watch.disarm()
    assert watch.lost is None


def test_after_the_last_word_the_others_may_go_and_nobody_is_expected_by_a_case_of_this_machine_alone(
    started: Any,
) -> None:
    for last in ("farewell", "follow"):
        door = Door(is_open=True)
        watch, watched, worker = started(door)
        common(watched)
        watched.ask(1.0, do=last)
        assert not watch.armed
        door.is_open = False
        time.sleep(0.05)
        assert watch.lost is None and not worker.closed
    door = Door(is_open=False)
    watch, watched, _ = started(door, 0.01)
    common(watched, "one device")
    assert not watch.armed and door.knocked == []


def test_a_real_door() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert knock(address) is None
    assert knock(address) == "Connection refused"


# ------------------------------------------------------------------------------------------------ the page


def test_what_the_page_tells_people_to_paste_can_be_read() -> None:
    typed = re.search(r"^export TF_CONFIG='(.*)'$", PAGE, re.MULTILINE)
    found = parse(typed.group(1)) if typed else None
    assert found is not None and (found.count, found.index) == (2, 0)
    from tfgpu_doctor.cli.bench import command as group

    known = {option for parameter in group.commands["cnn"].params for option in parameter.opts}
    commands = re.findall(r"tfgpu bench cnn([^\n`]*)", PAGE)
    used = {option for line in commands for option in re.findall(r"--[a-z-]+", line)}
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
    command = ["/bin/bash", "-c", script]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=20, check=True)
    found = parse(done.stdout)
    assert found is not None and found.index == 1
    assert found.count == job["spec"]["completions"] == job["spec"]["parallelism"]
    port = container["ports"][0]["containerPort"]
    assert found.addresses == tuple(f"{name}-{index}.{pod['subdomain']}:{port}" for index in range(2))
