"""The flows of a batch on its circuit where NICs limit them, too: a group, as others have them.

Such groups are many, small and short-lived, so there are no arrays here.  Flows that cross the same
limited links besides the circuit are served alike: they are a lane.  Where circuits are all that
limits flows, see ``netemu.pipe``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from railyard.netemu.fabric.classes import Flow, FlowClass
from railyard.netemu.fabric.groups import ROUNDING
from railyard.netemu.fabric.world import World
from railyard.netemu.model.arrays import Floats, Numbers
from railyard.netemu.model.links import Path, stack, unpack


class Lane(FlowClass, eq=False):
    """Flows that are served alike."""

    weight: float = 0.0
    served: float = 0.0  #: bytes for each unit of weight
    total: float = 0.0  #: sum of its flows' weights, each times what it needs
    rate: float = 0.0  #: bytes/s for each unit of weight

    def change(self, weight: float, total: float) -> None:
        """Flows have come or gone."""
        self.weight = self.weight + weight if self.members else 0.0
        self.total = self.total + total if self.members else 0.0


class CircuitGroup:
    """What goes through one circuit, which carries from ``from_s`` on."""

    only_ended = False
    layout = 0  #: of no interest: its rates are always set anew

    def __init__(self, key: str, world: World) -> None:
        self.key = key
        self.circuit_bytes_per_s = 0.0
        self.from_s = 0.0
        self.stale = False
        self.first_finish_s = np.inf
        self._world = world
        self._lanes: list[Lane] = []
        self._by_limits: dict[Path, Lane] = {}
        self._flows = 0
        self._settled_s = 0.0

    # What schedulers see, where it is not alone --------------------------------------------------
    @property
    def arrived_s(self) -> float:
        """When its circuit began to carry."""
        return self.from_s

    @property
    def paths(self) -> Numbers:
        """[position, row]: numbers of the limited links, the circuit's ports included."""
        filler, lanes = self._world.links - 1, self._lanes
        links = stack([self._world.path(lane.route) for lane in lanes], filler).T
        return links if len(links) else np.full((1, len(lanes)), filler)

    @property
    def crossed(self) -> int:
        """The links on these paths, as bits."""
        there = 0
        for lane in self._lanes:
            for link in unpack(self._world.path(lane.route)):
                there |= 1 << link
        return there

    @property
    def weights(self) -> Floats:
        """By lane."""
        return np.array([lane.weight for lane in self._lanes])

    @property
    def rates(self) -> Floats:
        """By lane, for each unit of weight."""
        return np.array([lane.rate for lane in self._lanes])

    @property
    def rate_bytes_per_s(self) -> float:
        """Of all of it."""
        return sum(lane.rate * lane.weight for lane in self._lanes) if self._carries else 0.0

    @property
    def load(self) -> Floats:
        """Bytes/s that it puts on each link."""
        load = np.zeros(self._world.links)
        if self._carries:
            for lane in self._lanes:
                links = np.frombuffer(self._world.path(lane.route), np.int64)
                load[links] += lane.rate * lane.weight
        return load

    def apart(self, row: int) -> Any:
        """Nothing tells flows apart."""
        return self._lanes[row].apart

    def remaining_bytes(self, rows: Numbers | slice = slice(None)) -> Floats:
        """By lane."""
        self._settle()
        return np.array([lane.total - lane.served * lane.weight for lane in self._lanes])[rows]

    def left_bytes(self) -> float:
        """Of all of it."""
        self._settle()
        return sum(max(lane.total - lane.served * lane.weight, 0.0) for lane in self._lanes)

    def sent_bytes(self) -> float:
        """Of no interest."""
        raise NotImplementedError

    def keep_rates(self) -> None:
        """Circuits' flows get rates whenever they change."""
        raise NotImplementedError

    def set_rates(self, rates: Floats) -> None:
        """Serve the lanes at these bytes/s for each unit of weight from now on."""
        self._settle()
        for lane, rate in zip(self._lanes, rates.tolist(), strict=True):
            lane.rate = rate
        self._retime()

    # What the network does -----------------------------------------------------------------------
    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to send."""
        return not self._flows

    def carry(self, circuit_bytes_per_s: float, from_s: float) -> None:
        """It has a circuit of that rate, which carries from then on."""
        self._settle()
        self.circuit_bytes_per_s = circuit_bytes_per_s
        self.from_s = from_s

    def add(self, flow: Flow, weight: float) -> None:
        """Let a flow that has bytes to send join."""
        self._settle()
        limits = self._world.path(flow.route)
        lane = self._by_limits.get(limits)
        if lane is None:
            lane = self._by_limits[limits] = Lane(flow.route, row=len(self._lanes))
            self._lanes.append(lane)
        flow.group = lane
        flow.weight = weight
        flow.sent_before = flow.sent_bytes
        flow.joined_at = lane.served
        flow.needs = lane.served + (flow.size_bytes - flow.sent_bytes) / weight
        lane.admit(flow)
        lane.change(weight, weight * flow.needs)
        self._flows += 1
        self.stale = True

    def admit(self) -> None:
        """Flows take their place at once."""

    def remove(self, flow: Flow) -> None:
        """Let a flow leave."""
        self._settle()
        lane = flow.group
        assert isinstance(lane, Lane)
        flow.sent_bytes = flow.sent_at(lane.served)
        lane.release(flow)
        lane.change(-flow.weight, -flow.weight * flow.needs)
        self._left(1)

    def quiet(self) -> None:
        """Note that it has nothing to send."""
        self.stale = False
        self.first_finish_s = np.inf

    def take_due(self, by_s: float) -> list[Flow]:
        """Remove and return the flows that have sent all now, or will have by then."""
        self._settle()
        now_s = self._world.now_s
        taken: list[Flow] = []
        for lane in self._lanes:
            if not lane.members or not lane.rate:
                continue
            first = lane.first()
            if now_s + (first.needs - lane.served) / lane.rate > by_s:
                continue
            # exactly where its first flow finishes, so that rounding never piles up
            lane.served = max(lane.served, first.needs)
            gone = lane.take(first.needs * ROUNDING + lane.rate * (by_s - now_s))
            weight = sum(flow.weight for flow in gone)
            lane.change(-weight, -sum(flow.weight * flow.needs for flow in gone))
            taken += gone
        for flow in taken:
            flow.sent_bytes = float(flow.size_bytes)
        self._left(len(taken))
        return taken

    def service(self) -> list[float]:
        """The service of each lane by now."""
        self._settle()
        return [lane.served for lane in self._lanes]

    def sent_bytes_of(self, flow: Flow) -> float:
        """Bytes that one of its flows has sent by now."""
        lane = flow.group
        if lane is None:
            return flow.sent_bytes
        self._settle()
        assert isinstance(lane, Lane)
        return flow.sent_at(lane.served)

    def rate_of(self, flow: Flow) -> float:
        """Bytes/s of one of its flows."""
        lane = flow.group
        if lane is None or not self._carries:
            return 0.0
        assert isinstance(lane, Lane)
        return lane.rate * flow.weight

    def limits_changed(self) -> None:
        """Which links are limited is looked up whenever it matters."""
        self.stale = True

    # Inside --------------------------------------------------------------------------------------
    @property
    def _carries(self) -> bool:
        return self._world.now_s >= self.from_s

    def _settle(self) -> None:
        """Account for the service until now."""
        now_s = self._world.now_s
        began_s = max(self._settled_s, self.from_s)
        if now_s > began_s:
            passed_s = now_s - began_s
            for lane in self._lanes:
                lane.served += lane.rate * passed_s
        self._settled_s = now_s

    def _left(self, flows: int) -> None:
        self._flows -= flows
        self.stale = True
        if not self._flows:
            self._lanes.clear()
            self._by_limits.clear()

    def _retime(self) -> None:
        began_s = max(self._settled_s, self.from_s)
        first_s = np.inf
        for lane in self._lanes:
            if lane.members and lane.rate:
                needed = max(lane.first().needs - lane.served, 0.0)
                first_s = min(first_s, began_s + needed / lane.rate)
        self.first_finish_s = first_s
        self.stale = False
        self._world.retimed.append(self)
