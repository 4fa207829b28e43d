"""A network in place of one that died, until it has been told what there is.

As on a cluster (``netemu.client.client``), each sender tells its own flows and what it was granted
of them, at its own moment; the ResourceManager says which coflows and flows of jobs there are.
A flow of a job goes on once both have.  Until then nothing of it is granted.  What comes of what
they say is decided by the emulator's own ledger.

Not here: when they do so; see ``simulator.faults.daemonfaults``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from railyard.cluster.errors import InvariantError
from railyard.cluster.ids import CoflowId, FlowId
from railyard.netemu.emulator.grants import Ledger
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.fabric.orders import Order, StartFlows
from railyard.netemu.messages import CloseFlow, FinishCoflow, RegisterCoflow, SetCapacity
from railyard.netemu.model.flows import CoflowPast, Finished, FlowRows, FlowSpec
from railyard.simulator.network.ends import is_fetch, sender_of


class Untold(msgspec.Struct, frozen=True):
    """A flow that its sender has yet to tell."""

    spec: FlowSpec
    sent_bytes: int = 0  #: what its sender was granted over all networks before
    is_known: bool = False  #: whether a network before has confirmed it
    is_ordered: bool = False  #: whether the ResourceManager orders it by itself


class Successor:
    """It is not there at first, and then knows no flows; ``waiting`` are those that there are.

    Whatever is new before it is there is told to it then.
    """

    def __init__(
        self,
        fabric: Fabric,
        pasts: Mapping[CoflowId, CoflowPast],
        waiting: Iterable[Untold],
    ) -> None:
        self._fabric = fabric
        self._ledger = Ledger(fabric, 1, pasts)
        self._untold = {each.spec.flow: each for each in waiting}
        self._flows = {flow: each.spec for flow, each in self._untold.items()}  #: not over yet
        #: processes that have yet to tell it their flows
        self._silent: dict[str, None] = {}
        self._granted = {flow: each.sent_bytes for flow, each in self._untold.items()}
        self.is_there = False
        self.is_resumed = False  #: whether the ResourceManager has told it its coflows

    @property
    def knows_all(self) -> bool:
        """Whether it is from now on as if there had been no other before."""
        return self.is_resumed and not self._silent

    def pasts(self) -> dict[CoflowId, CoflowPast]:
        """What another network should know of coflows, if it comes in place of this one."""
        return self._ledger.pasts()

    def untold(self) -> Mapping[FlowId, Untold]:
        """Flows that it was not told yet; read only."""
        return self._untold

    # What it is told -----------------------------------------------------------------------------
    def begin(self) -> list[str]:
        """It is there; returns who has to tell it flows."""
        self.is_there = True
        self._silent = dict.fromkeys(sender_of(spec) for spec in self._flows.values())
        return list(self._silent)

    def tells(self, sender: str) -> None:
        """A sender tells all its flows; does nothing if it has done so."""
        if sender in self._silent:
            del self._silent[sender]
            for each in [u for u in self._untold.values() if sender_of(u.spec) == sender]:
                self._tell(each)
            self._check_grants()

    def resume(self, coflows: Iterable[CoflowId], flows: Iterable[FlowSpec]) -> None:
        """The ResourceManager says which coflows, and which flows of them, there are."""
        self._ledger.resume(coflows, flows)
        self.is_resumed = True
        self._check_grants()

    def is_open(self, flow: FlowId) -> bool:
        """Whether a flow is not over."""
        return flow in self._flows

    def handle(self, order: Order | None, now_s: float) -> list[Finished]:
        """Let time pass, or hear what is new; returns the flows that were granted all their bytes.

        A coflow that the ResourceManager has yet to tell will be among all that it tells.
        """
        match order:
            case None:
                return self._advance(now_s)
            case StartFlows():
                self._start(order.flows)
            case FlowRows():
                self._start(order.specs(list(self._fabric.network.node_number)))
            case CloseFlow():
                self._untold.pop(order.flow, None)
                self._granted.pop(order.flow, None)
                self._ledger.close(order.flow)
                self._flows.pop(order.flow, None)
            case RegisterCoflow() if self.is_resumed:
                self._ledger.register_coflow(order.coflow)
            case FinishCoflow() if order.coflow in self._ledger.coflows:
                self._ledger.finish_coflow(order.coflow)
            case SetCapacity():
                self._ledger.set_capacity(order.link, order.bytes_per_s)
        return []

    def _start(self, specs: Iterable[FlowSpec]) -> None:
        for spec in specs:
            self._flows[spec.flow] = spec
            each = self._untold[spec.flow] = Untold(spec, is_ordered=self.is_resumed)
            if self.is_there and sender_of(spec) not in self._silent:
                self._tell(each)

    def _advance(self, now_s: float) -> list[Finished]:
        self._ledger.advance(now_s)
        granted = self._ledger.take_grants().values()
        ended = [flow for grants in granted for flow in grants.finished]
        for flow in ended:
            del self._flows[flow]
        return [Finished(flow, now_s) for flow in ended]

    def _check_grants(self) -> None:
        """Each flow goes on from what it was granted, over all networks together."""
        for flow in [flow for flow in self._granted if self._fabric.is_open(flow)]:
            sent_bytes, granted_bytes = self._fabric.sent_bytes(flow), self._granted.pop(flow)
            if sent_bytes != granted_bytes:
                what = f"was granted {granted_bytes} bytes, and goes on from {sent_bytes}"
                raise InvariantError(f"{flow} {what}")

    def _tell(self, each: Untold) -> None:
        del self._untold[each.spec.flow]
        spec, ledger, peer = each.spec, self._ledger, sender_of(each.spec).encode()
        if not is_fetch(spec):
            ledger.open(spec, peer, again=each.is_known, sent_bytes=each.sent_bytes)
            return
        if each.is_ordered:
            ledger.open(spec, None)
        ledger.attach(spec.flow, peer, again=each.is_known, sent_bytes=each.sent_bytes)
