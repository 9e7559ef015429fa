"""`tfgpu bench transfer`, the parent's side: which routes, which sizes, what links allow. No process, no time."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.bench.fake_worker import FakeWorker
from tests.bench.samples import run
from tests.bench.test_matpow import BUS_ID, CREATED, QUICK, Workers
from tests.healthy import MATRIX, gpu, healthy, known, spoil
from tests.tables import each
from tfgpu_doctor.bench.devices import DeviceError, Selection
from tfgpu_doctor.bench.plans.transfer import Transfer, between, nvlink, pcie
from tfgpu_doctor.bench.plans.workload_size import TooLargeError
from tfgpu_doctor.bench.results import BenchResult, Figure, GpuTelemetry, Run, Throughput
from tfgpu_doctor.bench.session import Session
from tfgpu_doctor.bench.workloads import transfer
from tfgpu_doctor.records.facts import Gpu, NvLink

MIB = 2**20
RIGHT = {"sent": [7], "arrived": [7], "wrong": 0, "elements": 4, "how": "a test"}


class Mover(FakeWorker):
    """Answers as a worker that moves bytes does."""

    answer = RIGHT

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.routes: list[str] = []

    def _prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        self.routes.append(request["parameters"]["route"])
        return super()._prepare(request)

    def _verify(self, _request: dict[str, Any]) -> dict[str, Any]:
        return dict(self.answer)

    def _figures(self, _request: dict[str, Any]) -> dict[str, Any]:
        return {"figures": [{"name": "algbw", "value": 2e9, "unit": "B/s"}]}


class Movers(Workers):
    """Starts them."""

    kind: type[Mover] = Mover

    def __call__(self) -> FakeWorker:
        self.started.append(self.kind(self.clock, gpus=self.gpus, **self.options))
        return self.started[-1]


def bench(workers: Movers, environment: Any = None, plan: dict[str, Any] | None = None, **selected: Any) -> BenchResult:
    found = Transfer(**{"sizes": (MIB,), "selection": Selection(**selected), **(plan or {})})
    return Session(found, MATRIX, environment or healthy(), workers, QUICK).run()


def named(found: BenchResult) -> list[str]:
    return [f"{one.label}: {one.parameters['route']}" for one in found.runs]


# ------------------------------------------------------------------------------------------- routes


def test_on_the_cpu_alone_the_memory_is_copied_and_that_is_said() -> None:
    workers = Movers()
    found = bench(workers, plan={"sizes": (MIB, 4 * MIB)})
    assert named(found) == ["CPU: memory copy"] * 2
    assert len(workers.started) == 1 and workers.started[0].closed
    assert any("TensorFlow's DeepCopy copies within one memory" in note for note in found.notes)
    assert found.runs[0].throughput and found.runs[0].throughput.unit == "B/s"
    assert found.runs[0].bytes_moved == 2 * MIB * found.runs[0].steps


def test_one_gpu_has_five_routes_in_one_process() -> None:
    workers = Movers(gpus=1)
    found = bench(workers)
    assert named(found) == [
        *("CPU: memory copy", "1 GPU: memory copy", "1 GPU: host to device", "1 GPU: host to device, pinned"),
        *("1 GPU: device to host", "1 GPU: device to host, pinned"),
    ]
    assert len(workers.started) == 2
    assert any("no API reports whether" in note for note in found.notes)


def test_each_pair_of_gpus_in_both_directions_and_all_together() -> None:
    workers = Movers(gpus=3)
    found = bench(workers, gpus=3, explicit=True)
    assert named(found)[6:] == [
        *("GPU 0 and GPU 1: GPU 0 to GPU 1", "GPU 0 and GPU 1: GPU 1 to GPU 0"),
        *("GPU 0 and GPU 2: GPU 0 to GPU 2", "GPU 0 and GPU 2: GPU 2 to GPU 0"),
        *("GPU 1 and GPU 2: GPU 1 to GPU 2", "GPU 1 and GPU 2: GPU 2 to GPU 1"),
        *("3 GPUs: all-reduce", "3 GPUs: all-reduce by one device"),
    ]
    assert len(workers.started) == 2 + 3 + 1
    assert all(worker.closed for worker in workers.started)
    assert found.runs[-1].devices == ("/GPU:0", "/GPU:1", "/GPU:2")
    assert all(one.efficiency is None for one in found.runs)


def test_named_gpus_are_called_as_they_were() -> None:
    found = bench(Movers(gpus=4), devices=("/GPU:1", "/GPU:3"))
    assert "GPU 1 and GPU 3: GPU 3 to GPU 1" in named(found)
    assert found.runs[-1].label == "2 GPUs"


def test_logical_devices_are_one_pair() -> None:
    found = bench(Movers(), virtual=4)
    assert named(found) == [
        "CPU: memory copy",
        *("virtual CPU 0 and 1: CPU 0 to CPU 1", "virtual CPU 0 and 1: CPU 1 to CPU 0"),
        *("4 virtual CPUs: all-reduce", "4 virtual CPUs: all-reduce by one device"),
    ]
    assert found.notes[-2] == "4 virtual CPUs, all-reduce: a test"


def test_bus_bandwidth_and_what_it_is_of() -> None:
    found = bench(Movers(gpus=4), gpus=4, explicit=True)
    all_reduce = next(one for one in found.runs if one.parameters["route"] == "all-reduce")
    assert all_reduce.throughput and all_reduce.median_s
    assert all_reduce.throughput.value == pytest.approx(1.5 * MIB * all_reduce.steps / all_reduce.median_s)
    assert all_reduce.step_name == "sum" and all_reduce.bytes_moved is None
    assert "4 GPUs, all-reduce: a test; algbw 2 GB/s at 1 MiB" in found.notes


def test_more_gpus_than_there_are() -> None:
    with pytest.raises(DeviceError, match="2 GPUs requested"):
        bench(Movers(gpus=1), gpus=2, explicit=True)


def test_sizes_that_do_not_fit() -> None:
    tiny = spoil(healthy(), {"host.memory_limit": known(2**31)})
    sizes = (MIB, 2**30)
    found = bench(Movers(), tiny, {"sizes": sizes})
    assert [one.parameters["bytes"] for one in found.runs] == [MIB]
    assert "Skipped, because they do not fit into the free memory: 1024 MiB" in found.notes
    with pytest.raises(TooLargeError, match=r"--size 1024MiB needs 8.5 GiB of the host's memory for 1 process, of"):
        bench(Movers(), tiny, {"sizes": sizes, "named": True})
    with pytest.raises(TooLargeError):
        bench(Movers(), tiny, {"sizes": (2**30,)})


# ------------------------------------------------------------------------------------------- right or wrong


@each(
    ("changes", "why"),
    [
        ({"wrong": 3, "arrived": [8]}, "3 of 4 numbers are not those that were sent"),
        ({"arrived": [8]}, "the checksums differ"),  # an array of other bytes that are equal: -0.0 and 0.0
    ],
)
def test_bytes_that_did_not_arrive_report_no_speed(changes: dict[str, Any], why: str) -> None:
    class Loser(Mover):
        answer = RIGHT | changes

    workers = Movers()
    workers.kind = Loser
    (one,) = bench(workers).runs
    assert one.failure == f"the result is wrong: {why}"
    assert one.throughput is None and one.verified and not one.verified.ok


def test_what_arrived_is_among_the_checks() -> None:
    verdict = transfer.judge(RIGHT, "float32", {})
    assert verdict.ok
    assert [(check.name, check.saw) for check in verdict.checks] == [("checksum", "00000007"), ("by", "a test")]


@each("route", transfer.ROUTES)
def test_both_ends_of_every_route(route: str) -> None:
    where = transfer.ends(route, ["/GPU:0", "/GPU:1"])
    host = "host" in route
    assert ("/CPU:0" in where.origin + where.target) == host
    assert transfer.work(route, 100, 2) == 100
    assert transfer.work(route, 100, 8) == (175 if "all-reduce" in route else 100)


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
    link, many = pcie(H100), nvlink(H100)
    assert link and link.name == "PCIe 5 ×16" and link.speed == pytest.approx(63e9, rel=0.01) and link.now is None
    assert many and many.name == "18 NVLinks" and many.speed == 450e9
    assert between([H100, H100]) == many


@each(
    "card",
    [
        without("pcie_generation_max"),
        without("pcie_width_max"),
        without(pcie_generation_max=9),
        without(name="NVIDIA GH200 480GB"),
    ],
)
def test_links_that_are_not_known(card: Gpu) -> None:
    assert pcie(card) is None


def test_without_nvlink_the_slower_bus_counts() -> None:
    slow = without("nvlinks", pcie_generation_max=3, pcie_width=4)
    link = between([without("nvlinks"), slow])
    assert link and link.name == "PCIe 3 ×16" and link.now == "×4"
    assert between([H100, without("nvlinks", "pcie_width_max")]) is None
    assert nvlink(without(compute_capability="6.1")) is None


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


def test_more_than_the_link_carries_is_implausible() -> None:
    text = advice(moved(transfer.TO_DEVICE_PINNED, 100e9))
    assert text.startswith(
        "100 GB/s is implausible: PCIe 5 ×16 can carry 63 GB/s at most; either the copy was optimised away"
    )
    assert advice(moved(transfer.TO_DEVICE, 100e9)).startswith("100 GB/s is implausible")


def test_less_than_half_of_the_link() -> None:
    text = advice(moved(transfer.FROM_DEVICE_PINNED, 12e9))
    assert text == ("12 GB/s is 19 % of the link: PCIe 5 ×16 can carry 63 GB/s at most; tfgpu doctor checks the link")
    fewer = advice(moved(transfer.FROM_DEVICE_PINNED, 12e9), card=without(pcie_width=4))
    assert "at most, but has only ×4 now; tfgpu doctor" in fewer


@each(
    "one",
    [
        moved(transfer.TO_DEVICE_PINNED, 55e9),
        moved(transfer.TO_DEVICE, 12e9),  # ordinary host memory is that slow
        moved(transfer.TO_DEVICE_PINNED, 5e9, count=MIB),  # latency
        moved(transfer.WITHIN, 2000e9),
        moved(transfer.TO_DEVICE_PINNED, 12e9, gpu=()),
        moved(transfer.TO_DEVICE_PINNED, 12e9, virtual=True),
        moved(transfer.WITHIN, 1e9, label="CPU"),
        moved(transfer.TO_DEVICE_PINNED, 0.0, throughput=None),
    ],
)
def test_nothing_to_say(one: Run) -> None:
    assert advice(one) == ""


def test_only_the_best_size_is_measured_by_the_link() -> None:
    slow, fast = moved(transfer.TO_DEVICE_PINNED, 12e9, count=16 * MIB), moved(transfer.TO_DEVICE_PINNED, 50e9)
    assert advice(slow, fast) == ""


def test_switches_that_add_may_exceed_the_links() -> None:
    pair = {"devices": ("/GPU:0", "/GPU:1"), "gpu": (GpuTelemetry(device="/GPU:0", pci_bus_id=BUS_ID),) * 2}
    assert advice(moved(transfer.ALL_REDUCE, 480e9, **pair)) == ""
    assert "implausible" in advice(moved(transfer.ALL_REDUCE, 950e9, **pair))
    assert "implausible" in advice(moved("GPU 0 to GPU 1", 480e9, **pair))
    assert advice(moved(transfer.ALL_REDUCE_ONE, 20e9, **pair)) == ""
    assert advice(moved("GPU 0 to GPU 1", 20e9, **pair)).startswith("20 GB/s is 4 % of the link: 18 NVLinks can carry")


def test_advice_reaches_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeWorker, "log", lambda _worker: CREATED)
    environment = spoil(healthy(), {"gpus": known((H100,), "NVML")})
    found = bench(Movers(gpus=1, seconds=1e-6), environment)
    pinned = next(one for one in found.runs if one.parameters["route"] == transfer.TO_DEVICE_PINNED)
    assert any("is implausible: PCIe 5 ×16" in text for text in pinned.advice)


def test_figures_are_those_of_the_schema() -> None:
    (figure,) = msgspec.convert(Mover._figures(None, {})["figures"], list[Figure])  # type: ignore[arg-type]
    assert figure.name == "algbw"
