"""`tfgpu bench cnn` and `gan`, the parent's side: cases and batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tfgpu_doctor.bench.cluster import SPREAD as WORKERS
from tfgpu_doctor.bench.cluster import Cluster
from tfgpu_doctor.bench.devices import Case, DeviceError, GpuFound, Job, RequestError, Scalar
from tfgpu_doctor.bench.plans.base import (
    HOST,
    PROCESS,
    SHARE,
    CannotRunError,
    Free,
    Group,
    PlanBase,
    too_large,
    too_slow,
)
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.runner.process import Worker, WorkerError, hello, prepare
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.workloads import cnn, gan
from tfgpu_doctor.bench.workloads.models import MODELS, SEED, training_flop
from tfgpu_doctor.bench.workloads.training import FEW

SPREAD = "replicas"
# FLOP/s that even a weak CPU and a weak GPU train with: two cores of a cloud machine did 110e9 (mnist, float32). For
# how long an answer may take, never for a result.
SLOW, SLOW_GPU = 2e10, 5e11
CPU_EACH = 5e10  # FLOP/s of one CPU, by the same measurement: to tell how long a step would take
LONG = 10.0  # seconds of a step of the CPU from which on it is left out beside GPUs: some dozen steps are needed
FEWEST, USUAL = 2, 6  # steps for which there has to be time, and for which more is advised
# between the estimate, which no measurement corrects, and the time that a loaded machine takes: what is advised holds
RESERVE = 4
STEPS_AN_ANSWER = 12  # that an answer takes at most: the verification trains 3 × 3, tracing comes to that
LEAST, MOST = 2, 2**20  # images that a batch may have
# How it shows that memory ran out: what TensorFlow, cuDNN, cuBLAS and XLA say (as ResourceExhaustedError,
# InternalError, UnknownError, NotFoundError: tensorflow/python/framework/errors_impl.py), NumPy, and Linux.
OUT_OF_MEMORY = (
    *("RESOURCE_EXHAUSTED", "Out of memory", "out of memory", "OOM when allocating", "CUDA_ERROR_OUT_OF_MEMORY"),
    *("CUDNN_STATUS_ALLOC_FAILED", "CUBLAS_STATUS_ALLOC_FAILED", "Failed to allocate", "failed to allocate"),
    *("ResourceExhausted", "MemoryError", "killed by SIGKILL"),
)


def cpu_seconds(flop: float, session: Session) -> float:
    """Return how long the CPUs that may be used take for so many operations of a network, roughly."""
    return flop / (CPU_EACH * (session.cpus or 1))


def check_time(seconds: float, deadline: float, batch: int, option: str) -> None:
    """Refuse steps on the CPU that take too long. Raises NoRoomError; the message says which batch will do."""
    if FEWEST * seconds > deadline:
        fits = int(batch * deadline / (RESERVE * FEWEST * seconds))
        smaller = f"{option} {fits}" if fits >= LEAST else ""
        longer, what = math.ceil(seconds) * USUAL, f"a step of {batch} images on the CPU"
        raise too_slow(what, seconds, deadline, smaller, longer, FEWEST * seconds)


def out_of_memory(why: str) -> bool:
    """True if this is how it shows that memory ran out."""
    return any(sign in why for sign in OUT_OF_MEMORY)


def explain(why: str, what: str, advice: str) -> str:
    """Say why a training failed; a batch that is too large is reported as that, whichever way the process ended."""
    if not out_of_memory(why):
        return why
    how = why.splitlines()[0].split(": ")[0][:120]
    if "SIGKILL" in why:  # perhaps by hand
        return f"{how}, probably because the machine ran out of memory: try {advice}"
    return f"{what} per device do not fit into its memory: try {advice} ({how})"


@dataclass
class TrainingPlan(PlanBase):
    """A benchmark whose step is one of a training, with a batch for each device."""

    step_name = "step"
    blocks = True
    option = "--batch-size"  # says how many images there are

    def step_flop(self) -> float:
        """Return the FLOP of a step for each image."""
        raise NotImplementedError

    def job(self, dtype: str, case: Case) -> Job:
        """Return what a case computes."""
        raise NotImplementedError

    def measured(
        self, session: Session, cases: tuple[Case, ...], batch: int, *, alone: bool = False
    ) -> Iterator[Group]:
        """Yield a group for each type; with `alone`, for each case, so that those that share a GPU do not at once.

        A CPU that stands beside GPUs unasked and takes long for `batch` images is left out, and noted.

        Raises NoRoomError: it was asked for, or is all there is.
        """
        if any(not case.gpus for case in cases):
            seconds, deadline = cpu_seconds(batch * self.step_flop(), session), session.rule.deadline
            longer = f"--devices cpu,gpu:0 --deadline {math.ceil(seconds) * USUAL}"
            long = seconds > min(LONG, deadline / FEWEST)
            if long and (gpus := self.skip_cpu(session, cases, seconds, longer)):
                cases = gpus
            else:
                check_time(seconds, deadline, batch, self.option)
        groups = [tuple(self.job(dtype, case) for case in todo) for dtype, todo in self.cases_by_type(cases)]
        if alone:
            groups = [(one,) for group in groups for one in group]
        session.begin([one.case.label for group in groups for one in group])
        for group in groups:
            yield Group(tuple(replace(job, least=FEWEST * (job.case.label == "CPU")) for job in group))

    def step(self, case: Case, dtype: str, batch: int, parameters: dict[str, Any], **more: Any) -> Job:
        """Return a job of training steps with `batch` images on each device; `more` are other fields of the job."""
        images, flop = batch * len(case.devices), self.step_flop()
        speed = SLOW_GPU if case.gpus and not case.virtual else SLOW
        small = self.option == "--batch-size"
        advice = f"--batch-size {max(batch // 2, LEAST)}" if small else f"a smaller {self.option}"
        return self.make_job(
            case,
            dtype,
            parameters,
            float(images),
            flop=float(images * flop),
            explain=lambda why: explain(why, f"{batch} images", advice),
            patience=60 + flop * STEPS_AN_ANSWER * (images / speed + FEW / SLOW),
            scaling=("weak" if small else "strong") if len(case.devices) > 1 else None,
            **more,
        )


@dataclass
class Gan(TrainingPlan):
    """One run of `tfgpu bench gan`, from what was asked for."""

    file: ClassVar[Any] = gan
    batch: int = gan.DEFAULT_BATCH  # images on each device

    @classmethod
    def read(cls, options: Mapping[str, Any], **common: Any) -> Gan:
        """Make the plan that options ask for."""
        return cls(batch=options["batch_size"], **common)

    def title(self) -> str:
        return f"steps of a DCGAN, 28 × 28 images, {self.batch} per device"

    def parameters(self) -> dict[str, Scalar]:
        return {"batch": self.batch, "seed": gan.SEED}

    def step_flop(self) -> float:
        return gan.training_flop()

    def groups(self, session: Session) -> Iterator[Group]:
        yield from self.measured(session, self.selection.cases(session.found, (SPREAD,)), self.batch)

    def job(self, dtype: str, case: Case) -> Job:
        return self.step(case, dtype, self.batch, {"batch": self.batch})


@dataclass
class Cnn(TrainingPlan):
    """One run of `tfgpu bench cnn`, from what was asked for."""

    file: ClassVar[Any] = cnn
    model: str = "mnist"
    batch: int | None = None  # images on each device (weak scaling); None: the model's
    global_batch: int | None = None  # images of all devices together (strong scaling), instead
    xla: bool = False
    cluster: Cluster | None = None  # several machines; this one is the first, which leads
    auto: bool = False  # the largest batch that fits, which is searched for

    @classmethod
    def read(cls, options: Mapping[str, Any], *, cluster: Cluster | None, **common: Any) -> Cnn:
        """Make the plan that options ask for. Raises RequestError: they exclude one another."""
        batch, together = options["batch_size"], options["global_batch_size"]
        auto = batch == "auto"
        if batch is not None and together is not None:
            raise RequestError(
                "--batch-size (per device) and --global-batch-size (all devices together) cannot be combined"
            )
        if auto and cluster:
            raise RequestError("--batch-size auto needs a single machine")
        batch = None if auto else batch
        plan = cls(options["model"], batch, together, options["xla"], cluster=cluster, auto=auto, **common)
        try:  # what is wrong however many devices are found
            plan.batch_of((cluster.count if cluster else 1) * (plan.selection.virtual or plan.selection.gpus or 1))
        except DeviceError as error:
            raise RequestError(str(error)) from error
        return plan

    def __post_init__(self) -> None:
        self.option = "--global-batch-size" if self.global_batch else "--batch-size"

    @property
    def each(self) -> int:
        """Return the images on each device, where that is the same for all cases."""
        return self.batch or MODELS[self.model].default_batch

    def title(self) -> str:
        height, width, _ = MODELS[self.model].image
        images = f"{self.global_batch} images per step" if self.global_batch else f"{self.each} per device"
        return f"training {self.model}, {height} × {width} images, {images}" + (", XLA" if self.xla else "")

    def parameters(self) -> dict[str, Scalar]:
        size = {"global_batch": self.global_batch} if self.global_batch else {"batch": self.each}
        several = {"workers": self.cluster.count} if self.cluster else {}
        return {"model": self.model, **size, **several, "xla": int(self.xla), "seed": SEED}

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        notes = list(super().notes(runs))
        if self.xla:
            notes.append(
                "XLA compiles the forward and backward pass; summing the gradients and updating the weights are not "
                "compiled."
            )
        if self.cluster and self.cluster.share_a_host():
            notes.append(
                "Some workers share a machine: their combined speed does not predict the speed of several machines."
            )
        return tuple(notes)

    def step_flop(self) -> float:
        return training_flop(self.model)

    def groups(self, session: Session) -> Iterator[Group]:
        cases = self.cases(session.found)
        fit = []
        if self.auto:
            cases = tuple(case for case in cases if case.gpus)  # the CPU may hold less than a GPU
            fit = [self._choose_batch(session, cases)]
        free = session.free(cases)
        for case in cases:  # what a training needs beside its images, TensorFlow finds out itself
            fits, images = self.most_images(case, free), self.batch_of(len(case.devices)) * len(case.devices)
            if images > fits * len(case.devices):
                need, advice = PROCESS + images * self._image_size(), f"try {self.option} {max(fits // 4, LEAST)}"
                raise too_large(f"{images} images for {case.label} need", (HOST, need), free, advice)
        self.left_out += fit
        yield from self.measured(session, cases, self.batch_of(1), alone=self.auto)

    def _choose_batch(self, session: Session, cases: Sequence[Case]) -> str:
        """Set the largest batch that fits into the case with the most GPUs; returns a note about it.

        Raises CannotRunError: there is no GPU, not even the smallest batch fits, or a training failed for another
        reason than memory.
        """
        if not cases:
            raise CannotRunError("--batch-size auto needs a GPU, whose memory limits the batch")
        dtype = next((one for one in self.dtypes if one in ("float32", "tf32")), self.dtypes[0])  # with larger values
        case = max(cases, key=lambda case: len(case.devices))
        on_host = self.most_images(case, session.free([case]))
        most, why = min((MOST, "more cannot be given to --batch-size"), (on_host, f"{HOST} holds no more images"))

        def fits(batch: int) -> bool:
            nonlocal why
            session.show(f"{case.label} {dtype}: trying a batch of {batch}")
            error = trial_error(session.start_worker, replace(self, batch=batch).job(dtype, case))
            why = error or why
            return not error

        try:
            self.batch, failed = largest_batch(self.each, most, fits)
        except WorkerError as error:
            raise CannotRunError(f"the search for the largest batch failed: {error}") from error
        if self.batch is None:
            raise CannotRunError(f"not even {LEAST} images per device fit ({why})")
        return f"{self.batch} images per device fit into memory; {f'{failed} do not ({why})' if failed else why}."

    def cases(self, found: Sequence[GpuFound]) -> tuple[Case, ...]:
        """Return the cases of this machine, and before them that of all machines, where there are several.

        The common case comes first, so that the others are not kept waiting.

        Raises DeviceError: GPUs were asked for that are not there.
        """
        alone = self.selection.cases(found, (SPREAD,))  # also says what is not there
        if self.cluster is None:
            return alone
        each = min(len(found) if self.selection.gpus is None else self.selection.gpus, len(found))
        first = self.cluster.first_gpu(each, len(found))
        own = [replace(case, gpus=tuple(gpu + first for gpu in case.gpus)) for case in alone if case.gpus or not found]
        return (self.cluster.together(each, first), *own)

    def part(self, found: Sequence[GpuFound]) -> list[Job]:
        """Return what a machine other than the first takes part in.

        Raises DeviceError: GPUs were asked for that are not there, or the images cannot be shared out.
        """
        by_type = self.cases_by_type(self.cases(found))
        return [self.job(dtype, case) for dtype, cases in by_type for case in cases if case.spread == WORKERS]

    def batch_of(self, replicas: int) -> int:
        """Return the images on each of so many devices. Raises DeviceError: they cannot be shared out evenly."""
        if self.global_batch is None:
            return self.each
        if self.global_batch % replicas:
            lower = self.global_batch // replicas * replicas
            near = f"{lower} or {lower + replicas}" if lower else str(replicas)
            raise DeviceError(
                f"--global-batch-size {self.global_batch} cannot be divided evenly over {replicas} devices; use {near}"
            )
        return self.global_batch // replicas

    def job(self, dtype: str, case: Case) -> Job:
        """Return what a case computes. Raises DeviceError: the images cannot be shared out evenly over its devices."""
        each = self.batch_of(len(case.devices))
        parameters = {"model": self.model, "batch": each, "xla": self.xla}
        if self.cluster and case.spread == WORKERS:
            parameters |= {"index": self.cluster.index, "workers": self.cluster.count}
        return self.step(
            case,
            dtype,
            each,
            parameters,
            farewell=len(case.devices) > 1,
            virtual_memory_mib=4096,
        )

    def _image_size(self) -> int:
        """Return the bytes that the host needs for an image: NumPy's, the device's, a copy on the way."""
        return 3 * 4 * math.prod(MODELS[self.model].image)

    def most_images(self, case: Case, free: Free) -> int:
        """Return the images per device that the host's memory holds."""
        return int((SHARE * free[HOST] - PROCESS) / self._image_size()) // len(case.devices)


# ---------------------------------------------------------------------------------------------------------------------
# Search for the largest batch that fits: `tfgpu bench cnn --batch-size auto`.


FINE = 8  # the result is less than one part in so many below the smallest batch that does not fit


def largest_batch(start: int, most: int, fits: Callable[[int], bool]) -> tuple[int | None, int | None]:
    """Double or halve the batch until its limit lies between two tries, then halve the gap between them.

    Returns the largest batch that fits, and the smallest that was tried and does not: None if there is none.
    """
    low, high, batch = LEAST - 1, None, min(max(start, LEAST), most)
    while LEAST <= batch <= most and batch not in (low, high):
        if fits(batch):
            low = batch
        else:
            high = batch
        if high is None:
            batch = min(2 * low, most)
        elif low < LEAST:
            batch = max(high // 2, LEAST)
        else:
            batch = (low + high) // 2 if high - low > max(1, low // FINE) else low
    return (low if low >= LEAST else None), high


def trial_error(start: Callable[[], Worker], job: Job) -> str:
    """Do in a new process what a measurement does before its samples; returns why it lacks memory, or "" if it fits.

    A process that ends is taken for one that lacked memory: XLA aborts, and the system kills, without saying so.

    Raises WorkerError: it fails for another reason.
    """
    with closing(start()) as worker:
        hello(worker)
        try:
            prepare(worker, job)
            worker.ask(job.patience, do="sample", count=2, steps=1)  # the second needs what the optimizer has made
            worker.ask(job.patience, do="verify")
        except WorkerError as error:
            if not str(error).startswith("the worker ") and not out_of_memory(str(error)):
                raise
            return str(error).strip().splitlines()[0].partition(": ")[0]
    return ""
