"""Every planted oddity is found, and a clean fleet has no group: the proof, on fleets of many seeds."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from tests.fleet.making import BY_NAME, ODDITIES, TYPES, Made, _node, fleet
from tests.healthy import MATRIX
from tfgpu_doctor.fleet.nodes import paths
from tfgpu_doctor.fleet.picture import judge_fleet
from tfgpu_doctor.fleet.reading import Gathered
from tfgpu_doctor.fleet.records import Fleet, Group

PLANTED = 12
NOW = "2026-11-23T12:00:00Z"


def judged(made: Made, **more: object) -> Fleet:
    gathered = Gathered()
    gathered.take(made.lines, "fleet.jsonl")
    return judge_fleet(gathered, MATRIX, NOW, **more)  # type: ignore[arg-type]


def missed(made: Made, found: Fleet) -> list[str]:
    """Planted oddities that no group names with all their nodes."""
    return [
        name
        for name, nodes in made.planted.items()
        if not nodes
        <= {member.node for group in found.groups if _names(group, BY_NAME[name].finds) for member in group.nodes}
    ]


def invented(made: Made, found: Fleet) -> list[str]:
    """Groups that nothing which was planted accounts for."""
    planted = [(node, BY_NAME[name]) for name, nodes in made.planted.items() for node in nodes]
    allowed = {node: (*oddity.finds, *oddity.also) for node, oddity in planted}
    return [
        f"{group.id}: {group.title} ({member.node}: {member.found})"
        for group in found.groups
        for member in group.nodes
        if not group.id.startswith(allowed.get(member.node, ("-",)))
    ]


def _names(group: Group, ids: Iterable[str]) -> bool:
    return any(one in (group.id, *group.explains) for one in ids)


SEEDS = [(1, 200), *(pytest.param(seed, 10_000, marks=pytest.mark.full) for seed in range(1, 21))]


@pytest.mark.parametrize(("seed", "nodes"), SEEDS)
def test_what_is_planted_is_found_and_nothing_else(seed: int, nodes: int) -> None:
    made = fleet(seed, nodes, PLANTED)
    found = judged(made)
    assert len(made.planted) == PLANTED
    assert (missed(made, found), invented(made, found), found.unreadable) == ([], [], ())
    clean = judged(fleet(seed, nodes))
    assert [(group.id, group.title) for group in clean.groups] == []
    assert (clean.verdict, clean.unreadable, len(clean.nodes), len(found.nodes)) == ("ok", (), nodes, nodes)


def test_what_differs_on_every_machine_is_not_compared() -> None:
    assert {"host.name", "driver.nvidia_smi", "python.prefix", "tensorflow.log"}.isdisjoint(paths())


def test_every_oddity_is_found_alone() -> None:
    """Each kind by itself, so that none is found by way of another."""
    for oddity in ODDITIES:
        kind = next(one for one in TYPES if oddity.fits(one))
        chance = Random(oddity.name)
        nodes = [(f"n{number}", oddity if number in (3, 17) else None) for number in range(20)]
        lines = [line.encode() for name, one in nodes for line in _node(chance, name, kind, one, True)]
        made = Made(lines, {oddity.name: {"n3", "n17"}})
        found = judged(made)
        assert (missed(made, found), invented(made, found)) == ([], []), oddity.name
        assert len(found.groups) <= 3, [(group.id, group.title, group.explains) for group in found.groups]
