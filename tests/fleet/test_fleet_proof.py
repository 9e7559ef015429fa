"""Every planted oddity is found, and a clean fleet has no group: the proof, on fleets of many seeds."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest

from tests.fleet.making import ODDITIES, TYPES, Made, _node, fleet
from tests.healthy import MATRIX
from tfgpu_doctor.fleet.picture import judge_fleet
from tfgpu_doctor.fleet.reading import Gathered
from tfgpu_doctor.fleet.records import Fleet, Group

SEEDS = range(1, 21)
PLANTED = 12
NOW = "2026-11-23T12:00:00Z"


def judged(made: Made, **more: object) -> Fleet:
    gathered = Gathered()
    gathered.take(made.lines, "fleet.jsonl")
    return judge_fleet(gathered, MATRIX, NOW, **more)  # type: ignore[arg-type]


def missed(made: Made, found: Fleet) -> list[str]:
    """Planted oddities that no group names with all their nodes."""
    by_name = {one.name: one for one in ODDITIES}
    return [
        name
        for name, nodes in made.planted.items()
        if not nodes
        <= {member.node for group in found.groups if _names(group, by_name[name].finds) for member in group.nodes}
    ]


def invented(made: Made, found: Fleet) -> list[str]:
    """Groups that nothing which was planted accounts for."""
    by_name = {one.name: one for one in ODDITIES}
    allowed: dict[str, tuple[str, ...]] = {}
    for name, nodes in made.planted.items():
        for node in nodes:
            allowed[node] = (*by_name[name].finds, *by_name[name].also)
    return [
        f"{group.id}: {group.title} ({member.node}: {member.found})"
        for group in found.groups
        for member in group.nodes
        if not group.id.startswith(allowed.get(member.node, ("-",)))
    ]


def _names(group: Group, ids: Iterable[str]) -> bool:
    return any(one in (group.id, *group.explains) for one in ids)


def test_what_is_planted_is_found_and_nothing_else() -> None:
    for seed in SEEDS[:1]:
        made = fleet(seed, 300, PLANTED)
        found = judged(made)
        assert (missed(made, found), invented(made, found), found.unreadable) == ([], [], ()), seed
        clean = judged(fleet(seed, 300))
        assert [(group.id, group.title) for group in clean.groups] == [], seed
        assert (clean.verdict, clean.unreadable, len(clean.nodes), len(found.nodes)) == ("ok", (), 300, 300)


@pytest.mark.full
@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_of_ten_thousand_nodes(seed: int) -> None:
    made = fleet(seed, 10_000, PLANTED)
    found = judged(made)
    assert len(made.planted) == PLANTED
    assert (missed(made, found), invented(made, found), found.unreadable) == ([], [], ())
    clean = judged(fleet(seed, 10_000))
    assert [(group.id, group.title) for group in clean.groups] == []


def test_every_oddity_is_found_alone() -> None:
    """Each kind by itself, so that none is found by way of another."""
    for oddity in ODDITIES:
        kind = next(one for one in TYPES if oddity.fits(one))
        chance = Random(oddity.name)
        lines = []
        for number in range(40):
            one = oddity if number in (3, 17) else None
            lines += [line.encode() for line in _node(chance, f"n{number}", kind, one, True)]
        made = Made(lines, {oddity.name: {"n3", "n17"}})
        found = judged(made)
        assert (missed(made, found), invented(made, found)) == ([], []), oddity.name
        assert len(found.groups) <= 3, [(group.id, group.title, group.explains) for group in found.groups]
