"""Flows end when they do by exact fractions, under each flow scheduler."""

import pytest

from railyard.oracles.differential import circuit_disagreements, disagreements
from railyard.oracles.rates import EXACT

#: ``scripts/bench fabric`` goes through 10,000 cases in all.
CASES = 40
#: Of circuits, gaps that are too short are in one case of a hundred.
CIRCUIT_CASES = 200


@pytest.mark.parametrize("is_compiled", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("scheduler", sorted(EXACT))
def test_flows_end_when_they_do_by_exact_fractions(scheduler, is_compiled):
    for seed in range(CASES):
        found = list(disagreements(scheduler, seed, is_compiled=is_compiled))
        assert not found, "\n".join(found)


@pytest.mark.parametrize("is_compiled", [False, True], ids=["plain", "compiled"])
def test_circuits_are_those_that_are_reserved_ahead(is_compiled):
    for seed in range(CIRCUIT_CASES):
        found = list(circuit_disagreements(seed, is_compiled=is_compiled))
        assert not found, "\n".join(found)
