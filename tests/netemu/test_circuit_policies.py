"""Circuit policies: one of one's own, registered by name, and what is refused."""

from dataclasses import replace

import pytest

from railyard.cluster.errors import InvariantError, UsageError
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.traces.coflows import CoflowTrace, TraceCoflow
from railyard.netemu.circuits.policies import CIRCUIT_POLICIES
from railyard.netemu.circuits.policies.base import StatelessPolicy
from railyard.netemu.schedulers.sunflow import Sunflow
from railyard.simulator.coflows import CoflowRun

GB = 10**9
#: 1 GB/s and 10 ms
TOPOLOGY = "co-scheduler-60x10,racks.count=4,racks.nodes=1,links.nic=unlimited,ocs.port=8Gbps"


class Rotor(StatelessPolicy):
    """Every second, each rack is connected to the next but one more: 1, 2, 3, 1, ..."""

    name = "rotor"
    source = "a test, after RotorNet"

    def wanted(self, now_s, coflows):
        self.look_again_s = now_s // 1 + 1 if coflows else float("inf")
        distance = 1 + int(now_s) % 3
        there = {}
        for pair in (pair for coflow in coflows for pair in coflow.pairs):
            if (pair.dst - pair.src) % 4 == distance:
                there.setdefault((pair.src, pair.dst), pair)
        return there.values()


class OverRotor(Sunflow):
    name = "over-rotor"
    circuit_policy = "rotor"


def ccts_s(*coflows):
    """Completion times of coflows, each a source and GB by destination; all arrive at 0 s."""
    trace = CoflowTrace(
        name="t",
        racks=4,
        coflows=tuple(
            TraceCoflow(
                name=name,
                arrival_s=0.0,
                mappers=(src,),
                reducers=tuple((dst, int(size_gb * GB)) for dst, size_gb in sizes.items()),
            )
            for name, src, sizes in coflows
        ),
    )
    run = CoflowRun(trace, load_topology(TOPOLOGY), OverRotor())
    run.run()
    return {name: pytest.approx(record.cct_s) for name, record in run.records.items()}


def test_a_policy_of_ones_own_runs_in_the_simulator(monkeypatch):
    """0 to 1 is connected from 0 s and from 3 s on, 0 to 2 from 1 s and 4 s, for 0.99 s each."""
    monkeypatch.setitem(CIRCUIT_POLICIES, "rotor", Rotor)
    found = ccts_s(("next", 0, {1: 1.5}), ("second", 0, {2: 1.125}))
    assert found == {"next": 3.01 + 0.51, "second": 4.01 + 0.135}


def test_a_policy_that_is_not_there_is_refused():
    with pytest.raises(UsageError, match=r'unknown circuit policy "rotor".*sunflow'):
        ccts_s(("a", 0, {1: 1.5}))


class Generous(Rotor):
    """Connects all that send with all that receive."""

    def wanted(self, now_s, coflows):
        return [pair for coflow in coflows for pair in coflow.pairs]


class Wrong(Generous):
    """Connects rack 0 with rack 2, whatever is to be sent."""

    def wanted(self, now_s, coflows):
        return [replace(pair, dst=2) for pair in super().wanted(now_s, coflows)]


@pytest.mark.parametrize(
    ("policy", "sizes_gb", "what"),
    [
        pytest.param(
            Generous, {1: 2, 2: 2}, "more circuits than 1 to r0.ocs.up 2", id="a port is full"
        ),
        pytest.param(Wrong, {1: 2, 2: 0.1}, "r0 to r2 a circuit: it wants none", id="by packets"),
    ],
)
def test_what_the_switch_cannot_do_stops_the_run(monkeypatch, policy, sizes_gb, what):
    monkeypatch.setitem(CIRCUIT_POLICIES, "rotor", policy)
    with pytest.raises(InvariantError, match=f"rotor gave {what}"):
        ccts_s(("a", 0, sizes_gb))
