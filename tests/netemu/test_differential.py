"""Flows end when they do by exact fractions, under both versions of each flow scheduler."""

import pytest

from railyard.benchmarks._exact.differential import circuit_disagreements, disagreements
from railyard.benchmarks._exact.rates import EXACT

#: ``scripts/bench fabric`` goes through 10,000 cases in all.
CASES = 40
#: Of circuits, gaps that are too short are in one case of a hundred.
CIRCUIT_CASES = 200


@pytest.mark.parametrize("fast", [False, True], ids=["reference", "fast"])
@pytest.mark.parametrize("scheduler", sorted(EXACT))
def test_flows_end_when_they_do_by_exact_fractions(scheduler, fast):
    for seed in range(CASES):
        found = list(disagreements(scheduler, seed, fast=fast))
        assert not found, "\n".join(found)


@pytest.mark.parametrize("fast", [False, True], ids=["reference", "fast"])
def test_circuits_are_those_that_are_reserved_ahead(fast):
    for seed in range(CIRCUIT_CASES):
        found = list(circuit_disagreements(seed, fast=fast))
        assert not found, "\n".join(found)
