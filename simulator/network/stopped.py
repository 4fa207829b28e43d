"""What is put off while daemons are stopped: orders to the network, and the ends of flows.

A network that is stopped hears its orders when it goes on.  Its clock has gone on, so once it goes
on itself all is granted at once that would have been (``netemu.emulator.process``).  A daemon that
is stopped and holds an end of a flow moves no bytes: the flow is granted, and ends later.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

from railyard.cluster.ids import FlowId
from railyard.netemu.model.flows import FlowSpec
from railyard.simulator.network.ends import daemons_of

#: A network that was late by so much counts orders within this share of it as given together, as
#: ``netemu.emulator.process`` does.
_TOGETHER_LATE = 0.1


class _Order(NamedTuple):
    """An order to a network that is stopped."""

    carry_out: Callable[[], object]
    given_s: float  #: those that open flows say it; inf: it counts when it is heard
    cancels: FlowId | None


class Unheard:
    """The orders that a network which is stopped has yet to hear, as they were given."""

    def __init__(self) -> None:
        self._orders: list[_Order] = []
        self._cancelled: set[FlowId] = set()  #: flows that one of them cancels

    def add(self, carry_out: Callable[[], object], given_s: float = math.inf) -> None:
        """Add an order; ``given_s``: when, if that matters later."""
        self._orders.append(_Order(carry_out, given_s, None))

    def add_cancel(self, flow: FlowId, carry_out: Callable[[], object]) -> None:
        """Add an order that cancels a flow, whose end nobody waits for any more."""
        self._cancelled.add(flow)
        self._orders.append(_Order(carry_out, math.inf, flow))

    def is_cancelled(self, flow: FlowId) -> bool:
        """Whether a flow is to be cancelled, which has not been heard yet."""
        return flow in self._cancelled

    def in_turn(self, granted_s: float, now_s: float) -> Iterator[float]:
        """Carry out all, in order; yields before some of them until when flows are to be granted.

        They have been until ``granted_s``.  Orders given close together count as given together.
        """
        for number, order in enumerate(self._orders):
            given_s = min(order.given_s, now_s)
            close_s = 0.0 if number == 0 else (now_s - given_s) * _TOGETHER_LATE
            if given_s > granted_s + close_s and (number == 0 or order.given_s < math.inf):
                yield given_s
                granted_s = given_s
            self._carry_out(order)

    def all_at_once(self) -> None:
        """Carry out all, in order, where nothing is granted any more."""
        for order in self._orders:
            self._carry_out(order)

    def _carry_out(self, order: _Order) -> None:
        if order.cancels is not None:
            self._cancelled.discard(order.cancels)
        order.carry_out()


class StandingFlows:
    """Flows that have been granted, and end when a daemon goes on that holds an end of them.

    Those that are ``held`` end once the daemon that should take their bytes has heard of them.
    """

    def __init__(self) -> None:
        self._by_daemon: dict[str, list[FlowSpec]] = {}  #: of the daemons that are stopped
        #: {flow of which its reader's NodeManager has not heard: whether it was granted}
        self.held: dict[FlowId, bool] = {}

    def __bool__(self) -> bool:
        return bool(self._by_daemon or self.held)

    def stop(self, daemon: str) -> None:
        """A daemon is stopped."""
        self._by_daemon[daemon] = []

    def is_stopped(self, daemon: str) -> bool:
        """Whether a daemon is."""
        return daemon in self._by_daemon

    def go_on(self, daemon: str) -> list[FlowSpec]:
        """A daemon goes on, or is gone; returns the flows that have waited for it."""
        return self._by_daemon.pop(daemon, [])

    def wait(self, spec: FlowSpec) -> bool:
        """Whether a flow that was granted ends later: it is returned by ``go_on``, or is held."""
        if spec.flow in self.held:
            self.held[spec.flow] = True
            return True
        for daemon in daemons_of(spec):
            waiting = self._by_daemon.get(daemon)
            if waiting is not None:
                waiting.append(spec)
                return True
        return False
