"""``sunflow``, compiled where no flow goes by circuits; otherwise only what a change reaches."""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Floats, bits
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.fast.fairshares import CompiledMaxMin
from railyard.netemu.schedulers.fast.loops.rounds import fill_in_rounds
from railyard.netemu.schedulers.reference.sunflow import Sunflow, share


class CompiledSunflow(Sunflow):
    """Sunflow's rates; only groups that a change can reach are shared again."""

    rows_stay = True
    #: shares the packet switches while nothing goes by circuits
    packets: type[FlowScheduler] = CompiledMaxMin

    def __init__(self) -> None:
        self._packets: FlowScheduler | None = None  #: None while something goes by circuits
        #: the links, as bits, that each group crossed at the last decision
        self._crossed: dict[Group, int] = {}
        self._capacities: Floats = np.empty(0)
        self._ports = self._no_link = 0  #: links, as bits

    def decide(self, traffic: Traffic) -> float:
        """Share packet switches and circuits, as far as something has changed."""
        if all(group.circuit_bytes_per_s == np.inf for group in traffic.groups):
            self._crossed.clear()
            self._packets = self._packets or self.packets()
            return self._packets.decide(traffic)
        self._packets = None  # its memory is out of date from here on
        share(self._reached(traffic), traffic, fill_in_rounds)
        return np.inf

    # Inside --------------------------------------------------------------------------------------
    def _reached(self, traffic: Traffic) -> list[Group]:
        """The groups with rates that may change: those that changed, and those that share links.

        Also those that share links with these, and so on; all other rates would stay the same.
        """
        if not np.array_equal(self._capacities, traffic.capacities):
            self._capacities = traffic.capacities
            self._ports = bits(traffic.is_port)
            self._no_link = 1 << len(traffic.capacities) - 1
            self._crossed.clear()
        before = self._crossed
        self._crossed = {
            group: self._crossed_by(group)
            if group in traffic.changed or group not in before
            else before[group]
            for group in traffic.groups
        }
        if not before:
            return list(self._crossed)
        reach, reached = 0, dict.fromkeys(traffic.changed)
        for group, there in before.items():
            if group in traffic.changed or group not in self._crossed:
                reach |= there
        for group in reached:
            reach |= self._crossed[group]
        grows = True
        while grows:
            grows = False
            for group, there in self._crossed.items():
                if there & reach and group not in reached:
                    reach |= there
                    reached[group] = None
                    grows = True
        return [group for group in self._crossed if group in reached]

    def _crossed_by(self, group: Group) -> int:
        """The links that a group shares, as bits: a group on a circuit has the ports for itself."""
        there = group.crossed & ~self._no_link
        return there if group.circuit_bytes_per_s == np.inf else there & ~self._ports
