"""Flows with equally much to send are equals, whatever the clock says: rounding decides nothing."""

import random

import pytest

from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.oracles.orders import open_flows
from tests.netemu.topologies import network_of

MB = 10**6
RACKS = 4


def ends_of(scheduler, seed, begin_s):
    """Shuffles of whole megabytes, at whole milliseconds: many flows have equally much left."""
    dice = random.Random(seed)
    f = Fabric(network_of(RACKS, 1, "unlimited", "8Gbps"), flow_scheduler(scheduler))
    f.handle(None, begin_s)
    ends, at_s = {}, begin_s
    for number in range(6):
        at_s += dice.randint(0, 20) / 1000
        ends |= {ended.flow: ended.finished_s - begin_s for ended in f.handle(None, at_s)}
        racks = [dice.sample(range(RACKS), dice.randint(1, RACKS)) for _ in range(2)]
        for src, dst in [(src, dst) for src in racks[0] for dst in racks[1] if src != dst]:
            spec = FlowSpec(
                flow=f"{number}: {src}>{dst}",
                src=f"r{src}n0",
                dst=f"r{dst}n0",
                size_bytes=dice.randint(1, 10) * MB,
            )
            open_flows(f, spec)
    while f.open_flows:
        due_s = f.next_event_s()
        ends |= {ended.flow: ended.finished_s - begin_s for ended in f.handle(None, due_s)}
    return ends


@pytest.mark.parametrize("scheduler", ["maxmin", "sjf"])
def test_a_day_later_the_same_happens(scheduler):
    for seed in range(15):
        at_once, later = ends_of(scheduler, seed, 0.0), ends_of(scheduler, seed, 86_400.0)
        assert later == pytest.approx(at_once, abs=1e-6), f"seed {seed}"
