"""What coflows have to send from rack to rack, as circuits see it.

A *batch* is what one coflow has to send from one rack to another: large enough, it rides a circuit
as a whole (c-Through batches by pair of racks in the same way).  A *demand* is all that a coflow
has for circuits.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING, Literal

from netemu.flowclasses import Flow

if TYPE_CHECKING:
    from netemu.circuitgroup import CircuitGroup
    from netemu.optical import Circuit
    from netemu.pipe import Pipe

#: (-bytes, distance, src, dst): the order in which a coflow's batches want circuits
Turn = tuple[float, int, int, int]
#: Up to so many batches are compared one by one; of more, the sorted turns are gone through.
_FEW = 6


class Batch:
    """A coflow's flows from one rack to another, by the racks' numbers."""

    __slots__ = (
        "circuit",
        "counted_bytes",
        "demand",
        "dst",
        "dst_bit",
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
        #: turns at each port, in order, where they have been asked for; those of batches that do
        #: not wait any more may still be there
        self._lines_out: list[list[Turn] | None] = [None] * racks
        self._lines_in: list[list[Turn] | None] = [None] * racks
        #: bytes and batches at each port, of what rides circuits: [out or in][rack]
        self.port_bytes = [0.0] * racks, [0.0] * racks
        self.port_batches = [0] * racks, [0] * racks

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
        (out_bytes, in_bytes), (outs, ins) = self.port_bytes, self.port_batches
        out_bytes[src] += more
        in_bytes[dst] += more
        batches = (size_bytes > 0) - (before > 0)
        if batches:
            outs[src] += batches
            ins[dst] += batches
        batch.counted_bytes = size_bytes

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
        if turn == batch.turn:
            turn = batch.turn
        for line in (self._lines_out[src], self._lines_in[dst]):
            if line is not None:
                _move(line, batch.turn, turn)
        batch.turn = turn
        if batch.waits:
            return
        batch.waits = True
        self.waiting += 1
        self.out_bits |= batch.src_bit
        self.in_bits |= batch.dst_bit
        self.dst_bits[src] |= batch.dst_bit
        self.src_bits[dst] |= batch.src_bit

    def stop_waiting(self, batch: Batch) -> None:
        """It has got one, or wants none any more."""
        src, dst = batch.src, batch.dst
        batch.waits = False
        self.waiting -= 1
        dsts = self.dst_bits[src] = self.dst_bits[src] ^ batch.dst_bit
        if not dsts:
            self.out_bits ^= batch.src_bit
        srcs = self.src_bits[dst] = self.src_bits[dst] ^ batch.src_bit
        if not srcs:
            self.in_bits ^= batch.dst_bit

    def first_out(self, src: int, dsts: int) -> Batch:
        """The first in line of those from a rack to one of these; all of those wait."""
        row = self.rows[src]
        if dsts.bit_count() > _FEW:
            waiting, line = self.dst_bits[src], self._lines_out[src]
            if line is None:
                line = self._lines_out[src] = sorted([row[dst].turn for dst in bits(waiting)])
            return self._first_in_line(line, 3, dsts, waiting)
        first = row[dsts.bit_length() - 1]
        for dst in bits(dsts ^ first.dst_bit):
            batch = row[dst]
            if batch.turn < first.turn:
                first = batch
        return first

    def first_in(self, dst: int, srcs: int) -> Batch:
        """The first in line of those to a rack from one of these; all of those wait."""
        rows = self.rows
        if srcs.bit_count() > _FEW:
            waiting, line = self.src_bits[dst], self._lines_in[dst]
            if line is None:
                turns = [rows[src][dst].turn for src in bits(waiting)]
                line = self._lines_in[dst] = sorted(turns)
            return self._first_in_line(line, 2, srcs, waiting)
        first = rows[srcs.bit_length() - 1][dst]
        for src in bits(srcs ^ first.src_bit):
            batch = rows[src][dst]
            if batch.turn < first.turn:
                first = batch
        return first

    def _first_in_line(
        self, line: list[Turn], end: Literal[2, 3], racks: int, waiting: int
    ) -> Batch:
        """The first at a port with one of these racks at its other end.

        When many in the line do not wait any more, they are taken out.
        """
        for turn in line:
            if racks >> turn[end] & 1:
                batch = self.rows[turn[2]][turn[3]]
                if batch.turn is turn:
                    break
        else:
            raise AssertionError("they wait")
        if len(line) - waiting.bit_count() > _FEW:
            line[:] = [turn for turn in line if waiting >> turn[end] & 1]
        return batch


def _move(line: list[Turn], before: Turn, turn: Turn) -> None:
    """Give a batch, which may be in a line, another place there."""
    at = bisect_left(line, before)
    if at < len(line) and line[at] == before:
        if turn == before:
            return
        del line[at]
    insort(line, turn)


def bits(number: int) -> list[int]:
    """The places of a number's bits that are set, ascending."""
    if not number & (number - 1):
        return [number.bit_length() - 1] if number else []
    places = []
    while number:
        lowest = number & -number
        places.append(lowest.bit_length() - 1)
        number ^= lowest
    return places
