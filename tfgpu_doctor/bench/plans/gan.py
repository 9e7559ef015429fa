"""`tfgpu bench gan`, the parent's side: cases, batch, and the reference that one device is compared with."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tfgpu_doctor.bench.devices import Selection
from tfgpu_doctor.bench.jobs import Ask, Job, Scalar
from tfgpu_doctor.bench.plans.cnn import SLOW, SPREAD, STEPS_AN_ANSWER, TF32_NOTE
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.session import Group, Session
from tfgpu_doctor.bench.workloads import gan
from tfgpu_doctor.bench.workloads.dcgan import SEED


class Reference:
    """A training in float64, written by the first worker that is asked; use as a context manager."""

    def __init__(self) -> None:
        """Nothing is computed yet."""
        self._folder = tempfile.TemporaryDirectory(prefix="tfgpu-bench-")

    def file(self, ask: Ask, parameters: dict[str, Any]) -> str:
        """The file's path; the worker behind `ask` writes it where it is not there yet."""
        path = Path(self._folder.name) / f"{parameters['batch']}.npz"
        if not path.exists():
            ask(do="reference", workload="gan", parameters=parameters, file=str(path))
        return str(path)

    def __enter__(self) -> Reference:
        return self

    def __exit__(self, *error: object) -> None:
        self._folder.cleanup()


@dataclass
class Gan:
    """One run of the benchmark, from what was asked for."""

    batch: int = gan.DEFAULT_BATCH  # images on each device
    dtypes: tuple[str, ...] = ("float32",)
    selection: Selection = field(default_factory=Selection)
    workload: str = "gan"

    def title(self) -> str:
        """What is computed."""
        return f"steps of a DCGAN, 28 × 28 images, {self.batch} on each device"

    def parameters(self) -> dict[str, Scalar]:
        """What two results must share."""
        return {"batch": self.batch, "seed": SEED}

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """What is not what it seems."""
        return (TF32_NOTE,) if "tf32" in self.dtypes else ()

    def advice(self, run: Run, runs: Sequence[Run]) -> tuple[str, ...]:
        """Nothing beyond what holds for every workload."""
        return ()

    def groups(self, session: Session) -> Iterator[Group]:
        """One group for each type; the CPU's float32 stands for its tf32."""
        cases = self.selection.cases(session.found, (SPREAD,))
        done: set[tuple[str, str]] = set()
        with Reference() as reference:
            for dtype in self.dtypes:
                job = self.job(dtype, reference)
                todo = [case for case in cases if (case.label, job.dtype_on(case)) not in done]
                done |= {(case.label, job.dtype_on(case)) for case in todo}
                if todo:
                    yield Group(tuple((case, job) for case in todo))

    def job(self, dtype: str, reference: Reference) -> Job:
        """What each case computes."""
        parameters = {"batch": self.batch}
        return Job(
            workload=self.workload,
            parameters=parameters,
            dtype=dtype,
            unit=gan.UNIT,
            work=lambda case: float(self.batch * len(case.devices)),
            flop=lambda case: float(self.batch * len(case.devices) * gan.training_flop()),
            judge=gan.judge,
            scaling=lambda case: "weak" if len(case.devices) > 1 else None,
            step_name="step",
            blocks=True,
            patience=60 + STEPS_AN_ANSWER * self.batch * gan.training_flop() / SLOW,
            verify=lambda ask, case: {"file": reference.file(ask, parameters)} if len(case.devices) == 1 else {},
        )
