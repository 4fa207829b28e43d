"""ShuffleWatcher: a job by itself, in the racks that make its bytes across racks least."""

from __future__ import annotations

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import NodeId, rack_of
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.schedulers.corral.test_corral import forecast

EVERYWHERE = [["r0n0"], ["r1n0"], ["r2n0"], ["r0n1"], ["r1n1"], ["r0n0"]]


def racks_used(c: TinyCluster, job: str = "j0") -> set[str]:
    return {rack_of(NodeId(node)) for node in c.run().nodes_of(job)}


def test_with_as_much_shuffle_as_input_one_rack_is_best():
    """Of 6 blocks 3 are in r0: 300 bytes there; 500 of input and half of 600 cross for r0 and r1.

    One rack: 300; two: 100 + 300; three: 0 + 400.
    """
    c = tiny_cluster(racks=3, scheduler="shufflewatcher")
    c.store("in", blocks=EVERYWHERE)
    c.submit("j0", input="in", reduces=2)
    assert racks_used(c) == {"r0"}


def test_with_little_shuffle_a_job_goes_where_its_input_is():
    c = tiny_cluster(racks=3, scheduler="shufflewatcher", sir=0.1)
    c.store("in", blocks=EVERYWHERE)
    c.submit("j0", input="in", reduces=2)
    assert racks_used(c) == {"r0", "r1", "r2"}


def test_a_job_without_reduces_goes_where_its_input_is():
    c = tiny_cluster(racks=3, scheduler="shufflewatcher")
    c.store("in", blocks=EVERYWHERE)
    c.submit("j0", input="in")
    assert racks_used(c) == {"r0", "r1", "r2"}


def test_replicas_count_where_they_are():
    """All is in r2 too: no byte needs to cross."""
    c = tiny_cluster(racks=3, scheduler="shufflewatcher")
    c.store("in", blocks=[[*nodes, "r2n1"] for nodes in EVERYWHERE])
    c.submit("j0", input="in", reduces=2)
    assert racks_used(c) == {"r2"}


def test_what_other_jobs_do_does_not_matter():
    """All on one rack, as Corral's authors saw, while others are idle."""
    c = tiny_cluster(racks=3, scheduler="shufflewatcher")
    c.store("in", blocks=[["r1n0"]] * 4)
    for number in range(4):
        c.submit(f"j{number}", input="in", reduces=1)
    run = c.run()
    assert {rack_of(NodeId(node)) for node in run.nodes_of("j")} == {"r1"}


def test_a_predicted_shuffle_is_taken_for_what_it_is():
    c = tiny_cluster(racks=3, scheduler="shufflewatcher", sir=0.0)
    c.store("in", blocks=EVERYWHERE)
    c.submit("j0", input="in", reduces=2, forecast=forecast())  # 400 MB of shuffle
    assert racks_used(c) == {"r0"}


def test_when_its_rack_is_lost_a_job_ends_elsewhere():
    c = tiny_cluster(racks=2, scheduler="shufflewatcher")
    c.store("in", blocks=[["r1n0", "r0n0"], ["r1n1", "r1n0"]] * 4)
    c.submit("j0", input="in", reduces=1)
    c.run(until_s=1.5)
    c.lose("r1n0")
    c.lose("r1n1")
    assert c.run().ended == {"j0": ""}


def test_settings_are_checked():
    with pytest.raises(UsageError, match=r"shufflewatcher.sir = -1.0: need a number >= 0"):
        tiny_cluster(scheduler="shufflewatcher", sir=-1.0)
