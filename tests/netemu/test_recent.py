"""An error of a flow scheduler shows the last changes of what it is about."""

from __future__ import annotations

import numpy as np
import pytest

from railyard.cluster.errors import InvariantError
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.fabric.recent import RecentChanges
from railyard.netemu.messages import SetCapacity
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers.base import FlowScheduler, Plan
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.test_fabric import topology


class Late(FlowScheduler):
    """Forgets all coflows after 1 s."""

    name = "late"
    source = "this test"

    def plan(self, traffic):
        return Plan(order=np.arange(len(traffic) if traffic.now_s < 1 else 0))


def test_an_error_of_a_flow_scheduler_shows_the_last_changes():
    fabric = Fabric(topology(), Late())
    open_flows(fabric, FlowSpec(flow="f0", src="r0n0", dst="r1n0", size_bytes=10**10))
    fabric.next_event_s()
    fabric.handle(None, 1.5)
    carry_out(fabric, SetCapacity(link="r0.up", bytes_per_s=1e8))
    with pytest.raises(InvariantError, match="late's order") as caught:
        fabric.next_event_s()
    _, started, changed = str(caught.value).splitlines()
    assert started.startswith("    0.000  start f0 FlowSpec(flow='f0', src='r0n0', dst='r1n0'")
    assert changed == "    1.500  capacity of r0.up 100000000.0"


def test_only_changes_of_what_an_error_names_are_shown():
    recent = RecentChanges()
    for number in range(20):
        recent.add((float(number), "finish", f"f{number}", "c1" if number % 2 else "c10"))
    error = InvariantError("rates of c1: need 0 or more", ["c1"])
    recent.add_to(error)
    lines = str(error).splitlines()[1:]
    assert [line.split()[2] for line in lines] == [f"f{number}" for number in range(5, 20, 2)]
