"""The owners of flows: who may open, close, grow or return to a flow.

The ResourceManager and the NodeManagers manage the flows of all jobs.  Any other process may open
flows without a coflow, weight or priority, sends their bytes itself, and cannot change flows of
others.
"""

from __future__ import annotations

from collections.abc import Callable

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import FlowId
from railyard.cluster.messaging.access.roles import NODE_MANAGER, RESOURCE_MANAGER, Sender
from railyard.netemu.messages import OpenFlow

_OF_JOBS = frozenset((RESOURCE_MANAGER, NODE_MANAGER))
_JOBS = ""  #: the owner of jobs' flows; no sender has this key
#: Part of the name of each fetch ("j1.r0.0:r0n0:1") and of no other flow.
_JOBS_MARK = ":"


class Owners:
    """The owners of flows.  Its checks raise ``PeerError`` for what a sender may not do."""

    def __init__(self) -> None:
        self._by_flow: dict[FlowId, str] = {}  #: keys of senders; ``_JOBS`` for flows of jobs

    def check_open(self, order: OpenFlow, sender: Sender) -> None:
        """Check that the sender may open this flow, or return to it."""
        if sender.may(_OF_JOBS):
            return
        if order.coflow is not None or not order.attach or order.weight != 1.0 or order.priority:
            right = "need attach=true, and neither coflow nor weight nor priority"
            raise PeerError(f'flow "{order.flow}" from {sender.role}: {right}')
        if _JOBS_MARK in order.flow:  # or it could take the name of a fetch before the job does
            right = f'need a name without "{_JOBS_MARK}", which names of jobs\' flows have'
            raise PeerError(f'flow "{order.flow}" from {sender.role}: {right}')
        if order.again:
            self.check(order.flow, sender)

    def opened(self, flow: FlowId, sender: Sender) -> None:
        """Note the owner of a flow, once it is open: a refused order must not make an owner."""
        self._by_flow[flow] = _JOBS if sender.may(_OF_JOBS) else sender.key

    def check(self, flow: FlowId, sender: Sender) -> None:
        """Check that the sender owns this flow, or manages all flows of jobs."""
        if not sender.may(_OF_JOBS) and self._by_flow.get(flow, sender.key) != sender.key:
            raise PeerError(f'flow "{flow}": belongs to another process')

    def forget(self, is_over: Callable[[FlowId], bool]) -> None:
        """Forget flows that are over."""
        for flow in [flow for flow in self._by_flow if is_over(flow)]:
            del self._by_flow[flow]
