"""`tfgpu bench transfer`, the parent's side: which routes between which devices, which sizes, and what links allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar

from tfgpu_doctor.bench.devices import Case, Job, Scalar
from tfgpu_doctor.bench.plans.base import Group, Memory, PlanBase, demands, shortage, too_large
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.speeds import gpus_of
from tfgpu_doctor.bench.workloads import transfer
from tfgpu_doctor.facts.facts import Facts, Gpu, value_or
from tfgpu_doctor.facts.units import approximate

DEFAULT_SIZES = (2**20, 2**24, 2**28)
TO_HOST = (transfer.TO_DEVICE, transfer.TO_DEVICE_PINNED, transfer.FROM_DEVICE, transfer.FROM_DEVICE_PINNED)
NOTES = {  # what is measured, and how
    transfer.WITHIN: "TensorFlow's DeepCopy copies within one memory. B/s count the bytes that are copied; each is "
    "read and written. A size that fits into a cache measures the cache.",
    transfer.TO_DEVICE: "pageable host memory, as feeding an array uses it (device to host: as .numpy() does). Pinned: "
    "memory that TensorFlow allocates in a compiled function for transfers to or from a GPU (according to its source, "
    "InferAllocAttr); no API reports whether it is pinned.",
    transfer.ALL_REDUCE: "sums float32 over all devices; each device gets the sum. B/s are bus bandwidth: the bytes on "
    "one device / time × 2(n-1)/n.",
}
Stage = list[tuple[Case, str]]  # cases with a route each; their processes are there at once


@dataclass
class Transfer(PlanBase):
    """One run of the benchmark, from what was asked for."""

    file: ClassVar[Any] = transfer
    blocks = True
    sizes: tuple[int, ...] = DEFAULT_SIZES
    environment: Facts | None = None

    @classmethod
    def read(cls, options: Mapping[str, Any], **common: Any) -> Transfer:
        """Make the plan that options ask for."""
        return cls(sizes=tuple(sorted(options["size"])) or DEFAULT_SIZES, named=bool(options["size"]), **common)

    def title(self) -> str:
        return "transfers between host and devices and between devices, all-reduce over all devices"

    def parameters(self) -> dict[str, Scalar]:
        return {"sweep": "bytes", "seed": transfer.SEED}

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        measured = {run.parameters["route"] for run in runs}
        return (*(f"{route}: {note}" for route, note in NOTES.items() if route in measured), *self.left_out)

    def advice(self, run: Run, runs: Sequence[Run]) -> tuple[str, ...]:
        """Return what the links say of a speed: more than they carry, or less than half."""
        gpus = gpus_of(run, self.environment) if self.environment else []
        route = str(run.parameters["route"])
        if run.throughput is None or run.virtual or route == transfer.WITHIN or not len(gpus) >= len(run.devices) > 0:
            return ()
        link = pcie(gpus[0]) if route in TO_HOST else between(gpus)
        alike = [one for one in runs if (one.label, one.parameters["route"]) == (run.label, route) and one.throughput]
        best = max(one.throughput.value for one in (run, *alike) if one.throughput)
        return () if link is None else judge_link(run, link, route, is_best=run.throughput.value >= best)

    def groups(self, session: Session) -> Iterator[Group]:
        """Yield one group for each route and size, on all devices that have it; pairs one after the other."""
        self.environment = session.environment
        stages = list(_stages(self.selection.cases(session.found, ("together",))))
        session.begin([case.label for stage in stages for case, _ in stage] * len(self.sizes))
        for stage in stages:
            sizes = self._fitting(session, list(dict.fromkeys(case for case, _ in stage)))
            session.skip((len(self.sizes) - len(sizes)) * len(stage))
            todo = [(route, size) for route in dict.fromkeys(route for _, route in stage) for size in sizes]
            for place, (route, size) in enumerate(todo):
                later = {one for one, _ in todo[place + 1 :]}
                keep = frozenset((case.label, "float32") for case, one in stage if one in later)
                yield Group(tuple(self._job(route, size, case) for case, one in stage if one == route), keep=keep)

    def _job(self, route: str, size: int, case: Case) -> Job:
        numbers = case.gpus if len(case.gpus) == 2 else (0, 1)
        ends = [f"{case.devices[0][1:4]} {number}" for number in numbers]  # "GPU 1", as people call it
        name = {transfer.PEER: " to ".join(ends), transfer.PEER_BACK: " to ".join(reversed(ends))}.get(route, route)
        return self.make_job(
            case,
            "float32",
            {"route": route, "bytes": size},
            transfer.work(route, size, len(case.devices)),
            bytes_moved=transfer.bytes_moved(route, size),
            point={"route": name, "bytes": size},
            step_name="sum" if route == transfer.ALL_REDUCE else "copy",
            virtual_memory_mib=transfer.BUFFERS * max(self.sizes) // 2**20 + 256,
        )

    def _needs(self, cases: Sequence[Case], each: int) -> Iterator[tuple[Memory, int]]:
        return demands(cases, lambda _: each, lambda case: each if case.gpus else 0)

    def _fitting(self, session: Session, cases: Sequence[Case]) -> list[int]:
        """Return the sizes for which the processes of `cases` have memory, which are there at once.

        Raises CannotRunError: a size that was asked for does not fit, or none does.
        """
        free, fitting = session.free(cases), []
        for size in self.sizes:
            short = shortage(self._needs(cases, transfer.BUFFERS * size), free)
            said = f"Skipped, because it does not fit into the free memory: {size / 2**20:g} MiB"
            if short is None:
                fitting.append(size)
            elif self.named or not fitting:
                raise too_large(f"--size {size / 2**20:g}MiB needs", short, free, "use smaller sizes")
            elif said not in self.left_out:
                self.left_out.append(said)
        return fitting


def _stages(cases: Sequence[Case]) -> Iterator[Stage]:
    """Yield what is measured side by side: single devices, each pair of them, and all together."""
    single = [case for case in cases if len(case.devices) == 1]
    routes = (transfer.WITHIN, *TO_HOST)
    yield [(case, route) for route in routes for case in single if case.gpus or route not in TO_HOST]
    for case in cases:
        if len(case.devices) > 1:
            yield from ([(pair, transfer.PEER), (pair, transfer.PEER_BACK)] for pair in _pairs(case))
            yield [(replace(case, label=case.label.removesuffix(", together")), transfer.ALL_REDUCE)]


def _pairs(case: Case) -> Iterator[Case]:
    """Yield each pair of physical devices; of logical ones the first two, since the others are like them."""
    if case.virtual:
        yield replace(case, label=f"virtual {case.devices[0][1:4]} 0 and 1", devices=case.devices[:2])
        return
    for one, other in combinations(case.gpus, 2):
        yield replace(case, label=f"GPU {one} and GPU {other}", devices=("/GPU:0", "/GPU:1"), gpus=(one, other))


# ---------------------------------------------------------------------------------------------------------------------
# What the links of a GPU can carry at most, by what NVML tells of them. Pure; unknown stays unknown.


TOLERATED = 1.02  # of a link's speed, which is exact; clocks of hosts are not
HALF = 0.5  # of a link's speed, below which something is wrong with it
IN_SWITCH = 2.0  # NVLink switches that add (NVLink SHARP) let busbw exceed the links, at most twofold
LARGE = 2**24  # bytes from which on a link, and not the latency, sets the speed
# Bytes/s of one PCIe lane in one direction: 2.5 and 5 GT/s at 8b/10b; 8, 16 and 32 GT/s at 128b/130b; 64 GT/s in flits
# of 256 bytes with 236 of payload (PCI Express Base Specification, revisions 1.0 to 6.0). Packet headers come on top.
LANE = {1: 250e6, 2: 500e6, 3: 984.6e6, 4: 1969.2e6, 5: 3938.5e6, 6: 7375e6}
# Bytes/s of one NVLink in one direction, by compute capability (NVIDIA's whitepapers of P100, V100, Turing, A100,
# GA102 and H100; Blackwell: 1.8 TB/s over 18 links in both directions).
NVLINK = {"6.0": 20e9, "7.0": 25e9, "7.5": 25e9, "8.0": 25e9, "8.6": 14.0625e9, "9.0": 25e9, "10.0": 50e9, "10.3": 50e9}
# The host is reached by NVLink-C2C, of which NVML's PCIe facts say nothing.
COHERENT = ("GH200", "GB200", "GB300", "GB10", "THOR")

Link = tuple[str, float]  # "PCIe 4 ×16", and the bytes/s that it carries in one direction, at most


def judge_link(run: Run, link: Link, route: str, *, is_best: bool) -> tuple[str, ...]:
    """Say where a speed is more than the link carries, or less than half; only the best size shows the latter."""
    assert run.throughput is not None
    (low, high), size = run.throughput.ci95, run.parameters["bytes"]
    shown, name = approximate(run.throughput.value, "B/s"), link[0]
    carries = f"{name} can carry {approximate(link[1], 'B/s')} at most"
    if low > (IN_SWITCH if route == transfer.ALL_REDUCE else TOLERATED) * link[1]:
        return (f"{shown} is implausible: {carries}; either the copy was optimised away, or NVML reports another link",)
    pageable = route in (transfer.TO_DEVICE, transfer.FROM_DEVICE)  # which alone may be that slow
    if high < HALF * link[1] and isinstance(size, int) and size >= LARGE and is_best and not pageable:
        share = 100 * run.throughput.value / link[1]
        return (f"{shown} is {share:.0f} % of the link: {carries}; tfgpu doctor checks the link",)
    return ()


def pcie(gpu: Gpu) -> Link | None:
    """Return the PCIe link of a GPU at the best that it and its slot can do; None where that is unknown.

    The generation is the highest, not the current one, which falls while a GPU rests.
    """
    generation, width = value_or(gpu.pcie_generation_max, 0), value_or(gpu.pcie_width_max, 0)
    if not width or generation not in LANE or any(one in value_or(gpu.name, "").upper() for one in COHERENT):
        return None
    return f"PCIe {generation} ×{width}", LANE[generation] * width


def between(gpus: Sequence[Gpu]) -> Link | None:
    """Return what the slowest of several GPUs can send to the others, by NVLink or PCIe; None where that is unknown."""
    found = []
    for gpu in gpus:
        active = sum(link.active for link in value_or(gpu.nvlinks, ()))
        speed = NVLINK.get(value_or(gpu.compute_capability, ""))
        found.append((f"{active} NVLink{'s' * (active != 1)}", active * speed) if active and speed else pcie(gpu))
    known = [link for link in found if link is not None]
    return min(known, key=lambda link: link[1]) if known and len(known) == len(found) else None
