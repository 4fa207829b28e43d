"""Whose flows are whose: who may close, grow or come back to a flow, and what only some may ask.

The ResourceManager and the NodeManagers look after a job's flows; whoever else opens a flow sends
its bytes itself, at its place among all others, and has no say in flows that are not its own.
"""

from __future__ import annotations

from collections.abc import Callable

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import FlowId
from railyard.cluster.messaging.roles import NODE_MANAGER, RESOURCE_MANAGER, Sender
from railyard.netemu.messages import OpenFlow

_OF_JOBS = frozenset((RESOURCE_MANAGER, NODE_MANAGER))
_JOBS = ""  #: no sender's key
#: In the name of each fetch ("j1.r0.0:r0n0:1"), and in no other flow's.
_JOBS_MARK = ":"


class Owners:
    """The owners of flows; raises ``PeerError`` for what is not theirs to ask."""

    def __init__(self) -> None:
        self._by_flow: dict[FlowId, str] = {}  #: keys of senders; ``_JOBS`` for flows of jobs

    def check_open(self, order: OpenFlow, sender: Sender) -> None:
        """Whether somebody may open a flow, or ask for its own once more."""
        if sender.may(_OF_JOBS):
            return
        if order.coflow is not None or not order.attach or order.weight != 1.0 or order.priority:
            right = "need attach=true, and neither coflow nor weight nor priority"
            raise PeerError(f'flow "{order.flow}" from {sender.role}: {right}')
        if _JOBS_MARK in order.flow:  # who takes a fetch's name first would keep it from the job
            right = f'need a name without "{_JOBS_MARK}", which names of jobs\' flows have'
            raise PeerError(f'flow "{order.flow}" from {sender.role}: {right}')
        if order.again:
            self.check(order.flow, sender)

    def opened(self, flow: FlowId, sender: Sender) -> None:
        """A flow is open, by order of this sender: not before, or one could have others' flows."""
        self._by_flow[flow] = _JOBS if sender.may(_OF_JOBS) else sender.key

    def check(self, flow: FlowId, sender: Sender) -> None:
        """Whether a flow is the sender's, or one to look after."""
        if not sender.may(_OF_JOBS) and self._by_flow.get(flow, sender.key) != sender.key:
            raise PeerError(f'flow "{flow}": is of another process')

    def forget(self, is_over: Callable[[FlowId], bool]) -> None:
        """Forget flows that are over."""
        for flow in [flow for flow in self._by_flow if is_over(flow)]:
            del self._by_flow[flow]
