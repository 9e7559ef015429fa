"""`tfgpu bench inference`, the parent's side: the SavedModel, what it takes, the batches, what the latencies say."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfgpu_doctor.bench.devices import Case, Job, RequestError, Scalar
from tfgpu_doctor.bench.plans.base import Group, PlanBase, keys, saturation
from tfgpu_doctor.bench.plans.cnn import SLOW, STEPS_AN_ANSWER, check_time, cpu_seconds
from tfgpu_doctor.bench.results import Figure, Run
from tfgpu_doctor.bench.runner.process import WorkerError, hello
from tfgpu_doctor.bench.session import CannotRunError, Session
from tfgpu_doctor.bench.statistics import StoppingRule, median, quantile, quantile_interval, samples_for
from tfgpu_doctor.bench.workloads import inference
from tfgpu_doctor.bench.workloads.models import MODELS
from tfgpu_doctor.records.units import approximate

BATCHES = (1, 8, 32, 128)
PREPARING = 900.0  # seconds that exporting, loading or a reference may take; large models are slow in float64
PERCENTILES = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99))
WANTED = samples_for(0.99)  # 368
CALL = 0.002  # seconds that a call takes at least


@dataclass(frozen=True)
class LatencyRule(StoppingRule):
    """Enough samples for the last percentile, or the deadline. Latencies need not settle: their spread is a result."""

    precision: float = math.inf
    max_samples: int = 5000  # half a second of the shortest calls there are, 0.1 ms
    wanted: int = WANTED

    def done(self, samples: Sequence[float], elapsed: float) -> bool:
        """Whether there are as many as were wanted, and as the rule asks for at least; or the deadline has come."""
        if len(samples) >= self.max_samples or (samples and elapsed >= self.deadline):
            return True
        return len(samples) >= self.wanted and self.unmet(samples) is None


@dataclass
class Inference(PlanBase):
    """One run of the benchmark, from what was asked for."""

    workload = "inference"
    model: str | None = "mnist"  # of ours; None: `saved_model`
    saved_model: str | None = None  # a folder
    signature: str | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of one item, by input; "" for the only one
    batches: tuple[int, ...] = BATCHES
    xla: bool = False
    wanted: int = WANTED  # samples of each batch, if the deadline allows
    found: dict[str, Any] = field(default_factory=dict)  # the signature, as the worker described it
    left_out: list[str] = field(default_factory=list)
    ready = 0.7

    def title(self) -> str:
        """What is called."""
        xla = ", compiled with XLA" if self.xla else ""
        return f"{self._name()}, consecutive calls{xla}"

    def _name(self) -> str:
        if self.saved_model is None:
            return str(self.model)
        return f"{Path(self.saved_model).resolve().name} ({self.found.get('name') or self.signature or 'SavedModel'})"

    def parameters(self) -> dict[str, Scalar]:
        """What two results must share; the batches stand with the runs."""
        return {"model": self._name(), "xla": "on" if self.xla else "off", "seed": inference.SEED}

    def groups(self, session: Session) -> Iterator[Group]:
        """One group for each type and batch, small batches first; the processes of a type stay over its batches."""
        by_type = list(self.cases_by_type(self.selection.cases(session.found, ("replicas",))))
        labels = [case.label for _, mine in by_type for case in mine]
        usual, deadline = None, session.rule.deadline
        if self.model and self.saved_model is None:
            calls = [cpu_seconds(batch * MODELS[self.model].forward_flop, session) for batch in self.batches]
            check_time(calls[-1], deadline, self.batches[-1], "--batch-size")  # the CPU also computes what is right
            each = [min(self.wanted * (CALL + seconds), deadline / len(calls)) for seconds in calls]
            usual = sum(max(session.rule.min_seconds, one) for one in each) * len(labels)
        session.begin(
            labels * len(self.batches), len(labels) + 1, besides=1, sampling=deadline * len(labels), usual=usual
        )
        with tempfile.TemporaryDirectory(prefix="tfgpu-bench-") as folder:
            wanted = len(self.batches)
            prepared = self._prepare(session, Path(folder))
            session.skip(1 + len(labels) * (wanted - len(self.batches)))
            rule = LatencyRule(
                min_samples=min(session.rule.min_samples, self.wanted),
                min_seconds=session.rule.min_seconds,
                deadline=session.rule.deadline / len(self.batches),
                wanted=self.wanted,
            )
            for dtype, mine in by_type:
                for batch in self.batches:
                    job = self._job(dtype, batch, prepared)
                    possible = [case for case in mine if self._splits(case, batch)]
                    session.skip(len(mine) - len(possible))
                    last = batch == self.batches[-1]
                    keep = frozenset() if last else keys(possible, job)
                    if possible:
                        yield Group(tuple((case, job) for case in possible), keep=keep, rule=rule)

    def _splits(self, case: Case, batch: int) -> bool:
        """Whether each device of a case gets a part of the batch; notes what is left out."""
        count = len(case.devices)
        if count == 1 or (batch >= count and not self.found.get("fixed")):
            return True
        reason = f"batch {batch} cannot be split over {count} devices"
        if reason not in self.left_out:
            self.left_out.append(reason)
        return False

    def _prepare(self, session: Session, folder: Path) -> dict[str, dict[str, Any]]:
        """The worker's parameters for each type, once models and right answers lie in `folder`.

        Raises CannotRunError: the SavedModel cannot be used; the message says why.
        """
        session.progress("preparing the model", 0.0)
        worker = session.start_worker()
        try:
            hello(worker)

            def ask(task: str, **request: Any) -> dict[str, Any]:
                return worker.ask(PREPARING, do="reference", workload=self.workload, task=task, **request)

            prepared = self._own(ask, folder) if self.saved_model is None else self._users(ask, self.saved_model)
            right = {**next(iter(prepared.values())), **({"folder": str(folder / "float64")} if self.model else {})}
            ask("answers", parameters=right, batches=list(self.batches), file=str(folder / "answers.npz"))
        except WorkerError as error:
            what = "the model" if self.saved_model is None else self.saved_model
            raise CannotRunError(f"{what} cannot be used: {_one_line(str(error))}") from error
        finally:
            worker.close()
        return {dtype: {**one, "answers": str(folder / "answers.npz")} for dtype, one in prepared.items()}

    def _own(self, ask: Any, folder: Path) -> dict[str, dict[str, Any]]:
        """One export a type; float32 stands for tf32, which is how a device multiplies."""
        prepared = {}
        for dtype in ("float64", *self.dtypes):
            stored = "float32" if dtype == "tf32" else dtype
            place = str(folder / stored)
            if not Path(place).exists():
                ask("export", model=self.model, dtype=stored, folder=place)
            prepared[dtype] = {
                "folder": place,
                "signature": "serving_default",
                "inputs": [{"name": "images", "model": self.model, "batched": True}],
                "reference": "float64",
            }
        del prepared["float64"]
        return prepared

    def _users(self, ask: Any, folder: str) -> dict[str, dict[str, Any]]:
        """The user's, whose types are its own."""
        described = ask("describe", folder=folder, signature=self.signature)
        try:
            specs, fixed = resolve(described, self.shapes)
        except SignatureError as error:
            raise CannotRunError(f"{folder}: {error}") from error
        self.found = {"name": described["name"], "fixed": fixed}
        if fixed and fixed not in self.batches:
            raise CannotRunError(f"{folder}: the model only takes batches of {fixed}: use --batch-size {fixed}")
        if fixed:
            self.left_out += [f"batch {one}: the model only takes {fixed}" for one in self.batches if one != fixed]
            self.batches = (fixed,)
        inputs = {"folder": folder, "signature": described["name"], "inputs": specs, "reference": "float32"}
        return dict.fromkeys(self.dtypes, inputs)

    def _job(self, dtype: str, batch: int, prepared: Mapping[str, Mapping[str, Any]]) -> Job:
        """What each case computes."""
        model = MODELS.get(self.model or "") if self.saved_model is None else None
        answers = prepared[dtype]["answers"]
        return Job(
            workload=self.workload,
            parameters={**prepared[dtype], "batch": batch, "xla": self.xla},
            dtype=dtype,
            unit=inference.UNIT,
            work=lambda _: float(batch),
            flop=lambda _: float(batch * model.forward_flop) if model else None,
            judge=inference.judge,
            scaling=lambda case: "strong" if len(case.devices) > 1 else None,
            point={"batch": batch},
            step_name="call",
            derive=percentiles,
            patience=60 + (STEPS_AN_ANSWER * batch * model.forward_flop / SLOW if model else PREPARING),
            verify=lambda *_: {"file": answers},
        )

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """Where throughput saturates and what a call takes there, and what is missing."""
        notes = [f"Throughput: {sentence}." for sentence in saturation(runs, "batch", "batch")]
        notes += latencies(runs)
        if any(run.spread == "replicas" for run in runs):
            notes.append("Replicas: every device holds a copy of the model and computes a share of each batch.")
        return (*notes, *super().notes(runs), *(f"Skipped: {reason}." for reason in self.left_out))

    def advice(self, run: Run, _runs: Sequence[Run]) -> tuple[str, ...]:
        """How many samples a percentile needs, where there were too few."""
        if not run.samples_s or any(figure.name == "p99" for figure in run.figures):
            return ()
        count, seconds = len(run.samples_s) - run.left_out, WANTED * median(run.samples_s) * len(self.batches)
        enough = (
            f"--min-samples {WANTED}" if self.wanted < WANTED else f"--deadline {math.ceil(1.2 * seconds / 10) * 10}"
        )
        return (f"no 99th percentile: it needs {WANTED} samples, found {count}: try {enough}",)


def latencies(runs: Sequence[Run]) -> Iterator[str]:
    """Sentences: latency against throughput for each device and type, where there are several batches."""
    lines: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        found = {figure.name: figure.value for figure in run.figures}
        if run.throughput is None or run.virtual or "p50" not in found:
            continue
        last = f", p99 {approximate(found['p99'], 's')}" if "p99" in found else ""
        latency = (
            f"{run.parameters['batch']}: {approximate(found['p50'], 's')}{last}, {approximate(run.throughput.value)}/s"
        )
        lines.setdefault((run.label, run.dtype), []).append(latency)
    for (label, dtype), points in lines.items():
        if len(points) > 1:
            yield f"Latency and throughput by batch, {label}, {dtype}: {'; '.join(points)}."


def _one_line(text: str) -> str:
    """The first line, and not too much of it."""
    first = text.strip().split("\n")[0]
    return first if len(first) <= 300 else f"{first[:300]}…"


def percentiles(_case: Case, samples: Sequence[float]) -> tuple[Figure, ...]:
    """Latencies: the median, and what the samples support beside it. Intervals are for independent samples."""
    found = []
    for name, q in PERCENTILES:
        interval = quantile_interval(samples, q)
        if interval is not None or q == 0.5:
            found.append(Figure(name=name, value=quantile(samples, q), unit="s", ci95=interval))
    return tuple(found)


# ---------------------------------------------------------------------------------------------------------------------
# What a SavedModel's signature takes, and what has to be made up to call it. Pure.


UNMADE = ("string", "resource", "variant")  # types for which no input can be made up


class SignatureError(Exception):
    """No inputs can be made for the signature; the message says why, and what to add."""


def parse_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """Read --shape "224,224,3" or "images=224,224,3": the input's name ("" for the only one), the shape of one item.

    Raises RequestError: what is no shape.
    """
    name, equals, numbers = text.rpartition("=")
    parts = [part.strip() for part in numbers.split(",")] if numbers.strip() else []
    if (equals and not name) or not all(part.isascii() and part.isdecimal() and int(part) > 0 for part in parts):
        raise RequestError(f"--shape {text}: give the shape of one item, for example 224,224,3 or images=224,224,3")
    return name.strip(), tuple(int(part) for part in parts)


def resolve(described: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> tuple[list[dict[str, Any]], int]:
    """The inputs to be made up, and the only batch that the model takes (0: any).

    Args:
        described: what the worker said of the signature.
        shapes: of one item, by the input's name; "" is the only input.

    Raises SignatureError: there is no such signature, or an input cannot be made up.
    """
    if "unusable" in described:
        raise SignatureError(described["unusable"])
    inputs = described["inputs"]
    wanted = _by_name(inputs, shapes)
    specs = [_spec(entry, wanted.get(entry["name"])) for entry in inputs]
    if not specs or any(map(_any_batch, inputs)):
        return specs, 0
    first = {entry["shape"][0] for entry in inputs if entry["shape"]}
    if len(first) != 1:
        raise SignatureError(f"no input has a batch dimension: the signature takes {_listed(inputs)}")
    batched = [{**spec, "shape": spec["shape"][1:], "batched": True} for spec in specs if spec["shape"]]
    return [*batched, *(spec for spec in specs if not spec["shape"])], int(first.pop())


def _by_name(inputs: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The shapes by the name of an input that there is."""
    names = [entry["name"] for entry in inputs]
    wanted = {names[0] if name == "" and len(names) == 1 else name: shape for name, shape in shapes.items()}
    for name in wanted:
        if name not in names:
            raise SignatureError(f"--shape names {name or 'no input'}: the signature takes {_listed(inputs)}")
    return wanted


def _any_batch(one: Mapping[str, Any]) -> bool:
    """Whether an input takes any number of items: its first dimension, or its whole shape, is open."""
    return one["shape"] is None or (len(one["shape"]) > 0 and one["shape"][0] is None)


def _spec(one: Mapping[str, Any], wanted: tuple[int, ...] | None) -> dict[str, Any]:
    """What `make_inputs` needs for one input."""
    name, shape = one["name"], one["shape"]
    if one["dtype"] in UNMADE:
        raise SignatureError(f"the input {name} is of type {one['dtype']}, for which no input can be generated")
    batched = _any_batch(one)
    rest = None if shape is None else tuple(shape[1:] if batched else shape)
    if wanted is not None:
        if rest is not None and (
            len(rest) != len(wanted) or any(a not in (None, b) for a, b in zip(rest, wanted, strict=True))
        ):
            raise SignatureError(f"--shape {_dims(wanted)} does not match the input {name}: {_listed([one])}")
        rest = wanted
    if rest is None or None in rest:
        raise SignatureError(f"the shape of the input {name} is unknown ({_listed([one])}): add --shape {name}=…")
    return {"name": name, "shape": list(rest), "dtype": one["dtype"], "batched": batched}


def _listed(inputs: Any) -> str:
    return ", ".join(f"{one['name']} {one['dtype']} {_dims(one['shape'])}" for one in inputs) or "nothing"


def _dims(shape: Any) -> str:
    return "of any shape" if shape is None else f"[{', '.join('?' if n is None else str(n) for n in shape)}]"
