"""`tfgpu bench matpow`, the parent's side: which cases, which size, and what the results are compared with."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tfgpu_doctor.bench.devices import SPREADS, Case
from tfgpu_doctor.bench.jobs import Job, Scalar
from tfgpu_doctor.bench.plans import workload_size
from tfgpu_doctor.bench.plans.base import PlanBase, Reference, keys
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.runner.workers import PATIENCE, prepare
from tfgpu_doctor.bench.session import Group, Session, TooSlowError
from tfgpu_doctor.bench.workloads import matpow
from tfgpu_doctor.records.units import seconds

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
