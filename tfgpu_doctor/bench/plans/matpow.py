"""`tfgpu bench matpow`, the parent's side: which cases, which size, and what the results are compared with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tfgpu_doctor.bench.devices import SPREADS, Case, Job, RequestError, Scalar
from tfgpu_doctor.bench.plans import workload_size
from tfgpu_doctor.bench.plans.base import Group, PlanBase, Reference, keys, overtaking, saturation
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.runner.process import PATIENCE, prepare
from tfgpu_doctor.bench.session import Session, TooSlowError
from tfgpu_doctor.bench.statistics import FEWEST_FOR_INTERVAL
from tfgpu_doctor.bench.workloads import matpow
from tfgpu_doctor.records.units import read_size, seconds

PROBE_SIZES = (768, 1536, 3072, 6144)  # of the calibration, which goes on until a sample takes long enough to tell
PROBE_SECONDS = 0.05
PROBE_POWER = 10  # at most
OWN_SIZES = (8192, 4096, 2048)  # of GPUs: at 8192, an H100 is within 2 % of what it does at 16384 (benchmarks/)
OWN_SECONDS = 0.5  # that a sample of it takes at most
FEWEST = 3  # samples; of a size for which there is less time, nothing is said


@dataclass
class MatPow(PlanBase):
    """One run of the benchmark, from what was asked for."""

    workload = "matpow"
    size: int | None = None  # None: chosen for about workload_size.TARGET seconds
    own_sizes: bool = False  # GPUs are also measured at a size that fills them
    power: int = 10
    spreads: tuple[str, ...] = SPREADS
    chosen: int = 0  # the size that all devices share
    left_out: str = ""
    ready = 0.5
    steady = True

    def title(self) -> str:
        """What is computed."""
        return f"A^{self.power} and B^{self.power}, {self.chosen} × {self.chosen}"

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """Which device is missing."""
        return (*super().notes(runs), *filter(None, (self.left_out,)))

    def parameters(self) -> dict[str, Scalar]:
        """What two results must share."""
        return {"size": self.chosen, "power": self.power, "seed": matpow.SEED}

    def groups(self, session: Session) -> Iterator[Group]:
        """One group for each type, and one more for GPUs at a size of their own.

        Raises:
            DeviceError: devices were asked for that are not there.
            TooLargeError: the size that was asked for does not fit into a memory.
            TooSlowError: nor into the time.
        """
        cases = self.selection.cases(session.found, self.spreads)
        cases, self.chosen, expected = self._choose_size(session, cases)
        by_type = list(self.cases_by_type(cases))
        labels = [case.label for _, todo in by_type for case in todo]
        again = [label for label in labels if self.own_sizes and self.settles(label)]
        session.begin([*labels, *again], len(labels), slowest=expected)
        terms = max(case.terms for case in cases)
        with Reference() as reference:
            for dtype, todo in by_type:
                job = self.job(dtype, self.chosen, reference, terms)
                if not again:
                    yield Group(tuple((case, job) for case in todo), expected)
                    continue
                job = replace(job, point={"size": self.chosen})
                gpus = tuple(case for case in todo if case.label in again)
                yield Group(tuple((case, job) for case in todo), expected, keys(gpus, job))
                if size := self._own_size(session, gpus, dtype):
                    job = replace(self.job(dtype, size, reference, terms), point={"size": size})
                    yield Group(tuple((case, job) for case in gpus))
                else:
                    session.skip(len(gpus))

    def _own_size(self, session: Session, gpus: Sequence[Case], dtype: str) -> int | None:
        """The size that fills the GPUs, by their speed and memory; None where it is not larger than the shared one."""
        mine = [run for run in session.runs if run.dtype == dtype and run.label in {case.label for case in gpus}]
        speeds = [run.flop / run.median_s for run in mine if run.flop and run.median_s]
        if not speeds or len(speeds) < len(gpus):
            return None
        for size in OWN_SIZES:
            slow = matpow.flop(size, self.power, 2) / min(speeds) > OWN_SECONDS
            if (
                size >= 1.5 * self.chosen
                and not slow
                and not workload_size.shortage(gpus, size, dtype, session.free(gpus))
            ):
                return size
        return None

    def job(self, dtype: str, size: int, reference: Reference, terms: int) -> Job:
        """What each case computes; `terms` is how many powers the largest needs."""
        parameters = {"size": size, "power": self.power}
        each = max(matpow.device_bytes(size, dtype, 2, way) for way in self.spreads)
        work = self._work(size)
        return Job(
            workload=self.workload,
            parameters=parameters,
            dtype=dtype,
            unit=matpow.UNIT,
            work=work,
            flop=work,
            judge=matpow.judge,
            scaling=_scaling,
            virtual_memory_mib=each * 5 // 4 // 2**20 + 256,  # a quarter for what the allocator cannot use
            verify=lambda ask, _: {
                "file": reference.file(
                    ask, f"{size}.float64", workload=self.workload, parameters=parameters, terms=terms
                )
            },
        )

    def _work(self, size: int) -> Any:
        return lambda case: matpow.flop(size, self.power, case.terms)

    def _choose_size(self, session: Session, cases: tuple[Case, ...]) -> tuple[tuple[Case, ...], int, float]:
        """The cases that have the time, the size asked for or the one that suits the slowest device, and the seconds
        that a sample of it will take.

        Raises TooLargeError and TooSlowError: it does not fit.
        """
        session.show("estimating the time" if self.size else "choosing a size")
        slowest = min(self._speed(session, cases[0], dtype) for dtype in self.dtypes)
        rule = session.rule.share(session.processes)
        target = min(workload_size.TARGET, rule.deadline / rule.min_samples)
        chosen = workload_size.sane_size(slowest * target, self.power)
        names = {index: gpu.name for index, gpu in enumerate(session.found)}
        size = workload_size.fit(cases, self.dtypes, self.size, chosen, session.free(cases), names)
        expected = matpow.flop(size, self.power, 2) / slowest
        if not self.size or max(FEWEST, session.processes) * expected <= session.rule.deadline:
            return cases, size, expected
        longer = f"--deadline {math.ceil(expected * (rule.min_samples + 1) * session.processes / 10) * 10}"
        others = tuple(case for case in cases if case.gpus)
        if self.selection.devices is None and cases[0].label == "CPU" and others:
            self.left_out = (
                f"The CPU is skipped: a sample would take about {seconds(expected)}. To measure it: {longer}"
            )
            return others, size, 0.0
        where = "the CPU" if cases[0].label == "CPU" else cases[0].label
        fits = round((slowest * rule.deadline / rule.min_samples / matpow.flop(1, self.power, 2)) ** (1 / 3))
        raise TooSlowError(
            f"size {size}: a sample on {where} would take about {seconds(expected)}, too long for "
            f"--deadline {session.rule.deadline:g}. Try --size {max(fits // 128 * 128, 64)}, or {longer}"
        )

    def _speed(self, session: Session, case: Case, dtype: str) -> float:
        """FLOP/s of the slowest device, roughly: of the first case, which is the CPU where that takes part."""
        short = replace(self, power=min(self.power, PROBE_POWER))
        with Reference() as unused:
            for probe in PROBE_SIZES:
                size = min(probe, self.size or probe)
                prepare(session.first, case, short.job(dtype, size, unused, 2))
                session.first.ask(PATIENCE, do="sample", count=1, steps=1)
                took: float = min(session.first.ask(PATIENCE, do="sample", count=2, steps=1)["samples"])
                if took >= PROBE_SECONDS or size < probe:
                    break
        return matpow.flop(size, short.power, 2) / took


def _scaling(case: Case) -> str | None:
    if len(case.devices) < 2:
        return None
    return "strong" if case.spread == "rows" or len(case.devices) == 2 else "weak"


# ---------------------------------------------------------------------------------------------------------------------
# `tfgpu bench matpow --size LIST`, the parent's side: one size after the other, in processes that stay.
#
# A size is left out where it does not fit into a memory, and on a device that would need longer for its samples than
# the deadline gives: a processor is done with at 4096 where a GPU has hardly begun. What is left out is named.


AUTO = (256, 512, 1024, 2048, 4096, 8192, 16384)
SMALLEST, LARGEST = 16, 131072
DOTS = ("…", "...", "..")


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read --size: "4096", "256,512,1024", "256,…,16k" (doubling), or "auto"; ascending, each once.

    Raises RequestError: a part is no size.
    """
    if text.strip().lower() == "auto":
        return AUTO
    parts = [part.strip() for part in text.split(",")]
    found: list[int] = []
    for place, part in enumerate(parts):
        if part in DOTS:
            last = read_size(parts[place + 1]) if place + 1 < len(parts) else None
            if not found or last is None:
                raise RequestError(f"--size: {part} must stand between two sizes, for example 256,{part},16384")
            while found[-1] * 2 < min(last, LARGEST):
                found.append(found[-1] * 2)
            continue
        size = read_size(part)
        if size is None or not SMALLEST <= size <= LARGEST:
            raise RequestError(
                f"--size: {part!r} is not a size from {SMALLEST} to {LARGEST}; for example 4096, 256,512,1024 or auto"
            )
        found.append(size)
    return tuple(sorted(set(found)))


@dataclass
class Sweep(PlanBase):
    """One sweep over sizes, from what was asked for."""

    workload = "matpow"
    sizes: tuple[int, ...] = AUTO
    power: int = 10
    spreads: tuple[str, ...] = SPREADS
    ready = 0.5
    steady = True
    named: bool = False  # each size was asked for, not a range
    left_out: dict[str, list[int]] = field(default_factory=dict)  # by reason

    def title(self) -> str:
        """What is computed."""
        return f"A^{self.power} and B^{self.power}, {len(self.sizes)} sizes from {self.sizes[0]} to {self.sizes[-1]}"

    def parameters(self) -> dict[str, Scalar]:
        """What two results must share; the sizes stand with the runs."""
        return {"sweep": "size", "power": self.power, "seed": matpow.SEED}

    def conclusions(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """Where the GPU overtakes the CPU, and where each device saturates."""
        return (*overtaking(runs, "size", "N"), *saturation(runs, "size", "N"))

    def notes(self, _runs: Sequence[Run]) -> tuple[str, ...]:
        """What is missing."""
        return tuple(f"N = {', '.join(map(str, sizes))}: {why}" for why, sizes in self.left_out.items())

    def groups(self, session: Session) -> Iterator[Group]:
        """One group for each type and size, small sizes first; the processes of a type stay over its sizes."""
        cases = self.selection.cases(session.found, self.spreads)
        terms = max(case.terms for case in cases)
        by_type = list(self.cases_by_type(cases))
        labels = [case.label for _, mine in by_type for case in mine]
        session.begin(labels * len(self.sizes), len(labels))
        with Reference() as reference:
            for dtype, mine in by_type:
                for size in self.sizes:
                    job = self._job(dtype, size, reference, terms)
                    possible = self._possible(session, mine, job, size)
                    session.skip(len(mine) - len(possible))
                    if self.named and not possible:
                        session.not_run.append(f"N = {size} in {dtype}")
                    if possible:
                        last = size == self.sizes[-1]
                        keep = frozenset() if last else keys(possible, job)
                        expected = [self._expected(session.runs, case, job, size) or 0.0 for case in possible]
                        yield Group(tuple((case, job) for case in possible), max(expected), keep)

    def _job(self, dtype: str, size: int, reference: Reference, terms: int) -> Job:
        """What each case computes; logical devices get the memory that the largest size needs, as it is set once."""
        plan = MatPow(size=size, power=self.power, spreads=self.spreads)
        largest = plan.job(dtype, self.sizes[-1], reference, terms)
        job = plan.job(dtype, size, reference, terms)
        return replace(job, point={"size": size}, virtual_memory_mib=largest.virtual_memory_mib)

    def _possible(self, session: Session, cases: Sequence[Case], job: Job, size: int) -> list[Case]:
        """The cases for which there is memory and time; notes what is left out."""
        possible: list[Case] = []
        allowed = session.rule.deadline / FEWEST_FOR_INTERVAL
        for case in cases:
            name = f"{case.label}, {job.dtype_on(case)}"
            last = self._last(session.runs, case, job)
            seconds = self._expected(session.runs, case, job, size)
            if last is not None and last.failure:
                self._leave_out(f"skipped on {name}, which failed at {last.parameters['size']}", size)
            elif last is not None and seconds is not None and seconds > allowed:
                by = f"estimated from {last.parameters['size']}"
                why = f"skipped on {name}: too slow for --deadline {session.rule.deadline:g}, {by}"
                self._leave_out(why, size)
            elif short := workload_size.shortage(
                [*possible, case], size, job.dtype_on(case), session.free([*possible, case])
            ):
                where = "the host" if short[0] == workload_size.HOST else f"GPU {short[0]}"
                self._leave_out(f"skipped on {name}: does not fit into the free memory of {where}", size)
            else:
                possible.append(case)
        return possible

    def _leave_out(self, why: str, size: int) -> None:
        self.left_out.setdefault(why, []).append(size)

    def _last(self, runs: Sequence[Run], case: Case, job: Job) -> Run | None:
        """What the case was measured at last: the largest size until now."""
        mine = [run for run in runs if run.label == case.label and run.dtype == job.dtype_on(case)]
        return mine[-1] if mine else None

    def _expected(self, runs: Sequence[Run], case: Case, job: Job, size: int) -> float | None:
        """Seconds that a sample takes at the speed of the size before, which is an overestimate; None before any."""
        last = self._last(runs, case, job)
        if last is None or last.median_s is None or not last.flop:
            return None
        return last.median_s * matpow.flop(size, self.power, case.terms) / last.flop
