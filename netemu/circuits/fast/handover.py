"""From the circuit plane of objects to the compiled one, and back."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable

from railyard.netemu.circuits.fast import demands, pipes, rows
from railyard.netemu.circuits.fast.coflows import CompiledCoflows
from railyard.netemu.circuits.fast.plane import CompiledPlane
from railyard.netemu.circuits.fast.rows import (
    ATTACHED,
    BYTES_PER_S,
    COUNTED,
    DST,
    FIRST,
    FLOW_NEEDS,
    FLOW_WEIGHT,
    FREE,
    FROM_S,
    INDEX,
    JOINED_AT,
    MEMBERS,
    NEEDS,
    NEXT,
    NONE,
    RATE,
    REMATCH,
    REORDER,
    SENT_BEFORE,
    SEQUENCE,
    SERVED,
    SETTLED_S,
    SIZE,
    SRC,
    TOTAL,
    WEIGHT,
)
from railyard.netemu.circuits.pipe import Pipe
from railyard.netemu.circuits.plane import CircuitPlane
from railyard.netemu.circuits.policies.fast import choosing
from railyard.netemu.circuits.policies.fast.matrices import cell
from railyard.netemu.circuits.policies.fast.ports import (
    FREED,
    IN,
    OUT,
    PEER,
    SIDES,
    Bits,
    has,
    occupy,
    put,
    take_over_switch,
)
from railyard.netemu.circuits.policies.sunflow import SunflowCircuits
from railyard.netemu.model.arrays import bits, floats
from railyard.netemu.model.openflows import Circuit, CoflowDemand, Flow, RackPairDemand


def take_over(plain: CircuitPlane, by_circuit: Callable[[Flow], None]) -> CompiledPlane:
    """A compiled plane with all pairs and circuits of this one, where all has been decided.

    ``by_circuit`` gives flows the route through the optical switch: all flows in rows have it.
    """
    made, policy = CompiledPlane(plain), plain.policy
    assert isinstance(policy, SunflowCircuits)
    there = made.coflows
    state = there.state
    there.by_key, plain.demands = plain.demands, {}
    take_over_switch(plain.switch, (policy.works_out, policy.works_in), state)
    state.ports[:, FREED] = 0
    for side, booked in zip(SIDES, (policy.booked_out, policy.booked_in), strict=True):
        for rack in range(len(plain.switch.racks)):
            put(state.booked[side], rack, bool(booked >> rack & 1))
    there.rows.bytes_per_s[OUT] = plain.switch.out_bytes_per_s
    there.rows.bytes_per_s[IN] = plain.switch.in_bytes_per_s
    there.rows.look_again_s[0] = policy.look_again_s
    _reserve(there)
    for demand in list(there.by_key.values()):
        for pair in demand.pairs():
            if pair.by_circuit:
                _to_row(pair, made)
                for flow in pair.flows:
                    by_circuit(flow)
        if demand.index != NONE:
            _to_sums(demand, made)
    there.set_order(policy.order)
    there.rows.due_s[:] = there.rows.finish_s
    made.report()
    return made


def give_back(made: CompiledPlane) -> CircuitPlane:
    """The plane that it was made from, with all pairs and circuits as they are now."""
    plain, there = made.plain, made.coflows
    state, switch, now_rows = there.state, plain.switch, there.rows
    plain.policy = policy = SunflowCircuits(switch)
    policy.works_out, policy.works_in = (_bits(state.works[side]) for side in SIDES)
    for port in (*switch.out, *switch.into):
        port.clear()
    for src, peer in enumerate(state.ports[OUT, PEER].tolist()):
        if peer != NONE:
            circuit = Circuit(src, peer, float(state.ready_s[src]), None)
            switch.out[src].append(circuit)
            switch.into[peer].append(circuit)
    new = {demand: _from_sums(demand, made) for demand in there.by_key.values()}
    plain.demands = {demand.key: demand for demand in new.values()}
    free = set(now_rows.free[: now_rows.flags[FREE]].tolist())
    found = {
        row: _from_row(row, new, made) for row in range(len(now_rows.pairs)) if row not in free
    }
    plain.on_circuits = {pair.demand: None for pair in found.values()}
    plain.grown = {found[row]: None for row in made.grown if row in found}
    plain.reorder, plain.rematch = bool(now_rows.flags[REORDER]), bool(now_rows.flags[REMATCH])
    policy.freed_out, policy.freed_in = (bits(state.ports[side, FREED] == 1) for side in SIDES)
    policy.booked_out, policy.booked_in = (_bits(state.booked[side]) for side in SIDES)
    policy.look_again_s = float(now_rows.look_again_s[0])
    policy.set_order([new.get(demand, demand) for demand in there.in_order])
    made.first_finish_s = math.inf
    for flow in made.coming:
        plain.start(flow)
    plain.limits_changed()
    return plain


def _reserve(there: CompiledCoflows) -> None:
    """Have a place in the matrices for each pair that has or wants a circuit."""
    ends: list[float] = []
    for demand in there.by_key.values():
        for pair in demand.pairs():
            if pair.by_circuit:
                ends += (there.index_of(demand), pair.src, pair.dst)
    there.reserve(floats(ends).reshape(-1, 3))


def _to_row(pair: RackPairDemand, made: CompiledPlane) -> None:
    """Make a pair, which has or wants a circuit, a row."""
    there, demand, src, dst = made.coflows, pair.demand, pair.src, pair.dst
    flows, group = list(pair.flows), pair.group
    of_pipe = _numbers_of(group) if isinstance(group, Pipe) else None  # as its flows leave it now
    made.rows_for(flows)
    index, now_rows = there.index_of(demand), there.rows
    row = demands.add(index, src, dst, now_rows, there.matrices)
    numbers = now_rows.pairs[row]
    numbers[COUNTED] = pair.counted_bytes
    for flow in flows:
        of_flow = now_rows.flows[flow.circuit_row]
        of_flow[SIZE], of_flow[FLOW_WEIGHT] = flow.size_bytes, flow.weight
        of_flow[SENT_BEFORE], of_flow[SEQUENCE] = flow.sent_bytes, flow.sequence
        pipes.append(now_rows.pairs, now_rows.flows, row, flow.circuit_row)
        if of_pipe is not None:
            of_flow[SENT_BEFORE], of_flow[JOINED_AT] = flow.sent_before, flow.joined_at
            of_flow[FLOW_NEEDS] = flow.needs
        flow.group, flow.pair = made, None
    if of_pipe is not None:
        numbers[ATTACHED] = 1.0
        numbers[list(_OF_PIPE)] = of_pipe
    if pair.circuit is None:
        choosing.wait(index, src, dst, -pair.sort_key[0], there.state, there.matrices)
    else:
        occupy(index, src, dst, there.state)
        now_rows.serving[src] = row
        there.state.ends_s[src] = pair.ends_s
        assert group is not None
        now_rows.finish_s[src] = group.first_finish_s
        group.first_finish_s = math.inf  # what the fabric has noted of it is void
    demand.drop(pair)


#: What a row has of a pipe.
_OF_PIPE = MEMBERS, WEIGHT, SERVED, TOTAL, NEEDS, RATE, SETTLED_S, FROM_S, BYTES_PER_S


def _numbers_of(pipe: Pipe) -> tuple[float, ...]:
    needs = pipe.first().needs
    settled_s, from_s, bytes_per_s = pipe.settled_s, pipe.from_s, pipe.bytes_per_s
    sums = pipe.members, pipe.weight, pipe.served, pipe.total
    return *sums, needs, pipe.rate, settled_s, from_s, bytes_per_s


def _to_sums(demand: CoflowDemand, made: CompiledPlane) -> None:
    """Take over what a coflow has at each port."""
    now_rows, index = made.coflows.rows, demand.index
    for side, port_bytes, port_pairs in (
        (OUT, demand.out_bytes, demand.out_pairs),
        (IN, demand.in_bytes, demand.in_pairs),
    ):
        now_rows.port_bytes[index, side] = port_bytes
        now_rows.port_pairs[index, side] = port_pairs
    now_rows.moved[index] = demand.place is None


def _from_sums(demand: CoflowDemand, made: CompiledPlane) -> CoflowDemand:
    """A coflow like this one, with what it has at each port and its pairs by packets."""
    now_rows, index = made.coflows.rows, demand.index
    new = CoflowDemand(demand.key, demand.arrived_s, now_rows.serving.size)
    for pair in demand.pairs():
        pair.demand = new
        new.add(pair)
    if index != NONE:
        new.place = None if now_rows.moved[index] else demand.place
        new.out_bytes, new.in_bytes = (array("d", now_rows.port_bytes[index, s]) for s in SIDES)
        new.out_pairs, new.in_pairs = (array("q", now_rows.port_pairs[index, s]) for s in SIDES)
    return new


def _from_row(
    row: int, new: dict[CoflowDemand, CoflowDemand], made: CompiledPlane
) -> RackPairDemand:
    """The pair of a row."""
    there, plain, policy = made.coflows, made.plain, made.plain.policy
    numbers, state = there.rows.pairs[row].tolist(), there.state
    index, src, dst = (int(numbers[column]) for column in (INDEX, SRC, DST))
    pair = RackPairDemand(new[there.at(index)], src, dst)
    pair.demand.add(pair)
    pair.by_circuit, pair.counted_bytes = True, numbers[COUNTED]
    _flows_from(row, pair, made)
    if there.rows.serving[src] == row:
        (pair.circuit,) = plain.switch.out[src]
        pair.circuit.user = pair
        pair.ends_s = float(state.ends_s[src])
        assert isinstance(policy, SunflowCircuits)
        policy.hold(pair)
    else:
        place = cell(index, OUT, src, dst, there.matrices)
        policy.wait(pair, float(there.matrices.left_bytes[OUT, place]))
    return pair


def _flows_from(row: int, pair: RackPairDemand, made: CompiledPlane) -> None:
    """Give a pair its flows, and its pipe if it has had a circuit."""
    now_rows, plain = made.coflows.rows, made.plain
    numbers = dict(zip(range(rows.PAIR_COLUMNS), now_rows.pairs[row].tolist(), strict=True))
    pipe, at = Pipe(key=pair.demand.key, context=plain.context), int(numbers[FIRST])
    while at != NONE:
        flow, of_flow = made.flows[at], now_rows.flows[at].tolist()
        pair.flows[flow] = None
        flow.pair, flow.circuit_row, flow.flow_class = pair, NONE, None
        if numbers[ATTACHED]:
            flow.sent_before, flow.joined_at = of_flow[SENT_BEFORE], of_flow[JOINED_AT]
            flow.needs, flow.flow_class, flow.group = of_flow[FLOW_NEEDS], pipe, pipe
            pipe.route = flow.route
            pipe.join(flow)
        at = int(of_flow[NEXT])
    if not numbers[ATTACHED]:
        return
    pair.group = pipe
    pipe.weight, pipe.served, pipe.total = numbers[WEIGHT], numbers[SERVED], numbers[TOTAL]
    pipe.rate, pipe.settled_s = numbers[RATE], numbers[SETTLED_S]
    pipe.from_s, pipe.bytes_per_s = numbers[FROM_S], numbers[BYTES_PER_S]
    if now_rows.serving[pair.src] == row:
        pipe.first_finish_s = float(now_rows.finish_s[pair.src])
        plain.context.retimed.append(pipe)


def _bits(ports: Bits) -> int:
    """A set of ports as the bits of an int."""
    racks = [rack for rack in range(64 * len(ports)) if has(ports, rack)]
    return sum(1 << rack for rack in racks)
