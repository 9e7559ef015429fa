"""Which GPUs tests may use, what they ask for, and how workers share them: without a run of pytest."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.healthy import MATRIX, gpu, known
from tests.integrations.making import GIB, facts_with, small
from tests.tables import each
from tfgpu_doctor.facts.facts import ComputeCheck, Facts
from tfgpu_doctor.integrations import pytest_gpus
from tfgpu_doctor.integrations.pytest_gpus import (
    Machine,
    MarkError,
    Needs,
    Share,
    UsableGpu,
    read,
    usable,
)
from tfgpu_doctor.plan.diagnosis import make_report

SIZES = {"memory": 40 * GIB, "compute_capability": "9.0"}


def a_gpu(index: int = 0, **changes: Any) -> UsableGpu:
    fields: dict[str, Any] = {"uuid": f"GPU-{index}", "name": "NVIDIA H200", **SIZES, "device": f"/GPU:{index}"}
    return UsableGpu(index=index, **{**fields, "visible": f"GPU-{index}", **changes})


def of(facts: Facts) -> tuple[UsableGpu, ...]:
    return usable(make_report(facts, MATRIX, source="live", timings={}))


# ------------------------------------------------------------------------------------------------ what is usable


def test_gpus_as_tensorflow_lists_them() -> None:
    """The fastest first, which the driver has last."""
    found = of(facts_with(small(0), gpu(1), listed=(1, 0)))
    assert [(one.index, one.name, one.device) for one in found] == [
        (1, "NVIDIA H200", "/GPU:0"),
        (0, "NVIDIA GeForce RTX 3060", "/GPU:1"),
    ]
    assert found[1].memory == 12 * GIB and found[1].compute_capability == "8.6"


@each(
    "visible, listed, entries",
    (
        ("2,0", (2, 0), ["2", "0"]),
        ("GPU-2", (2,), ["GPU-2"]),  # the first characters are enough for CUDA
        ("1,7,0", (1,), ["1"]),  # CUDA stops at the first that does not exist
        ("", (), []),
        ("-1", (), []),
    ),
)
def test_gpus_that_were_chosen(visible: Any, listed: Any, entries: Any) -> None:
    found = of(facts_with(*map(gpu, range(3)), visible=visible, listed=listed))
    assert [one.index for one in found] == list(listed)
    assert [one.visible for one in found] == entries


def test_a_slice_has_no_known_memory() -> None:
    facts = facts_with(gpu(0, mig_mode=True), visible="MIG-4a1e", listed=(0,))
    (found,) = of(facts)
    assert (found.visible, found.uuid, found.memory) == ("MIG-4a1e", "MIG-4a1e", None)
    assert not Needs(memory=GIB).fits(found) and Needs(capability=(9, 0)).fits(found)
    assert str(found) == "NVIDIA H200 (memory unknown, compute capability 9.0)"


def test_a_gpu_that_computes_wrongly_does_not_count() -> None:
    facts = facts_with(gpu(0), gpu(1))
    checks = [
        ComputeCheck(device=f"/GPU:{n}", kind=kind, ok=ok) for n, kind, ok in ((0, "matmul", False), (1, "xla", False))
    ]
    tensorflow = msgspec.structs.replace(facts.tensorflow, checks=known(tuple(checks)))
    assert [one.index for one in of(msgspec.structs.replace(facts, tensorflow=tensorflow))] == [1]


# ------------------------------------------------------------------------------------------------------- sharing


def test_capabilities_compare_as_numbers() -> None:
    assert Needs(capability=(9, 0)).fits(a_gpu(compute_capability="12.0"))
    assert not Needs(capability=(9, 0)).fits(a_gpu(compute_capability="8.9"))
    assert not Needs(capability=(9, 0)).fits(a_gpu(compute_capability=None))


def test_what_each_worker_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many GPUs as workers or more every n-th, else one in turn, with memory growth."""
    monkeypatch.setattr("tfgpu_doctor.integrations.pytest_gpus.is_initialized", lambda: False)
    for gpus, workers, indices, growth in (
        (4, 1, ["0123"], None),
        (4, 2, ["02", "13"], None),
        (3, 2, ["02", "1"], None),
        (2, 3, ["0", "1", "0"], "true"),
        (1, 2, ["0", "0"], "true"),
        (0, 2, ["", ""], None),
    ):
        machine = Machine(tuple(map(a_gpu, range(gpus))), "", "")
        monkeypatch.setattr(pytest_gpus, "shared", lambda _folder, found=machine: found)
        for number in range(workers):
            environ: dict[str, str] = {}
            monkeypatch.setattr(pytest_gpus, "os", SimpleNamespace(environ=environ))
            share = pytest_gpus.of_worker("", number, workers)
            assert "".join(str(one.index) for one in share.gpus) == indices[number]
            assert [one.device for one in share.gpus] == [f"/GPU:{at}" for at in range(len(share.gpus))]
            assert environ.get("TF_FORCE_GPU_ALLOW_GROWTH") == growth
            assert environ.get("CUDA_VISIBLE_DEVICES", "").count("GPU-") in (0, len(share.gpus))


def test_cuda_that_was_initialized_already(monkeypatch: pytest.MonkeyPatch) -> None:
    machine, environ = Machine((a_gpu(0), a_gpu(1)), "", ""), dict[str, str]()
    monkeypatch.setattr(pytest_gpus, "os", SimpleNamespace(environ=environ))
    monkeypatch.setattr(pytest_gpus, "shared", lambda _folder: machine)
    monkeypatch.setattr(pytest_gpus, "is_initialized", lambda: True)
    share = pytest_gpus.of_worker("", 1, 2)
    assert share.gpus == machine.gpus and "CUDA was initialized" in share.problem and environ == {}


def test_a_reason_is_one_printable_line() -> None:
    hostile = a_gpu(name="GPU\x1b[31m\n::error::", compute_capability=None)
    reason = Share(Machine((hostile,), "a\nb", ""), (hostile,)).missing(Needs(min=2))
    assert reason.startswith("needs 2 GPUs: found 1 × GPU") and reason.isprintable()


# -------------------------------------------------------------------------------------------------- what is asked


def test_how_sizes_are_written() -> None:
    sizes = {"10GiB": 10 * GIB, "10G": 10 * GIB, "512MiB": 512 * 2**20, "10GB": 10**10, 2**30: GIB}
    assert {size: read((), {"memory": size}).memory for size in sizes} == sizes
    assert read((), {"compute_capability": 8.6}) == read((), {"compute_capability": "8.6"})
    assert str(read((), {})) == "a GPU"
    with pytest.raises(MarkError, match="not a size"):
        read((), {"memory": "1.5GiB"})


# --------------------------------------------------------------------------------------------- asked once for all


def test_the_first_asks_for_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, asked, begun = Machine((a_gpu(),), "why", "stack"), [], threading.Event()

    def examine() -> Machine:
        asked.append(1)
        begun.wait(0.2)
        return machine

    monkeypatch.setattr(pytest_gpus, "examine", examine)
    found: list[Machine] = []
    threads = [threading.Thread(target=lambda: found.append(pytest_gpus.shared(str(tmp_path)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [machine] * 4 and len(asked) == 1
    assert pytest_gpus.shared(str(tmp_path / "elsewhere")) == pytest_gpus.shared("") == machine  # no folder to share
    assert len(asked) == 3
