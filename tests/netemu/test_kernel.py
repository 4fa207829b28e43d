"""The loops and the arrays that they work on, after whatever has happened to flows."""

from __future__ import annotations

import math
import random
from typing import NamedTuple

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.jobs.workloads.coflows import CoflowTrace, TraceCoflow
from railyard.netemu.circuits import pairs
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.kernel.pointers import Pointers
from railyard.netemu.kernel.state import FREE_ROWS, NONE, ROWS, TRUNKED, Flags, Ids, Reals
from railyard.netemu.messages import CloseFlow, RegisterCoflow, SetCapacity
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.links import fill, stack
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.netemu.schedulers.sunflow import Sunflow
from railyard.oracles.differential import circuit_disagreements, disagreements
from railyard.oracles.orders import carry_out, open_flows
from railyard.oracles.rates import EXACT
from railyard.simulator.coflows import CoflowRun
from tests.netemu.circuit_events import GB, RACKS, Run, a_moment, topology
from tests.netemu.topologies import network_of

NAMES = sorted(FLOW_SCHEDULERS.keys() - {"sunflow"})


class Busy:
    """A network in which flows come, end and are cancelled, and links change."""

    def __init__(self, scheduler: str, seed: int, trunks_from: float = math.inf) -> None:
        self.dice = random.Random(seed)
        nic = self.dice.choice(["unlimited", "8Gbps"])
        self.fabric = Fabric(
            network_of(3, 2, nic, "4Gbps"), flow_scheduler(scheduler), trunks_from=trunks_from
        )
        self.links = list(self.fabric.network.number)
        self.started = 0
        for number in range(3):
            carry_out(self.fabric, RegisterCoflow(coflow=f"c{number}"))

    def step(self) -> None:
        dice, fabric = self.dice, self.fabric
        kind = dice.random()
        if kind < 0.4 or not fabric.open_flows:
            self.start()
        elif kind < 0.5:
            carry_out(fabric, CloseFlow(flow=f"f{dice.randrange(self.started)}"))
        elif kind < 0.6:
            capacity = dice.choice([0.0, 1e8, 5e8, 1e9, math.inf])
            carry_out(fabric, SetCapacity(link=dice.choice(self.links), bytes_per_s=capacity))
        elif fabric.next_event_s() < math.inf:
            fabric.handle(None, fabric.next_event_s() + dice.choice([0.0, 0.0, 1.0]))
        fabric.next_event_s()  # sets rates

    def start(self) -> None:
        dice, new = self.dice, []
        for _ in range(dice.choice([1, 1, 5])):
            new.append(
                FlowSpec(
                    flow=f"f{self.started}",
                    src=f"r{dice.randrange(3)}n{dice.randrange(2)}",
                    dst=f"r{dice.randrange(3)}n{dice.randrange(2)}",
                    size_bytes=dice.choice([0, 10**8, dice.randrange(1, 10**9)]),
                    weight=dice.choice([1.0, 1.0, 2.0, 1e-3, 1e3]),
                    coflow=dice.choice([None, "c0", "c1", "c2"]),
                    priority=dice.choice([(), (1.0,), (2.0, 1.0)]),
                )
            )
            self.started += 1
        open_flows(self.fabric, *new)


@pytest.mark.parametrize(
    ("scheduler", "trunks_from"), [*((name, math.inf) for name in NAMES), ("maxmin", 0)]
)
def test_arrays_have_each_flow_and_row_once(scheduler: str, trunks_from: float) -> None:
    for seed in range(8):
        busy = Busy(scheduler, seed, trunks_from)
        for _ in range(60):
            busy.step()
            _check(busy.fabric)
        for flow in list(busy.fabric.rates_bytes_per_s()):
            carry_out(busy.fabric, CloseFlow(flow=flow))
        _check(busy.fabric)
        store = busy.fabric._store
        work = store.state.work
        assert (store.state.lines.head == NONE).all()
        assert len(set(work.free_rows[: work.counts[FREE_ROWS]].tolist())) == work.counts[ROWS]


def _check(fabric: Fabric) -> None:
    """Flows are in the lists of their rows, rows in those of their cells, and sums are right."""
    store, state = fabric._store, fabric._store.state
    flows, rows, cells = state.flows, state.rows, state.cells
    sending = [flow for flow in fabric._flows.values() if flows.row[flow] != NONE]
    members: dict[int, list[int]] = {}
    for flow in sending:
        members.setdefault(int(flows.row[flow]), []).append(flow)
    for row, those in members.items():
        listed, flow = [], rows.first[row]
        while flow != NONE:
            listed.append(flow)
            flow = flows.after[flow]
        assert sorted(listed) == sorted(those)
        assert listed[-1] == rows.last[row]
        assert rows.flows[row] == len(those)
        assert (np.diff(flows.needs[listed]) >= 0).all()
        assert rows.weight[row] == pytest.approx(flows.weight[those].sum(), rel=1e-9)
        total = (flows.weight[those] * flows.needs[those]).sum()
        assert rows.total[row] == pytest.approx(total, rel=1e-9)
        for entry in range(row << state.shift, (row << state.shift) + state.listed):
            if rows.link[entry] != state.none:
                cell = rows.cell[entry]
                place = rows.place[entry] - cells.begin[cell]
                assert 0 <= place < cells.many[cell] <= cells.room[cell]
                assert state.work.entries[rows.place[entry]] == entry
                assert cells.link[cell] == rows.link[entry]
    listed_entries = sum(
        int((rows.link[row << state.shift :][: state.listed] != state.none).sum())
        for row in members
    )
    used = [cell for cell in state.cell_of[: len(state.groups.cell) * state.none] if cell != NONE]
    assert sum(int(cells.many[cell]) for cell in used) == listed_entries
    work = store.state.work
    assert not set(work.free_rows[: work.counts[FREE_ROWS]].tolist()) & members.keys()
    assert state.groups.rows.sum() == len(members)
    nics, over = state.nics, np.zeros_like(state.nics.to)
    for flow in sending:
        if rows.way[flows.row[flow]] != NONE and state.lines.is_trunk[rows.way[flows.row[flow]]]:
            near, far = divmod(int(flows.route[flow]), state.racks)
            for nic, rack in ((2 * flows.src[flow], far), (2 * flows.dst[flow] + 1, near)):
                over[nic * state.racks + rack] += nics.link[nic] != state.none
    assert (nics.to == over).all()
    assert nics.many.tolist() == over.reshape(len(nics.many), state.racks).sum(axis=1).tolist()
    assert work.counts[TRUNKED] == over.sum()


@pytest.mark.parametrize("trunks_from", [0, 4, math.inf])
def test_levels_are_those_of_progressive_filling(trunks_from: float) -> None:
    for seed in range(30):
        busy = Busy("maxmin", seed, trunks_from)
        for _ in range(40):
            busy.step()
            fabric, store = busy.fabric, busy.fabric._store
            going = {
                name: flow
                for name, flow in fabric._flows.items()
                if store.state.flows.row[flow] != NONE
            }
            if not going:
                continue
            of, nodes = store.state.flows, list(fabric.network.node_number)
            ends = [(nodes[of.src[flow]], nodes[of.dst[flow]]) for flow in going.values()]
            routes = [fabric.network.route(*pair) for pair in ends]
            paths = stack([route.path for route in routes], store.state.none).T
            weights = store.state.flows.weight[list(going.values())]
            rates = fill(paths, weights, store.state.work.capacity.copy()) * weights
            found = [fabric.rate_bytes_per_s(name) for name in going]
            assert found == pytest.approx(rates.tolist(), rel=1e-9, abs=1e-3)


def test_flows_leave_a_trunk_only_where_a_nic_holds_them_back() -> None:
    """Those over others stay; new ones get rows of their own until the nic has no row."""
    fabric = Fabric(network_of(2, 4, "8Gbps", "8Gbps"), flow_scheduler("maxmin"), trunks_from=0)
    work = fabric._store.view.work

    def start(name: str, src: str, dst: str) -> None:
        open_flows(fabric, FlowSpec(flow=name, src=src, dst=dst, size_bytes=10**9))

    for number in range(3):
        start(f"f{number}", f"r0n{number}", f"r1n{number}")
    assert list(fabric.rates_bytes_per_s().values()) == pytest.approx([1e9 / 3] * 3)
    assert work.counts[TRUNKED] == 6  # each over two nics
    start("near", "r0n0", "r0n3")  # takes what the trunk leaves of the nic
    assert fabric.rate_bytes_per_s("near") == pytest.approx(2e9 / 3)
    assert work.counts[TRUNKED] == 6
    for number in range(3):
        start(f"near{number}", "r0n0", "r0n3")
    assert fabric.rate_bytes_per_s("f0") == pytest.approx(1e9 / 5)
    assert fabric.rate_bytes_per_s("f1") == pytest.approx(4e9 / 10)
    assert work.counts[TRUNKED] == 4
    start("g", "r0n0", "r1n1")
    assert fabric.rate_bytes_per_s("g") == pytest.approx(1e9 / 6)
    assert work.counts[TRUNKED] == 4
    for name in ("f0", "g", "near", *(f"near{number}" for number in range(3))):
        carry_out(fabric, CloseFlow(flow=name))
    fabric.next_event_s()
    start("h", "r0n0", "r1n1")
    assert fabric.rate_bytes_per_s("h") == pytest.approx(1e9 / 3)
    assert work.counts[TRUNKED] == 6
    assert fabric.free_bytes_per_s()["r0n0.up"] == pytest.approx(2e9 / 3)


# Tables of arrays as compiled loops get them.


class Inner(NamedTuple):
    ids: Ids
    flags: Flags


class Outer(NamedTuple):
    many: int
    reals: Reals
    inner: Inner


def _table() -> Outer:
    inner = Inner(np.arange(3, dtype=np.int32), np.array([True, False, True]))
    return Outer(7, np.array([0.5, 1.5]), inner)


@numba.njit
def _double(table):
    for at in range(len(table.reals)):
        table.reals[at] *= 2.0
    for at in range(len(table.inner.ids)):
        if table.inner.flags[at]:
            table.inner.ids[at] += table.many
        table.inner.flags[at] = not table.inner.flags[at]


@numba.njit
def _read(table, at):
    return table.inner.ids[at]


def test_loops_read_and_write_a_tables_own_arrays() -> None:
    table = _table()
    _double(Pointers(table))
    assert table.reals.tolist() == [1.0, 3.0]
    assert table.inner.ids.tolist() == [7, 1, 9]
    assert table.inner.flags.tolist() == [False, True, False]


@pytest.mark.parametrize("at", [-1, 3])
def test_with_checks_there_is_no_place_beyond_an_array(at: int) -> None:
    with pytest.raises(IndexError, match="a place beyond an array of int32"):
        _read(Pointers(_table()), at)


# Compiled loops give the circuits, rates, ends and bytes of plain Python, to the digit.


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
    """Flows that come and are cancelled; ports that fail; NICs that get and lose limits."""
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


@given(
    moments=st.lists(a_moment, min_size=3, max_size=20),
    nic=st.sampled_from(["8Gbps", "20Gbps"]),
    elephant=st.sampled_from(["1GB", "3GB", "10GB"]),
)
@settings(max_examples=100, deadline=None)
def test_trunks_change_neither_circuits_nor_rates(moments, nic, elephant):
    places = topology(nic, nodes=2, elephant_bytes=elephant)
    runs = [Run(Fabric(places, Sunflow(), trunks_from=many)) for many in (math.inf, 0)]
    for events, tenths in moments:
        for event in events:
            for run in runs:
                run.do(event)
        one, other = (run.fabric for run in runs)
        assert other.circuits() == one.circuits()
        close = {"rel": 1e-9, "abs": 1.0}
        assert other.rates_bytes_per_s() == pytest.approx(one.rates_bytes_per_s(), **close)
        assert other.free_bytes_per_s() == pytest.approx(one.free_bytes_per_s(), **close)
        assert other.bytes_by_link() == pytest.approx(one.bytes_by_link(), **close)
        for run in runs:
            run.wait(tenths / 10)
    for run in runs:
        run.finish()
    assert runs[1].ends == pytest.approx(runs[0].ends, rel=1e-9)


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


# Flows end when they do by exact fractions, under each flow scheduler.


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
