"""Runs that are slower than those of siblings: same card, workload, type and parameters. Pure.

A run is slow where it lies more than k scaled MADs below the median of its siblings, k being 5 unless `--mads` says
otherwise. The scaled MAD (1.4826 times the median of the distances from the median) is that of a normal distribution,
and half of the runs can be odd without moving it. It is taken as at least 1 % of the median: results that are nearly
alike make no alarm of noise. So nothing is slow that is not 5 % below the median (k = 5), and never at less than 3 %.

Of a million runs of healthy nodes so many are called slow, and so many nodes that are slower are found (simulated:
benchmarks/fleet_alarms.py, with its results):

| spread of runs                    | nodes  | k = 3  | k = 4 | k = 5 | k = 8 | 10 %, 20 % slower, k = 5 |
|-----------------------------------|--------|--------|-------|-------|-------|--------------------------|
| of real runs on one quiet machine | 8      | 12,467 | 2,367 | 140   | 0     | 65 %, 99 %               |
|                                   | 1,000  | 0      | 0     | 0     | 0     | 87 %, 100 %              |
| of GPUs in a cluster, normal      | 8      | 6,903  | 1,017 | 137   | 0     | 70 %, 100 %              |
| with 1.5 %                        | 1,000  | 1,183  | 30    | 0     | 0     | 96 %, 100 %              |
| heavy tails, Student's t with 5   | 8      | 837    | 203   | 57    | 7     | 100 %, 100 %             |
| degrees of freedom, 0.5 %         | 1,000  | 963    | 230   | 87    | 0     | 100 %, 100 %             |

So k = 5: with 3, one of a hundred healthy nodes of a small fleet is called slow; with 8, a node that is 10 % slower is
found in one of three fleets. Runs far out in a heavy tail are slow runs indeed; measuring them again tells.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import median
from typing import NamedTuple

from tfgpu_doctor.fleet.differences import Difference
from tfgpu_doctor.fleet.nodes import Machine, Speed
from tfgpu_doctor.records.report import Severity
from tfgpu_doctor.records.units import approximate, count, quantity

SIBLINGS = 5  # runs that are compared, at least
SCALE = 1.4826  # of a MAD, to a standard deviation
FLOOR, LEAST = 0.01, 0.03  # of the median: the smallest scaled MAD, and the smallest loss


class RunKey(NamedTuple):
    """What runs share that can be compared."""

    card: str
    kind: str
    workload: str
    label: str
    dtype: str
    parameters: str
    unit: str

    @property
    def id(self) -> str:
        """ "matpow/1 GPU/float32"."""
        return f"{self.workload}/{self.label}/{self.dtype}"


class Centre(NamedTuple):
    """Where the runs of siblings lie."""

    median: float
    mad: float  # scaled, and with its floor
    runs: int

    def below(self, value: float) -> tuple[float, float]:
        """How far a value lies below: in scaled MADs, and as a share of the median."""
        distance = self.median - value
        return distance / self.mad, distance / self.median


class Measured(NamedTuple):
    """The speed of one node, or of one of its GPUs."""

    machine: Machine
    device: str
    value: float


def speeds(machines: Iterable[Machine]) -> dict[RunKey, list[Measured]]:
    """All speeds by what can be compared; several rounds of one device count as one, by their median."""
    found: dict[RunKey, dict[tuple[str, str], tuple[Machine, list[float]]]] = {}
    for machine in machines:
        card = ", ".join(sorted(machine.models)) or "no GPU"
        for one in machine.speeds:
            if one.value:
                key = RunKey(card, one.kind, one.workload, one.label, one.dtype, one.parameters, one.unit)
                owner = found.setdefault(key, {}).setdefault((machine.name, one.device), (machine, []))
                owner[1].append(one.value)
    return {
        key: [Measured(machine, device, median(several)) for (_, device), (machine, several) in owners.items()]
        for key, owners in found.items()
    }


def centre(values: list[float]) -> Centre | None:
    """Where values lie; None for too few of them."""
    if len(values) < SIBLINGS:
        return None
    middle = median(values)
    return Centre(middle, max(SCALE * median(abs(one - middle) for one in values), FLOOR * middle), len(values))


def slow(machines: Iterable[Machine], mads: float, known: dict[RunKey, Centre], name: str) -> Iterator[Difference]:
    """Runs that are slower than those of their siblings, or than a baseline of that `name` says."""
    for key, measured in speeds(machines).items():
        expected = known.get(key)
        found = expected or centre([one.value for one in measured])
        if found is None:
            continue
        by_node: dict[str, tuple[Machine, list[str]]] = {}
        for one in measured:
            far, share = found.below(one.value)
            if far > mads and share >= LEAST:
                text = f"{quantity(one.value, key.unit)}, {approximate(far)} MADs ({100 * share:.0f} %) below"
                told = f"{one.device}: {text}" if one.device else text
                by_node.setdefault(one.machine.name, (one.machine, []))[1].append(told)
        if by_node:
            elsewhere = "in the baseline" if expected else "elsewhere"
            among = f"median of {count(found.runs, 'run')} on {key.card}"
            yield Difference(
                id=key.id,
                kind="baseline" if expected else "speed",
                layer="Compute",
                title=f"{key.workload} on {key.label} in {key.dtype} is slower than {elsewhere}",
                expected=quantity(found.median, key.unit),
                source=f"{name}, {among}" if expected else among,
                members=tuple((machine, "; ".join(texts)) for machine, texts in by_node.values()),
                act="speed",
                observed=True,
                cause="jobs on several nodes wait for the slowest one",
            )


def without_speed(machines: Iterable[Machine]) -> Iterator[Difference]:
    """Runs whose result was wrong, and runs that failed."""
    found: dict[tuple[str, bool], list[tuple[Machine, Speed]]] = {}
    for machine in machines:
        for one in machine.speeds:
            if one.failure:
                found.setdefault((f"{one.workload}/{one.label}/{one.dtype}", one.wrong), []).append((machine, one))
    for (identity, wrong), several in found.items():
        by_node: dict[str, tuple[Machine, list[str]]] = {}
        for machine, one in several:
            by_node.setdefault(machine.name, (machine, []))[1].append(
                f"{one.device}: {one.failure}" if one.device else one.failure
            )
        first, how = several[0][1], "computes wrong results" if wrong else "fails"
        yield Difference(
            id=f"{identity}/{'wrong' if wrong else 'failed'}",
            kind="finding",
            layer="Compute",
            title=f"{first.workload} on {first.label} in {first.dtype} {how}",
            expected="",
            source="",
            members=tuple((machine, "; ".join(dict.fromkeys(texts))) for machine, texts in by_node.values()),
            act="run",
            cause="results of this node cannot be relied on" if wrong else "this node cannot run this work",
            severity=Severity.ERROR,
        )
