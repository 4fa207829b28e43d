"""What a circuit policy is: it decides which pairs of racks have circuits.

A rack's optical port has room for W circuits in each direction (one without wavelengths).  What a
coflow has to send from one rack to another is a ``RackPairDemand``; the large ones want circuits.
The plane reports to the policy what becomes of these, and asks it to choose whenever something has
changed; in between, circuits stay as they are.

A policy that simply says who should have circuits now derives from ``StatelessPolicy`` and has one
method.  It must not know which clock runs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from railyard.cluster.errors import InvariantError
from railyard.netemu.circuits.policies.portqueues import enqueue
from railyard.netemu.circuits.switch import OpticalSwitch
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.openflows import CoflowDemand, RackPairDemand


@dataclass(frozen=True, slots=True)
class CoflowsOnCircuits:
    """What coflows have left to send by circuits, by port: [coflow, out or in, rack]."""

    port_bytes: Floats  #: bytes
    port_pairs: Numbers  #: pairs of racks
    circuit_bytes_per_s: Floats  #: of one wavelength of each port: [out or in, rack]
    delta_s: float  #: δ: seconds for which a port is dark while a circuit is set up
    wavelengths: int  #: W: circuits that a port has room for


class CircuitPolicy(ABC):
    """Decides which pairs of racks have circuits."""

    name: ClassVar[str]
    source: ClassVar[str]  #: where it was published

    def __init__(self, switch: OpticalSwitch) -> None:
        self.switch = switch  #: to be read only
        self.order: list[CoflowDemand] = []  #: coflows that want circuits, the most urgent first
        self.look_again_s = inf  #: when to ask again even if nothing happens
        #: ports that have not failed, out of racks and into them: racks as the bits of an int
        self.works_out = self.works_in = (1 << len(switch.racks)) - 1

    def urgency(self, coflows: CoflowsOnCircuits) -> Floats:
        """[coflow]: coflows are ordered by this, ascending, then by arrival, then by name."""
        return np.zeros(len(coflows.port_bytes))

    @abstractmethod
    def choose(
        self, now_s: float, fresh: dict[CoflowDemand, None], order: list[CoflowDemand] | None = None
    ) -> tuple[list[RackPairDemand], list[RackPairDemand]]:
        """The pairs that lose circuits now, and those that get one.

        ``fresh`` are coflows with pairs that have come to wait, or wait with other sizes, since the
        last choice; ``order`` is the order of coflows if it has changed.
        """

    # What the plane reports ----------------------------------------------------------------------
    def wait(self, pair: RackPairDemand, size_bytes: float) -> None:
        """Note that a pair wants a circuit, for so many bytes."""
        enqueue(pair, size_bytes)
        pair.demand.wait(pair)

    def stop_waiting(self, pair: RackPairDemand) -> None:
        """Note that a pair wants no circuit any more."""
        pair.demand.stop_waiting(pair)

    def release(self, pair: RackPairDemand) -> None:
        """Take a pair's circuit: it needs it no more, or can't keep it."""
        pair.demand.give_up(pair)

    def expect_end(self, pair: RackPairDemand, at_s: float) -> None:
        """Note when a pair that has a circuit will have sent all, in seconds."""
        pair.ends_s = at_s

    def set_port(self, rack: int, works: bool, *, is_out: bool) -> None:
        """Note that a port has failed, or works again; its pairs have been released."""
        bit = 1 << rack
        if is_out:
            self.works_out = self.works_out | bit if works else self.works_out & ~bit
        else:
            self.works_in = self.works_in | bit if works else self.works_in & ~bit

    # For subclasses ------------------------------------------------------------------------------
    def set_order(self, order: list[CoflowDemand] | None) -> None:
        """Note the order of coflows, if it has changed."""
        if order is not None:
            self.order = order
            for rank, demand in enumerate(order):
                demand.rank = rank


class StatelessPolicy(CircuitPolicy):
    """A policy that names the pairs that should have circuits each time: O(pairs) for a choice."""

    @abstractmethod
    def wanted(self, now_s: float, coflows: Sequence[CoflowDemand]) -> Iterable[RackPairDemand]:
        """The pairs that should have circuits now, at most W at a port.

        Choose from ``demand.pairs()`` of these coflows, those with ``pair.by_circuit``.
        """

    def choose(
        self,
        now_s: float,
        _fresh: dict[CoflowDemand, None],
        order: list[CoflowDemand] | None = None,
    ) -> tuple[list[RackPairDemand], list[RackPairDemand]]:
        """Change the circuits that differ from those wanted."""
        self.set_order(order)
        wanted = dict.fromkeys(self.wanted(now_s, self.order))
        self._check(wanted)
        held = {pair: None for demand in self.order for pair in demand.serving}
        lost = [pair for pair in held if pair not in wanted]
        gained = [pair for pair in wanted if pair not in held]
        for pair in lost:
            self.release(pair)
        for pair in gained:
            pair.demand.stop_waiting(pair)
            pair.demand.hold(pair)
        return lost, gained

    def _check(self, wanted: Iterable[RackPairDemand]) -> None:
        """Refuse circuits that the switch can't have, or that nobody wants."""
        used: Counter[str] = Counter()
        for pair in wanted:
            src, dst = self.switch.racks[pair.src], self.switch.racks[pair.dst]
            if not (pair.waits or pair.circuit):
                raise InvariantError(f"{self.name} gave {src} to {dst} a circuit: it wants none")
            used.update((f"{src}.ocs.up", f"{dst}.ocs.down"))
        most = self.switch.wavelengths
        full = [f"{port} {count}" for port, count in used.items() if count > most]
        if full:
            raise InvariantError(f"{self.name} gave more circuits than {most} to {', '.join(full)}")
