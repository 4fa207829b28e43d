"""The flows of a batch that nothing but their circuit limits: they share it, and know their end.

A group of flows, as ``netemu.circuitgroup`` has them, for the case that is common by far.  No flow
scheduler needs to look at it, and it is one class of flows, so there are no lanes and no arrays.
"""

from __future__ import annotations

import math

import numpy as np

from railyard.netemu.fabric.classes import Flow, FlowClass
from railyard.netemu.fabric.groups import ROUNDING
from railyard.netemu.fabric.world import World
from railyard.netemu.model.arrays import Floats
from railyard.netemu.model.links import load_of


class Pipe(FlowClass, eq=False, kw_only=True):
    """What goes through one circuit, which carries from some time on."""

    key: str
    world: World
    weight: float = 0.0
    served: float = 0.0  #: bytes for each unit of weight
    total: float = 0.0  #: sum of its flows' weights, each times what it needs
    rate: float = 0.0  #: bytes/s for each unit of weight; 0 while it has no circuit
    stale: bool = False
    first_finish_s: float = math.inf
    _bytes_per_s: float = 0.0
    _from_s: float = 0.0
    _settled_s: float = 0.0

    # What can be seen of it ----------------------------------------------------------------------
    @property
    def is_empty(self) -> bool:
        """Whether it has nothing to send."""
        return not self.members

    @property
    def load(self) -> Floats:
        """Bytes/s that it puts on each link."""
        links = self.world.links
        if not self._carries:
            return np.zeros(links)
        path = np.frombuffer(self.world.path(self.route), np.int64).reshape(-1, 1)
        return load_of(path, np.array([self.rate * self.weight]), links)

    def left_bytes(self) -> float:
        """Of all of it."""
        self._settle()
        return max(self.total - self.served * self.weight, 0.0)

    def service(self) -> list[float]:
        """Its service by now, in the form of groups that have several classes."""
        self._settle()
        return [self.served]

    def sent_bytes_of(self, flow: Flow) -> float:
        """Bytes that one of its flows has sent by now."""
        if flow.group is None:
            return flow.sent_bytes
        self._settle()
        return flow.sent_at(self.served)

    def rate_of(self, flow: Flow) -> float:
        """Bytes/s of one of its flows."""
        return self.rate * flow.weight if flow.group is not None and self._carries else 0.0

    # What the network does -----------------------------------------------------------------------
    def carry(self, circuit_bytes_per_s: float, from_s: float) -> None:
        """It has a circuit of that rate, which carries from then on; it had none."""
        self._bytes_per_s = circuit_bytes_per_s
        self._from_s = from_s
        self.fill()

    def halt(self) -> None:
        """It has no circuit."""
        self._settle()
        self._bytes_per_s = self.rate = 0.0
        self.first_finish_s = math.inf

    def fill(self) -> None:
        """Use all of the circuit, after flows or the circuit have changed."""
        if self.rate:
            self._settle()
        else:
            self._settled_s = self.world.now_s
        self.stale = False
        if not (self.members and self._bytes_per_s):
            self.rate = 0.0
            self.first_finish_s = math.inf
            return
        rate = self.rate = self._bytes_per_s / self.weight
        needed = self.first().needs - self.served
        began_s = self._settled_s if self._settled_s > self._from_s else self._from_s
        self.first_finish_s = began_s + needed / rate if needed > 0 else began_s
        self.world.retimed.append(self)

    def add(self, flow: Flow, weight: float) -> None:
        """Let a flow that has bytes to send join."""
        if self.rate:
            self._settle()
        sent, served = flow.sent_bytes, self.served
        flow.group = self
        flow.weight = weight
        flow.sent_before = sent
        flow.joined_at = served
        flow.needs = needs = served + (flow.size_bytes - sent) / weight
        self.admit(flow)
        self.weight += weight
        self.total += weight * needs
        self.stale = True

    def remove(self, flow: Flow) -> None:
        """Let a flow leave."""
        self._settle()
        flow.sent_bytes = flow.sent_at(self.served)
        self.release(flow)
        self._lighter(flow)
        self.stale = True

    def take_due(self, by_s: float) -> list[Flow]:
        """Remove and return the flows that have sent all, or will have by then: at least one."""
        self._settle()
        self.stale = True
        needs, slack = self.first().needs, self.rate * (by_s - self.world.now_s)
        # exactly where its first flow finishes, so that rounding never piles up
        if needs > self.served:
            self.served = needs
        taken = self.take(needs * ROUNDING + slack)
        for flow in taken:
            flow.sent_bytes = float(flow.size_bytes)
            self._lighter(flow)
        return taken

    # Inside --------------------------------------------------------------------------------------
    @property
    def _carries(self) -> bool:
        return self.world.now_s >= self._from_s

    def _settle(self) -> None:
        """Account for the service until now."""
        now_s, began_s = self.world.now_s, self._settled_s
        if began_s < self._from_s:
            began_s = self._from_s
        if now_s > began_s:
            self.served += self.rate * (now_s - began_s)
        self._settled_s = now_s

    def _lighter(self, flow: Flow) -> None:
        if self.members:
            self.weight -= flow.weight
            self.total -= flow.weight * flow.needs
        else:
            self.weight = self.total = 0.0
