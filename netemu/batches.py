"""What coflows have to send from rack to rack, as circuits see it.

A *batch* is what one coflow has to send from one rack to another: large enough, it rides a circuit
as a whole (c-Through batches by pair of racks in the same way).  A *demand* is all that a coflow
has for circuits.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from netemu.flowclasses import Flow
from netemu.schedulers.base import Floats, Numbers

if TYPE_CHECKING:
    from netemu.circuitgroup import CircuitGroup
    from netemu.optical import Circuit
    from netemu.pipe import Pipe

#: (-bytes, distance, src, dst): the order in which a coflow's batches want circuits
Turn = tuple[float, int, int, int]
#: Up to so many batches are compared one by one; of more, the sorted turns are gone through.
_FEW = 6


@dataclass(slots=True, eq=False)
class Batch:
    """A coflow's flows from one rack to another, by the racks' numbers."""

    demand: Demand
    src: int
    dst: int
    flows: dict[Flow, None] = field(default_factory=dict)  #: those that have something to send
    rides: bool = False  #: whether by circuit
    circuit: Circuit | None = None
    held_since: int = 0  #: circuits are numbered as they are given
    group: CircuitGroup | Pipe | None = None  #: its flows on the circuit
    turn: Turn | None = None  #: None unless it waits for a circuit
    counted_bytes: float = 0.0  #: as it is counted in the demand's sums

    @property
    def size_bytes(self) -> int:
        """What its flows have, or had, to send."""
        return sum([flow.size_bytes for flow in self.flows])


class Demand:
    """A coflow's batches, and the sums of those that ride circuits."""

    def __init__(self, key: str, arrived_s: float, racks: int) -> None:
        self.key = key
        self.arrived_s = arrived_s
        self.rank = -1  #: its place in the order of coflows
        self.batches: dict[tuple[int, int], Batch] = {}
        self.serving: dict[Batch, None] = {}  #: those that have circuits
        self.waiting = 0  #: those that want one
        #: racks that its waiting batches leave from and go to, as bits, and where to or from
        self.out_bits = 0
        self.in_bits = 0
        self.dst_bits = [0] * racks
        self.src_bits = [0] * racks
        #: racks whose ports its circuits hold, as bits, where a port has one circuit at a time
        self.held_out_bits = 0
        self.held_in_bits = 0
        #: turns of its waiting batches at each port, in order
        self.by_src: list[list[Turn]] = [[] for _ in range(racks)]
        self.by_dst: list[list[Turn]] = [[] for _ in range(racks)]
        #: bytes and batches at each port, of what rides circuits: [out or in, rack]
        self.port_bytes: Floats = np.zeros((2, racks))
        self.port_batches: Numbers = np.zeros((2, racks), dtype=np.int64)

    @property
    def rides(self) -> bool:
        """Whether any of its batches rides, or waits to."""
        return bool(self.waiting or self.serving)

    def count(self, batch: Batch, size_bytes: float) -> None:
        """A batch that rides has so much left to send; 0: it is done with circuits."""
        more = size_bytes - batch.counted_bytes
        batches = (size_bytes > 0) - (batch.counted_bytes > 0)
        self.port_bytes[0, batch.src] += more
        self.port_bytes[1, batch.dst] += more
        if batches:
            self.port_batches[0, batch.src] += batches
            self.port_batches[1, batch.dst] += batches
        batch.counted_bytes = size_bytes

    def hold(self, batch: Batch) -> None:
        """A batch has a circuit."""
        self.serving[batch] = None
        self.held_out_bits |= 1 << batch.src
        self.held_in_bits |= 1 << batch.dst

    def give_up(self, batch: Batch) -> None:
        """A batch has its circuit no more."""
        del self.serving[batch]
        self.held_out_bits &= ~(1 << batch.src)
        self.held_in_bits &= ~(1 << batch.dst)

    def wait(self, batch: Batch, size_bytes: float) -> None:
        """Have a batch wait for a circuit, in the order of what it has left to send."""
        if batch.turn is not None:
            self.stop_waiting(batch)
        src, dst = batch.src, batch.dst
        turn = batch.turn = (-size_bytes, (dst - src) % len(self.by_src), src, dst)
        insort(self.by_src[src], turn)
        insort(self.by_dst[dst], turn)
        self.waiting += 1
        self.out_bits |= 1 << src
        self.in_bits |= 1 << dst
        self.dst_bits[src] |= 1 << dst
        self.src_bits[dst] |= 1 << src

    def stop_waiting(self, batch: Batch) -> None:
        """It has got one, or wants none any more."""
        turn, src, dst = batch.turn, batch.src, batch.dst
        assert turn is not None
        for turns in (self.by_src[src], self.by_dst[dst]):
            del turns[bisect_left(turns, turn)]
        batch.turn = None
        self.waiting -= 1
        self.dst_bits[src] &= ~(1 << dst)
        self.src_bits[dst] &= ~(1 << src)
        if not self.dst_bits[src]:
            self.out_bits &= ~(1 << src)
        if not self.src_bits[dst]:
            self.in_bits &= ~(1 << dst)

    def first_out(self, src: int, dsts: int) -> Turn:
        """The first turn of those from a rack to one of these; there is one."""
        if not dsts & (dsts - 1):  # just one
            return self._turn(src, dsts.bit_length() - 1)
        if dsts.bit_count() <= _FEW:
            return min([self._turn(src, dst) for dst in bits(dsts)])
        return next(turn for turn in self.by_src[src] if dsts >> turn[3] & 1)

    def first_in(self, dst: int, srcs: int) -> Turn:
        """The first turn of those to a rack from one of these; there is one."""
        if not srcs & (srcs - 1):  # just one
            return self._turn(srcs.bit_length() - 1, dst)
        if srcs.bit_count() <= _FEW:
            return min([self._turn(src, dst) for src in bits(srcs)])
        return next(turn for turn in self.by_dst[dst] if srcs >> turn[2] & 1)

    def _turn(self, src: int, dst: int) -> Turn:
        turn = self.batches[src, dst].turn
        assert turn is not None, "it waits"
        return turn


def bits(number: int) -> list[int]:
    """The places of a number's bits that are set, ascending."""
    places = []
    while number:
        lowest = number & -number
        places.append(lowest.bit_length() - 1)
        number ^= lowest
    return places
