"""`tfgpu bench input`, the parent's side: pipelines alone, the training alone, and the training fed by pipelines."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from tfgpu_doctor.bench.devices import Case, Job, RequestError, Scalar
from tfgpu_doctor.bench.plans.base import CannotRunError, Group, Memory, PlanBase, demands, scratch, shortage, too_large
from tfgpu_doctor.bench.plans.training import explain
from tfgpu_doctor.bench.results import Ratio, Run, Throughput
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.speeds import ratio
from tfgpu_doctor.bench.workloads import input as workload
from tfgpu_doctor.bench.workloads.input import FEEDING, PIPELINES
from tfgpu_doctor.bench.workloads.models import MODELS, training_flop
from tfgpu_doctor.facts.units import approximate, quantity

MAKING = 300.0  # seconds that writing the images may take
# Bytes of one image in a training step, generously: what all layers keep for the backward pass, and their gradients.
ACTIVATIONS = {"mnist": 2 * 10**6, "cifar": 10**7, "resnet50": 3 * 10**8}
HOST_CASE = Case("CPU", ("/CPU:0",), ())  # where every pipeline runs
ALONE, MODEL, FED = "pipeline alone", "training alone", "training fed"  # what a run measures: its parameter "measured"
RESIDENT = "data on the device"  # the input of a training that needs none


@dataclass
class Input(PlanBase):
    """One run of the benchmark, from what was asked for; it trains in the first type."""

    file: ClassVar[Any] = workload
    step_name = "block"
    blocks = True
    model: str = "mnist"
    batch: int | None = None  # None: the model's own
    folder: str | None = None  # None: images are made
    images: int = 512
    found: int = 0  # images that there are
    bytes_each: float = 0.0  # of an encoded image

    @classmethod
    def read(cls, options: Mapping[str, Any], **common: Any) -> Input:
        """Make the plan that options ask for. Raises RequestError: the data set is no folder with images."""
        model, batch, images, dataset = (options[name] for name in ("model", "batch_size", "images", "dataset"))
        folder = None if dataset == "synthetic" else os.path.abspath(dataset)
        if folder and not os.path.isdir(folder):
            raise RequestError(f"--dataset {dataset}: no such folder; give a folder with images, or synthetic")
        if folder and not workload.find(folder, 1):
            suffixes = ", ".join(workload.SUFFIXES)
            raise RequestError(f"--dataset {dataset}: no {suffixes} files found in it or its subfolders")
        return cls(model=model, batch=batch, folder=folder, images=images, **common)

    @property
    def size(self) -> int:
        """Return the images in the batch of one device."""
        return self.batch or MODELS[self.model].default_batch

    def title(self) -> str:
        kind = "synthetic JPEG" if self.folder is None else "of your"
        each = approximate(self.bytes_each / 1000)
        read = f"{self.found} {kind} images of {each} kB" if self.found else "encoded images"
        return f"{read} into {self.model}, batches of {self.size}"

    def parameters(self) -> dict[str, Scalar]:
        return {
            "model": self.model,
            "batch": self.size,
            "images": self.found,
            "bytes_each": round(self.bytes_each),
            "dataset": "synthetic" if self.folder is None else "folder",
            "seed": workload.SEED,
        }

    def conclusions(self, runs: Sequence[Run]) -> tuple[str, ...]:
        return (*verdicts(runs), *ranking(runs))

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        notes = [
            f"A block is {workload.BLOCK} batches. Files come from the operating system's page cache: disk and "
            "network speed are not measured. TensorFlow's own optimisations are off unless named.",
            *self.left_out,
        ]
        if any(run.label == "CPU" and run.parameters["measured"] == FED for run in runs):
            notes.append("On the CPU, pipeline and training share the CPUs: the input waits for them, too.")
        return tuple(notes)

    def groups(self, session: Session) -> Iterator[Group]:
        """Yield the pipelines in turns, then the training alone and fed by each of them in turns.

        Each has a process of its own, so that all see the same machine while its load comes and goes; where memory does
        not hold so many, one after the other.
        """
        cases = [
            replace(case, label=case.label.removesuffix(", together"))
            for case in self.selection.cases(session.found, ("together",))
        ]
        for case in cases:  # one process at a time must fit
            free = session.free([case])
            if short := shortage(self._needs(case, trains=False), free):
                what = f"{self.images} decoded images of {self.model} and batches of {self.size} need"
                raise too_large(what, short, free, "try fewer --images or a smaller --batch-size")
        trainings: list[tuple[Case, str | None]] = [(case, None) for case in cases]
        trainings += [(case, name) for name in FEEDING for case in cases if _feeds(case, name)]
        session.begin([HOST_CASE.label] * len(workload.ALONE) + [case.label for case, _ in trainings])
        with self._folder(session) as folder:
            yield from self._in_turns(session, [self._job(HOST_CASE, name, folder, False) for name in workload.ALONE])
            yield from self._in_turns(session, [self._job(case, name, folder, True) for case, name in trainings])

    def _in_turns(self, session: Session, jobs: list[Job]) -> Iterator[Group]:
        needs = [need for job in jobs for need in self._needs(job.case, job.parameters["trains"])]
        free = {memory: 0 for memory, _ in needs} | session.free([job.case for job in jobs])
        if shortage(needs, free) is None:  # what is not known may be too little for many
            yield Group(tuple(jobs))
            return
        said = "for lack of memory: other programs can look like an effect of an option."
        self.left_out = [f"Measured one after the other, {said}"]
        yield from (Group((job,)) for job in jobs)

    def _needs(self, case: Case, trains: bool) -> Iterator[tuple[Memory, int]]:
        """Return what a process needs: decoded images in a cache, batches that are on their way, and the training."""
        pixels = math.prod(MODELS[self.model].image)
        batches = 4 * pixels * self.size * len(case.devices) * (2 * workload.PREFETCH + 4)
        each = ACTIVATIONS[self.model] * self.size if trains else 0
        return demands([case], lambda _: each, lambda _: self.images * pixels + batches)

    @contextmanager
    def _folder(self, session: Session) -> Iterator[str]:
        """Yield the user's images, or a folder of new ones that is removed in the end.

        Raises CannotRunError: one of them cannot be decoded.
        """
        with scratch() as made:
            folder, make = self.folder or made, self.folder is None
            session.progress("making images" if make else "decoding images", 0.0)
            request = {"folder": folder, "image": list(MODELS[self.model].image), "count": self.images, "make": make}
            try:
                session.first.ask(MAKING, do="reference", workload=self.workload, **request)
            except WorkerError as error:
                raise CannotRunError(str(error).removeprefix("ValueError: ")) from error
            files = workload.find(folder, self.images)
            self.found = len(files)
            self.bytes_each = sum(Path(file).stat().st_size for file in files) / max(len(files), 1)
            yield folder

    def _job(self, case: Case, pipeline: str | None, folder: str, trains: bool) -> Job:
        images = float(workload.BLOCK * self.size * len(case.devices))  # of one step
        parameters = {"folder": folder, "count": self.images, "model": self.model, "batch": self.size}
        measured = ALONE if not trains else FED if pipeline else MODEL
        return self.make_job(
            case,
            self.dtypes[0] if trains else "float32",
            {**parameters, "pipeline": pipeline, "trains": trains},
            images,
            flop=training_flop(self.model) * images if trains else None,
            scaling="weak" if len(case.devices) > 1 else None,
            point={"measured": measured, "input": pipeline or RESIDENT},
            process=f" {pipeline or RESIDENT}",
            explain=lambda why: explain(why, f"{self.size} images", "a smaller --batch-size"),
        )


def _feeds(case: Case, pipeline: str) -> bool:
    """True if a pipeline is measured with a case; a strategy over several devices copies to them by itself."""
    if len(case.devices) > 1:
        return pipeline in ("sequential", "everything")
    return not PIPELINES[pipeline].to_device or bool(case.gpus)


# ---------------------------------------------------------------------------------------------------------------------
# What pipelines and trainings show beside each other: is the training input-bound, by how much, what helps. Pure.
#
# Training waits for the share of a step that one with its data on the device does not need: 1 - fed / alone, both
# in images a second. Its interval follows from theirs.
#
# A difference counts when its interval leaves 1 outside and it is larger than MARGIN and than the spread of the
# samples: neighbours on the machine come and go, samples that follow each other share them, and their intervals are too
# narrow.


MARGIN = 0.05  # by which one must be faster than the other at least
BOUND = 0.05  # of the step; input that clearly waits for more makes a training input-bound
UNCLEAR = 0.25  # of the step: an interval from below BOUND to above this tells nothing


def _measured(runs: Sequence[Run], measured: str) -> dict[str, dict[str, Run]]:
    """Return the runs of that kind that have a speed, by label and input; virtual devices have none that says much."""
    found: dict[str, dict[str, Run]] = {}
    for run in runs:
        if run.throughput is not None and not run.virtual and run.parameters["measured"] == measured:
            found.setdefault(run.label, {})[str(run.parameters["input"])] = run
    return found


def _speed(run: Run) -> Throughput:
    assert run.throughput is not None
    return run.throughput


def waits(fed: Run, training: Run) -> Ratio:
    """Return the share of the step for which input waits, 0 to 1."""
    part = ratio(_speed(fed), _speed(training))
    return Ratio(value=max(1 - part.value, 0.0), low=max(1 - part.high, 0.0), high=max(1 - part.low, 0.0))


def _faster(new: Run, base: Run) -> bool:
    effect = ratio(_speed(new), _speed(base))
    margin = max(MARGIN, *(run.spread_iqr or 0.0 for run in (new, base)))
    return effect.low > 1 and effect.value > 1 + margin


def verdicts(runs: Sequence[Run]) -> Iterator[str]:
    """Say for each device whether its training is input-bound, by how much, and what is enough or would help."""
    alone, fed, trainings = (_measured(runs, kind) for kind in (ALONE, FED, MODEL))
    most = max((_speed(run).value for run in alone.get(HOST_CASE.label, {}).values()), default=0.0)
    for label in sorted(trainings.keys() & fed.keys(), key=lambda label: (label == HOST_CASE.label, label)):
        training, pipelines = trainings[label][RESIDENT], fed[label]
        speed = _speed(training)
        told = {name: _state(run, training) for name, run in pipelines.items()}
        best = max(pipelines, key=lambda name: _speed(pipelines[name]).value)
        enough = next((name for name, (state, _) in told.items() if state == "not input-bound"), best)
        texts = [f"{told[name][0]} with {name}: {told[name][1]}" for name in dict.fromkeys((next(iter(told)), enough))]
        texts.append(f"training alone consumes {quantity(speed.value, speed.unit, speed.ci95)}")
        if told[best][0] == "input-bound" and most < speed.value:
            texts.append("try more or faster CPUs, smaller images, or already decoded images")
        elif told[best][0] == "input-bound":
            texts.append("pipeline and training share CPUs or the link to the device")
        yield f"{label}: {'; '.join(texts)}"


def _state(fed: Run, training: Run) -> tuple[str, str]:
    """Return whether a pipeline is too slow for a training, and how long that waits."""
    share = waits(fed, training)
    is_bound = share.low > BOUND and _faster(training, fed)
    state = "input-bound" if is_bound else "not input-bound" if share.high <= UNCLEAR else "inconclusive"
    value, low, high = (f"{100 * part:.0f}" for part in (share.value, share.low, share.high))
    return state, f"training waits for input {value} % of the time ({low} to {high})"


def ranking(runs: Sequence[Run]) -> Iterator[str]:
    """Say what options bring, of the pipeline alone and of each training that is fed."""
    for kind, what in ((ALONE, "of the pipeline alone"), (FED, "of the pipeline that feeds {}")):
        for label, measured in _measured(runs, kind).items():
            if texts := _effects(measured):
                yield f"options {what.format(label)}: {'; '.join(texts)}"


def _effects(measured: Mapping[str, Run]) -> list[str]:
    """Hold each pipeline against the nearest one with fewer options that was measured, too."""
    clear, unclear = [], []
    for name, run in measured.items():
        nearest = PIPELINES[name].base or ""
        base = nearest if nearest in measured else "sequential"
        if base not in measured or name == base:
            continue
        effect = ratio(_speed(run), _speed(measured[base]))
        if _faster(run, measured[base]) or _faster(measured[base], run):
            clear.append(f"{name} {quantity(effect.value, 'times', (effect.low, effect.high))} {base}")
        else:
            unclear.append(name)
    return [*clear, *([f"no clear effect: {', '.join(unclear)}"] if unclear else [])]
