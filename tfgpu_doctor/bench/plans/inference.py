"""`tfgpu bench inference`, the parent's side: the SavedModel, what it takes, the batches, what the latencies say."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from tfgpu_doctor.bench.devices import Case, Job, RequestError, Scalar
from tfgpu_doctor.bench.plans.base import CannotRunError, Group, PlanBase, saturation, scratch
from tfgpu_doctor.bench.plans.training import SLOW, SPREAD, STEPS_AN_ANSWER, check_time, cpu_seconds
from tfgpu_doctor.bench.results import Figure, Run
from tfgpu_doctor.bench.runner.process import WorkerError, hello
from tfgpu_doctor.bench.runner.runner import Session
from tfgpu_doctor.bench.statistics import StoppingRule, quantile, quantile_interval
from tfgpu_doctor.bench.workloads import inference
from tfgpu_doctor.bench.workloads.models import MODELS

BATCHES = (1, 8, 32, 128)
PREPARING = 900.0  # seconds that exporting, loading or a reference may take; large models are slow in float64
PERCENTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
WANTED = 368  # samples whose largest lies above the 99th percentile with 97.5 %, as a 95 % interval needs: 0.99^n
# Enough samples for the last percentile. Latencies need not settle: their spread is a result. At most half a second of
# the shortest calls there are, 0.1 ms.
LATENCIES = StoppingRule(min_samples=WANTED, precision=math.inf, max_samples=5000)


@dataclass
class Inference(PlanBase):
    """One run of the benchmark, from what was asked for."""

    file: ClassVar[Any] = inference
    step_name = "call"
    model: str | None = "mnist"  # of ours; None: `saved_model`
    saved_model: str | None = None  # a folder
    signature: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of one item, by input; "" for the only one
    batches: tuple[int, ...] = BATCHES
    xla: bool = False
    wanted: int = WANTED  # samples of each batch, if the deadline allows

    @classmethod
    def read(cls, options: Mapping[str, Any], **common: Any) -> Inference:
        """Make the plan that options ask for. Raises RequestError: they exclude one another, or are no SavedModel's."""
        model, folder = options["model"], options["saved_model"]
        if model and folder:
            raise RequestError("--model (a built-in network) and --saved-model (your own) cannot be combined")
        if folder is None and (options["signature"] or options["shape"]):
            raise RequestError("--signature and --shape need --saved-model DIR")
        if folder:
            _check_saved_model(Path(folder), common["dtypes"])
        return cls(
            model=None if folder else model or "mnist",
            saved_model=folder,
            signature=options["signature"],
            shapes=dict(parse_shape(text) for text in options["shape"]),
            batches=tuple(sorted(options["batch_size"] or BATCHES)),
            xla=options["xla"],
            wanted=options["min_samples"] or WANTED,
            **common,
        )

    def title(self) -> str:
        return f"{self.parameters()['model']}, consecutive calls{', compiled with XLA' if self.xla else ''}"

    def parameters(self) -> dict[str, Scalar]:
        name = self.model
        if self.saved_model is not None:
            name = f"{Path(self.saved_model).resolve().name} ({self.signature or 'SavedModel'})"
        return {"model": name, "xla": "on" if self.xla else "off", "seed": inference.SEED}

    @property
    def flop(self) -> float:
        """Return the FLOP for one item, where the model is ours; else 0."""
        return float(MODELS[self.model].forward_flop) if self.model and self.saved_model is None else 0.0

    def groups(self, session: Session) -> Iterator[Group]:
        by_type = list(self.cases_by_type(self.selection.cases(session.found, (SPREAD,))))
        labels = [case.label for _, todo in by_type for case in todo]
        deadline = session.rule.deadline
        slowest = cpu_seconds(self.batches[-1] * self.flop, session)
        check_time(slowest, deadline, self.batches[-1], "--batch-size")  # the CPU also computes what is right
        session.begin(labels * len(self.batches), besides=1, sampling=deadline * len(labels))
        with scratch() as folder:
            prepared = self._prepare(session, Path(folder))
            session.skip(1)
            most, seconds = deadline / len(self.batches), session.rule.min_seconds
            rule = replace(LATENCIES, min_samples=self.wanted, min_seconds=seconds, deadline=most)

            def make(case: Case, dtype: str, batch: int) -> Job:
                return self._job(case, dtype, batch, prepared[dtype])

            for dtype, todo in by_type:
                yield from self.sweep(session, dtype, todo, self.batches, make, self._splits, rule)

    def _splits(self, job: Job, _beside: Sequence[Case]) -> bool:
        """True if each device of a case gets a part of the batch; notes what is left out."""
        count, batch = len(job.case.devices), int(job.parameters["batch"])
        note = f"Skipped: batch {batch} cannot be split over {count} devices."
        if batch < count and note not in self.left_out:
            self.left_out.append(note)
        return batch >= count

    def _prepare(self, session: Session, folder: Path) -> dict[str, dict[str, Any]]:
        """Return the worker's parameters for each type, once models and right answers lie in `folder`.

        Raises CannotRunError: the SavedModel cannot be used; the message says why.
        """
        session.progress("preparing the model", 0.0)
        with closing(session.start_worker()) as worker:

            def ask(task: str, **request: Any) -> dict[str, Any]:
                return worker.ask(PREPARING, do="reference", workload=self.workload, task=task, **request)

            try:
                hello(worker)
                prepared = self._own(ask, folder) if self.saved_model is None else self._users(ask, self.saved_model)
                answers = str(folder / "answers.npz")
                ask("answers", parameters=prepared.pop("right"), batches=list(self.batches), file=answers)
            except WorkerError as error:
                what = "the model" if self.saved_model is None else self.saved_model
                why = str(error).strip().split("\n")[0]
                raise CannotRunError(f"{what} cannot be used: {why[:300]}{'…' * (len(why) > 300)}") from error
        return {dtype: {**one, "answers": answers} for dtype, one in prepared.items()}

    def _own(self, ask: Any, folder: Path) -> dict[str, dict[str, Any]]:
        """Export a model for each type, and for what is right; float32 stands for tf32, a way to multiply it."""
        inputs = [{"name": "images", "model": self.model}]
        prepared = {}
        for dtype in ("right", *self.dtypes):
            stored = {"right": "float64", "tf32": "float32"}.get(dtype, dtype)
            place = folder / stored
            if not place.exists():
                ask("export", model=self.model, dtype=stored, folder=str(place))
            model = {"folder": str(place), "signature": "serving_default", "inputs": inputs}
            prepared[dtype] = {**model, "reference": "float64"}
        return prepared

    def _users(self, ask: Any, folder: str) -> dict[str, dict[str, Any]]:
        """Look at the user's, whose types are its own."""
        described = ask("describe", folder=folder, signature=self.signature)
        self.signature, inputs = described.get("name"), resolve(described, self.shapes)
        model = {"folder": folder, "signature": self.signature, "inputs": inputs, "reference": "float32"}
        return dict.fromkeys(("right", *self.dtypes), model)

    def _job(self, case: Case, dtype: str, batch: int, prepared: Mapping[str, Any]) -> Job:
        flop = batch * self.flop
        return self.make_job(
            case,
            dtype,
            {**prepared, "batch": batch, "xla": self.xla},
            float(batch),
            flop=flop or None,
            scaling="strong" if len(case.devices) > 1 else None,
            point={"batch": batch},
            derive=percentiles,
            patience=60 + (STEPS_AN_ANSWER * flop / SLOW or PREPARING),
            verify=lambda _: {"file": prepared["answers"]},
        )

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        notes = [f"Throughput: {sentence}." for sentence in saturation(runs, "batch", "batch")]
        return (*notes, *super().notes(runs))

    def advice(self, run: Run, _runs: Sequence[Run]) -> tuple[str, ...]:
        """Say how many samples a percentile needs, where there were too few."""
        if not run.samples_s or any(figure.name == "p99" for figure in run.figures):
            return ()
        count, seconds = len(run.samples_s) - run.left_out, WANTED * median(run.samples_s) * len(self.batches)
        longer = f"--deadline {math.ceil(1.2 * seconds / 10) * 10}"
        enough = f"--min-samples {WANTED}" if self.wanted < WANTED else longer
        return (f"no 99th percentile: it needs {WANTED} samples, found {count}: try {enough}",)


def _check_saved_model(folder: Path, dtypes: Sequence[str]) -> None:
    """Refuse what is visibly no SavedModel, and types that it cannot have."""
    if not any((folder / name).is_file() for name in ("saved_model.pb", "saved_model.pbtxt")):
        raise RequestError(
            f"--saved-model {folder}: no saved_model.pb found; save one with model.export(DIR) or "
            "tf.saved_model.save(model, DIR)"
        )
    if other := [dtype for dtype in dtypes if dtype not in ("float32", "tf32")]:
        raise RequestError(f"--dtype {other[0]}: the types of a SavedModel are fixed; choose float32 or tf32")


def percentiles(samples: Sequence[float]) -> tuple[Figure, ...]:
    """Return the median latency, and what the samples support beside it. Intervals are for independent samples."""
    found = []
    for name, q in PERCENTILES:
        interval = quantile_interval(samples, q)
        if interval is not None or q == 0.5:
            found.append(Figure(name=name, value=quantile(samples, q), unit="s", ci95=interval))
    return tuple(found)


# ---------------------------------------------------------------------------------------------------------------------
# What a SavedModel's signature takes, and what has to be made up to call it. Pure.


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read --shape "224,224,3" or "images=224,224,3": the input's name ("" for the only one), the shape of one item.

    Raises RequestError: what is no shape.
    """
    name, equals, numbers = text.rpartition("=")
    parts = [part.strip() for part in numbers.split(",")] if numbers.strip() else []
    if (equals and not name) or not all(part.isascii() and part.isdecimal() and int(part) > 0 for part in parts):
        raise RequestError(f"--shape {text}: give the shape of one item, for example 224,224,3 or images=224,224,3")
    return name.strip(), tuple(int(part) for part in parts)


def resolve(described: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> list[dict[str, Any]]:
    """Return the inputs to be made up.

    Args:
        described: what the worker said of the signature.
        shapes: of one item, by the input's name; "" is the only input.

    Raises CannotRunError: there is no such signature, or an input cannot be made up.
    """
    if "unusable" in described:
        raise CannotRunError(described["unusable"])
    inputs = described["inputs"]
    names = [entry["name"] for entry in inputs]
    wanted = {names[0] if name == "" and len(names) == 1 else name: shape for name, shape in shapes.items()}
    if unknown := [name for name in wanted if name not in names]:
        raise CannotRunError(f"--shape names {unknown[0] or 'no input'}: the signature takes {_listed(inputs)}")
    return [_spec(one, wanted.get(one["name"])) for one in inputs]


def _spec(entry: Mapping[str, Any], wanted: tuple[int, ...] | None) -> dict[str, Any]:
    """Return what `make_inputs` needs for one input. Raises CannotRunError: it cannot be made up."""
    name, shape = entry["name"], entry["shape"]
    if entry["dtype"] in ("string", "resource", "variant"):
        raise CannotRunError(f"the input {name} is of type {entry['dtype']}, for which no input can be generated")
    if shape is not None and shape[:1] != [None]:
        why = "the first dimension is not a batch of any size; save the model with None there"
        raise CannotRunError(f"the input {_listed([entry])} cannot be batched: {why}")
    rest = None if shape is None else shape[1:]
    if wanted is not None:
        known = wanted if rest is None else rest
        if len(known) != len(wanted) or any(a not in (None, b) for a, b in zip(known, wanted, strict=True)):
            raise CannotRunError(f"--shape {_dims(wanted)} does not match the input {name}: {_listed([entry])}")
        rest = wanted
    if rest is None or None in rest:
        raise CannotRunError(f"the shape of the input {name} is unknown ({_listed([entry])}): add --shape {name}=…")
    return {"name": name, "shape": list(rest), "dtype": entry["dtype"]}


def _listed(inputs: Any) -> str:
    return ", ".join(f"{one['name']} {one['dtype']} {_dims(one['shape'])}" for one in inputs) or "nothing"


def _dims(shape: Any) -> str:
    return "of any shape" if shape is None else f"[{', '.join('?' if n is None else str(n) for n in shape)}]"
