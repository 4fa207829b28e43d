"""Which of a coflow's pairs of racks is served next at a port: a queue of those that wait.

A port's queue is sorted by ``sort_key`` when it is first needed, and kept from then on; pairs that
do not wait any more may still be in it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter

from railyard.netemu.model.arrays import places
from railyard.netemu.model.openflows import CoflowDemand, RackPairDemand, SortKey

_SORT_KEY = attrgetter("sort_key")
#: Up to this many pairs are compared one by one; for more, the queue is searched.
_FEW = 6
#: How many pairs that do not wait any more a queue may have.
_MANY = 16


def enqueue(pair: RackPairDemand, size_bytes: float) -> None:
    """Give a pair that waits with so many bytes its place in the queues of its two ports."""
    demand, src, dst = pair.demand, pair.src, pair.dst
    sort_key = -size_bytes, (dst - src) % len(demand.bit), src, dst
    out, into = demand.queues_out[src], demand.queues_in[dst]
    if out is None and into is None:
        pair.sort_key = sort_key
    else:
        _move(pair, sort_key, out, into)


def first_out(demand: CoflowDemand, src: int, dsts: int) -> RackPairDemand:
    """The first of the pairs from a rack to these; all of them wait."""
    row = demand.rows[src]
    if dsts.bit_count() <= _FEW:
        return min([row[dst] for dst in places(dsts)], key=_SORT_KEY)
    queue = demand.queues_out[src]
    if queue is None:
        waiting = [row[dst] for dst in places(demand.dst_bits[src])]
        queue = demand.queues_out[src] = sorted(waiting, key=_SORT_KEY)
    else:
        _tidy(queue, demand.dst_bits[src])
    for pair in queue:
        if dsts & pair.dst_bit and pair.waits:
            return pair
    raise AssertionError("they wait")


def first_in(demand: CoflowDemand, dst: int, srcs: int) -> RackPairDemand:
    """The first of the pairs to a rack from these; all of them wait."""
    rows = demand.rows
    if srcs.bit_count() <= _FEW:
        return min([rows[src][dst] for src in places(srcs)], key=_SORT_KEY)
    queue = demand.queues_in[dst]
    if queue is None:
        waiting = [rows[src][dst] for src in places(demand.src_bits[dst])]
        queue = demand.queues_in[dst] = sorted(waiting, key=_SORT_KEY)
    else:
        _tidy(queue, demand.src_bits[dst])
    for pair in queue:
        if srcs & pair.src_bit and pair.waits:
            return pair
    raise AssertionError("they wait")


def _move(pair: RackPairDemand, sort_key: SortKey, *queues: list[RackPairDemand] | None) -> None:
    """Give a pair, which may be in these queues, another sort key."""
    before, pair.sort_key = pair.sort_key, sort_key
    for queue in queues:
        if queue is None:
            continue
        pair.sort_key = before
        at = bisect_left(queue, before, key=_SORT_KEY)
        if at < len(queue) and queue[at] is pair:
            del queue[at]
        pair.sort_key = sort_key
        insort(queue, pair, key=_SORT_KEY)


def _tidy(queue: list[RackPairDemand], waiting: int) -> None:
    """Remove pairs that do not wait any more, if they are many or in front."""
    while not queue[0].waits:
        del queue[0]
    if len(queue) - waiting.bit_count() > _MANY:
        queue[:] = [pair for pair in queue if pair.waits]
