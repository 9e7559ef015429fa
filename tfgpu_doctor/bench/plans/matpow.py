"""`tfgpu bench matpow`, the parent's side: which cases, which size, and what the results are compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.bench.devices import SPREADS, Case
from tfgpu_doctor.bench.jobs import Job, Scalar
from tfgpu_doctor.bench.plans import workload_size
from tfgpu_doctor.bench.plans.base import PlanBase, Reference
from tfgpu_doctor.bench.runner.workers import PATIENCE, prepare
from tfgpu_doctor.bench.session import Group, Session
from tfgpu_doctor.bench.workloads import matpow

PROBE_SIZES = (768, 1536, 3072, 6144)  # of the calibration, which goes on until a sample takes long enough to tell
PROBE_SECONDS = 0.05


@dataclass
class MatPow(PlanBase):
    """One run of the benchmark, from what was asked for."""

    workload = "matpow"
    size: int | None = None  # None: chosen for about workload_size.TARGET seconds
    power: int = 10
    spreads: tuple[str, ...] = SPREADS
    chosen: int = 0  # the size that is run

    def title(self) -> str:
        """What is computed."""
        return f"A^{self.power} and B^{self.power}, {self.chosen} × {self.chosen}"

    def parameters(self) -> dict[str, Scalar]:
        """What two results must share."""
        return {"size": self.chosen, "power": self.power, "seed": matpow.SEED}

    def groups(self, session: Session) -> Iterator[Group]:
        """One group for each type."""
        cases = self.selection.cases(session.found, self.spreads)
        self.chosen, expected = self._choose_size(session, cases)
        by_type = list(self.cases_by_type(cases))
        labels = [case.label for _, todo in by_type for case in todo]
        session.begin(labels, len(labels), expected=expected)
        with Reference() as reference:
            for dtype, todo in by_type:
                job = self.job(dtype, self.chosen, reference, max(case.terms for case in cases))
                yield Group(tuple((case, job) for case in todo), expected)

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

    def _choose_size(self, session: Session, cases: Sequence[Case]) -> tuple[int, float]:
        """The size asked for, or the one at which the slowest device needs about TARGET s; and that time, estimated.

        Raises TooLargeError: it does not fit.
        """
        session.progress("estimating the time" if self.size else "choosing a size", 0.0)
        slowest = min(self._speed(session, cases[0], dtype) for dtype in self.dtypes)
        chosen = workload_size.sane_size(slowest * workload_size.TARGET, self.power)
        names = {index: gpu.name for index, gpu in enumerate(session.found)}
        size = workload_size.fit(cases, self.dtypes, self.size, chosen, session.free(cases), names)
        return size, matpow.flop(size, self.power, 2) / slowest

    def _speed(self, session: Session, case: Case, dtype: str) -> float:
        """FLOP/s of the slowest device, roughly: of the first case, which is the CPU where that takes part."""
        with Reference() as unused:
            for probe in PROBE_SIZES:
                size = min(probe, self.size or probe)
                prepare(session.first, case, self.job(dtype, size, unused, 2))
                session.first.ask(PATIENCE, do="sample", count=1, steps=1)
                seconds: float = min(session.first.ask(PATIENCE, do="sample", count=2, steps=1)["samples"])
                if seconds >= PROBE_SECONDS or size < probe:
                    break
        return matpow.flop(size, self.power, 2) / seconds


def _scaling(case: Case) -> str | None:
    if len(case.devices) < 2:
        return None
    return "strong" if case.spread == "rows" or len(case.devices) == 2 else "weak"
