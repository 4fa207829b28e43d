"""The loops and the arrays that they work on, after whatever has happened to flows."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.kernel.state import FREE_ROWS, NONE, ROWS
from railyard.netemu.messages import CloseFlow, GrowFlow, RegisterCoflow, SetCapacity
from railyard.netemu.model.filling import fill
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.links import stack
from railyard.netemu.schedulers import FLOW_SCHEDULERS, flow_scheduler
from railyard.oracles.orders import carry_out, open_flows
from tests.netemu.topologies import network_of

NAMES = sorted(FLOW_SCHEDULERS.keys() - {"sunflow"})


class Busy:
    """A network in which flows come, grow, end and are cancelled, and links change."""

    def __init__(self, scheduler: str, seed: int) -> None:
        self.dice = random.Random(seed)
        nic = self.dice.choice(["unlimited", "8Gbps"])
        self.fabric = Fabric(network_of(3, 2, nic, "4Gbps"), flow_scheduler(scheduler))
        self.links = list(self.fabric.network.number)
        self.growing: list[str] = []
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
        elif kind < 0.7 and self.growing:
            flow = self.growing.pop()
            if fabric.is_open(flow):
                carry_out(fabric, GrowFlow(flow=flow, by_bytes=dice.randrange(10**9), more=False))
        elif fabric.next_event_s() < math.inf:
            fabric.handle(None, fabric.next_event_s() + dice.choice([0.0, 0.0, 1.0]))
        fabric.next_event_s()  # sets rates

    def start(self) -> None:
        dice, new = self.dice, []
        for _ in range(dice.choice([1, 1, 5])):
            more = dice.random() < 0.2
            flow = f"f{self.started}"
            new.append(
                FlowSpec(
                    flow=flow,
                    src=f"r{dice.randrange(3)}n{dice.randrange(2)}",
                    dst=f"r{dice.randrange(3)}n{dice.randrange(2)}",
                    size_bytes=dice.choice([0, 10**8, dice.randrange(1, 10**9)]),
                    weight=dice.choice([1.0, 1.0, 2.0, 1e-3, 1e3]),
                    coflow=dice.choice([None, "c0", "c1", "c2"]),
                    priority=dice.choice([(), (1.0,), (2.0, 1.0)]),
                    more=more,
                )
            )
            self.started += 1
            if more:
                self.growing.append(flow)
        open_flows(self.fabric, *new)


@pytest.mark.parametrize("scheduler", NAMES)
def test_arrays_have_each_flow_and_row_once(scheduler: str) -> None:
    for seed in range(8):
        busy = Busy(scheduler, seed)
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


def test_levels_are_those_of_progressive_filling() -> None:
    for seed in range(30):
        busy = Busy("maxmin", seed)
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
