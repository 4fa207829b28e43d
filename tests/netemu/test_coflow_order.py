"""The order of coflows on circuits: only those whose bytes have changed get another place in it."""

from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.netemu.circuits.policies import CIRCUIT_POLICIES
from railyard.netemu.circuits.policies.sunflow import SunflowCircuits
from railyard.netemu.messages import SetCapacity
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.schedulers.sunflow import Sunflow
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.circuit_events import GB, Run, a_moment, fabric


def forgetting(run):
    """The same network, but every coflow gets its place anew whenever they are put in order."""
    optics = run.fabric._optics
    put_in_order = optics._put_in_order

    def all_anew():
        optics.state.coflows.is_moved[:] = True
        return put_in_order()

    optics._put_in_order = all_anew
    return run


@given(moments=st.lists(a_moment, min_size=3, max_size=20))
@settings(max_examples=60)
def test_circuits_are_those_of_an_order_that_is_made_anew(moments):
    kept, anew = Run(fabric(Sunflow())), forgetting(Run(fabric(Sunflow())))
    for events, tenths in moments:
        for event in events:
            kept.do(event)
            anew.do(event)
        assert kept.fabric.circuits() == anew.fabric.circuits()
        kept.wait(tenths / 10)
        anew.wait(tenths / 10)
    kept.finish()
    anew.finish()
    assert kept.ends == anew.ends


def test_coflows_that_wait_are_looked_at_once(monkeypatch):
    """Ten for one port, which has two circuits; one after the other ends."""
    looked_at = []

    class Noting(SunflowCircuits):
        """Notes how many coflows each decision has looked at."""

        def urgency(self, coflows):
            looked_at.append(len(coflows.port_bytes))
            return super().urgency(coflows)

    monkeypatch.setitem(CIRCUIT_POLICIES, "sunflow", Noting)
    f = fabric(Sunflow())
    for number in range(10):
        spec = FlowSpec(flow=f"f{number}", src="r0n0", dst="r1n0", size_bytes=(2 + number) * GB)
        open_flows(f, spec)
    f.next_event_s()
    assert looked_at == [10]
    ended = 0
    while ended < 10:
        ended += len(f.handle(None, f.next_event_s()))
    assert max(looked_at[1:]) <= 2


def test_a_port_that_carries_more_gives_those_who_wait_for_it_another_place():
    f = fabric(Sunflow())
    carry_out(f, SetCapacity(link="r2.ocs.down", bytes_per_s=GB / 2))
    for flow, dst, size in (("A", "r1n0", 4), ("B", "r1n1", 5), ("C", "r2n0", 3)):
        open_flows(f, FlowSpec(flow=flow, src="r0n0", dst=dst, size_bytes=size * GB))

    def served():
        return {circuit.coflow for circuit in f.circuits()} - {None}

    assert served() == {"flow A", "flow B"}
    carry_out(f, SetCapacity(link="r2.ocs.down", bytes_per_s=4 * GB))
    assert served() == {"flow A", "flow C"}
