"""`tfgpu bench memory`, the parent's side: the search for the largest batch, and the speed up to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from tfgpu_doctor.bench.devices import Case
from tfgpu_doctor.bench.jobs import Job, Scalar
from tfgpu_doctor.bench.plans import batch_search
from tfgpu_doctor.bench.plans.base import PlanBase
from tfgpu_doctor.bench.plans.batch_search import POINTS, BatchSearch, Try, points
from tfgpu_doctor.bench.plans.cnn import SLOW, SPREAD, STEPS_AN_ANSWER
from tfgpu_doctor.bench.plans.sweep_reading import saturation
from tfgpu_doctor.bench.plans.workload_size import HOST
from tfgpu_doctor.bench.results import Figure, Run
from tfgpu_doctor.bench.runner.process import Worker, WorkerError
from tfgpu_doctor.bench.runner.workers import hello, prepare
from tfgpu_doctor.bench.session import Group, Session
from tfgpu_doctor.bench.workloads import memory
from tfgpu_doctor.bench.workloads.models import MODELS, SEED, training_flop
from tfgpu_doctor.bench.workloads.replicas import NO_MEMORY
from tfgpu_doctor.records.units import memory_size

SHARE = 0.5  # of the host's free memory that a training on the CPU may grow to
GUARD = 0.8  # of it, beyond which the process is refused memory, should the estimate be wrong
PROCESSES = 3  # of a case: one or more that search, one that measures
PATIENT = 5  # times --deadline that a search on GPUs may take, whose bound is the memory itself
VIRTUAL_MIB = 2048  # of each logical GPU
NO_ROOM = ("NoRoomError", "MemoryError", "ArrayMemoryError", "_ArrayMemoryError")


@dataclass
class CaseSearch:
    """The search of one case."""

    case: Case
    dtype: str  # asked for
    search: BatchSearch
    free: int  # bytes of the host's memory, at the begin
    trouble: str = ""  # what ended it that has nothing to do with memory

    def batches(self) -> list[int]:
        """Those whose speed is measured, largest first; where none fits, the one that says why."""
        largest = self.search.largest
        if largest is not None:
            return points(largest.batch)
        failed = self.search.failed
        return [failed.batch if failed else self.search.start]


@dataclass
class Memory(PlanBase):
    """One run of the benchmark, from what was asked for."""

    workload = "memory"
    model: str = "mnist"
    found: list[CaseSearch] = field(default_factory=list)

    def title(self) -> str:
        """What is looked for."""
        height, width, _ = MODELS[self.model].image
        return f"the largest batch for training {self.model}, {height} × {width} images, per device"

    def parameters(self) -> dict[str, Scalar]:
        """What two results must share; batches stand with the runs."""
        return {"model": self.model, "seed": SEED}

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """What fits on each device, what bounds it, and from which batch on more brings nothing."""
        notes = [f"{search.case.label}, {search.dtype}: {verdict(search)}." for search in self.found]
        notes += [f"Speed: {sentence}." for sentence in saturation(runs, "batch", "batch")]
        return (*notes, *super().notes(runs))

    def groups(self, session: Session) -> Iterator[Group]:
        """One case after the other, for each the search, then its batches, the largest first, in one new process.

        One after the other, because two that share a GPU would share its memory. Largest first, because what a smaller
        batch leaves behind in the allocator may keep a larger one from fitting.
        """
        cases = self.selection.cases(session.found, (SPREAD,))
        todo = [(case, dtype) for dtype, mine in self.cases_by_type(cases) for case in mine]
        labels = [case.label for case, _ in todo for _ in range(POINTS)]
        deadlines = sum(PATIENT if case.gpus else 1 for case, _ in todo)
        session.begin(
            labels, PROCESSES * len(todo), sampling=session.rule.deadline * deadlines, besides=POINTS * len(todo)
        )
        for case, dtype in todo:
            found = self._search(session, case, dtype)
            self.found.append(found)
            batches = found.batches()
            session.skip(2 * POINTS - len(batches))
            rule = replace(session.rule, deadline=session.rule.deadline / 2 / len(batches))
            for batch in batches:
                keep = frozenset([(case.label, case.dtype(dtype))] if batch != batches[-1] else [])
                yield Group(((case, self._measured(found, batch)),), _step(found, batch), keep, rule)

    def _search(self, session: Session, case: Case, dtype: str) -> CaseSearch:
        """Try batches until it is known which is the largest that fits."""
        free = int(session.free([case])[HOST])
        on_cpu = not case.gpus
        deadline = session.rule.deadline / 2 if on_cpu else PATIENT * session.rule.deadline
        found = CaseSearch(case, dtype, BatchSearch(int(SHARE * free) if on_cpu else None, deadline), free)
        tries = _Tries(session.start_worker)
        try:
            while (batch := found.search.next()) is not None:
                session.show(f"{case.label} {dtype}: trying a batch of {batch}")
                job = self._job(dtype, batch, case, int(GUARD * free))
                found.search.tries.append(tries.one(case, job, batch))
        except WorkerError as error:
            found.trouble = str(error).strip().split("\n")[0][:300]
        finally:
            tries.close()
        return found

    def _job(self, dtype: str, batch: int, case: Case, guard: int = 0) -> Job:
        """One batch on one case."""
        images, flop = batch * len(case.devices), training_flop(self.model)
        return Job(
            workload=self.workload,
            parameters={"model": self.model, "batch": batch, "guard": guard},
            dtype=dtype,
            unit=memory.UNIT,
            work=lambda _: float(images),
            flop=lambda _: float(images * flop),
            judge=memory.judge,
            scaling=lambda case: "weak" if len(case.devices) > 1 else None,
            point={"batch": batch},
            step_name="step",
            blocks=True,
            patience=60 + STEPS_AN_ANSWER * images * flop / SLOW,
            virtual_memory_mib=VIRTUAL_MIB,
        )

    def _measured(self, found: CaseSearch, batch: int) -> Job:
        """The job of a point, with what the search knows of it beside the samples."""
        figures = tuple(_figures(found, batch))
        job = self._job(found.dtype, batch, found.case, int(GUARD * found.free))
        largest = found.search.largest.batch if found.search.largest else batch
        parameters = {**job.parameters, "largest": largest}
        return replace(job, parameters=parameters, derive=lambda *_: figures)


class _Tries:
    """The process that tries: kept while batches fit, another one after each that does not."""

    def __init__(self, start: Callable[[], Worker]) -> None:
        """None is started yet."""
        self._start = start
        self._worker: Worker | None = None
        self._used = False

    def one(self, case: Case, job: Job, batch: int) -> Try:
        """Try a batch: one that does not fit where others were before is tried again in a process of its own.

        Raises WorkerError: what happened has nothing to do with memory.
        """
        while True:
            used = self._used
            try:
                return self._one(case, job, batch)
            except WorkerError as error:
                self.close()
                why = no_room(str(error))
                if why is None:
                    raise
                if not used:
                    return Try(batch, False, why=why)

    def _one(self, case: Case, job: Job, batch: int) -> Try:
        if self._worker is None:
            self._worker = self._start()
            hello(self._worker)
        worker = self._worker
        prepare(worker, case, job)
        self._used = True
        seconds: list[float] = []
        for _ in range(2):  # the first traces the function; a second one needs what the optimiser has made since
            answer = worker.ask(job.patience, do="sample", count=1, steps=1)
            seconds += answer["samples"]
        if answer["misplaced"]:
            raise WorkerError(answer["misplaced"])
        peak = worker.ask(job.patience, do="figures").get("peak")
        return Try(batch, True, peak, seconds[-1])

    def close(self) -> None:
        """End the process."""
        if self._worker is not None:
            self._worker.close()
        self._worker, self._used = None, False


def no_room(error: str) -> str | None:
    """Why a try did not fit, in words; None when the error has nothing to do with memory.

    A process that ends is taken for one that lacked memory: XLA aborts, and the system kills, without saying so.
    """
    if error.partition(":")[0] in NO_ROOM:
        return "out of memory"
    if not error.startswith("the worker "):
        return None
    how, _, last = error.partition(": ")  # what it wrote last
    return f"{how}, out of memory" if any(word in last for word in NO_MEMORY) else how


def _step(found: CaseSearch, batch: int) -> float:
    """Seconds of a step, by the tries."""
    largest = found.search.largest
    return largest.seconds * batch / largest.batch if largest else 0.0


def _figures(found: CaseSearch, batch: int) -> Iterator[Figure]:
    """What the search knows of a point."""
    search = found.search
    if search.largest and batch == search.largest.batch:
        yield Figure(name="largest batch", value=float(batch), unit="images", note=bound(found))
    if (peak := search.peaks().get(batch)) is not None:
        of = "of TensorFlow's allocator" if found.case.gpus else "resident set, including the process itself"
        yield Figure(name="peak memory", value=float(peak), unit="B", note=of)
    if (growth := search.growth()) is not None and search.largest and batch == search.largest.batch:
        yield Figure(name="memory an image", value=growth, unit="B")


def verdict(found: CaseSearch) -> str:
    """The answer of a search, as a sentence without its end."""
    largest, failed = found.search.largest, found.search.failed
    if found.trouble:
        return f"the search ended early ({found.trouble})"
    if largest is None:
        return f"even a batch of {failed.batch if failed else found.search.start} does not fit" + (
            f": {failed.why}" if failed else ""
        )
    peak = f", with {memory_size(largest.peak)}" if largest.peak else ""
    return f"a batch of {largest.batch} fits{peak}; {bound(found)}"


def bound(found: CaseSearch) -> str:
    """What keeps the batch from being larger."""
    search = found.search
    if search.bound == batch_search.BUDGET:
        return (
            f"larger ones were not tried, because they would use more than half of the free host memory "
            f"({memory_size(search.budget or 0)} of {memory_size(found.free)})"
        )
    if search.bound == batch_search.TIME:
        return "larger ones were not tried, because they would exceed --deadline"
    if search.bound == batch_search.LIMIT:
        return "larger ones were not tried"
    failed = search.failed
    if failed is None:
        return "the search ended early"
    limit = f", {VIRTUAL_MIB} MiB per logical GPU" if found.case.virtual and found.case.gpus else ""
    return f"{failed.batch} does not ({failed.why}{limit})"
