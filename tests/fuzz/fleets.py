"""Fleets under the fuzzer: a mutated result among healthy ones, and mutated logs of tools that print for many nodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from random import Random

import msgspec

from tests.fleet import making, wrapped
from tests.fuzz import samples
from tests.fuzz.calls import NOW, smoke
from tests.healthy import MATRIX
from tfgpu_doctor.fleet import baseline
from tfgpu_doctor.fleet.baseline import Baseline
from tfgpu_doctor.fleet.expectations import parse
from tfgpu_doctor.fleet.fleet import exit_code, judge_fleet
from tfgpu_doctor.fleet.gathering import Gathering
from tfgpu_doctor.fleet.records import Fleet

WISHES = parse("gpus=1,driver>=570,memory=24GB,numpy<3,cudnn=9,kernel!=4,host-memory>=1GB,mig=off,container!=docker")


@cache
def healthy() -> tuple[bytes, ...]:
    """Four alike nodes, with a report and a result of a benchmark each."""
    lines = []
    for number in range(4):
        filled = making._values(Random(number), f"healthy-{number}", making.TYPES[2], None)
        lines += [one(making.TYPES[2]).filled(filled).encode() for one in (making.report, making.bench)]
    return tuple(lines)


@cache
def results() -> Sequence[bytes]:
    """One of each kind, of nodes of many kinds."""
    oddities = [making.report(making.TYPES[2], one.name) for one in making.ODDITIES]
    filled = making._values(Random(9), "odd", making.TYPES[2], None)
    made = [template.filled(filled).encode() for template in oddities]
    silent = b'{"schema": "tfgpu.node/1", "node": "odd", "failure": "did not answer within 120 s"}'
    wrapped_one = b'{"schema": "tfgpu.node/1", "node": "odd", "result": %s}' % made[0]
    play = wrapped.ansible_json({"odd": made[0].decode()}).encode()
    return (*made[::3], healthy()[1], smoke().to_json(), silent, wrapped_one, play, *samples.reports()[::40])


@cache
def logs() -> Sequence[bytes]:
    """Small ones, so that mutations meet what matters."""
    texts = {f"gpu-{n}": json.dumps({"schema": "tfgpu.report/1", "host": n}, indent=2) + "\n" for n in range(3)}
    forms = (*wrapped.NAMING, *wrapped.NUMBERING, *wrapped.OTHERS, wrapped.compose)
    silent = b"srun: error: gpu-7: task 7: Killed\nclush: gpu-[1-9] (9): exited with exit code 255\n"
    return (*(form(texts).encode() for form in forms), silent)


@cache
def baselines() -> Sequence[bytes]:
    """What --save-baseline writes."""
    gathering = Gathering()
    gathering.take_lines(iter(healthy()), "healthy.jsonl", b"")
    return (msgspec.json.encode(baseline.from_gathered(gathering.gathered(), NOW)),)


@cache
def _expected() -> Baseline:
    return baseline.load(baselines()[0], "baseline.json")


def judged(data: bytes) -> None:
    """A file of a fleet beside healthy nodes: read, judged, compared with a baseline and with wishes, and written."""
    gathering = Gathering()
    gathering.take_lines(iter(healthy()), "healthy.jsonl", b"")
    gathering.take_file(data, "mutated.json")
    found = gathering.gathered()
    for known, wishes in ((None, ()), (_expected(), WISHES)):
        fleet = judge_fleet(found, MATRIX, NOW, baseline=known, expectations=wishes)
        assert msgspec.json.decode(msgspec.json.encode(fleet), type=Fleet) == fleet, "JSON and back is the identity"
        assert exit_code(fleet, "warning") in (0, 1, 3)
        names = {node.name for node in fleet.nodes}
        assert {member.node for group in fleet.groups for member in group.nodes} <= names
        assert {f"healthy-{n}" for n in range(4)} <= names or b"healthy" in data
    again = msgspec.json.encode(baseline.from_gathered(found, NOW))
    assert baseline.load(again, "again").hardware


def gathered(data: bytes) -> None:
    """A log, alone."""
    gathering = Gathering()
    gathering.take_file(data, "log.txt")
    judge_fleet(gathering.gathered(), MATRIX, NOW)


def against(data: bytes) -> None:
    """A mutated baseline beside healthy nodes."""
    known = baseline.load(data, "baseline.json")
    gathering = Gathering()
    gathering.take_lines(iter(healthy()), "healthy.jsonl", b"")
    judge_fleet(gathering.gathered(), MATRIX, NOW, baseline=known)
