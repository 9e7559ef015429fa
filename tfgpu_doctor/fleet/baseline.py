"""What a fleet has when it is as it should be: made by `--save-baseline`, compared with by `--baseline`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tfgpu_doctor import __version__
from tfgpu_doctor.fleet.differences import (
    UNKNOWN,
    Difference,
    Siblings,
    Usual,
    differing,
    hardware_differs,
    is_chance,
    is_near,
    siblings,
    usual,
)
from tfgpu_doctor.fleet.nodes import Machine, Result, machines
from tfgpu_doctor.fleet.speeds import Centre, RunKey, centre, speeds
from tfgpu_doctor.fleet.values import ABSENT, Value, compared, paths
from tfgpu_doctor.records.about import public
from tfgpu_doctor.records.facts import Document, Record
from tfgpu_doctor.records.report import ReportError, Tool, decode_saved, other_kind, schema_of

SCHEMA: Literal["tfgpu.fleet-baseline/1"] = "tfgpu.fleet-baseline/1"
LEAST_NODES = 3


class Expected(Record, frozen=True):
    """What most nodes with one kind of hardware have of a fact."""

    id: Annotated[str, public("id")]  # "driver.version", "gpus.pcie_width", "python.packages.numpy"
    value: str | None  # None: it varies, and nothing is expected
    number: float | None = None  # where it is one


class Hardware(Record, frozen=True):
    """Nodes with the same GPUs."""

    name: str  # "8 × NVIDIA H200"
    nodes: Annotated[int, Meta(ge=1)]
    facts: tuple[Expected, ...]


class ExpectedSpeed(Record, frozen=True):
    """The runs of siblings."""

    card: str
    kind: str  # "bench", "smoke"
    workload: str
    label: str
    dtype: str
    parameters: str  # as JSON
    unit: str
    median: Annotated[float, Meta(gt=0, lt=1e30)]
    mad: Annotated[float, Meta(gt=0, lt=1e30)]  # scaled, with its floor
    runs: Annotated[int, Meta(ge=1)]


class Baseline(Document, frozen=True):
    """What most nodes have, by hardware, and how fast they are."""

    schema: Literal["tfgpu.fleet-baseline/1"]
    tool: Tool
    created: str  # UTC
    hardware: tuple[Hardware, ...]
    speeds: tuple[ExpectedSpeed, ...]
    name: str = ""  # of the file that it was read from


def make_baseline(results: Iterable[Result], created: str) -> Baseline:
    """Return what most nodes have. Raises ValueError: there are too few of them."""
    every, _ = machines(results)
    found = tuple(one for one in every if one.results)
    every_kind = siblings(found)
    kinds = [kin for kin in every_kind if len(kin.members) >= LEAST_NODES and kin.hardware != UNKNOWN]
    if not kinds:
        raise ValueError(f"a baseline needs the results of at least {LEAST_NODES} nodes with the same GPUs")
    middles = ((key, centre([one.value for one in measured])) for key, measured in speeds(found).items())
    return Baseline(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        created=created,
        hardware=tuple(
            Hardware(name=kin.hardware, nodes=len(kin.members), facts=tuple(_expected(kin, every_kind)))
            for kin in kinds
        ),
        speeds=tuple(
            ExpectedSpeed(**key._asdict(), median=middle.median, mad=middle.mad, runs=middle.runs)
            for key, middle in middles
            if middle
        ),
    )


def load(data: bytes, name: str) -> Baseline:
    """Read a saved baseline. Raises ReportError: it is none; the message says why."""
    made = "a file that tfgpu fleet --save-baseline has written"
    if data.lstrip()[:1] == b"{" and len(data.split(b"\n{", 2)) > 2:
        raise ReportError(f"{name} has many results, one on a line; --baseline reads {made}")
    kind = schema_of(data, name)
    if kind != SCHEMA:
        raise ReportError(f"{name} {other_kind(kind, SCHEMA, '--baseline', made)}")
    return msgspec.structs.replace(decode_saved(data, Baseline, name, "baseline of a fleet"), name=name)


def _expected(kin: Siblings, every: list[Siblings]) -> Iterator[Expected]:
    for identity in kin.table:
        counts = kin.counts(identity)
        found = usual(counts, compared(identity).tolerance)
        if found:
            odd = [
                one
                for one in found.odd
                if identity.startswith("gpus.") or not is_chance(identity, one, found, kin, every)
            ]
            if found.having + sum(counts[one] for one in odd) < found.known:
                found = None  # a second kind of node, or an update that is under way: now no mistake, and later none
        yield Expected(
            id=identity, value=found.value.text if found else None, number=found.value.number if found else None
        )


def against(baseline: Baseline, found: tuple[Machine, ...]) -> Iterator[Difference]:
    """Yield what nodes have that the baseline does not say."""
    by_name = {one.name: one for one in baseline.hardware}
    most = max(baseline.hardware, key=lambda one: one.nodes, default=None)
    source = baseline.name or "the baseline"
    by_hardware: dict[str, list[Machine]] = {}
    for one in found:
        by_hardware.setdefault(one.main.hardware, []).append(one)
    for hardware, members in by_hardware.items():
        here = by_name.get(hardware)
        if here is None and hardware != UNKNOWN and most is not None:
            yield hardware_differs(hardware, " or ".join(by_name), members, source, "baseline")
        if wanted := here or most:
            yield from _against(wanted, Siblings(hardware, members), source)


def _against(hardware: Hardware, kin: Siblings, source: str) -> Iterator[Difference]:
    expected = {one.id: one for one in hardware.facts}
    known = {_collection(one.id) for one in hardware.facts}
    for identity in kin.table:
        if identity in expected or _collection(identity) in known:
            found = _compared(identity, expected.get(identity), kin)
            if found is not None and found.odd:
                yield from differing(kin, identity, found, "baseline", source)


def _compared(identity: str, expected: Expected | None, kin: Siblings) -> Usual | None:
    """Return what is odd beside a baseline: what is not near the expected value. None: nothing is expected."""
    if expected is not None and expected.value is None:
        return None
    wanted = Value(expected.value or "", expected.number) if expected else Value(ABSENT)
    counts = kin.counts(identity)
    odd = frozenset(one for one in counts if not is_near(one, wanted, compared(identity).tolerance))
    known = sum(counts.values())
    return Usual(wanted, known - sum(counts[one] for one in odd), known, odd)


def _collection(identity: str) -> str:
    """Return the fact that an element is of; the id itself where it is no element."""
    if identity.startswith("gpus."):
        return identity
    return next((path for path in paths() if identity.startswith(f"{path}.")), identity)


def centres(baseline: Baseline | None) -> dict[RunKey, Centre]:
    """The speeds of a baseline by what can be compared."""
    return {
        RunKey(one.card, one.kind, one.workload, one.label, one.dtype, one.parameters, one.unit): Centre(
            one.median, one.mad, one.runs
        )
        for one in (baseline.speeds if baseline else ())
    }
