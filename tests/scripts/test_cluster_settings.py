"""Settings that a topology has for the schedulers on it."""

from __future__ import annotations

import msgspec
import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.scripts.clusters.config import cluster_config
from railyard.scripts.clusters.pairs import Pair

SHADOWS = load_topology("shadow-4x13")


def options_of(scheduler: str, *options: tuple[str, float]) -> dict[str, object]:
    config = cluster_config(SHADOWS, pair=Pair(scheduler, "maxmin"), options=options)
    return dict(config.scheduler_options)


def test_each_scheduler_has_those_of_the_cluster_that_it_knows():
    assert options_of("delay") == SHADOWS.settings
    assert options_of("fair") == {
        name: value for name, value in SHADOWS.settings.items() if name != "delay.node_wait_s"
    }


def test_what_is_asked_for_and_what_a_scheduler_sets_itself_goes_first():
    assert options_of("delay", ("shuffle.slowstart", 0.5))["shuffle.slowstart"] == 0.5
    assert "shuffle.slowstart" not in options_of("shadow")


def test_a_setting_that_no_scheduler_has_is_refused():
    wrong = msgspec.structs.replace(SHADOWS, settings={"shuffle.slow_start": 0.8})
    with pytest.raises(UsageError, match=r"shuffle\.slowstart"):
        cluster_config(wrong, pair=Pair("fair", "maxmin"))
