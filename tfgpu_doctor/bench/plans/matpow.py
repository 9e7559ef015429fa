"""`tfgpu bench matpow`, the parent's side: which cases, which sizes, and what the results are compared with."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from tfgpu_doctor.bench.devices import SPREADS, Ask, Case, Job, RequestError, Scalar
from tfgpu_doctor.bench.plans.base import (
    HOST,
    Free,
    Group,
    Memory,
    PlanBase,
    demands,
    overtaking,
    saturation,
    scratch,
    shortage,
    too_large,
    too_slow,
)
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.runner.process import PATIENCE, prepare
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.statistics import FEWEST_FOR_INTERVAL
from tfgpu_doctor.bench.workloads import matpow

TARGET = 1.0  # seconds that a sample of the slowest device shall take
SMALLEST, LARGEST = 256, 16384  # sizes that are chosen
AUTO = (256, 512, 1024, 2048, 4096, 8192, 16384)  # --size auto
VERIFIABLE = 0.1  # tolerance above which a wrong power could pass: that of another matrix has a residual of 1.4
PROBE_SIZES = (768, 1536, 3072, 6144)  # of the calibration, which goes on until a sample takes long enough to tell
PROBE_SECONDS = 0.05
PROBE_POWER = 10  # at most
OWN_SIZES = (8192, 4096, 2048)  # of GPUs: at 8192, an H100 is within 2 % of what it does at 16384 (benchmarks/)
OWN_SECONDS = 0.5  # that a sample of it takes at most
MARGIN = 0.9  # of the memory that is free now, for the size that is named
FEWEST = 3  # samples; of a size for which there is less time, nothing is said


def sane_size(flop: float, power: int) -> int:
    """Return the round size whose sample (two powers) takes about `flop` operations.

    Multiples of 256 up to 4096 and of 1024 above, which suit the tiles of every BLAS.
    """
    exact: float = (flop / (4.0 * max(power - 1, 1))) ** (1 / 3)
    step = 256 if exact < 4096 else 1024
    return min(max(round(exact / step) * step, SMALLEST), LARGEST)


def lacking(cases: Sequence[Case], size: int, dtype: str, free: Free) -> tuple[Memory, int] | None:
    """Return the first memory that does not hold what cases need, which are all there at once, and the need."""
    needs = demands(cases, lambda case: matpow.device_bytes(size, dtype, len(case.devices), case.spread))
    terms = max(case.terms for case in cases)  # one case at a time makes its inputs or is verified
    return shortage([*needs, (HOST, matpow.host_bytes(size, dtype, terms))], free)


def fit(
    cases: Sequence[Case], dtypes: Sequence[str], wanted: int | None, chosen: int, free: Free, in_time: int = LARGEST**2
) -> int:
    """Return the size to run: `wanted` when the user named one, else `chosen` or the largest that fits below it.

    Raises CannotRunError: `wanted` does not fit, or nothing does. It names a size that has the time, too (`in_time` at
    most), and that still fits when it is tried, with a little less memory free.
    """
    size, room = wanted or chosen, {memory: int(MARGIN * amount) for memory, amount in free.items()} if wanted else free
    for dtype in dtypes:
        if short := lacking(cases, size, dtype, free):
            smaller = range(max(min(size, in_time) // SMALLEST, 1) * SMALLEST, 0, -SMALLEST)
            fits = next((one for one in smaller if not any(lacking(cases, one, kind, room) for kind in dtypes)), None)
            if wanted or fits is None:
                advice = f"--size {fits} fits into memory and time" if fits else "no size fits"
                raise too_large(f"size {size} in {dtype} needs", short, free, advice)
            return fits
    return size


@dataclass
class MatPow(PlanBase):
    """One run of the benchmark, from what was asked for: powers of matrices, at one size or at several.

    What results are compared with is written to files, each once.
    """

    file: ClassVar[Any] = matpow
    power: int = 10
    sizes: tuple[int, ...] = ()  # none: one is chosen for about TARGET seconds, and GPUs also get one that fills them
    chosen: int = 0  # the size that all devices share, where there is one
    skipped: dict[str, list[int]] = field(default_factory=dict)  # of several sizes those that are left out, by reason
    begun: set[int] = field(default_factory=set)  # of several sizes those that are measured on some device
    written: set[str] = field(default_factory=set)

    @classmethod
    def read(cls, options: Mapping[str, Any], **common: Any) -> MatPow:
        """Make the plan that options ask for. Raises RequestError: a type cannot show a wrong power."""
        sizes, power = options["size"], options["power"]
        for dtype in common["dtypes"]:
            if matpow.tolerance(dtype, power) > VERIFIABLE:
                most = next(n for n in range(power, 1, -1) if matpow.tolerance(dtype, n) <= VERIFIABLE)
                why = f"cannot be verified in {dtype}, whose rounding errors add up; use at most {most}"
                raise RequestError(f"--power {power} {why}")
        auto = "auto" in sizes
        return cls(
            power=power,
            sizes=AUTO if auto else tuple(sorted(sizes)),
            named=not auto,
            **common,
        )

    @property
    def several(self) -> bool:
        """True if this is a sweep over sizes."""
        return len(self.sizes) > 1

    def title(self) -> str:
        sizes = sorted(self.begun or self.sizes) or [self.chosen]
        several = f"{len(sizes)} sizes from {sizes[0]} to {sizes[-1]}"
        what = several if len(sizes) > 1 else f"{sizes[0]} × {sizes[0]}"
        return f"A^{self.power} and B^{self.power}, {what}"

    def parameters(self) -> dict[str, Scalar]:
        size: dict[str, Scalar] = {"sweep": "size"} if self.several else {"size": self.chosen}
        return {**size, "power": self.power, "seed": matpow.SEED}

    def conclusions(self, runs: Sequence[Run]) -> tuple[str, ...]:
        return (*overtaking(runs, "size", "N"), *saturation(runs, "size", "N")) if self.several else ()

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        missing = (f"N = {', '.join(map(str, sizes))}: {why}" for why, sizes in self.skipped.items())
        return (*missing, *super().notes(runs))

    def job(self, case: Case, dtype: str, size: int, folder: str, terms: int = 2, largest: int = 0) -> Job:
        """Return what a case computes.

        Args:
            folder: for the files that results are compared with.
            terms: how many powers the largest case needs.
            largest: the largest size, whose memory logical devices get, as it is set once.
        """
        parameters = {"size": size, "power": self.power}
        each = max(matpow.device_bytes(max(size, largest), dtype, 2, way) for way in SPREADS)
        work = matpow.flop(size, self.power, case.terms)
        file = str(Path(folder) / f"{size}.float64")

        def verify(ask: Ask) -> dict[str, str]:
            if file not in self.written:
                ask(do="reference", workload=self.workload, parameters=parameters, terms=terms, file=file)
                self.written.add(file)
            return {"file": file}

        strong = case.spread == "rows" or len(case.devices) == 2
        return self.make_job(
            case,
            dtype,
            parameters,
            work,
            flop=work,
            scaling=None if len(case.devices) < 2 else "strong" if strong else "weak",
            virtual_memory_mib=each * 5 // 4 // 2**20 + 256,  # a quarter for what the allocator cannot use
            verify=verify,
        )

    def groups(self, session: Session) -> Iterator[Group]:
        cases, sizes, expected = self.selection.cases(session.found), self.sizes, 0.0
        if not self.several:
            cases, self.chosen, expected = self._choose_size(session, cases)
            sizes = (self.chosen,)
        by_type = list(self.cases_by_type(cases))
        again = [case.label for _, todo in by_type for case in self._again(todo)]
        session.begin([*[case.label for _, todo in by_type for case in todo] * len(sizes), *again])
        terms = max(case.terms for case in cases)
        with scratch() as folder:

            def make(case: Case, dtype: str, size: int) -> Job:
                job = self.job(case, dtype, size, folder, terms, sizes[-1])
                return replace(job, point={"size": size} if self.several or again else {})

            for dtype, todo in by_type:
                if self.several:
                    yield from self.sweep(session, dtype, todo, sizes, make, partial(self._possible, session))
                else:
                    yield from self._one_size(session, todo, expected, partial(make, dtype=dtype))

    def _again(self, cases: Sequence[Case]) -> list[Case]:
        """Return the GPUs that are also measured at a size that fills them."""
        return [] if self.sizes else [case for case in cases if case.gpus and not case.virtual]

    def _one_size(
        self, session: Session, cases: Sequence[Case], expected: float, make: Callable[..., Job]
    ) -> Iterator[Group]:
        """Yield the size that all devices share, then that which fills the GPUs, if it is larger."""
        again, jobs = self._again(cases), [make(case, size=self.chosen) for case in cases]
        keys = frozenset(job.key for job in jobs if job.case in again)
        yield Group(tuple(jobs), expected, keys)
        mine = [run for run in session.runs if (run.label, run.dtype) in keys]
        larger = self._own_size(session, again, mine)
        if larger:
            yield Group(tuple(make(case, size=larger) for case in again))
        session.skip(0 if larger else len(again))

    def _own_size(self, session: Session, gpus: Sequence[Case], runs: Sequence[Run]) -> int | None:
        """Return the size that fills the GPUs, by their speed and memory; None where it is hardly larger."""
        speeds = [run.flop / run.median_s for run in runs if run.flop and run.median_s]
        for size in OWN_SIZES if gpus and len(speeds) == len(gpus) else ():
            slow = matpow.flop(size, self.power, 2) / min(speeds) > OWN_SECONDS
            if size >= 1.5 * self.chosen and not slow and not lacking(gpus, size, runs[0].dtype, session.free(gpus)):
                return size
        return None

    def _choose_size(self, session: Session, cases: tuple[Case, ...]) -> tuple[tuple[Case, ...], int, float]:
        """Return the cases that have the time, the size asked for or the one that suits the slowest device, and the
        seconds that a sample of it will take.

        Raises CannotRunError: it does not fit, or takes too long.
        """
        wanted = self.sizes[0] if self.sizes else None
        session.show("estimating the time" if wanted else "choosing a size")
        slowest = min(self.speed(session, cases[0], dtype) for dtype in self.dtypes)
        rule = session.rule.share(session.processes)
        target = min(TARGET, rule.deadline / rule.min_samples)
        chosen = sane_size(slowest * target, self.power)
        fits = round((slowest * rule.deadline / rule.min_samples / matpow.flop(1, self.power, 2)) ** (1 / 3))
        in_time = LARGEST**2 if self.may_skip_cpu(cases) else fits
        size = fit(cases, self.dtypes, wanted, chosen, session.free(cases), in_time)
        expected = matpow.flop(size, self.power, 2) / slowest
        least = max(FEWEST, session.processes) * expected
        if not wanted or least <= session.rule.deadline:
            return cases, size, expected
        longer = math.ceil(expected * (rule.min_samples + 1) * session.processes / 10) * 10
        if others := self.skip_cpu(session, cases, expected, f"--deadline {longer}"):
            return others, size, 0.0
        where = "the CPU" if cases[0].label == "CPU" else cases[0].label
        smaller = f"--size {max(fits // 128 * 128, 64)}"
        # the next estimate may be a little longer
        raise too_slow(
            f"size {size}: a sample on {where}", expected, session.rule.deadline, smaller, longer, 1.1 * least
        )

    def speed(self, session: Session, case: Case, dtype: str) -> float:
        """Return FLOP/s of the slowest device, roughly: of the first case, which is the CPU where that takes part."""
        short = replace(self, power=min(self.power, PROBE_POWER))
        for probe in PROBE_SIZES:
            size = min(probe, *self.sizes[:1] or (probe,))
            prepare(session.first, short.job(case, dtype, size, ""))
            session.first.ask(PATIENCE, do="sample", count=1, steps=1)
            took: float = min(session.first.ask(PATIENCE, do="sample", count=2, steps=1)["samples"])[0]
            if took >= PROBE_SECONDS or size < probe:
                break
        return matpow.flop(size, short.power, 2) / took

    def _possible(self, session: Session, job: Job, beside: Sequence[Case]) -> bool:
        """True if there is memory and time for a job of a sweep; notes why not.

        A size is left out, and named, on a device that failed before, or whose speed at the size before says that it
        would need longer for its samples than the deadline gives, or where a memory does not hold it.
        """
        size = job.parameters["size"]
        last = next((run for run in reversed(session.runs) if (run.label, run.dtype) == job.key), None)
        before, seconds = (last.parameters["size"] if last else 0), 0.0
        if last and last.median_s and last.flop:
            seconds = last.median_s * job.work / last.flop
        if last and last.failure:
            why = f", which failed at {before}"
        elif seconds > session.rule.deadline / FEWEST_FOR_INTERVAL:
            why = f": too slow for --deadline {session.rule.deadline:g}, estimated from {before}"
        elif short := lacking(beside, size, job.dtype, session.free(beside)):
            where = "the host" if short[0] == HOST else f"GPU {short[0]}"
            why = f": does not fit into the free memory of {where}"
        else:
            self.begun.add(size)
            return True
        self.skipped.setdefault(f"skipped on {job.case.label}, {job.dtype}{why}", []).append(size)
        return False
