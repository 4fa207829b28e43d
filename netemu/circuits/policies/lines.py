"""Who of a coflow's pairs of racks is the next at a port: those that wait, by their turns.

A port's line is sorted when it is first asked for, and kept from then on; some that do not wait any
more may still be in it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter

from railyard.netemu.model.arrays import places
from railyard.netemu.model.openflows import CoflowDemand, RackPairDemand, Turn

_TURN = attrgetter("turn")
#: Up to so many pairs are compared one by one; of more, those in line are gone through.
_FEW = 6
#: How many may be in a line that do not wait any more.
_MANY = 16


def line_up(pair: RackPairDemand, size_bytes: float) -> None:
    """Give a pair its turn among those that wait: by what it has left to send."""
    demand, src, dst = pair.demand, pair.src, pair.dst
    turn = -size_bytes, (dst - src) % len(demand.bit), src, dst
    out, into = demand.lines_out[src], demand.lines_in[dst]
    if out is None and into is None:
        pair.turn = turn
    else:
        _move(pair, turn, out, into)


def first_out(demand: CoflowDemand, src: int, dsts: int) -> RackPairDemand:
    """The first of the pairs from a rack to one of these; all of those wait."""
    row = demand.rows[src]
    if dsts.bit_count() <= _FEW:
        return min([row[dst] for dst in places(dsts)], key=_TURN)
    line = demand.lines_out[src]
    if line is None:
        waiting = [row[dst] for dst in places(demand.dst_bits[src])]
        line = demand.lines_out[src] = sorted(waiting, key=_TURN)
    else:
        _tidy(line, demand.dst_bits[src])
    for pair in line:
        if dsts & pair.dst_bit and pair.waits:
            return pair
    raise AssertionError("they wait")


def first_in(demand: CoflowDemand, dst: int, srcs: int) -> RackPairDemand:
    """The first of the pairs to a rack from one of these; all of those wait."""
    rows = demand.rows
    if srcs.bit_count() <= _FEW:
        return min([rows[src][dst] for src in places(srcs)], key=_TURN)
    line = demand.lines_in[dst]
    if line is None:
        waiting = [rows[src][dst] for src in places(demand.src_bits[dst])]
        line = demand.lines_in[dst] = sorted(waiting, key=_TURN)
    else:
        _tidy(line, demand.src_bits[dst])
    for pair in line:
        if srcs & pair.src_bit and pair.waits:
            return pair
    raise AssertionError("they wait")


def _move(pair: RackPairDemand, turn: Turn, *lines: list[RackPairDemand] | None) -> None:
    """Give a pair, which may be in these lines, another turn."""
    before, pair.turn = pair.turn, turn
    for line in lines:
        if line is None:
            continue
        pair.turn = before
        at = bisect_left(line, before, key=_TURN)
        if at < len(line) and line[at] is pair:
            del line[at]
        pair.turn = turn
        insort(line, pair, key=_TURN)


def _tidy(line: list[RackPairDemand], waiting: int) -> None:
    """Remove pairs that do not wait any more, if they are many or in front."""
    while not line[0].waits:
        del line[0]
    if len(line) - waiting.bit_count() > _MANY:
        line[:] = [pair for pair in line if pair.waits]
