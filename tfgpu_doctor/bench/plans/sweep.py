"""`tfgpu bench matpow --size LIST`, the parent's side: one size after the other, in processes that stay.

A size is left out where it does not fit into a memory, and on a device that would need longer for its samples than the
deadline gives: a processor is done with at 4096 where a GPU has hardly begun. What is left out is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from tfgpu_doctor.bench.devices import SPREADS, Case
from tfgpu_doctor.bench.jobs import Job, Scalar
from tfgpu_doctor.bench.plans import workload_size
from tfgpu_doctor.bench.plans.base import PlanBase, Reference, keys
from tfgpu_doctor.bench.plans.matpow import MatPow
from tfgpu_doctor.bench.plans.sweep_reading import overtaking, saturation
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.session import Group, Session
from tfgpu_doctor.bench.statistics import FEWEST_FOR_INTERVAL
from tfgpu_doctor.bench.workloads import matpow
from tfgpu_doctor.records.units import read_size

AUTO = (256, 512, 1024, 2048, 4096, 8192, 16384)
SMALLEST, LARGEST = 16, 131072
DOTS = ("…", "...", "..")


class SizesError(Exception):
    """A list of sizes that cannot be read; the message says what can be written."""


def parse_sizes(text: str) -> tuple[int, ...]:
    """Read --size: "4096", "256,512,1024", "256,…,16k" (doubling), or "auto"; ascending, each once.

    Raises SizesError: a part is no size.
    """
    if text.strip().lower() == "auto":
        return AUTO
    parts = [part.strip() for part in text.split(",")]
    found: list[int] = []
    for place, part in enumerate(parts):
        if part in DOTS:
            last = read_size(parts[place + 1]) if place + 1 < len(parts) else None
            if not found or last is None:
                raise SizesError(f"--size: {part} must stand between two sizes, for example 256,{part},16384")
            while found[-1] * 2 < min(last, LARGEST):
                found.append(found[-1] * 2)
            continue
        size = read_size(part)
        if size is None or not SMALLEST <= size <= LARGEST:
            raise SizesError(
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
