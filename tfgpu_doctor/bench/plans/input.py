"""`tfgpu bench input`, the parent's side: pipelines alone, the training alone, and the training fed by pipelines."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tfgpu_doctor.bench.devices import Case, Job, Scalar
from tfgpu_doctor.bench.plans import workload_size
from tfgpu_doctor.bench.plans.base import Group, PlanBase
from tfgpu_doctor.bench.results import Ratio, Run
from tfgpu_doctor.bench.runner.process import WorkerError
from tfgpu_doctor.bench.session import CannotRunError, Session
from tfgpu_doctor.bench.speeds import ratio
from tfgpu_doctor.bench.workloads import input as workload
from tfgpu_doctor.bench.workloads.input import FEEDING, PIPELINES
from tfgpu_doctor.bench.workloads.models import MODELS
from tfgpu_doctor.records.units import approximate, digits

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
            "seed": workload.SEED,
        }

    def conclusions(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """Is it input-bound, and which knob helps."""
        return (*verdicts(runs), *ranking(runs))

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
        if any(run.label == "CPU" and run.parameters["measured"] == FED for run in runs):
            notes.append("On the CPU, pipeline and training share the CPUs: the input waits for them, too.")
        return tuple(notes)

    def advice(self, run: Run, runs: Sequence[Run]) -> tuple[str, ...]:
        """What a training that waits for input should be given."""
        return tuple(advice(run, runs))

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
        feeding = [(case, name) for name in workload.FEEDING for case in cases if _feeds(case, name)]
        labels = [*(HOST_CASE.label for _ in workload.ALONE), *(case.label for case in cases)]
        labels += [case.label for case, _ in feeding]
        session.begin(labels, len(labels))
        with self._folder(session) as folder:
            alone = [(HOST_CASE, self._job(ALONE, name, folder)) for name in workload.ALONE]
            training = [(case, self._job(MODEL, None, folder)) for case in cases]
            training += [(case, self._job(FED, name, folder)) for case, name in feeding]
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
        return self.images * pixels + 4 * pixels * self.size * devices * (2 * workload.PREFETCH + 4)

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
        files = workload.find(folder, self.images)
        self.found = len(files)
        self.bytes_each = sum(Path(file).stat().st_size for file in files) / max(len(files), 1)

    def _job(self, measured: str, pipeline: str | None, folder: str) -> Job:
        trains = measured != ALONE
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
            point={"measured": measured, "input": pipeline or RESIDENT},
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
    return not workload.PIPELINES[pipeline].to_device or bool(case.gpus)


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
ALONE, MODEL, FED = "pipeline alone", "training alone", "training fed"  # what a run measures: its parameter "measured"
RESIDENT = "data on the device"  # the input of a training that needs none


@dataclass
class RunsByInput:
    """The runs that have a speed, by what they measure."""

    alone: dict[str, Run] = field(default_factory=dict)  # by pipeline
    training: dict[str, Run] = field(default_factory=dict)  # by label
    fed: dict[str, dict[str, Run]] = field(default_factory=dict)  # by label, then pipeline


def sort(runs: Sequence[Run]) -> RunsByInput:
    """Put each run in its place; virtual devices have no speed that means anything."""
    found = RunsByInput()
    for run in runs:
        if run.throughput is None or run.virtual:
            continue
        pipeline = str(run.parameters.get("input"))
        if run.parameters["measured"] == ALONE:
            found.alone[pipeline] = run
        elif run.parameters["measured"] == MODEL:
            found.training[run.label] = run
        else:
            found.fed.setdefault(run.label, {})[pipeline] = run
    return found


def waits(fed: Run, training: Run) -> Ratio:
    """The share of the step for which input waits, 0 to 1."""
    assert fed.throughput is not None and training.throughput is not None
    part = ratio(fed.throughput, training.throughput)
    return Ratio(value=max(1 - part.value, 0.0), low=max(1 - part.high, 0.0), high=max(1 - part.low, 0.0))


def _margin(*runs: Run) -> float:
    return max(MARGIN, *(run.spread_iqr or 0.0 for run in runs))


def _faster(new: Run, base: Run) -> Ratio | None:
    """The quotient, where `new` is clearly faster than `base`."""
    assert new.throughput is not None and base.throughput is not None
    effect = ratio(new.throughput, base.throughput)
    return effect if effect.low > 1 and effect.value > 1 + _margin(new, base) else None


def _is_bound(fed: Run, training: Run) -> bool:
    """Whether input clearly waits."""
    return waits(fed, training).low > BOUND and _faster(training, fed) is not None


def verdicts(runs: Sequence[Run]) -> Iterator[str]:
    """For each device whether its training is input-bound, and by how much."""
    found = sort(runs)
    for label, training in found.training.items():
        fed = {name: found.fed[label][name] for name in FEEDING if name in found.fed.get(label, {})}
        if fed:
            yield f"{label}: {_verdict(fed, training)}"


def _verdict(fed: Mapping[str, Run], training: Run) -> str:
    share = {name: waits(run, training) for name, run in fed.items()}
    best = max(fed, key=lambda name: _speed(fed[name]))
    plain = next(iter(fed))
    alone = f"training alone consumes {_rate(training)}"
    bound = {name: _is_bound(run, training) for name, run in fed.items()}
    if bound[best]:
        return f"input-bound with every pipeline; {alone}, and {_rate(fed[best])} with {best}: {_waits(share[best])}"
    enough = next((name for name in fed if not bound[name] and share[name].high <= UNCLEAR), None)
    if enough is None or share[best].high > UNCLEAR:
        return f"inconclusive whether input-bound; {alone}; with {best} {_waits(share[best])}"
    if enough == plain:
        return f"not input-bound, not even with {plain}; {alone}; {_waits(share[plain])}"
    slow = f"input-bound with {plain}" if bound[plain] else f"inconclusive with {plain}"
    fast = f"not with {enough}" if bound[plain] else f"not input-bound with {enough}"
    return f"{slow}: {_waits(share[plain])}; {fast}: {_waits(share[enough])}; {alone}"


def ranking(runs: Sequence[Run]) -> Iterator[str]:
    """Which options help, the largest effect first: of the pipeline alone, and of each training that is fed."""
    found = sort(runs)
    if len(found.alone) > 1:
        yield f"options of the pipeline alone: {_ranked(found.alone)}"
    for label, fed in found.fed.items():
        if len(fed) > 1:
            yield f"options of the pipeline that feeds {label}: {_ranked(fed)}"


def _ranked(measured: Mapping[str, Run]) -> str:
    """ "cache 5.1 times (4.9 to 5.3) over parallel decode; no clear effect: prefetch to device"."""
    helps: list[tuple[float, str]] = []
    slows, unclear = [], []
    for name, run in measured.items():
        base = _base(name, measured)
        if base is None:
            continue
        if effect := _faster(run, measured[base]):
            helps.append((effect.value, f"{name} {_times(effect)} over {base}"))
        elif _faster(measured[base], run) and run.throughput and (other := measured[base].throughput):
            slows.append(f"{name} is slower: {_times(ratio(run.throughput, other))} over {base}")
        else:
            unclear.append(name)
    sentences = [text for _, text in sorted(helps, reverse=True)] + slows
    sentences += [f"no clear effect: {', '.join(unclear)}"] if unclear else []
    return "; ".join(sentences)


def _base(name: str, measured: Mapping[str, Run]) -> str | None:
    """The nearest pipeline with fewer knobs that was measured, too."""
    base = PIPELINES[name].base if name in PIPELINES else None
    while base is not None and base not in measured:
        base = PIPELINES[base].base
    return base


def advice(run: Run, runs: Sequence[Run]) -> Iterator[str]:
    """What a training that waits for its input should be given."""
    found = sort(runs)
    if run.parameters["measured"] != FED or run.throughput is None or run.virtual or run.label not in found.training:
        return
    share = waits(run, found.training[run.label])
    if not _is_bound(run, found.training[run.label]):
        return
    fed = found.fed[run.label]
    better = max(fed, key=lambda name: _speed(fed[name]))
    if gain := _faster(fed[better], run):
        yield f"{_waits(share)}: try {better}, {_times(gain)} as fast"
        return
    fastest = max(found.alone, key=lambda name: _speed(found.alone[name]), default=None)
    if fastest is not None and _speed(found.alone[fastest]) < _speed(found.training[run.label]):
        most = f"the best pipeline alone gives {_rate(found.alone[fastest])}"
        yield f"{_waits(share)}: {most}; try more or faster CPUs, smaller images, or already decoded images"
    else:
        yield (
            f"{_waits(share)}, although the pipeline alone is fast enough: pipeline and training share CPUs or the "
            "link to the device"
        )


def _speed(run: Run) -> float:
    return run.throughput.value if run.throughput else 0.0


def _rate(run: Run) -> str:
    assert run.throughput is not None
    return f"{digits(run.throughput.value, *run.throughput.ci95)} images/s"


def _waits(share: Ratio) -> str:
    value, low, high = (f"{100 * part:.0f}" for part in (share.value, share.low, share.high))
    return f"training waits for input {value} % of the time" + (f" ({low} to {high})" if low != high else "")


def _times(effect: Ratio) -> str:
    value, low, high = (digits(part, effect.low, effect.high) for part in (effect.value, effect.low, effect.high))
    return f"{value} times" + (f" ({low} to {high})" if low != high else "")
