"""`tfgpu bench transfer`: routes, sizes, what links allow; and that bytes do move between real logical devices."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.bench.fake_worker import ANSWERS, BUS_ID, CREATED, FakeWorker, Workers, measured
from tests.bench.live import Shared
from tests.bench.samples import run
from tests.healthy import gpu, healthy, known, spoil
from tests.tables import each
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


# ------------------------------------------------------------------------------------------- what links allow

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


def moved(route: str, speed: float, count: int = 256 * MIB, label: str = "1 GPU", **changes: Any) -> Run:
    fields = {
        "throughput": Throughput(value=speed, unit="B/s", ci95=(0.99 * speed, 1.01 * speed)),
        "parameters": {"route": route, "bytes": count},
        "gpu": (GpuTelemetry(device="/GPU:0", pci_bus_id=BUS_ID),),
        **changes,
    }
    return run(label, **fields)


def advice(one: Run, *others: Run, card: Gpu = H100) -> str:
    plan = Transfer(environment=spoil(healthy(), {"gpus": known((card,))}))
    return "; ".join(plan.advice(one, (one, *others)))


PAIR: dict[str, Any] = {
    "devices": ("/GPU:0", "/GPU:1"),
    "gpu": (GpuTelemetry(device="/GPU:0", pci_bus_id=BUS_ID),) * 2,
}
IMPLAUSIBLE = "is implausible: PCIe 5 ×16 can carry 63 GB/s at most; either the copy was optimised away"
SLOW = "12 GB/s is 19 % of the link: PCIe 5 ×16 can carry 63 GB/s at most; tfgpu doctor checks the link"


@each(
    ("one", "text"),
    [
        (moved(transfer.TO_DEVICE_PINNED, 100e9), f"100 GB/s {IMPLAUSIBLE}"),
        (moved(transfer.TO_DEVICE, 100e9), f"100 GB/s {IMPLAUSIBLE}"),
        (moved(transfer.FROM_DEVICE_PINNED, 12e9), SLOW),
        (moved(transfer.TO_DEVICE_PINNED, 55e9), None),
        (moved(transfer.TO_DEVICE, 12e9), None),  # ordinary host memory is that slow
        (moved(transfer.TO_DEVICE_PINNED, 5e9, count=MIB), None),  # latency
        (moved(transfer.WITHIN, 2000e9), None),
        (moved(transfer.TO_DEVICE_PINNED, 12e9, gpu=()), None),
        (moved(transfer.TO_DEVICE_PINNED, 12e9, virtual=True), None),
        (moved(transfer.WITHIN, 1e9, label="CPU"), None),
        (moved(transfer.TO_DEVICE_PINNED, 0.0, throughput=None), None),
        (moved(transfer.ALL_REDUCE, 480e9, **PAIR), None),  # switches that add may exceed the links
        (moved(transfer.ALL_REDUCE, 950e9, **PAIR), "950 GB/s is implausible"),
        (moved("GPU 0 to GPU 1", 480e9, **PAIR), "480 GB/s is implausible"),
        (moved("GPU 0 to GPU 1", 20e9, **PAIR), "20 GB/s is 4 % of the link: 18 NVLinks can carry"),
    ],
)
def test_what_links_say_of_a_speed(one: Run, text: str | None) -> None:
    said = advice(one)
    assert said.startswith(text) if text else said == ""


def test_only_the_best_size_is_measured_by_the_link_and_advice_reaches_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow, fast = moved(transfer.TO_DEVICE_PINNED, 12e9, count=16 * MIB), moved(transfer.TO_DEVICE_PINNED, 50e9)
    assert advice(slow, fast) == ""
    monkeypatch.setattr(FakeWorker, "log", lambda _worker: CREATED)
    environment = spoil(healthy(), {"gpus": known((H100,), "NVML")})
    workers = Workers(1, answer=ANSWERS["transfer"], seconds=1e-6)
    found = measured(Transfer, workers, environment, sizes=(MIB,))
    pinned = next(one for one in found.runs if one.parameters["route"] == transfer.TO_DEVICE_PINNED)
    assert any("is implausible: PCIe 5 ×16" in text for text in pinned.advice)


# ------------------------------------------------------------------------------------------- for real


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
    first = work.verify({})
    later = []
    for _ in range(2):
        work.sample(2)
        later.append(work.recheck())
    answers[name] = {"first": first, "later": later}
"""


@pytest.mark.tensorflow
def test_wrong_and_stale_bytes_are_seen(shared: Shared) -> None:
    answers: dict[str, Any] = shared.run(SPOIL)
    right, spoiled, stale = answers["right"], answers["spoiled"], answers["stale"]
    assert transfer.judge(right["first"], "float32", {}).ok and right["later"] == [None, None]
    assert spoiled["first"]["wrong"] == 1
    assert [transfer.judge(later, "float32", {}).ok for later in spoiled["later"]] == [False, False]
    wrong = [found for found in [stale["first"], *stale["later"]] if found and found["wrong"]]
    assert wrong, "the second set of numbers is sent in turns"
