"""`tfgpu bench transfer`: routes, sizes, what links allow; and that bytes do move between real logical devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.bench.fake_worker import BUS_ID, CREATED, FakeWorker, Workers, measured
from tests.bench.live import Shared
from tests.bench.samples import run
from tests.healthy import gpu, healthy, known, spoil
from tests.tables import each, read_rows
from tfgpu_doctor.bench.plans.transfer import Transfer, between, pcie
from tfgpu_doctor.bench.results import GpuTelemetry, Run, Throughput
from tfgpu_doctor.bench.workloads import transfer
from tfgpu_doctor.facts.facts import Gpu, NvLink

MIB = 2**20


def test_both_ends_of_every_route() -> None:
    for route in transfer.ROUTES:
        origin, target = transfer.ends(route, ["/GPU:0", "/GPU:1"])
        assert ("/CPU:0" in origin + target) == ("host" in route)
        assert origin[0] != target[0] or route in (transfer.WITHIN, transfer.ALL_REDUCE)
        works = [transfer.work(route, 100, devices) for devices in (2, 8)]
        assert works == [100, 175 if "all-reduce" in route else 100]


H100 = gpu(
    0,
    pci_bus_id=BUS_ID.upper(),
    pcie_generation=1,  # at rest
    pcie_generation_max=5,
    pcie_width=16,
    pcie_width_max=16,
    compute_capability="9.0",
    nvlinks=tuple(NvLink(link=place, active=place < 18) for place in range(20)),
)


def without(*names: str, **changes: Any) -> Gpu:
    """The same card, of which less is known."""
    blank = Gpu(index=0)
    kept = {name: known(value) for name, value in changes.items()}
    return msgspec.structs.replace(H100, **{name: getattr(blank, name) for name in names}, **kept)


def test_links() -> None:
    link, many = pcie(H100), between([H100, H100])
    assert link and link[0] == "PCIe 5 ×16" and link[1] == pytest.approx(63e9, rel=0.01)
    assert many == ("18 NVLinks", 450e9)
    slow = without("nvlinks", pcie_generation_max=3)
    assert between([without("nvlinks"), slow]) == ("PCIe 3 ×16", pytest.approx(15.75e9, rel=0.01))
    assert between([H100, without("nvlinks", "pcie_width_max")]) is None
    assert between([without(compute_capability="6.1")]) == link
    unknown = {"pcie_generation_max": 9}, {"name": "NVIDIA GH200 480GB"}
    for card in (without("pcie_generation_max"), without("pcie_width_max"), *(without(**one) for one in unknown)):
        assert pcie(card) is None


def moved(route: str, speed: float | None, *, size: int = 256 * MIB, gpus: int = 1, **changes: Any) -> Run:
    """Return a run that moved so many bytes from or to so many GPUs; without a speed, it failed."""
    rate = speed and Throughput(value=speed, unit="B/s", ci95=(0.99 * speed, 1.01 * speed))
    fields = {
        "label": "1 GPU" if gpus else "CPU",
        "devices": tuple(f"/GPU:{index}" for index in range(gpus)) or ("/CPU:0",),
        "gpu": (GpuTelemetry(device="/GPU:0", pci_bus_id=BUS_ID),) * gpus,
    }
    return run(**{**fields, "throughput": rate, "parameters": {"route": route, "bytes": size}, **changes})


def advice(one: Run, *others: Run) -> str:
    plan = Transfer(environment=spoil(healthy(), {"gpus": known((H100,))}))
    return "; ".join(plan.advice(one, (one, *others)))


@each(("route", "speed", "more", "text"), read_rows(Path(__file__).with_name("links.yaml")))
def test_what_links_say_of_a_speed(route: str, speed: float | None, more: dict[str, Any], text: str) -> None:
    assert advice(moved(route, speed, **more)) == text


def test_only_the_best_size_is_measured_by_the_link_and_advice_reaches_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow, fast = moved(transfer.TO_DEVICE_PINNED, 12e9, size=16 * MIB), moved(transfer.TO_DEVICE_PINNED, 50e9)
    assert advice(slow, fast) == ""
    monkeypatch.setattr(FakeWorker, "log", lambda _worker: CREATED)
    environment = spoil(healthy(), {"gpus": known((H100,), "NVML")})
    found = measured(Transfer, Workers(1, seconds=1e-6), environment, sizes=(MIB,))
    pinned = next(one for one in found.runs if one.parameters["route"] == transfer.TO_DEVICE_PINNED)
    assert any("is implausible: PCIe 5 ×16" in text for text in pinned.advice)


# One element of what arrives is spoiled, or what was sent before arrives again: judged by the real workload.
SPOIL = """
import tensorflow as tf
work = load("transfer").Workload({"route": "memory copy", "bytes": 4096}, "float32", ["/CPU:0"], "one device")
move, sources = work.step.move, work.step.sources
ways = {
    "right": move,
    "spoiled": lambda source: (tf.tensor_scatter_nd_add(move(source)[0], [[1023]], [1e-6]),),
    "stale": lambda source: move(sources[0]),
}
answers = {}
for name, way in ways.items():
    work.verified, work.step = False, work.step._replace(move=way)
    work.sample(3)
    answers[name] = [work.verify({})]
    for _ in range(2):
        work.sample(2)
        answers[name].append(work.recheck())
"""


@pytest.mark.tensorflow
def test_wrong_and_stale_bytes_are_seen(shared: Shared) -> None:
    answers: dict[str, Any] = shared.run(SPOIL)
    right, spoiled, stale = answers["right"], answers["spoiled"], answers["stale"]
    assert transfer.judge(right[0], "float32", {}).ok and right[1:] == [None, None]
    assert spoiled[0]["wrong"] == 1
    assert [transfer.judge(later, "float32", {}).ok for later in spoiled[1:]] == [False, False]
    assert any(found and found["wrong"] for found in stale), "the second set of numbers is sent in turns"
