"""KMN and even: where their maps run, and which outputs count."""

from __future__ import annotations

from collections import Counter

import pytest

from railyard.cluster.ids import JobId
from railyard.resourcemanager.interface.events import StagePlan
from tests.harness import TinyCluster, tiny_cluster


def maps_by_rack(c: TinyCluster) -> Counter[str]:
    tasks = c.core.state.jobs[JobId("j0")].stages["m"].tasks
    return Counter(task.winner.node.rack for task in tasks if task.winner)


def test_even_puts_as_many_maps_into_each_rack_wherever_their_input_is():
    c = tiny_cluster(racks=3, nodes=2, slots=2, scheduler="even")
    c.store("in", blocks=[["r0n0"]] * 9)
    c.submit("j0", input="in", reduces=3, map_s=1)
    run = c.run()
    assert Counter(node[:2] for node in run.nodes_of("j0.m")) == {"r0": 3, "r1": 3, "r2": 3}
    assert Counter(node[:2] for node in run.nodes_of("j0.r")) == {"r0": 1, "r1": 1, "r2": 1}


def test_even_waits_for_a_rack_s_slots_for_a_while_only():
    c = tiny_cluster(racks=2, nodes=1, slots=2, scheduler="even", rack_wait_s=3.0)
    c.store("in", blocks=[["r0n0"]] * 4)
    c.set_slots("r1n0", 1)
    c.submit("j0", input="in", map_s=10)
    starts_s = Counter(when_s for _, when_s in c.run().launches("j0.m"))
    assert starts_s == {0.0: 3, 10.0: 1}
    c = tiny_cluster(racks=2, nodes=1, slots=3, scheduler="even", rack_wait_s=3.0)
    c.store("in", blocks=[["r0n0"]] * 4)
    c.set_slots("r1n0", 1)
    c.submit("j0", input="in", map_s=10)
    assert Counter(when_s for _, when_s in c.run().launches("j0.m")) == {0.0: 3, 3.0: 1}


def test_kmn_launches_extras_and_takes_what_loads_links_alike():
    c = tiny_cluster(racks=3, nodes=6, slots=2, scheduler="kmn", extra=1.0)
    c.store("in", blocks=[["r0n0"], ["r0n1"], ["r0n2"], ["r0n3"], ["r1n0"], ["r2n0"]])
    c.submit("j0", input="in", reduces=3, map_s=10, reduce_s=10)
    c.run(until_s=9.0)
    copies = [each for each in c.launched() if each.attempt.endswith(".1")]
    assert len(copies) == 6
    assert {each.node[:2] for each in copies} > {"r1"}
    c.run(until_s=10.1)
    assert sum(maps_by_rack(c).values()) == 6
    assert maps_by_rack(c)["r0"] < 4
    assert c.run().ended == {"j0": ""}
    record = c.core.records[JobId("j0")]
    assert record.copies > record.copies_chosen > 0


@pytest.mark.parametrize(("extra", "launched"), [(0.0, 6), (0.5, 9), (1.0, 9)])
def test_of_a_sampling_job_any_k_of_m_count(extra: float, launched: int):
    c = tiny_cluster(racks=3, nodes=6, scheduler="kmn", extra=extra)
    nodes = ["r0n0", "r0n1", "r0n2", "r0n3", "r0n4", "r1n0", "r1n1", "r2n0", "r2n1"]
    c.store("in", blocks=[[node] for node in nodes])
    inputs = tuple(c._files["in"])
    stages = [
        StagePlan(name="m", tasks=9, inputs=inputs, needed=6),
        StagePlan(name="r", reads=("m",), tasks=3),
    ]
    c.submit("j0", stages=stages, map_s=10, reduce_s=10)
    c.run(until_s=9.0)
    assert len(c.launched()) == launched
    c.run(until_s=10.1)
    assert sum(maps_by_rack(c).values()) == 6
    if launched == 9:
        assert maps_by_rack(c) == {"r0": 2, "r1": 2, "r2": 2}
    assert c.run().ended == {"j0": ""}


def test_a_sampling_job_survives_the_loss_of_what_was_kept_and_of_what_was_taken():
    for when_s in (5.0, 12.0):
        c = tiny_cluster(racks=3, nodes=6, scheduler="kmn", extra=0.5)
        c.store("in", blocks=[[f"r{at % 3}n{at // 3}", "r2n5"] for at in range(9)])
        stages = [
            StagePlan(name="m", tasks=9, inputs=tuple(c._files["in"]), needed=6),
            StagePlan(name="r", reads=("m",), tasks=3),
        ]
        c.submit("j0", stages=stages, map_s=10, reduce_s=10)
        c.at(when_s, lambda c=c: c.lose("r0n0"))
        assert c.run().ended == {"j0": ""}
