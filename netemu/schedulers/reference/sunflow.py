"""Sunflow: circuits for the shortest coflow first, and never taken away within a coflow.

Source: Huang, Sun and Ng, Sunflow: Efficient Optical Circuit Scheduling for Coflows, CoNEXT 2016,
as Co-scheduler (section III-B) has it: coflows in the order of the lower bound of their completion
time T(C); within a coflow circuits are not preempted; a port's reconfiguration stops only that
port; later coflows send in the gaps that earlier ones leave.  What it does to ports and circuits is
in ``netemu.circuits``, which bytes ride at all in ``netemu.circuitplane``.

Left open there, chosen here:
- T(C) is of what a coflow has left to send by circuits, and coflows are put in order anew whenever
  bytes for circuits come, or a coflow has none left.  Ties: the earlier arrival, then the name.
- Bytes that don't ride share the packet switches in a max-min way, as TCP flows do.  Where a node's
  NIC is shared by both kinds, so is that: its flows fill up alike, wherever they go.
- Flows that share a circuit share it in a max-min way, too.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers, bits, places
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import fill
from railyard.netemu.schedulers.reference.maxmin import MaxMin


class Sunflow(FlowScheduler):
    """Circuits by ascending T(C); packets max-min."""

    name = "sunflow"
    source = "Huang, Sun and Ng, Sunflow, CoNEXT 2016"
    circuit_policy = "sunflow"
    rows_stay = MaxMin.rows_stay  # it shares what goes by packets

    def __init__(self, sharing: Callable[[], FlowScheduler] = MaxMin) -> None:
        self._sharing = sharing  #: makes what shares packet switches
        self._packets: FlowScheduler | None = None  #: where there are no circuits
        #: the links, as bits, that groups crossed when they were filled together last
        self._crossed: dict[Group, int] = {}
        self._capacities: Floats = np.empty(0)
        self._ports = self._no_link = 0  #: as bits, too

    def compiled(self) -> FlowScheduler:
        """The compiled version, for many open flows."""
        from railyard.netemu.schedulers.fast.fairshares import CompiledMaxMin

        return Sunflow(CompiledMaxMin)

    def decide(self, traffic: Traffic) -> float:
        """Fill packet switches, together with the circuits that share NICs."""
        if all(group.circuit_bytes_per_s == np.inf for group in traffic.groups):
            self._crossed.clear()
            self._packets = self._packets or self._sharing()
            return self._packets.decide(traffic)
        self._packets = None  # what it remembers no longer holds
        groups = self._reached(traffic)
        if len(groups) == 1 and groups[0].weights.size == 1:
            _fill_alone(groups[0], places(self._crossed[groups[0]]), traffic)
        elif groups:
            _fill_together(groups, traffic)
        return np.inf

    def _reached(self, traffic: Traffic) -> list[Group]:
        """The groups whose rates may change: those that changed, and whom they share links with.

        Also whom these share links with, and so on; the others' rates would come out as they are.
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
        """The links that a group shares: one on a circuit has the ports for itself."""
        there = group.crossed & ~self._no_link
        return there if group.circuit_bytes_per_s == np.inf else there & ~self._ports


def _path(group: Group, traffic: Traffic) -> Numbers:
    """A group's links; without the ports if it goes by a circuit, which has them for itself."""
    if group.circuit_bytes_per_s == np.inf:
        return group.paths
    return np.where(traffic.is_port[group.paths], len(traffic.capacities) - 1, group.paths)


def _fill_alone(group: Group, links: list[int], traffic: Traffic) -> None:
    """The rate of the only flows on these links, which but for NICs are a circuit's own.

    Without arrays: it lights up now, and its sender is to hear of it.
    """
    [weight] = group.weights.tolist()
    capacities = traffic.capacities
    least = min([group.circuit_bytes_per_s, *[float(capacities[link]) for link in links]])
    group.set_rates(np.array([least / weight if weight else 0.0]))


def _fill_together(groups: list[Group], traffic: Traffic) -> None:
    """Max-min rates of all flows of these groups; a circuit is a link of its own."""
    links = len(traffic.capacities)
    circuits_bytes_per_s = np.array([group.circuit_bytes_per_s for group in groups])
    left = np.concatenate([traffic.capacities, circuits_bytes_per_s])
    paths = [_path(group, traffic) for group in groups]
    ends = np.cumsum([path.shape[1] for path in paths]).tolist()
    spans = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
    together = np.full((1 + max(map(len, paths)), ends[-1]), links - 1, dtype=np.int64)
    for number, (path, span) in enumerate(zip(paths, spans, strict=True)):
        together[-1, span] = links + number  # endless where a group goes by packets
        together[: len(path), span] = path
    weights = np.concatenate([group.weights for group in groups])
    sending = np.flatnonzero(weights)  # a circuit's lane may have run empty
    rates = np.zeros(len(weights))
    rates[sending] = fill(together[:, sending], weights[sending], left)
    for group, span in zip(groups, spans, strict=True):
        if group in traffic.changed or not np.array_equal(group.rates, rates[span]):
            group.set_rates(rates[span])
