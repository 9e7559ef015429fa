"""`tfgpu bench transfer`, the parent's side: which routes between which devices, which sizes, and what links allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations

from tfgpu_doctor.bench.devices import Case, Job, Scalar
from tfgpu_doctor.bench.plans import workload_size
from tfgpu_doctor.bench.plans.base import Group, PlanBase
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.session import Session
from tfgpu_doctor.bench.workloads import transfer
from tfgpu_doctor.records.facts import Facts, Gpu, value_or
from tfgpu_doctor.records.units import approximate

DEFAULT_SIZES = (2**20, 2**24, 2**28)
TOLERATED = 1.02  # of a link's speed, which is exact; clocks of hosts are not
HALF = 0.5  # of a link's speed, below which something is wrong with it
IN_SWITCH = 2.0  # NVLink switches that add (NVLink SHARP) let busbw exceed the links, at most twofold
LARGE = 2**24  # bytes from which on a link, and not the latency, sets the speed
TO_HOST = (transfer.TO_DEVICE, transfer.TO_DEVICE_PINNED, transfer.FROM_DEVICE, transfer.FROM_DEVICE_PINNED)
NAMES = {transfer.PEER: "{0} to {1}", transfer.PEER_BACK: "{1} to {0}"}


@dataclass
class Transfer(PlanBase):
    """One run of the benchmark, from what was asked for."""

    workload = "transfer"
    sizes: tuple[int, ...] = DEFAULT_SIZES
    named: bool = False  # the sizes were asked for, and one that does not fit is an error
    left_out: list[int] = field(default_factory=list)
    environment: Facts | None = None
    steady = True

    def title(self) -> str:
        """What is moved."""
        return "transfers between host and devices and between devices, all-reduce over all devices"

    def parameters(self) -> dict[str, Scalar]:
        """What two results must share; routes and sizes stand with the runs."""
        return {"sweep": "bytes", "seed": transfer.SEED}

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """What is measured, and how."""
        return tuple(self._notes(runs))

    def _notes(self, runs: Sequence[Run]) -> Iterator[str]:
        measured = {str(run.parameters["route"]) for run in runs}
        if transfer.WITHIN in measured:
            yield (
                "memory copy: TensorFlow's DeepCopy copies within one memory. B/s count the bytes that are copied; "
                "each is read and written. A size that fits into a cache measures the cache."
            )
        if transfer.TO_DEVICE in measured:
            yield (
                "host to device, device to host: pageable host memory, as feeding an array and .numpy() use it. "
                "Pinned: memory that TensorFlow allocates in a compiled function for transfers to or from a GPU "
                "(according to its source, InferAllocAttr); no API reports whether it is pinned."
            )
        if any(route.startswith(transfer.ALL_REDUCE) for route in measured):
            yield (
                "all-reduce: sums float32 over all devices; each device gets the sum. B/s are bus bandwidth: busbw = "
                "algbw × 2(n-1)/n. algbw is the bytes on one device divided by the time."
            )
        yield from self._all_reduce(runs)
        if self.left_out:
            sizes = ", ".join(f"{size / 2**20:g} MiB" for size in self.left_out)
            yield f"Skipped, because they do not fit into the free memory: {sizes}"

    def _all_reduce(self, runs: Sequence[Run]) -> Iterator[str]:
        """What summed, and the algorithm bandwidth at the largest size."""
        last: dict[tuple[str, Scalar], Run] = {}
        for run in runs:
            if str(run.parameters["route"]).startswith(transfer.ALL_REDUCE) and run.verified and run.verified.ok:
                last[run.label, run.parameters["route"]] = run
        for (label, route), run in last.items():
            how = next((check.saw for check in run.verified.checks if check.name == "by"), "") if run.verified else ""
            figure = next((one for one in run.figures if one.name == "algbw"), None)
            size = int(run.parameters["bytes"] or 0) / 2**20
            rate = f"; algbw {approximate(figure.value, 'B/s')} at {size:g} MiB" if figure and not run.virtual else ""
            yield f"{label}, {route}: {how}{rate}"

    def advice(self, run: Run, runs: Sequence[Run]) -> tuple[str, ...]:
        """What the links say of a speed: more than they carry, or less than half."""
        return tuple(self._advice(run, runs))

    def _advice(self, run: Run, runs: Sequence[Run]) -> Iterator[str]:
        if run.throughput is None or run.virtual or not run.devices[0].startswith("/GPU"):
            return
        route, size = str(run.parameters["route"]), int(run.parameters["bytes"] or 0)
        link = self._link(run, route)
        if link is None or route == transfer.WITHIN:
            return
        low, high = run.throughput.ci95
        shown = approximate(run.throughput.value, "B/s")
        carries = f"{link.name} can carry {approximate(link.speed, 'B/s')} at most"
        most = IN_SWITCH if route == transfer.ALL_REDUCE else TOLERATED
        if low > most * link.speed:
            yield f"{shown} is implausible: {carries}; either the copy was optimised away, or NVML reports another link"
        elif high < HALF * link.speed and size >= LARGE and self._is_best(run, runs) and self._should_be_fast(route):
            fewer = f", but has only {link.now} now" if link.now else ""
            yield (
                f"{shown} is {100 * run.throughput.value / link.speed:.0f} % of the link: {carries}{fewer}; "
                "tfgpu doctor checks the link"
            )

    def _should_be_fast(self, route: str) -> bool:
        """Whether the link alone should limit it: ordinary host memory and reductions on one device have reasons."""
        return route not in (transfer.TO_DEVICE, transfer.FROM_DEVICE, transfer.ALL_REDUCE_ONE)

    @staticmethod
    def _is_best(run: Run, runs: Sequence[Run]) -> bool:
        alike = [one for one in runs if (one.label, one.parameters["route"]) == (run.label, run.parameters["route"])]
        best = max(one.throughput.value for one in alike if one.throughput)
        return run.throughput is not None and run.throughput.value >= best

    def _link(self, run: Run, route: str) -> Link | None:
        gpus = self._gpus(run)
        if len(gpus) < len(run.devices):
            return None
        return pcie(gpus[0]) if route in TO_HOST else between(gpus)

    def _gpus(self, run: Run) -> list[Gpu]:
        """What is known of the GPUs of a run, by the bus ids that TensorFlow's log told."""
        known = {value_or(gpu.pci_bus_id, "").lower(): gpu for gpu in self._facts()}
        return [known[bus_id] for one in run.gpu if (bus_id := (one.pci_bus_id or "").lower()) in known]

    def _facts(self) -> tuple[Gpu, ...]:
        return value_or(self.environment.gpus, ()) if self.environment else ()

    def groups(self, session: Session) -> Iterator[Group]:
        """One group for each route and size, on all devices that have the route; pairs of devices one after the other.

        Raises:
            DeviceError: devices were asked for that are not there.
            TooLargeError: a size that was asked for does not fit, or none does.
        """
        self.environment = session.environment
        stages = list(_stages(self.selection.cases(session.found, ("together",))))
        labels = list(chain.from_iterable(_labels(*stage) for stage in stages))
        session.begin(labels * len(self.sizes), sum(len(cases) for cases, _ in stages))
        for cases, its in stages:
            sizes = self._fitting(session, cases)
            session.skip((len(self.sizes) - len(sizes)) * len(_labels(cases, its)))
            todo = [(route, size) for route in its for size in sizes]
            for place, (route, size) in enumerate(todo):
                having = [case for case in cases if _has(case, route)]
                later = {one for one, _ in todo[place + 1 :]}
                keep = frozenset((case.label, "float32") for case in cases for one in later if _has(case, one))
                if having:
                    yield Group(tuple((case, self._job(route, size, case)) for case in having), keep=keep)

    def _job(self, route: str, size: int, case: Case) -> Job:
        name = NAMES[route].format(*_ends(case)) if route in NAMES else route
        return Job(
            workload=self.workload,
            parameters={"route": route, "bytes": size},
            dtype="float32",
            unit=transfer.UNIT,
            work=lambda case: transfer.work(route, size, len(case.devices)),
            bytes_moved=lambda _: transfer.bytes_moved(route, size),
            judge=transfer.judge,
            point={"route": name, "bytes": size},
            step_name="sum" if route.startswith(transfer.ALL_REDUCE) else "copy",
            blocks=True,
            figures=route.startswith(transfer.ALL_REDUCE),
            virtual_memory_mib=transfer.BUFFERS * max(self.sizes) // 2**20 + 256,
        )

    def _fitting(self, session: Session, cases: Sequence[Case]) -> tuple[int, ...]:
        """The sizes for which the processes of `cases` have memory, which are there at once.

        Raises TooLargeError: a size that was asked for does not fit, or none does.
        """
        free = session.free(cases)
        fitting = tuple(size for size in self.sizes if not _short(cases, size, free))
        left_out = [size for size in self.sizes if size not in fitting]
        self.left_out += [size for size in left_out if size not in self.left_out]
        if fitting and not (self.named and left_out):
            return fitting
        where, need = _short(cases, left_out[0], free)[0]
        place = workload_size.HOST if where == workload_size.HOST else f"GPU {where}"
        raise workload_size.TooLargeError(
            f"--size {left_out[0] / 2**20:g}MiB needs {need / 2**30:.1f} GiB of {place} for {len(cases)} "
            f"process{'es' * (len(cases) > 1)}, of which {free[where] / 2**30:.1f} GiB are free; use smaller sizes"
        )


def _stages(cases: Sequence[Case]) -> Iterator[tuple[list[Case], tuple[str, ...]]]:
    """Cases that are measured side by side with their routes: single devices, each pair of them, and all together."""
    yield [case for case in cases if len(case.devices) == 1], (transfer.WITHIN, *TO_HOST)
    for case in cases:
        if len(case.devices) > 1:
            yield from (([pair], (transfer.PEER, transfer.PEER_BACK)) for pair in _pairs(case))
            together = replace(case, label=case.label.removesuffix(", together"))
            yield [together], (transfer.ALL_REDUCE, transfer.ALL_REDUCE_ONE)


def _labels(cases: Sequence[Case], its: Sequence[str]) -> list[str]:
    """The cases that have each of these routes."""
    return [case.label for route in its for case in cases if _has(case, route)]


def _has(case: Case, route: str) -> bool:
    """Whether a route exists there: the host has no other host."""
    return bool(case.gpus) or route not in TO_HOST


def _pairs(case: Case) -> Iterator[Case]:
    """Each pair of physical devices; of logical ones the first two, since the others are like them."""
    if case.virtual:
        kind = "GPU" if case.gpus else "CPU"
        yield replace(case, label=f"virtual {kind} 0 and 1", devices=case.devices[:2])
        return
    for one, other in combinations(case.gpus, 2):
        yield replace(case, label=f"GPU {one} and GPU {other}", devices=("/GPU:0", "/GPU:1"), gpus=(one, other))


def _ends(case: Case) -> tuple[str, str]:
    """What the two devices of a pair are called."""
    numbers = case.gpus if len(case.gpus) == 2 else (0, 1)
    kind = "CPU" if case.devices[0].startswith("/CPU") else "GPU"
    return f"{kind} {numbers[0]}", f"{kind} {numbers[1]}"


def _short(cases: Sequence[Case], size: int, free: dict[str | int, int]) -> list[tuple[str | int, int]]:
    """The memories that do not hold what all cases need, and the need."""
    needs: dict[str | int, int] = {workload_size.HOST: 0}
    for case in cases:
        each = transfer.BUFFERS * size
        needs[workload_size.HOST] += workload_size.PROCESS + each * (1 if case.gpus else len(case.devices))
        for gpu in case.gpus:
            count = len(case.devices) // len(case.gpus)
            needs[gpu] = needs.get(gpu, 0) + each * count + workload_size.CONTEXT
    return [(memory, need) for memory, need in needs.items() if need > workload_size.SHARE * free.get(memory, 2**62)]


# ---------------------------------------------------------------------------------------------------------------------
# What the links of a GPU can carry at most, by what NVML tells of them. Pure; unknown stays unknown.


# Bytes/s of one PCIe lane in one direction: 2.5 and 5 GT/s at 8b/10b; 8, 16 and 32 GT/s at 128b/130b; 64 GT/s in flits
# of 256 bytes with 236 of payload (PCI Express Base Specification, revisions 1.0 to 6.0). Packet headers come on top.
LANE = {1: 250e6, 2: 500e6, 3: 984.6e6, 4: 1969.2e6, 5: 3938.5e6, 6: 7375e6}
# Bytes/s of one NVLink in one direction, by compute capability (NVIDIA's whitepapers of P100, V100, Turing, A100,
# GA102 and H100; Blackwell: 1.8 TB/s over 18 links in both directions).
NVLINK = {"6.0": 20e9, "7.0": 25e9, "7.5": 25e9, "8.0": 25e9, "8.6": 14.0625e9, "9.0": 25e9, "10.0": 50e9, "10.3": 50e9}
# The host is reached by NVLink-C2C, of which NVML's PCIe facts say nothing.
COHERENT = ("GH200", "GB200", "GB300", "GB10", "THOR")


@dataclass(frozen=True)
class Link:
    """A link, and what it can carry."""

    name: str  # "PCIe 4 ×16"
    speed: float  # bytes/s in one direction, at most
    now: str | None = None  # "×4" where it has fewer lanes than it could; its speed may rest while it is idle


def pcie(gpu: Gpu) -> Link | None:
    """The PCIe link of a GPU at the best that it and its slot can do; None where that is unknown.

    The generation is the highest, not the current one, which falls while a GPU rests.
    """
    name = value_or(gpu.name, "").upper()
    generation, width = value_or(gpu.pcie_generation_max, None), value_or(gpu.pcie_width_max, None)
    if not generation or not width or generation not in LANE or any(one in name for one in COHERENT):
        return None
    current = value_or(gpu.pcie_width, None)
    fewer = f"×{current}" if current and current < width else None
    return Link(f"PCIe {generation} ×{width}", LANE[generation] * width, fewer)


def nvlink(gpu: Gpu) -> Link | None:
    """All active NVLinks of a GPU together; None where there is none, or their speed is unknown."""
    active = sum(link.active for link in value_or(gpu.nvlinks, ()))
    speed = NVLINK.get(value_or(gpu.compute_capability, ""))
    return Link(f"{active} NVLink{'s' * (active != 1)}", active * speed) if active and speed else None


def between(gpus: Sequence[Gpu]) -> Link | None:
    """What the slowest of several GPUs can send to the others; None where that is unknown."""
    found = [nvlink(gpu) or pcie(gpu) for gpu in gpus]
    known = [link for link in found if link is not None]
    return min(known, key=lambda link: link.speed) if known and len(known) == len(found) else None
