"""A run is marked for what makes its figure doubtful, and for nothing else."""

from __future__ import annotations

import pytest

from tests.bench.samples import SHAKY, run
from tests.tables import each
from tfgpu_doctor.bench.results import Run
from tfgpu_doctor.bench.speeds import drift

WIDE = tuple(1.0 + 0.03 * (step % 7 - 3) for step in range(400))  # samples differ by 18 %, their median is known well


def waits(*disturbed: int, of: int = 12) -> tuple[float, ...]:
    return tuple(0.5 if place in disturbed else 0.0 for place in range(of))


# samples → what is doubtful
JUDGED: dict[str, tuple[Run, list[str]]] = {
    "steady": (run(), []),
    "samples that differ, many": (run(steps=WIDE), []),
    "few": (run(steps=(1.0,) * 5), ["only 5 samples"]),
    "one": (run(steps=(1.0,)), ["only 1 sample"]),
    "six": (run(steps=(1.0,) * 6), []),
    "an interval that is wide": (run(steps=SHAKY), ["95 % interval ±9.1 %"]),
    "slower and slower": (
        run(steps=tuple(1.0 + 0.001 * step for step in range(400))),
        ["drift: the second half took 18 % longer"],
    ),
    "a step": (
        run(steps=(1.1,) * 180 + (1.0,) * 220),
        ["95 % interval ±10 %", "drift: the second half took 9.1 %"],
    ),
    "a little slower": (run(steps=(1.0,) * 20 + (1.04,) * 20), []),
    "disturbed now and then": (
        run(steps=(1.0,) * 12, cpu_load=(1.0,) * 12, cpu_wait=waits(1, 2, 3)),
        [],
    ),
    "disturbed nearly always": (
        run(steps=(1.0,) * 12, cpu_load=(1.0,) * 12, cpu_wait=waits(*range(9))),
        ["disturbed by other programs in 9 of 12 samples"],
    ),
}


@each("name", JUDGED)
def test_what_is_doubtful(name: str) -> None:
    one, reasons = JUDGED[name]
    assert len(one.doubts) == len(reasons)
    assert all(found.startswith(reason) for found, reason in zip(one.doubts, reasons, strict=True))
    assert [advice for advice in one.advice if advice.startswith("uncertain: ")] == (
        [f"uncertain: {'; '.join(one.doubts)}"] if reasons else []
    )


def test_a_drift_is_said_where_it_is_sure() -> None:
    assert drift([1.0] * 11) is None, "two halves of six give intervals"
    assert drift([1.0, 1.3] * 6 + [1.2, 1.5] * 6) is None, "the intervals of the halves overlap"
    assert drift([1.0] * 6 + [1.2] * 6) == pytest.approx(0.2)
