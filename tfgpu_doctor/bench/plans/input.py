"""`tfgpu bench input`, the parent's side: pipelines alone, the training alone, and the training fed by pipelines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tfgpu_doctor.bench.devices import Case
from tfgpu_doctor.bench.jobs import Job, Scalar
from tfgpu_doctor.bench.plans import input_reading as reading
from tfgpu_doctor.bench.plans import workload_size
from tfgpu_doctor.bench.plans.base import PlanBase
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.session import CannotRunError, Group, Session
from tfgpu_doctor.bench.workloads import input as workload
from tfgpu_doctor.bench.workloads import pictures, pipelines
from tfgpu_doctor.bench.workloads.models import MODELS
from tfgpu_doctor.records.units import approximate

IMAGES = 512
MAKING = 300.0  # seconds that writing the images may take
# Bytes of one image in a training step, generously: what all layers keep for the backward pass, and their gradients.
ACTIVATIONS = {"mnist": 2 * 10**6, "cifar": 10**7, "resnet50": 3 * 10**8}
HOST_CASE = Case("CPU", ("/CPU:0",), ())  # where every pipeline runs


@dataclass
class Input(PlanBase):
    """One run of the benchmark, from what was asked for; it trains in the first type."""

    workload = "input"
    model: str = "mnist"
    batch: int | None = None  # None: the model's own
    folder: str | None = None  # None: images are made
    images: int = IMAGES
    found: int = 0  # images that there are
    bytes_each: float = 0.0  # of an encoded image
    in_turns: bool = True  # all pipelines were measured side by side

    @property
    def size(self) -> int:
        """Images in the batch of one device."""
        return self.batch or MODELS[self.model].default_batch

    def title(self) -> str:
        """What is read, and what for."""
        kind = "synthetic JPEG" if self.folder is None else "of your"
        read = (
            f"{self.found} {kind} images of {approximate(self.bytes_each / 1000)} kB"
            if self.found
            else "encoded images"
        )
        return f"{read} into {self.model}, batches of {self.size}"

    def parameters(self) -> dict[str, Scalar]:
        """What two results must share."""
        return {
            "model": self.model,
            "batch": self.size,
            "images": self.found,
            "bytes_each": round(self.bytes_each),
            "dataset": "synthetic" if self.folder is None else "folder",
            "seed": pictures.SEED,
        }

    def conclusions(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """Is it input-bound, and which knob helps."""
        return (*reading.verdicts(runs), *reading.ranking(runs))

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """What the figures leave out."""
        notes = [
            f"A block is {workload.BLOCK} batches. Files come from the operating system's page cache: disk and "
            "network speed are not measured. TensorFlow's own optimisations are off unless named."
        ]
        if not self.in_turns:
            notes.append(
                "Measured one after the other, for lack of memory: other programs can look like an effect of an option."
            )
        if any(run.label == "CPU" and run.parameters["measured"] == reading.FED for run in runs):
            notes.append("On the CPU, pipeline and training share the CPUs: the input waits for them, too.")
        return tuple(notes)

    def advice(self, run: Run, runs: Sequence[Run]) -> tuple[str, ...]:
        """What a training that waits for input should be given."""
        return tuple(reading.advice(run, runs))

    def groups(self, session: Session) -> Iterator[Group]:
        """The pipelines in turns, then the training alone and fed by each of them in turns.

        Each has a process of its own, so that all see the same machine while its load comes and goes. Where memory does
        not hold so many, one process of each device measures them one after the other.

        Raises:
            DeviceError: devices were asked for that are not there.
            TooLargeError: decoded images and batches do not fit.
            CannotRunError: an image cannot be decoded.
        """
        cases = [
            replace(case, label=case.label.removesuffix(", together"))
            for case in self.selection.cases(session.found, ("together",))
        ]
        self._check_memory(session, cases)
        feeding = [(case, name) for name in pipelines.FEEDING for case in cases if _feeds(case, name)]
        labels = [*(HOST_CASE.label for _ in pipelines.ALONE), *(case.label for case in cases)]
        labels += [case.label for case, _ in feeding]
        session.begin(labels, len(labels))
        with self._folder(session) as folder:
            alone = [(HOST_CASE, self._job(reading.ALONE, name, folder)) for name in pipelines.ALONE]
            training = [(case, self._job(reading.MODEL, None, folder)) for case in cases]
            training += [(case, self._job(reading.FED, name, folder)) for case, name in feeding]
            yield from self._in_turns(session, alone)
            yield from self._in_turns(session, training)

    def _in_turns(self, session: Session, entries: Sequence[tuple[Case, Job]]) -> Iterator[Group]:
        """All of them side by side, if they fit; else one after the other."""
        needs: dict[str | int, int] = {}
        for case, job in entries:
            for memory, need in self._needs(case, job):
                needs[memory] = needs.get(memory, 0) + need
        free = session.free([case for case, _ in entries])
        if all(need <= workload_size.SHARE * free.get(memory, 0) for memory, need in needs.items()):
            yield Group(tuple((case, replace(job, process=f" {job.point['input']}")) for case, job in entries))
            return
        self.in_turns = False
        points = list(dict.fromkeys(job.point["input"] for _, job in entries))
        for place, point in enumerate(points):
            group = tuple((case, job) for case, job in entries if job.point["input"] == point)
            later = [(case, job) for case, job in entries if points.index(job.point["input"]) > place]
            yield Group(group, keep=frozenset((case.label, job.dtype_on(case)) for case, job in later))

    def _needs(self, case: Case, job: Job) -> Iterator[tuple[str | int, int]]:
        """Roughly what a process takes of each memory."""
        trains = ACTIVATIONS[self.model] * self.size if job.parameters["trains"] else 0
        host = workload_size.PROCESS + self._host_bytes(len(case.devices))
        yield workload_size.HOST, host + (0 if case.gpus else trains * len(case.devices))
        for gpu in case.gpus:
            yield gpu, workload_size.CONTEXT + trains * (len(case.devices) // len(case.gpus))

    def _host_bytes(self, devices: int) -> int:
        """Decoded images in a cache, and batches that are on their way."""
        height, width, channels = MODELS[self.model].image
        pixels = height * width * channels
        return self.images * pixels + 4 * pixels * self.size * devices * (2 * pipelines.PREFETCH + 4)

    @contextmanager
    def _folder(self, session: Session) -> Iterator[str]:
        """The user's images, or a folder of new ones that is removed in the end.

        Raises CannotRunError: one of them cannot be decoded.
        """
        image = list(MODELS[self.model].image)

        def ask(folder: str, make: bool) -> None:
            session.progress("making images" if make else "decoding images", 0.0)
            request = {"workload": "input", "folder": folder, "image": image, "count": self.images, "make": make}
            session.first.ask(MAKING, do="reference", **request)
            self._measure(folder)

        if self.folder is not None:
            try:
                ask(self.folder, False)
            except WorkerError as error:
                raise CannotRunError(str(error).removeprefix("ValueError: ")) from error
            yield self.folder
            return
        with tempfile.TemporaryDirectory(prefix="tfgpu-bench-") as folder:
            ask(folder, True)
            yield folder

    def _measure(self, folder: str) -> None:
        files = pictures.find(folder, self.images)
        self.found = len(files)
        self.bytes_each = sum(Path(file).stat().st_size for file in files) / max(len(files), 1)

    def _job(self, measured: str, pipeline: str | None, folder: str) -> Job:
        trains = measured != reading.ALONE
        parameters: dict[str, Any] = {
            "folder": folder,
            "count": self.images,
            "model": self.model,
            "batch": self.size,
            "pipeline": pipeline,
            "trains": trains,
        }
        images = self._images
        return Job(
            workload=self.workload,
            parameters=parameters,
            dtype=self.dtypes[0] if trains else "float32",
            unit=workload.UNIT,
            work=images,
            flop=(lambda case: workload.flop(self.model, images(case))) if trains else (lambda _: None),
            judge=workload.judge,
            scaling=lambda case: "weak" if len(case.devices) > 1 else None,
            point={"measured": measured, "input": pipeline or reading.RESIDENT},
            step_name="block",
            blocks=True,
        )

    def _images(self, case: Case) -> int:
        """Images of one step."""
        return workload.BLOCK * self.size * len(case.devices)

    def _check_memory(self, session: Session, cases: Sequence[Case]) -> None:
        """Refuse what the host's memory does not hold even one after the other. Raises TooLargeError: it does not."""
        widest = max(len(case.devices) for case in cases)
        need = len(cases) * (workload_size.PROCESS + self._host_bytes(widest))
        free = session.free(cases)[workload_size.HOST]
        if need > workload_size.SHARE * free:
            raise workload_size.TooLargeError(
                f"{self.images} decoded images of {self.model} and batches of {self.size} need {need / 2**30:.1f} GiB "
                f"of {workload_size.HOST}, of which {free / 2**30:.1f} GiB are free; "
                "try fewer --images or a smaller --batch-size"
            )


def _feeds(case: Case, pipeline: str) -> bool:
    """Whether a pipeline is measured with a case; a strategy over several devices copies to them by itself."""
    if len(case.devices) > 1:
        return pipeline in ("sequential", "everything")
    return not pipelines.PIPELINES[pipeline].to_device or bool(case.gpus)
