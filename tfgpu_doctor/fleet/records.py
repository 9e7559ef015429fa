"""The result of `tfgpu fleet`. Schema tfgpu.fleet/1; JSON and schema are derived by msgspec.

A node is one machine or container. It gives one report of tfgpu doctor, results of tfgpu smoke and tfgpu bench, or
several of them. What differs between nodes is compared within siblings: nodes with the same GPUs.
"""

from __future__ import annotations

from typing import Annotated, Literal

from tfgpu_doctor.facts.about import HOST, HOST_FILE, private, public
from tfgpu_doctor.facts.facts import Document, Record
from tfgpu_doctor.facts.report import Fix, MatrixInfo, Severity, Tool

SCHEMA: Literal["tfgpu.fleet/1"] = "tfgpu.fleet/1"

Verdict = Literal["ok", "degraded", "broken", "unknown"]
# finding: a diagnosis found it; difference: a value that most siblings do not have; speed: slower than its siblings
Kind = Literal["finding", "difference", "speed"]
WORST_FIRST: tuple[Verdict, ...] = ("broken", "unknown", "degraded", "ok")


class Node(Record, frozen=True):
    """One node, and what its results say in few words."""

    name: Annotated[str, private("name", unit=HOST)]  # "gpu-017"; unique in the fleet
    # where its result was read: "reports/gpu-017.json", "standard input, line 12"
    source: Annotated[str, private("source", unit=HOST_FILE)]
    results: Annotated[tuple[str, ...], public("kinds of results")]  # of "doctor", "smoke", "bench"
    verdict: Annotated[Verdict, public("verdict")]  # the worst of its results
    created: Annotated[str, public("created")]  # of its newest result, UTC
    gpus: Annotated[int | None, public("number of GPUs")]  # None: unknown
    hardware: str  # what makes siblings: "8 × NVIDIA H200"; "no GPU"; "unknown"
    findings: Annotated[tuple[str, ...], public("findings")] = ()  # ids of its root causes, errors first


class Unreadable(Record, frozen=True):
    """A file, or a part of one, that is not a result of tfgpu."""

    file: Annotated[str, private("file", unit=HOST_FILE)]  # "standard input" for -
    line: Annotated[int | None, public("line")]  # 1-based; None: the whole file
    reason: str  # "it is cut off"


class Value(Record, frozen=True):
    """A value that nodes have."""

    value: Annotated[str, public("value")]  # "580.65.06"; "absent"
    nodes: Annotated[int, public("number of nodes")]


class Common(Record, frozen=True):
    """What most nodes have: one row of the picture of the fleet."""

    id: Annotated[str, public("id")]  # path of the fact: "driver.version"
    layer: Annotated[str, public("layer")]  # as the doctor names it
    label: Annotated[str, public("label")]  # "driver"
    values: tuple[Value, ...]  # the most frequent first, at most 5
    distinct: Annotated[int, public("number of values")]  # that there are
    known: Annotated[int, public("number of nodes")]  # nodes where it is known


class Member(Record, frozen=True):
    """A node of a group, and what was found on it."""

    node: Annotated[str, private("node", unit=HOST)]
    found: str  # "driver 550.54.15"; the measured value with its unit


class Group(Record, frozen=True):
    """Nodes with the same problem or the same difference, and its repair."""

    id: Annotated[str, public("id")]  # of the finding, or the path of the fact, or the run: "matpow/1 GPU/float32"
    kind: Annotated[Kind, public("kind")]
    severity: Annotated[Severity, public("severity")]
    layer: Annotated[str, public("layer")]
    title: str
    expected: str  # what the siblings have, or had; empty for a finding
    source: str  # who says so: "996 of 1000 nodes with 8 × NVIDIA H200", "good.jsonl"
    cause: str  # why it matters
    nodes: tuple[Member, ...]  # in the order of their names
    fixes: tuple[Fix, ...]
    explains: Annotated[tuple[str, ...], public("explained groups")] = ()  # ids of groups with the same nodes below it


class Fleet(Document, frozen=True):
    """All of it. `verdict` is that of the worst group; "unknown" where only something could not be read."""

    schema: Literal["tfgpu.fleet/1"]
    tool: Tool
    matrix: MatrixInfo
    created: str  # UTC
    verdict: Annotated[Verdict, public("verdict")]
    results: int  # that were read
    common: tuple[Common, ...]  # in the order of the stack
    groups: tuple[Group, ...]  # the worst first
    nodes: tuple[Node, ...]  # in the order of their names
    unreadable: tuple[Unreadable, ...] = ()
    notes: tuple[str, ...] = ()  # what to know before reading on: "3 nodes sent several reports; the newest counts"
