"""`tfgpu bench cnn`, the parent's side: cases, batches, and where the time of several GPUs goes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tfgpu_doctor.bench.devices import Case, DeviceError, Selection
from tfgpu_doctor.bench.jobs import Job, Scalar
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.session import Group, Session
from tfgpu_doctor.bench.sizing import HOST, PROCESS, SHARE, TooLargeError
from tfgpu_doctor.bench.workloads import cnn
from tfgpu_doctor.bench.workloads.models import MODELS, SEED, training_flop

SPREAD = "MirroredStrategy"
# FLOP/s that even a weak CPU trains with: two cores of a cloud machine did 110e9 (mnist, float32). For how long an
# answer may take, never for a result.
SLOW = 2e10
STEPS_AN_ANSWER = 12  # that an answer takes at most: the verification trains 3 × 3, tracing comes to that
POOR = 0.9  # efficiency below which a reason is worth a sentence
WEIGHTY = 0.1  # of a step, from which on a part of it is a reason
TF32_NOTE = "TF32 exists on GPUs of compute capability 8.0 and later; the CPU computes in float32."
XLA_NOTE = (
    "XLA compiles forward and backward pass in every case; the sum of the gradients and the update are not compiled."
)


@dataclass
class Cnn:
    """One run of the benchmark, from what was asked for."""

    model: str = "mnist"
    batch: int | None = None  # images on each device (weak scaling); None: the model's
    global_batch: int | None = None  # images of all devices together (strong scaling), instead
    dtypes: tuple[str, ...] = ("float32",)
    xla: bool = False
    selection: Selection = field(default_factory=Selection)
    workload: str = "cnn"

    @property
    def each(self) -> int:
        """Images on each device, where that is the same for all cases."""
        return self.batch or MODELS[self.model].default_batch

    def title(self) -> str:
        """What is computed."""
        height, width, _ = MODELS[self.model].image
        images = f"{self.global_batch} images a step" if self.global_batch else f"{self.each} on each device"
        return f"training {self.model}, {height} × {width} images, {images}" + (", XLA" if self.xla else "")

    def parameters(self) -> dict[str, Scalar]:
        """What two results must share."""
        size = {"global_batch": self.global_batch} if self.global_batch else {"batch": self.each}
        return {"model": self.model, **size, "xla": int(self.xla), "seed": SEED}

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """What is not what it seems."""
        said = (TF32_NOTE,) if "tf32" in self.dtypes else ()
        return (*said, XLA_NOTE) if self.xla else said

    def advice(self, run: Run, runs: Sequence[Run]) -> tuple[str, ...]:
        """Why several GPUs are not as many times as fast."""
        return why_poor(run) if run.efficiency and run.efficiency.value < POOR else ()

    def groups(self, session: Session) -> Iterator[Group]:
        """One group for each type; the CPU's float32 stands for its tf32.

        Raises:
            DeviceError: devices that are not there, or over which the images cannot be shared out.
            TooLargeError: the images alone are more than the memory.
        """
        cases = self.selection.cases(session.found, (SPREAD,))
        self.check_memory(cases, session.free(cases))
        done: set[tuple[str, str]] = set()
        for dtype in self.dtypes:
            entries = [(case, self.job(dtype, case)) for case in cases]
            todo = [(case, job) for case, job in entries if (case.label, job.dtype_on(case)) not in done]
            done |= {(case.label, job.dtype_on(case)) for case, job in todo}
            if todo:
                yield Group(tuple(todo))

    def batch_of(self, replicas: int) -> int:
        """Images on each of so many devices.

        Raises:
            DeviceError: they cannot be shared out evenly.
        """
        if self.global_batch is None:
            return self.each
        if self.global_batch % replicas:
            lower = self.global_batch // replicas * replicas
            near = f"{lower} or {lower + replicas}" if lower else str(replicas)
            raise DeviceError(
                f"--global-batch-size {self.global_batch} cannot be shared out evenly over {replicas} devices; "
                f"{near} can"
            )
        return self.global_batch // replicas

    def job(self, dtype: str, case: Case) -> Job:
        """What a case computes.

        Raises:
            DeviceError: the images cannot be shared out evenly over its devices.
        """
        replicas = len(case.devices)
        each = self.batch_of(replicas)
        images, flop = each * replicas, training_flop(self.model)
        scaling = "strong" if self.global_batch else "weak"
        return Job(
            workload=self.workload,
            parameters={"model": self.model, "batch": each, "xla": self.xla},
            dtype=dtype,
            unit=cnn.UNIT,
            work=lambda case: float(images),
            flop=lambda case: float(images * flop),
            judge=cnn.judge,
            scaling=lambda case: scaling if replicas > 1 else None,
            step_name="step",
            blocks=True,
            figures=not case.virtual,  # figures are speeds
            patience=60 + STEPS_AN_ANSWER * images * flop / SLOW,
            virtual_memory_mib=4096,
        )

    def check_memory(self, cases: Sequence[Case], free: dict[str | int, int]) -> None:
        """Refuse what cannot fit, by the images alone: what a training needs beside them TensorFlow finds out itself.

        Raises:
            TooLargeError: they do not.
        """
        height, width, channels = MODELS[self.model].image
        image = 4 * height * width * channels
        for case in cases:
            images = self.batch_of(len(case.devices)) * len(case.devices)
            need = PROCESS + 3 * images * image  # NumPy's, the device's, a copy on the way
            if need > SHARE * free[HOST]:
                fits = int((SHARE * free[HOST] - PROCESS) / (3 * image)) // len(case.devices)
                option = "--global-batch-size" if self.global_batch else "--batch-size"
                raise TooLargeError(
                    f"{images} images for {case.label} need {need / 2**30:.1f} GiB of {HOST}, of which "
                    f"{free[HOST] / 2**30:.1f} GiB are free; try {option} {max(fits // 4, 1)}"
                )


def why_poor(run: Run) -> tuple[str, ...]:
    """What the figures beside the samples say of a poor efficiency; the weightiest first."""
    found = {figure.name: figure for figure in run.figures}
    alone, together, reduce = (found.get(name) for name in ("gradients alone", "gradients together", "all-reduce"))
    if not (alone and together and reduce) or run.median_s is None:
        return ()
    step = run.median_s / run.steps
    bus = found.get("all-reduce bus bandwidth")
    width = f", {bus.value / 1e9:.2g} GB/s of bus bandwidth" if bus else ""
    reasons = [
        (
            reduce.value / step,
            f"the sum of the gradients takes {reduce.value / step:.0%} of a step's time{width} ({reduce.note}): a "
            "larger --batch-size weighs it less, and tfgpu bench transfer shows what the links give",
        ),
        (
            (together.value - alone.value) / step,
            f"the replicas hold one another up: forward and backward pass take {together.value / alone.value:.2f} "
            "times as long together as one alone: the host launches the kernels of all of them, or they share power "
            "and cooling; a larger --batch-size or --xla asks less of the host",
        ),
    ]
    return tuple(text for share, text in sorted(reasons, reverse=True) if share > WEIGHTY)
