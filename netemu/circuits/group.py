"""The flows of a rack pair on their circuit where NICs limit them, too: one group per circuit.

Flows that cross the same limited links besides the circuit are one class.  Where nothing but
circuits limits flows, see ``pipe``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from railyard.netemu.circuits.served import ServedClass
from railyard.netemu.model.arrays import Floats, Numbers, floats
from railyard.netemu.model.context import GroupContext
from railyard.netemu.model.links import Path, load_of, stack, unpack
from railyard.netemu.model.openflows import ROUNDING, Flow


class CircuitGroup:
    """The flows of one circuit, which carries from ``from_s`` on."""

    only_ended = False
    layout = 0  #: not used: its rates are always set anew

    def __init__(self, key: str, context: GroupContext) -> None:
        self.key = key
        self.circuit_bytes_per_s = 0.0
        self.from_s = 0.0
        self.stale = False
        self.first_finish_s = np.inf
        self._context = context
        self._classes: list[ServedClass] = []
        self._by_limits: dict[Path, ServedClass] = {}
        self._flows = 0
        #: what schedulers see of the classes; None: not as it was, and made when somebody asks
        self._paths: Numbers | None = None
        self._crossed: int | None = None
        self._weights: Floats | None = None
        self._settled_s = 0.0  #: all services, and the bytes sent, are as of then
        self._sent_bytes = 0.0

    # What schedulers see -------------------------------------------------------------------------
    @property
    def as_group(self) -> CircuitGroup:
        """Itself: flow schedulers set its rates."""
        return self

    @property
    def as_rows(self) -> None:
        """It has no arrays."""

    @property
    def arrived_s(self) -> float:
        """When its circuit began to carry."""
        return self.from_s

    @property
    def paths(self) -> Numbers:
        """[position, row]: numbers of the limited links, the circuit's ports included."""
        if self._paths is None:
            filler, classes = self._context.links - 1, self._classes
            links = stack(self._context.paths([each.route for each in classes]), filler).T
            self._paths = links if len(links) else np.full((1, len(classes)), filler)
        return self._paths

    @property
    def crossed(self) -> int:
        """The links on these paths, as the bits of an int: 1 << link."""
        if self._crossed is None:
            there = 0
            for path in self._context.paths([each.route for each in self._classes]):
                for link in unpack(path):
                    there |= 1 << link
            self._crossed = there
        return self._crossed

    @property
    def weights(self) -> Floats:
        """[row]: the sum of the weights of a class's flows."""
        if self._weights is None:
            self._weights = floats([served_class.weight for served_class in self._classes])
        return self._weights

    @property
    def rates(self) -> Floats:
        """[row]: bytes/s per unit of weight of a class."""
        return np.array([served_class.rate for served_class in self._classes])

    @property
    def rate_bytes_per_s(self) -> float:
        """Bytes/s of all its flows together."""
        return (
            sum(served_class.rate * served_class.weight for served_class in self._classes)
            if self._carries
            else 0.0
        )

    @property
    def load(self) -> Floats:
        """[link]: bytes/s that it puts on each link."""
        links = self._context.links
        if not self._carries or not self._classes:
            return np.zeros(links)
        return load_of(self.paths, self.rates * self.weights, links)

    def class_key(self, row: int) -> Any:
        """The empty key: no flow scheduler with circuits divides flows of one route."""
        return self._classes[row].class_key

    def remaining_bytes(self, rows: Numbers | slice = slice(None)) -> Floats:
        """[row]: bytes that each class has left to send."""
        self._settle()
        return np.array(
            [
                served_class.total - served_class.served * served_class.weight
                for served_class in self._classes
            ]
        )[rows]

    def left_bytes(self) -> float:
        """Bytes that all its flows have left to send."""
        self._settle()
        return sum(served_class.left_bytes() for served_class in self._classes)

    def sent_bytes(self) -> float:
        """Bytes that its flows, those that ended included, have sent through the circuit by now."""
        self._settle()
        return self._sent_bytes

    def set_rates(self, rates: Floats) -> None:
        """Serve the classes at these bytes/s per unit of weight, [row], from now on."""
        self._settle()
        for served_class, rate in zip(self._classes, rates.tolist(), strict=True):
            served_class.rate = rate
        self._retime()

    # What the network does -----------------------------------------------------------------------
    @property
    def is_empty(self) -> bool:
        """Whether it has no flows."""
        return not self._flows

    def carry(self, bytes_per_s: float, from_s: float) -> None:
        """Send through a circuit of this rate, which carries from ``from_s`` on."""
        self._settle()
        self.circuit_bytes_per_s = bytes_per_s
        self.from_s = from_s

    def fill(self) -> None:
        """Nothing: the flow scheduler sets its rates."""

    def halt(self) -> bool:
        """False: without a circuit there is no such group, so its flows must leave."""
        return False

    def add(self, flow: Flow) -> None:
        """Add a flow that has bytes to send."""
        self._settle()
        limits = self._context.path(flow.route)
        served_class = self._by_limits.get(limits)
        if served_class is None:
            served_class = ServedClass(route=flow.route, row=len(self._classes))
            self._by_limits[limits] = served_class
            self._classes.append(served_class)
            self._paths = self._crossed = None
        served_class.enter(flow)
        self._weights = None
        self._flows += 1
        self.stale = True

    def add_all(self, flows: Iterable[Flow]) -> None:
        """Add flows; see ``add``."""
        for flow in flows:
            self.add(flow)

    def admit(self) -> None:
        """Nothing: flows have joined their classes already."""

    def remove(self, flow: Flow) -> None:
        """Remove a flow, which then knows what it has sent."""
        self._settle()
        served_class = flow.flow_class
        assert isinstance(served_class, ServedClass)
        served_class.leave(flow)
        self._left(1)

    def quiet(self) -> None:
        """Note that it has nothing to send."""
        self.stale = False
        self.first_finish_s = np.inf

    def take_due(self, by_s: float) -> list[Flow]:
        """Remove and return the flows that have sent all now, or will have by then."""
        self._settle()
        now_s = self._context.now_s
        taken: list[Flow] = []
        for served_class in self._classes:
            if not served_class.members or not served_class.rate:
                continue
            first = served_class.first()
            if now_s + (first.needs - served_class.served) / served_class.rate > by_s:
                continue
            # exactly where its first flow finishes, so that rounding never piles up
            served_class.served = max(served_class.served, first.needs)
            gone = served_class.take(first.needs * ROUNDING + served_class.rate * (by_s - now_s))
            served_class.less(gone)
            taken += gone
        for flow in taken:
            flow.sent_bytes = float(flow.size_bytes)
        self._left(len(taken))
        return taken

    def service(self) -> list[float]:
        """[row]: the service of each class by now, in bytes per unit of weight."""
        self._settle()
        return [served_class.served for served_class in self._classes]

    def sent_bytes_of(self, flow: Flow) -> float:
        """Bytes that one of its flows has sent by now."""
        served_class = flow.flow_class
        if served_class is None:
            return flow.sent_bytes
        self._settle()
        assert isinstance(served_class, ServedClass)
        return flow.sent_at(served_class.served)

    def rate_of(self, flow: Flow) -> float:
        """Bytes/s of one of its flows."""
        served_class = flow.flow_class
        if served_class is None or not self._carries:
            return 0.0
        assert isinstance(served_class, ServedClass)
        return served_class.rate * flow.weight

    def limits_changed(self) -> None:
        """Note that links have got limits, or lost them: rates must be set anew."""
        self._paths = self._crossed = None
        self.stale = True

    # Inside --------------------------------------------------------------------------------------
    @property
    def _carries(self) -> bool:
        return self._context.now_s >= self.from_s

    def _settle(self) -> None:
        """Bring the service of all classes, and the bytes sent, up to now."""
        now_s = self._context.now_s
        began_s = max(self._settled_s, self.from_s)
        if now_s > began_s:
            passed_s = now_s - began_s
            for served_class in self._classes:
                more = served_class.rate * passed_s
                served_class.served += more
                self._sent_bytes += more * served_class.weight
        self._settled_s = now_s

    def _left(self, flows: int) -> None:
        self._flows -= flows
        self._weights = None
        self.stale = True
        if not self._flows:
            self._classes.clear()
            self._by_limits.clear()
            self._paths = self._crossed = None

    def _retime(self) -> None:
        began_s = max(self._settled_s, self.from_s)
        first_s = np.inf
        for served_class in self._classes:
            if served_class.members and served_class.rate:
                needed = max(served_class.first().needs - served_class.served, 0.0)
                first_s = min(first_s, began_s + needed / served_class.rate)
        self.first_finish_s = first_s
        self.stale = False
        self._context.retimed.append(self)
