"""What coflows have to send from rack to rack, as circuits see it.

A *batch* is what one coflow has to send from one rack to another: large enough, it rides a circuit
as a whole (c-Through batches by pair of racks in the same way).  A *demand* is all that a coflow
has for circuits.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, insort
from operator import attrgetter
from typing import TYPE_CHECKING

from railyard.netemu.model.arrays import places

if TYPE_CHECKING:
    from railyard.netemu.circuits.group import CircuitGroup
    from railyard.netemu.circuits.pipe import Pipe
    from railyard.netemu.circuits.switch import Circuit
    from railyard.netemu.fabric.classes import Flow

#: (-bytes, distance, src, dst): the order in which a coflow's batches want circuits
Turn = tuple[float, int, int, int]
_TURN = attrgetter("turn")
#: Up to so many batches are compared one by one; of more, those in line are gone through.
_FEW = 6
#: How many may be in a line that do not wait any more.
_MANY = 16


class Batch:
    """A coflow's flows from one rack to another, by the racks' numbers."""

    __slots__ = (
        "circuit",
        "counted_bytes",
        "demand",
        "dst",
        "dst_bit",
        "ends_s",
        "flows",
        "group",
        "held_since",
        "rides",
        "src",
        "src_bit",
        "turn",
        "waits",
    )

    def __init__(self, demand: Demand, src: int, dst: int, *, rides: bool = False) -> None:
        self.demand = demand
        self.src = src
        self.dst = dst
        self.src_bit = demand.bit[src]
        self.dst_bit = demand.bit[dst]
        self.flows: dict[Flow, None] = {}  #: those that have something to send
        self.rides = rides  #: whether by circuit
        self.circuit: Circuit | None = None
        #: when it will have sent all by its circuit, as far as is known
        self.ends_s = math.inf
        self.held_since = 0  #: circuits are numbered as they are given
        self.group: CircuitGroup | Pipe | None = None  #: its flows on the circuit
        self.waits = False  #: whether it is without a circuit and wants one
        self.turn: Turn = (0.0, 0, src, dst)  #: its place in line, if it waits
        self.counted_bytes = 0.0  #: as it is counted in the demand's sums


class Demand:
    """A coflow's batches, and the sums of those that ride circuits.

    Sets of racks are the bits of a number.
    """

    def __init__(self, key: str, arrived_s: float, racks: int) -> None:
        self.key = key
        self.arrived_s = arrived_s
        self.rank = -1  #: its place in the order of coflows
        #: what it is ordered by: urgency, arrival and name; None: its sums have changed since
        self.place: tuple[float, float, str] | None = None
        self.slot = -1  #: its number while it rides; compiled loops give them
        self.bit = [1 << rack for rack in range(racks)]
        self.rows: list[dict[int, Batch]] = [{} for _ in range(racks)]  #: [src]: {dst: batch}
        self.size = 0  #: how many batches it has
        self.serving: dict[Batch, None] = {}  #: those that have circuits
        self.waiting = 0  #: those that want one
        #: racks that its waiting batches leave from and go to, and where to or from
        self.out_bits = 0
        self.in_bits = 0
        self.dst_bits = [0] * racks
        self.src_bits = [0] * racks
        #: racks whose ports its circuits hold, where a port has one circuit at a time
        self.held_out_bits = 0
        self.held_in_bits = 0
        #: those that wait at each port, by turn, where it has been asked for; some that do not wait
        #: any more may still be there
        self._lines_out: list[list[Batch] | None] = [None] * racks
        self._lines_in: list[list[Batch] | None] = [None] * racks
        #: bytes and batches at each port, of what rides circuits
        self.out_bytes, self.in_bytes = array("d", [0.0]) * racks, array("d", [0.0]) * racks
        self.out_batches, self.in_batches = array("q", [0]) * racks, array("q", [0]) * racks

    @property
    def rides(self) -> bool:
        """Whether any of its batches rides, or waits to."""
        return bool(self.waiting or self.serving)

    def add(self, batch: Batch) -> None:
        """It has a batch more."""
        self.rows[batch.src][batch.dst] = batch
        self.size += 1

    def drop(self, batch: Batch) -> None:
        """A batch has nothing to send any more."""
        del self.rows[batch.src][batch.dst]
        self.size -= 1

    def batches(self) -> list[Batch]:
        """All that it has."""
        return [batch for row in self.rows for batch in row.values()]

    def count(self, batch: Batch, size_bytes: float) -> None:
        """A batch that rides has so much left to send; 0: it is done with circuits."""
        src, dst, before = batch.src, batch.dst, batch.counted_bytes
        more = size_bytes - before
        self.place = None
        self.out_bytes[src] += more
        self.in_bytes[dst] += more
        batch.counted_bytes = size_bytes
        if before and size_bytes:
            return
        batches = (size_bytes > 0) - (before > 0)
        self.out_batches[src] += batches
        self.in_batches[dst] += batches

    def hold(self, batch: Batch) -> None:
        """A batch has a circuit."""
        self.serving[batch] = None
        self.held_out_bits |= batch.src_bit
        self.held_in_bits |= batch.dst_bit

    def give_up(self, batch: Batch) -> None:
        """A batch has its circuit no more."""
        del self.serving[batch]
        self.held_out_bits &= ~batch.src_bit
        self.held_in_bits &= ~batch.dst_bit

    def wait(self, batch: Batch, size_bytes: float) -> None:
        """Have a batch wait for a circuit, in the order of what it has left to send."""
        src, dst = batch.src, batch.dst
        turn = -size_bytes, (dst - src) % len(self.bit), src, dst
        out, into = self._lines_out[src], self._lines_in[dst]
        if out is None and into is None:
            batch.turn = turn
        else:
            _move(batch, turn, out, into)
        if batch.waits:
            return
        batch.waits = True
        self.waiting += 1
        src_bit, dst_bit = batch.src_bit, batch.dst_bit
        self.out_bits |= src_bit
        self.in_bits |= dst_bit
        self.dst_bits[src] |= dst_bit
        self.src_bits[dst] |= src_bit

    def stop_waiting(self, batch: Batch) -> None:
        """It has got one, or wants none any more."""
        src, dst, src_bit, dst_bit = batch.src, batch.dst, batch.src_bit, batch.dst_bit
        batch.waits = False
        self.waiting -= 1
        self.dst_bits[src] = dsts = self.dst_bits[src] ^ dst_bit
        if not dsts:
            self.out_bits ^= src_bit
        self.src_bits[dst] = srcs = self.src_bits[dst] ^ src_bit
        if not srcs:
            self.in_bits ^= dst_bit

    def first_out(self, src: int, dsts: int) -> Batch:
        """The first in line of those from a rack to one of these; all of those wait."""
        row = self.rows[src]
        if dsts.bit_count() <= _FEW:
            return min([row[dst] for dst in places(dsts)], key=_TURN)
        line = self._lines_out[src]
        if line is None:
            waiting = [row[dst] for dst in places(self.dst_bits[src])]
            line = self._lines_out[src] = sorted(waiting, key=_TURN)
        else:
            _tidy(line, self.dst_bits[src])
        for batch in line:
            if dsts & batch.dst_bit and batch.waits:
                return batch
        raise AssertionError("they wait")

    def first_in(self, dst: int, srcs: int) -> Batch:
        """The first in line of those to a rack from one of these; all of those wait."""
        rows = self.rows
        if srcs.bit_count() <= _FEW:
            return min([rows[src][dst] for src in places(srcs)], key=_TURN)
        line = self._lines_in[dst]
        if line is None:
            waiting = [rows[src][dst] for src in places(self.src_bits[dst])]
            line = self._lines_in[dst] = sorted(waiting, key=_TURN)
        else:
            _tidy(line, self.src_bits[dst])
        for batch in line:
            if srcs & batch.src_bit and batch.waits:
                return batch
        raise AssertionError("they wait")


def _move(batch: Batch, turn: Turn, *lines: list[Batch] | None) -> None:
    """Give a batch, which may be in these lines, another turn."""
    before, batch.turn = batch.turn, turn
    for line in lines:
        if line is None:
            continue
        batch.turn = before
        at = bisect_left(line, before, key=_TURN)
        if at < len(line) and line[at] is batch:
            del line[at]
        batch.turn = turn
        insort(line, batch, key=_TURN)


def _tidy(line: list[Batch], waiting: int) -> None:
    """Take those out of a line that do not wait any more, if they are many or in front."""
    while not line[0].waits:
        del line[0]
    if len(line) - waiting.bit_count() > _MANY:
        line[:] = [batch for batch in line if batch.waits]
