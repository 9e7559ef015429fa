"""Which GPUs tests may use, and what they ask for: without a run of pytest."""

from __future__ import annotations

import msgspec
import pytest

from tests.healthy import MATRIX, gpu, known
from tests.integrations.making import GIB, facts_with, small
from tfgpu_doctor.facts.facts import ComputeCheck, Facts
from tfgpu_doctor.integrations.pytest_gpus import Machine, MarkError, Needs, UsableGpu, read, usable
from tfgpu_doctor.plan.diagnosis import make_report


def of(facts: Facts) -> tuple[UsableGpu, ...]:
    return usable(make_report(facts, MATRIX, source="live", timings={}))


def test_gpus_as_tensorflow_lists_them() -> None:
    """The fastest first, which the driver has last; cards of one name count as the smallest."""
    found = of(facts_with(small(0), gpu(1), listed=(1, 0)))
    assert [(one.name, one.device) for one in found] == [
        ("NVIDIA H200", "/GPU:0"),
        ("NVIDIA GeForce RTX 3060", "/GPU:1"),
    ]
    assert found[1].memory == 12 * GIB and found[1].compute_capability == "8.6"
    alike = facts_with(gpu(0), gpu(1, memory_total=40 * GIB), visible="1", listed=(1,))
    assert [one.memory for one in of(alike)] == [40 * GIB]
    facts = facts_with(gpu(0), gpu(1))
    checks = tuple(ComputeCheck(f"/GPU:{n}", kind, ok=False) for n, kind in enumerate(("matmul", "xla")))
    tensorflow = msgspec.structs.replace(facts.tensorflow, checks=known(checks))
    assert [one.device for one in of(msgspec.structs.replace(facts, tensorflow=tensorflow))] == ["/GPU:1"]


def test_what_is_unknown_of_a_slice_is_not_enough() -> None:
    (found,) = of(facts_with(gpu(0, mig_mode=True), visible="MIG-4a1e", listed=(0,)))
    assert found.memory is None
    assert not Needs(memory=GIB).fits(found) and Needs(capability=(9, 0)).fits(found)
    assert str(found) == "NVIDIA H200 (memory unknown, compute capability 9.0)"


def test_capabilities_compare_as_numbers_and_a_reason_is_one_printable_line() -> None:
    for capability, is_enough in (("12.0", True), ("8.9", False), (None, False)):
        card = UsableGpu("GPU\x1b[31m\n::error::", 40 * GIB, capability, "/GPU:0")
        assert Needs(capability=(9, 0)).fits(card) is is_enough
        reason = Machine((card,), "a\nb", "").missing(Needs(min=2))
        assert reason.startswith("needs 2 GPUs: found 1 × GPU") and reason.isprintable()


def test_how_sizes_are_written() -> None:
    sizes = {"10GiB": 10 * GIB, "10G": 10 * GIB, "512MiB": 512 * 2**20, "10GB": 10**10, 2**30: GIB}
    assert {size: read((), {"memory": size}).memory for size in sizes} == sizes
    assert read((), {"compute_capability": 8.6}) == read((), {"compute_capability": "8.6"})
    assert str(read((), {})) == "a GPU"
    with pytest.raises(MarkError, match="not a size"):
        read((), {"memory": "1.5GiB"})
