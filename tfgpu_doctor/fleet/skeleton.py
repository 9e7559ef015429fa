"""The parts of a result that a fleet reads, as types; the others are skipped when JSON is decoded. Pure."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Raw, Struct

from tfgpu_doctor.fleet import values
from tfgpu_doctor.records.fact import Known, Unknown
from tfgpu_doctor.records.facts import Facts
from tfgpu_doctor.records.report import Fix, Severity


class ToolPart(Struct, frozen=True):
    """The program that wrote it."""

    version: str = ""


GpuPart: Any = msgspec.defstruct(
    "GpuPart", [("uuid", Raw, Raw(b"")), *((name, Raw, Raw(b"")) for name in values.gpu_fields())]
)


def _slim_facts() -> Any:
    """A record of facts whose compared ones stay JSON, and whose others are skipped."""
    sections: dict[str, list[tuple[str, Any, Any]]] = {}
    for path in values.paths():
        section, _, name = path.partition(".")
        fields = sections.setdefault(section, [])
        if name:
            fields.append((name, Raw, Raw(b"")))
    sections["host"].append(("name", Known[str] | Unknown, Unknown("")))
    fields = []
    for section in Facts.__struct_fields__:
        if found := sections.get(section):
            kind = msgspec.defstruct(f"Part_{section}", found)
            fields.append((section, kind, msgspec.field(default_factory=kind)))
        elif section in sections:
            fields.append((section, Raw, Raw(b"")))
    fields.append(("gpus", Known[tuple[GpuPart, ...]] | Unknown, Unknown("")))
    return msgspec.defstruct("FactsPart", fields)


FactsPart: Any = _slim_facts()
raw_facts: Callable[[Any], tuple[Raw, ...]] = attrgetter(*values.paths())
"""The JSON of the facts that are compared, in the order of values.paths()."""


class EvidencePart(Struct):
    """What was seen."""

    saw: str = ""


class FindingPart(Struct):
    """A finding."""

    id: str
    severity: Severity
    root_cause: bool
    title: str
    cause: str = ""
    evidence: tuple[EvidencePart, ...] = ()
    fixes: tuple[Fix, ...] = ()
    possible: bool = False
    answers: bool = False


class SpeedPart(Struct):
    """Work per second."""

    value: Annotated[float, Meta(gt=0, lt=1e30)]
    unit: str


class VerifiedPart(Struct):
    """Whether the result was right."""

    ok: bool


class RunPart(Struct):
    """A run of tfgpu bench, or within one of tfgpu smoke."""

    label: str
    devices: Annotated[tuple[str, ...], Meta(min_length=1, max_length=100_000)]
    dtype: str
    spread: str = ""
    virtual: bool = False
    parameters: Raw = Raw(b"{}")
    throughput: SpeedPart | None = None
    verified: VerifiedPart | None = None
    failure: str | None = None


class DocumentPart(Struct):
    """The union of what the three kinds of results have; `schema` says which of them is there."""

    schema: str
    created: str = ""
    tool: ToolPart = ToolPart()
    verdict: str = ""
    facts: FactsPart | None = None
    environment: FactsPart | None = None
    findings: tuple[Raw, ...] = ()
    report: Raw = Raw(b"")
    workload: str = ""
    parameters: Raw = Raw(b"{}")
    runs: tuple[Raw, ...] = ()
    checks: tuple[Raw, ...] = ()


class SmokeRunPart(Struct):
    """A run of tfgpu smoke."""

    workload: str
    run: RunPart
    parameters: Raw = Raw(b"{}")


class SmokeCheckPart(Struct):
    """A line of tfgpu smoke."""

    name: str
    on: str
    status: Literal["ok", "failed", "not run", "unknown"]
    why: str = ""
