"""`tfgpu bench gan`, the parent's side: cases and batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tfgpu_doctor.bench.devices import Case, Job, Scalar
from tfgpu_doctor.bench.plans.base import Group
from tfgpu_doctor.bench.plans.cnn import SLOW, SPREAD, TrainingPlan, explain, patience
from tfgpu_doctor.bench.session import Session
from tfgpu_doctor.bench.workloads import gan


@dataclass
class Gan(TrainingPlan):
    """One run of the benchmark, from what was asked for."""

    workload = "gan"
    batch: int = gan.DEFAULT_BATCH  # images on each device

    def title(self) -> str:
        """Return what is computed."""
        return f"steps of a DCGAN, 28 × 28 images, {self.batch} per device"

    def parameters(self) -> dict[str, Scalar]:
        """Return what two results must share."""
        return {"batch": self.batch, "seed": gan.SEED}

    def groups(self, session: Session) -> Iterator[Group]:
        """Yield one group for each type. Raises TooSlowError: a step on the CPU takes too long."""
        cases = self.selection.cases(session.found, (SPREAD,))
        cases = self.with_time(cases, gan.training_flop(), session, self.batch)
        yield from self.in_turns(session, cases, self.job)

    def job(self, dtype: str, case: Case) -> Job:
        """Return what a case computes."""
        images, flop = self.batch * len(case.devices), gan.training_flop()
        return Job(
            workload=self.workload,
            parameters={"batch": self.batch},
            dtype=dtype,
            unit=gan.UNIT,
            work=lambda _: float(images),
            flop=lambda _: float(images * flop),
            judge=gan.judge,
            scaling=lambda case: "weak" if len(case.devices) > 1 else None,
            step_name="step",
            blocks=True,
            explain=lambda why: explain(why, f"{self.batch} images", f"--batch-size {max(self.batch // 2, 2)}"),
            patience=patience(flop, images, SLOW),
        )
