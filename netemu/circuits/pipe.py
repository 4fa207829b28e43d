"""The flows of a rack pair that nothing but their circuit limits: they share all of it.

This is by far the most common case.  No flow scheduler needs to look at such flows, and they are
one class, so there are no arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from railyard.netemu.circuits.served import ServedClass
from railyard.netemu.model.arrays import Floats
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.links import Route, load_of
from railyard.netemu.model.openflows import ROUNDING, Flow

_NO_ROUTE = Route(b"", ("local",))


class Pipe(ServedClass, eq=False, kw_only=True):
    """The flows of a rack pair, through one circuit after the other; its rate is 0 without one."""

    key: str
    context: GroupContext
    route: Route = _NO_ROUTE  #: that of a flow: others' have the same limited links, its two ports
    stale: bool = False
    first_finish_s: float = math.inf
    bytes_per_s: float = 0.0  #: of its circuit; 0 without one
    from_s: float = 0.0  #: when the circuit begins to carry
    settled_s: float = 0.0  #: its service is as of then

    # What can be seen -----------------------------------------------------------------------------
    @property
    def as_group(self) -> None:
        """None: flow schedulers do not see it."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no flows."""
        return not self.members

    @property
    def rate_bytes_per_s(self) -> float:
        """Bytes/s of all its flows together."""
        return self.rate * self.weight if self._carries else 0.0

    @property
    def load(self) -> Floats:
        """[link]: bytes/s that it puts on each link."""
        path = np.frombuffer(self.context.path(self.route), np.int64).reshape(-1, 1)
        return load_of(path, np.array([self.rate_bytes_per_s]), self.context.links)

    def left_bytes(self) -> float:
        """Bytes that all its flows have left to send."""
        self._settle()
        return super().left_bytes()

    def sent_bytes_of(self, flow: Flow) -> float:
        """Bytes that one of its flows has sent by now."""
        if flow.flow_class is None:
            return flow.sent_bytes
        self._settle()
        return flow.sent_at(self.served)

    def rate_of(self, flow: Flow) -> float:
        """Bytes/s of one of its flows."""
        return self.rate * flow.weight if flow.flow_class is not None and self._carries else 0.0

    # What the network does -----------------------------------------------------------------------
    def carry(self, bytes_per_s: float, from_s: float) -> None:
        """Send through a circuit of this rate, which carries from ``from_s`` on; it had none."""
        self.bytes_per_s = bytes_per_s
        self.from_s = from_s
        if self.members:
            self.fill()

    def halt(self) -> bool:
        """Send nothing, as the circuit is gone; the flows stay, and go on with the next one."""
        self._settle()
        self.bytes_per_s = self.rate = 0.0
        self.first_finish_s = math.inf
        return True

    def fill(self) -> None:
        """Use all of the circuit, after flows or the circuit have changed."""
        if self.rate:
            self._settle()
        else:
            self.settled_s = self.context.now_s
        self.stale = False
        if not (self.members and self.bytes_per_s):
            self.rate = 0.0
            self.first_finish_s = math.inf
            return
        rate = self.rate = self.bytes_per_s / self.weight
        needed = self.first().needs - self.served
        began_s = self.settled_s if self.settled_s > self.from_s else self.from_s
        self.first_finish_s = began_s + needed / rate if needed > 0 else began_s
        self.context.retimed.append(self)

    def add(self, flow: Flow) -> None:
        """Add a flow that has bytes to send; ``fill`` must follow."""
        if self.rate:
            self._settle()
        self.route = flow.route
        self.enter(flow)
        self.stale = True

    def add_all(self, flows: Iterable[Flow]) -> None:
        """Add flows; see ``add``."""
        for flow in flows:
            self.add(flow)

    def admit(self) -> None:
        """Nothing: flows have joined the class already."""

    def remove(self, flow: Flow) -> None:
        """Remove a flow, which then knows what it has sent."""
        self._settle()
        self.leave(flow)
        self.stale = True

    def take_due(self, by_s: float) -> list[Flow]:
        """Remove and return the flows that have sent all, or will have by then: at least one."""
        self._settle()
        self.stale = True
        needs, slack = self.first().needs, self.rate * (by_s - self.context.now_s)
        # exactly where its first flow finishes, so that rounding never piles up
        if needs > self.served:
            self.served = needs
        taken = self.take(needs * ROUNDING + slack)
        for flow in taken:
            flow.sent_bytes = float(flow.size_bytes)
        self.less(taken)
        return taken

    # Inside --------------------------------------------------------------------------------------
    @property
    def _carries(self) -> bool:
        return self.context.now_s >= self.from_s

    def _settle(self) -> None:
        """Bring the service up to now."""
        now_s, began_s = self.context.now_s, self.settled_s
        if began_s < self.from_s:
            began_s = self.from_s
        if now_s > began_s:
            self.served += self.rate * (now_s - began_s)
        self.settled_s = now_s
