"""Which GPUs tests may use, and what they ask for: without a run of pytest."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.healthy import MATRIX, gpu, known
from tests.integrations.making import GIB, facts_with, small
from tfgpu_doctor.facts.facts import ComputeCheck, Facts
from tfgpu_doctor.integrations.pytest_gpus import (
    Machine,
    MarkError,
    Needs,
    UsableGpu,
    read,
    usable,
)
from tfgpu_doctor.plan.diagnosis import make_report

SIZES = {"memory": 40 * GIB, "compute_capability": "9.0"}


def a_gpu(index: int = 0, **changes: Any) -> UsableGpu:
    return UsableGpu(**{"name": "NVIDIA H200", **SIZES, "device": f"/GPU:{index}", **changes})


def of(facts: Facts) -> tuple[UsableGpu, ...]:
    return usable(make_report(facts, MATRIX, source="live", timings={}))


# ------------------------------------------------------------------------------------------------ what is usable


def test_gpus_as_tensorflow_lists_them() -> None:
    """The fastest first, which the driver has last."""
    found = of(facts_with(small(0), gpu(1), listed=(1, 0)))
    assert [(one.name, one.device) for one in found] == [
        ("NVIDIA H200", "/GPU:0"),
        ("NVIDIA GeForce RTX 3060", "/GPU:1"),
    ]
    assert found[1].memory == 12 * GIB and found[1].compute_capability == "8.6"


def test_cards_of_one_name_count_as_the_smallest() -> None:
    facts = facts_with(gpu(0), gpu(1, memory_total=40 * GIB), visible="1", listed=(1,))
    assert [one.memory for one in of(facts)] == [40 * GIB]


def test_a_slice_has_no_known_memory() -> None:
    facts = facts_with(gpu(0, mig_mode=True), visible="MIG-4a1e", listed=(0,))
    (found,) = of(facts)
    assert found.memory is None
    assert not Needs(memory=GIB).fits(found) and Needs(capability=(9, 0)).fits(found)
    assert str(found) == "NVIDIA H200 (memory unknown, compute capability 9.0)"


def test_a_gpu_that_computes_wrongly_does_not_count() -> None:
    facts = facts_with(gpu(0), gpu(1))
    checks = [
        ComputeCheck(device=f"/GPU:{n}", kind=kind, ok=ok) for n, kind, ok in ((0, "matmul", False), (1, "xla", False))
    ]
    tensorflow = msgspec.structs.replace(facts.tensorflow, checks=known(tuple(checks)))
    assert [one.device for one in of(msgspec.structs.replace(facts, tensorflow=tensorflow))] == ["/GPU:1"]


def test_capabilities_compare_as_numbers() -> None:
    assert Needs(capability=(9, 0)).fits(a_gpu(compute_capability="12.0"))
    assert not Needs(capability=(9, 0)).fits(a_gpu(compute_capability="8.9"))
    assert not Needs(capability=(9, 0)).fits(a_gpu(compute_capability=None))


def test_a_reason_is_one_printable_line() -> None:
    hostile = a_gpu(name="GPU\x1b[31m\n::error::", compute_capability=None)
    reason = Machine((hostile,), "a\nb", "").missing(Needs(min=2))
    assert reason.startswith("needs 2 GPUs: found 1 × GPU") and reason.isprintable()


# -------------------------------------------------------------------------------------------------- what is asked


def test_how_sizes_are_written() -> None:
    sizes = {"10GiB": 10 * GIB, "10G": 10 * GIB, "512MiB": 512 * 2**20, "10GB": 10**10, 2**30: GIB}
    assert {size: read((), {"memory": size}).memory for size in sizes} == sizes
    assert read((), {"compute_capability": 8.6}) == read((), {"compute_capability": "8.6"})
    assert str(read((), {})) == "a GPU"
    with pytest.raises(MarkError, match="not a size"):
        read((), {"memory": "1.5GiB"})
