"""What varies by nature is no difference, also where few nodes of one kind happen to agree."""

from __future__ import annotations

import pytest

from tests.fleet.making import fleet
from tests.fleet.test_fleet_proof import judged
from tfgpu_doctor.fleet.differences import at_most


def test_small_clean_fleets_have_no_group(subtests: pytest.Subtests) -> None:
    """With 40 % of the nodes on another update and a third package, of each kind five of six agree now and then."""
    for nodes in [30, 60]:
        with subtests.test(nodes=nodes):
            found = {seed: [group.title for group in judged(fleet(seed, nodes)).groups] for seed in range(1, 9)}
            assert {seed: titles for seed, titles in found.items() if titles} == {}


def test_the_binomial_distribution(subtests: pytest.Subtests) -> None:
    for many, known, share, chance in [
        (0, 3, 0.5, 0.125),
        (1, 6, 0.4, 0.23328),
        (3, 3, 0.5, 1.0),
        (0, 5, 0.0, 1.0),
        (2, 5, 1.0, 0.0),
        (5, 5, 1.0, 1.0),
    ]:
        with subtests.test(many=many):
            assert at_most(many, known, share) == pytest.approx(chance)


def test_of_many_nodes_that_is_no_chance() -> None:
    assert at_most(5, 1000, 0.4) < 1e-100
