"""What a fleet has when it is as it should be: made by `--save-baseline`, compared with by `--baseline`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tfgpu_doctor import __version__
from tfgpu_doctor.fleet.differences import Difference, Variety, hardware_differs, of_gpus, of_nodes
from tfgpu_doctor.fleet.majority import Usual, is_near, usual
from tfgpu_doctor.fleet.nodes import Machine, machines
from tfgpu_doctor.fleet.results import Gathered
from tfgpu_doctor.fleet.siblings import UNKNOWN, Siblings, counted, siblings
from tfgpu_doctor.fleet.speeds import Centre, RunKey, centre, speeds
from tfgpu_doctor.fleet.values import ABSENT, Value, compared, paths
from tfgpu_doctor.records.about import public
from tfgpu_doctor.records.fact import Document
from tfgpu_doctor.records.facts import Record
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


def from_gathered(gathered: Gathered, created: str) -> Baseline:
    """What most nodes have. Raises ValueError: there are too few of them."""
    every, _ = machines(gathered.results)
    found = tuple(one for one in every if one.results)
    every_kind = siblings(found)
    others = Variety(every_kind)
    kinds = [kin for kin in every_kind if len(kin.members) >= LEAST_NODES and kin.hardware != UNKNOWN]
    if not kinds:
        raise ValueError(f"a baseline needs the results of at least {LEAST_NODES} nodes with the same GPUs")
    middles = ((key, centre([one.value for one in measured])) for key, measured in speeds(found).items())
    return Baseline(
        schema=SCHEMA,
        tool=Tool(name="tfgpu", version=__version__),
        created=created,
        hardware=tuple(
            Hardware(name=kin.hardware, nodes=len(kin.members), facts=tuple(_expected(kin, others))) for kin in kinds
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


def _expected(kin: Siblings, others: Variety) -> Iterator[Expected]:
    counts: dict[str, dict[Value, int]] = {}
    for machine in kin.members:
        for leaf in (*machine.facts, *(leaf for gpu in machine.gpus or () for leaf in gpu)):
            for identity, value in leaf or ():
                by_value = counts.setdefault(identity, {})
                by_value[value] = by_value.get(value, 0) + 1
    known = _known(kin.members)
    for identity, by_value in counts.items():
        missing = known.get(identity, 0) - sum(by_value.values())
        every = {**by_value, **({Value(ABSENT): missing} if missing > 0 else {})}
        found = usual(every, compared(identity).tolerance)
        if found and found.having + sum(every[one] for one in _odd(identity, found, every, kin, others)) < found.known:
            found = None  # a second kind of node, or an update that is under way: now no mistake, and later none
        yield Expected(
            id=identity, value=found.value.text if found else None, number=found.value.number if found else None
        )


def _odd(identity: str, found: Usual, counts: dict[Value, int], kin: Siblings, others: Variety) -> frozenset[Value]:
    """What is odd now, too: not what varies in the same way among nodes of other kinds."""
    if identity.startswith("gpus."):
        return found.odd
    return frozenset(one for one in found.odd if not others.explains(identity, one, counts[one], found.known, kin))


def _known(members: Iterable[Machine]) -> dict[str, int]:
    """For each element of a collection, how many nodes know that collection."""
    known: dict[int, int] = {}
    ids: dict[int, set[str]] = {}
    for machine in members:
        for place, leaf in enumerate(machine.facts):
            if leaf is not None:
                known[place] = known.get(place, 0) + 1
                ids.setdefault(place, set()).update(identity for identity, _ in leaf)
    return {identity: known[place] for place, several in ids.items() for identity in several}


def against(baseline: Baseline, found: tuple[Machine, ...]) -> Iterator[Difference]:
    """What nodes have that the baseline does not say."""
    by_name = {one.name: one for one in baseline.hardware}
    usual_one = max(baseline.hardware, key=lambda one: one.nodes, default=None)
    source = baseline.name or "the baseline"
    for hardware in counted(found):
        members = [one for one in found if one.main.hardware == hardware]
        here = by_name.get(hardware)
        if here is None and hardware != UNKNOWN and usual_one is not None:
            others = " or ".join(by_name)
            yield hardware_differs(hardware, others, members, source, "baseline")
        here = here or usual_one
        if here is not None:
            judge = _Judge(here)
            kin = Siblings(hardware, members)
            yield from of_nodes(kin, judge, "baseline", source)
            yield from of_gpus(kin, judge, "baseline", source)


def centres(baseline: Baseline | None) -> dict[RunKey, Centre]:
    """The speeds of a baseline by what can be compared."""
    return {
        RunKey(one.card, one.kind, one.workload, one.label, one.dtype, one.parameters, one.unit): Centre(
            one.median, one.mad, one.runs
        )
        for one in (baseline.speeds if baseline else ())
    }


class _Judge:
    """Says what is odd beside a baseline: every value that is not near the expected one."""

    def __init__(self, hardware: Hardware) -> None:
        self._expected = {one.id: one for one in hardware.facts}
        self._known = {_collection(one.id) for one in hardware.facts}

    def __call__(self, identity: str, counts: dict[Value, int]) -> Usual | None:
        """What the baseline says."""
        one = self._expected.get(identity)
        if one is None and _collection(identity) not in self._known:
            return None
        if one is not None and one.value is None:
            return None
        wanted = Value(one.value or "", one.number) if one else Value(ABSENT)
        tolerance = compared(identity).tolerance
        odd = frozenset(value for value in counts if not is_near(value, wanted, tolerance))
        known = sum(counts.values())
        return Usual(wanted, known - sum(counts[value] for value in odd), known, odd)


def _collection(identity: str) -> str:
    """The fact that an element is of; the id itself where it is no element."""
    if identity.startswith("gpus."):
        return identity
    return next((path for path in paths() if identity.startswith(f"{path}.")), identity)
