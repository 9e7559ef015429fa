"""`tfgpu bench gan`, the parent's side: cases, batch, and the reference that one device is compared with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tfgpu_doctor.bench.devices import Ask, Case, Job, Scalar
from tfgpu_doctor.bench.plans.base import Group, PlanBase, Reference
from tfgpu_doctor.bench.plans.cnn import SLOW, SPREAD, STEPS_AN_ANSWER, cpu_seconds, with_time
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.session import Session
from tfgpu_doctor.bench.workloads import gan
from tfgpu_doctor.bench.workloads.gan import SEED


@dataclass
class Gan(PlanBase):
    """One run of the benchmark, from what was asked for."""

    workload = "gan"
    batch: int = gan.DEFAULT_BATCH  # images on each device

    left_out: tuple[str, ...] = ()  # what is not measured, and why
    ready = 2.8

    def notes(self, runs: Sequence[Run]) -> tuple[str, ...]:
        """What is missing."""
        return (*super().notes(runs), *self.left_out)

    def title(self) -> str:
        """What is computed."""
        return f"steps of a DCGAN, 28 × 28 images, {self.batch} per device"

    def parameters(self) -> dict[str, Scalar]:
        """What two results must share."""
        return {"batch": self.batch, "seed": SEED}

    def groups(self, session: Session) -> Iterator[Group]:
        """One group for each type.

        Raises TooSlowError: a step on the CPU takes too long.
        """
        cases = self.selection.cases(session.found, (SPREAD,))
        step = cpu_seconds(self.batch * gan.training_flop(), session)
        is_named = self.selection.devices is not None
        cases, self.left_out = with_time(cases, step, session, self.batch, "--batch-size", is_named=is_named)
        by_type = list(self.cases_by_type(cases))
        labels = [case.label for _, cases in by_type for case in cases]
        session.begin(labels, len(labels))
        with Reference() as reference:
            for dtype, cases in by_type:
                job = self.job(dtype, reference)
                yield Group(tuple((case, job) for case in cases))

    def job(self, dtype: str, reference: Reference) -> Job:
        """What each case computes."""
        parameters = {"batch": self.batch}

        def verify(ask: Ask, case: Case) -> dict[str, Any]:
            if len(case.devices) > 1:  # is compared with one device
                return {}
            return {"file": reference.file(ask, "float64.npz", workload=self.workload, parameters=parameters)}

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
            verify=verify,
        )
