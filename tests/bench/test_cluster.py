"""Who takes part: TF_CONFIG as people write it, and as they get it wrong; what Slurm sets."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tables import each
from tfgpu_doctor.bench.cluster import RequestError, config, parse, split, under_slurm

TWO = {"worker": ["a:2222", "b:2222"]}


def text(cluster: Any, kind: str = "worker", index: Any = 0) -> str:
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


def test_workers_in_their_order() -> None:
    found = parse(text(TWO, index=1))
    assert found is not None
    assert (found.addresses, found.index, found.count) == (("a:2222", "b:2222"), 1, 2)
    assert found.name(0) == "worker 0 (a:2222)"
    assert parse(found.config) == found


def test_a_chief_comes_first_and_an_index_may_be_text() -> None:
    jobs = {"worker": ["b:1", "c:1"], "chief": ["a:1"], "evaluator": ["e:1"]}
    chief, worker = parse(text(jobs, "chief")), parse(text(jobs, "worker", "1"))
    assert chief is not None and worker is not None
    assert chief.addresses == ("a:1", "b:1", "c:1")
    assert (chief.index, worker.index) == (0, 2)


@each("alone", ["{}", '{"cluster": {}}', text({"worker": ["a:1"]}), text({"chief": ["a:1"]}, "chief")])
def test_one_machine_is_no_cluster(alone: str) -> None:
    assert parse(alone) is None


@each(
    ("wrong", "message"),
    [
        ("{", "TF_CONFIG is not JSON"),
        ('{"cluster": ["a:1"]}', 'TF_CONFIG needs {"cluster"'),
        ('{"cluster": {"worker": ["a:1", "b:1"]}}', 'TF_CONFIG needs {"cluster"'),
        (text({**TWO, "ps": ["p:1"]}), "remove the job ps"),
        (text({"worker": ["a", "b:1"]}), "'a' is not an address; write host:port"),
        (text({"worker": ["a:0", "b:1"]}), "'a:0' is not an address"),
        (text({"worker": [7, "b:1"]}), "7 is not an address"),
        (text({"worker": ["a:1", "a:1"]}), "lists an address twice"),
        (text({**TWO, "chief": ["c:1", "d:1"]}), "several chiefs"),
        (text(TWO, index=2), "the task worker 2 is not one of its workers"),
        (text(TWO, index=-1), "the task worker -1"),
        (text(TWO, index=None), "the task worker None"),
        (text({**TWO, "evaluator": ["e:1"]}, "evaluator"), "the task evaluator 0"),
    ],
)
def test_what_cannot_be_used_is_told(wrong: str, message: str) -> None:
    with pytest.raises(RequestError) as caught:
        parse(wrong)
    assert message in str(caught.value)


def test_addresses() -> None:
    assert split("node-1.example:8888") == ("node-1.example", 8888)
    assert split("[::1]:8888") == ("::1", 8888)


def test_what_slurm_tells_becomes_the_same() -> None:
    found = parse(config(TWO, 1))
    assert found is not None and (found.addresses, found.index) == (("a:2222", "b:2222"), 1)


@each(
    ("environ", "several"),
    [
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "4"}, True),
        ({"SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, False),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}, False),  # a batch script itself
        ({}, False),
    ],
)
def test_only_tasks_that_srun_started_are_several(environ: dict[str, str], several: bool) -> None:
    assert under_slurm(environ) is several
