"""``netemu.circuits.pipe``, compiled: a pair's flows share all of its circuit.

The numbers are computed in the same order as there, so that every digit is the same.
"""

from __future__ import annotations

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.netemu.circuits.fast.rows import (
    BYTES_PER_S,
    FIRST,
    FLOW_NEEDS,
    FLOW_WEIGHT,
    FROM_S,
    JOINED_AT,
    LAST,
    MEMBERS,
    NEEDS,
    NEXT,
    NONE,
    PAIR,
    RATE,
    SENT_BEFORE,
    SEQUENCE,
    SERVED,
    SETTLED_S,
    SIZE,
    TOTAL,
    WEIGHT,
)
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.openflows import KEEPS, ROUNDING, SERVICE_BYTES_MAX
from railyard.netemu.schedulers.fast.loops.borrowing import borrows


@borrows
def settle(pairs: Floats, pair: int, now_s: float) -> None:
    """Bring a pair's service up to now."""
    began_s = max(pairs[pair, SETTLED_S], pairs[pair, FROM_S])
    if now_s > began_s:
        pairs[pair, SERVED] += pairs[pair, RATE] * (now_s - began_s)
    pairs[pair, SETTLED_S] = now_s


@borrows
def fill(pairs: Floats, pair: int, now_s: float) -> float:
    """Use all of a pair's circuit, after its flows or its circuit have changed.

    Returns when its first flow finishes.
    """
    if pairs[pair, RATE]:
        settle(pairs, pair, now_s)
    else:
        pairs[pair, SETTLED_S] = now_s
    if not (pairs[pair, MEMBERS] and pairs[pair, BYTES_PER_S]):
        pairs[pair, RATE] = 0.0
        return np.inf
    rate = pairs[pair, RATE] = pairs[pair, BYTES_PER_S] / pairs[pair, WEIGHT]
    needed = pairs[pair, NEEDS] - pairs[pair, SERVED]
    began_s = max(pairs[pair, SETTLED_S], pairs[pair, FROM_S])
    return float(began_s + needed / rate if needed > 0 else began_s)


@borrows
def halt(pairs: Floats, pair: int, now_s: float) -> None:
    """Send nothing, as the circuit is gone."""
    settle(pairs, pair, now_s)
    pairs[pair, BYTES_PER_S] = pairs[pair, RATE] = 0.0


@borrows
def left_bytes(pairs: Floats, pair: int, now_s: float) -> float:
    """Bytes that a pair that has had a circuit has left to send."""
    settle(pairs, pair, now_s)
    return float(max(pairs[pair, TOTAL] - pairs[pair, SERVED] * pairs[pair, WEIGHT], 0.0))


@borrows
def sent_bytes(pairs: Floats, flows: Floats, flow: int) -> float:
    """Bytes that a flow has sent when its pair was settled."""
    if flows[flow, FLOW_NEEDS] == np.inf:
        return float(flows[flow, SENT_BEFORE])
    served = pairs[int(flows[flow, PAIR]), SERVED] - flows[flow, JOINED_AT]
    sent = flows[flow, SENT_BEFORE] + served * flows[flow, FLOW_WEIGHT]
    return float(min(sent, flows[flow, SIZE]))


@borrows
def append(pairs: Floats, flows: Floats, pair: int, flow: int) -> None:
    """Note that a flow is the last that has come to a pair."""
    last = int(pairs[pair, LAST])
    if last == NONE:
        pairs[pair, FIRST] = flow
    else:
        flows[last, NEXT] = flow
    pairs[pair, LAST] = flow
    flows[flow, NEXT], flows[flow, PAIR], flows[flow, FLOW_NEEDS] = NONE, pair, np.inf


@borrows
def unlink(pairs: Floats, flows: Floats, flow: int) -> None:
    """Forget that a flow has come to its pair."""
    pair, before = int(flows[flow, PAIR]), NONE
    other = int(pairs[pair, FIRST])
    while other != flow:
        if other == NONE:
            raise InvariantError("circuits: a flow is not among those of its pair")
        before, other = other, int(flows[other, NEXT])
    after = int(flows[flow, NEXT])
    if before == NONE:
        pairs[pair, FIRST] = after
    else:
        flows[before, NEXT] = after
    if after == NONE:
        pairs[pair, LAST] = before


@borrows
def enter(pairs: Floats, flows: Floats, flow: int, now_s: float) -> None:
    """Let a flow join the others of its pair."""
    pair, weight = int(flows[flow, PAIR]), flows[flow, FLOW_WEIGHT]
    if pairs[pair, RATE]:
        settle(pairs, pair, now_s)
    if pairs[pair, MEMBERS] and pairs[pair, SERVED] * weight > SERVICE_BYTES_MAX:
        _begin_anew(pairs, flows, pair)
    served = pairs[pair, SERVED]
    needs = served + (flows[flow, SIZE] - flows[flow, SENT_BEFORE]) / weight
    flows[flow, JOINED_AT], flows[flow, FLOW_NEEDS] = served, needs
    if not pairs[pair, MEMBERS] or needs < pairs[pair, NEEDS]:
        pairs[pair, NEEDS] = needs
    pairs[pair, MEMBERS] += 1
    pairs[pair, WEIGHT] += weight
    pairs[pair, TOTAL] += weight * needs


@borrows
def enter_all(pairs: Floats, flows: Floats, pair: int, now_s: float) -> None:
    """Let all flows that have come to a pair join, as it gets its first circuit."""
    flow = int(pairs[pair, FIRST])
    while flow != NONE:
        enter(pairs, flows, flow, now_s)
        flow = int(flows[flow, NEXT])


@borrows
def leave(pairs: Floats, flows: Floats, flow: int, now_s: float) -> float:
    """Let a flow leave the others; returns the bytes that it has sent."""
    pair = int(flows[flow, PAIR])
    settle(pairs, pair, now_s)
    sent = sent_bytes(pairs, flows, flow)
    if flows[flow, FLOW_NEEDS] < np.inf:
        weight, total = pairs[pair, WEIGHT], pairs[pair, TOTAL]
        _less(pairs, flows, flow)
        _keep_digits(pairs, flows, pair, weight, total)
        pairs[pair, NEEDS] = _least_needs(pairs, flows, pair)
    flows[flow, SENT_BEFORE] = sent
    return sent


@borrows
def take_due(
    pairs: Floats, flows: Floats, pair: int, now_s: float, by_s: float, ended: Numbers
) -> int:
    """Let the flows of a pair end that have sent all, or will have by then; at least one is due.

    Writes them into ``ended``; returns how many.
    """
    settle(pairs, pair, now_s)
    needs = pairs[pair, NEEDS]
    enough = needs * ROUNDING + pairs[pair, RATE] * (by_s - now_s)
    pairs[pair, SERVED] = max(needs, pairs[pair, SERVED])
    if pairs[pair, MEMBERS] == 1 and pairs[pair, FIRST] == pairs[pair, LAST]:  # as most are
        ended[0] = pairs[pair, FIRST]
        pairs[pair, FIRST] = pairs[pair, LAST] = NONE
        pairs[pair, MEMBERS] = pairs[pair, WEIGHT] = pairs[pair, TOTAL] = 0.0
        return 1
    many, weight, total = 0, pairs[pair, WEIGHT], pairs[pair, TOTAL]
    while pairs[pair, MEMBERS] and pairs[pair, NEEDS] <= enough:
        first = _first(pairs, flows, pair)
        _less(pairs, flows, first)
        unlink(pairs, flows, first)
        pairs[pair, NEEDS] = _least_needs(pairs, flows, pair)
        ended[many] = first
        many += 1
    _keep_digits(pairs, flows, pair, weight, total)
    return many


@borrows
def _less(pairs: Floats, flows: Floats, flow: int) -> None:
    """Subtract a flow from its pair's sums."""
    pair, weight, needs = int(flows[flow, PAIR]), flows[flow, FLOW_WEIGHT], flows[flow, FLOW_NEEDS]
    flows[flow, FLOW_NEEDS] = np.inf
    pairs[pair, MEMBERS] -= 1
    if pairs[pair, MEMBERS]:
        pairs[pair, WEIGHT] -= weight
        pairs[pair, TOTAL] -= weight * needs
    else:
        pairs[pair, WEIGHT] = pairs[pair, TOTAL] = 0.0


@borrows
def _keep_digits(pairs: Floats, flows: Floats, pair: int, weight: float, total: float) -> None:
    """Sum up a pair's flows anew, as they came, if little is left of what the sums were."""
    if pairs[pair, WEIGHT] < weight * KEEPS or pairs[pair, TOTAL] < total * KEEPS:
        _sum_anew(pairs, flows, pair)


@borrows
def _begin_anew(pairs: Floats, flows: Floats, pair: int) -> None:
    """Count a pair's service, which is as of now, from 0 again; see ``SERVICE_BYTES_MAX``."""
    served, flow = pairs[pair, SERVED], int(pairs[pair, FIRST])
    while flow != NONE:
        if flows[flow, FLOW_NEEDS] < np.inf:
            flows[flow, JOINED_AT] -= served
            flows[flow, FLOW_NEEDS] -= served
        flow = int(flows[flow, NEXT])
    pairs[pair, SERVED] = 0.0
    pairs[pair, NEEDS] -= served
    _sum_anew(pairs, flows, pair)


@borrows
def _sum_anew(pairs: Floats, flows: Floats, pair: int) -> None:
    """Sum up a pair's flows, as they came."""
    pairs[pair, WEIGHT], pairs[pair, TOTAL], last = 0.0, 0.0, -1.0
    for _ in range(int(pairs[pair, MEMBERS])):
        flow, following, least = int(pairs[pair, FIRST]), NONE, np.inf
        while flow != NONE:
            sequence = flows[flow, SEQUENCE]
            if last < sequence < least and flows[flow, FLOW_NEEDS] < np.inf:
                following, least = flow, sequence
            flow = int(flows[flow, NEXT])
        last = least
        pairs[pair, WEIGHT] += flows[following, FLOW_WEIGHT]
        pairs[pair, TOTAL] += flows[following, FLOW_WEIGHT] * flows[following, FLOW_NEEDS]


@borrows
def _first(pairs: Floats, flows: Floats, pair: int) -> int:
    """The flow of a pair that needs the least service; of equals, the one that came first."""
    first, flow = NONE, int(pairs[pair, FIRST])
    while flow != NONE:
        needs = flows[flow, FLOW_NEEDS]
        if needs < np.inf and (
            first == NONE
            or needs < flows[first, FLOW_NEEDS]
            or (
                needs == flows[first, FLOW_NEEDS] and flows[flow, SEQUENCE] < flows[first, SEQUENCE]
            )
        ):
            first = flow
        flow = int(flows[flow, NEXT])
    return first


@borrows
def _least_needs(pairs: Floats, flows: Floats, pair: int) -> float:
    """The least service that a flow of a pair needs; inf if it has none."""
    first = _first(pairs, flows, pair)
    return np.inf if first == NONE else float(flows[first, FLOW_NEEDS])
