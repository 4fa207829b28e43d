"""Compiled loops give the circuits, rates, ends and bytes of plain Python, to the digit."""

import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.jobs.workloads.traces.coflows import CoflowTrace, TraceCoflow
from railyard.netemu.circuits import pairs
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.messages import SetCapacity
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers.sunflow import Sunflow
from railyard.oracles.orders import carry_out, open_flows
from railyard.simulator.coflows import CoflowRun
from tests.netemu.circuit_events import GB, RACKS, Run, a_moment, topology

#: The first test has the loops compiled if nobody has used them on this machine.
pytestmark = pytest.mark.timeout(400)


def pair_of_runs(places):
    """The same network twice: by plain loops, and by compiled ones."""
    return [Run(Fabric(places, Sunflow(), compiled_from=many)) for many in (math.inf, 0)]


def are_alike(runs):
    plain, fast = (run.fabric for run in runs)
    assert fast.circuits() == plain.circuits()
    assert fast.circuit_changes() == plain.circuit_changes()
    assert fast.next_ready_s() == plain.next_ready_s()
    assert fast.rates_bytes_per_s() == plain.rates_bytes_per_s()
    assert fast.next_event_s() == plain.next_event_s()
    for flow in runs[0].open:
        assert fast.sent_bytes(flow) == plain.sent_bytes(flow)
    assert fast.bytes_by_link() == plain.bytes_by_link()
    assert fast.bytes_by_category() == plain.bytes_by_category()
    assert fast.free_bytes_per_s() == plain.free_bytes_per_s()
    assert runs[0].ends == runs[1].ends


@given(
    moments=st.lists(a_moment, min_size=3, max_size=20),
    nic=st.sampled_from(["8Gbps", "unlimited"]),
    wavelengths=st.sampled_from([1, 2]),
    delta=st.sampled_from(["0ms", "100ms", "300ms"]),
    elephant=st.sampled_from(["1B", "1GB"]),
)
@settings(max_examples=100, deadline=None)
def test_whatever_happens_circuits_rates_and_ends_are_the_same(
    moments, nic, wavelengths, delta, elephant
):
    """Flows that grow, are cancelled, or join; ports that fail; NICs that get and lose limits."""
    places = topology(nic, wavelengths=wavelengths, delta_s=delta, elephant_bytes=elephant)
    runs = pair_of_runs(places)
    for events, tenths in moments:
        for event in events:
            for run in runs:
                run.do(event)
        are_alike(runs)
        for run in runs:
            run.wait(tenths / 10)
        are_alike(runs)
    for run in runs:
        run.finish()
    are_alike(runs)


def test_it_is_the_compiled_loops_that_decide():
    """Also after a link's capacity has changed."""
    plain, fast = pair_of_runs(topology("unlimited"))
    spec = FlowSpec(flow="f", src="r0n0", dst="r1n0", size_bytes=8 * GB)
    for run in (plain, fast):
        open_flows(run.fabric, spec)
    for _ in range(2):
        for run in (plain, fast):
            run.fabric.next_event_s()
            assert (run.fabric._store.loops.pairs is pairs) == (run is plain)
            carry_out(run.fabric, SetCapacity(link="r0.ocs.up", bytes_per_s=GB))


def a_trace(dice, racks):
    """Coflows of sizes that are often equal, at times that are often the same."""
    sizes = [GB, GB, GB // 2, GB // 10, 3 * GB // 10, dice.randrange(1, GB)]
    coflows, arrival_s = [], 0.0
    for number in range(dice.randint(2, 12)):
        arrival_s += dice.choice([0.0, 0.05, 0.1, 0.5, dice.random()])
        mappers = dice.sample(range(racks), dice.randint(1, racks))
        reducers = dice.sample(range(racks), dice.randint(1, racks))
        coflows.append(
            TraceCoflow(
                name=str(number),
                arrival_s=arrival_s,
                mappers=tuple(mappers),
                reducers=tuple((dst, dice.choice(sizes) * len(mappers)) for dst in reducers),
            )
        )
    return CoflowTrace(name="t", racks=racks, coflows=tuple(coflows))


@pytest.mark.parametrize("nodes", [1, 3], ids=["one flow a pair", "several"])
@pytest.mark.parametrize("delta", ["0ms", "10ms", "100ms"])
def test_a_whole_trace_is_the_same(monkeypatch, delta, nodes):
    """So are how many events there were, and all circuits; also where loops are compiled late."""
    for seed in range(5):
        dice = random.Random(seed)
        trace = a_trace(dice, dice.choice([RACKS, 6]))
        places = topology(
            dice.choice(["8Gbps", "unlimited"]),
            racks=trace.racks,
            nodes=nodes,
            wavelengths=dice.choice([1, 2]),
            delta_s=delta,
            elephant_bytes=dice.choice(["1B", "300MB"]),
        )
        found = []
        for many in (math.inf, dice.choice([0, 5])):
            monkeypatch.setattr("railyard.simulator.coflows.MANY_FLOWS", many)
            run = CoflowRun(trace, places, Sunflow())
            run.run()
            ends = {name: record.finished_s for name, record in run.records.items()}
            found.append((ends, run.events, run.summary(), run.fabric.circuit_changes()))
        assert found[0] == found[1], f"seed {seed}"
