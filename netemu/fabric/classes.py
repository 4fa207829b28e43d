"""Flows that are served alike: a class, which is one row of its group's arrays.

All flows of a class have had the same service (bytes a unit of weight) since they joined, so the
class needs one number for its progress, and its flows finish in the order of the service at which
they will have had enough: O(log flows) in Python for each.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import msgspec

from railyard.cluster.ids import FlowId
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.links import Route

if TYPE_CHECKING:
    from railyard.netemu.circuits.demand import Batch
    from railyard.netemu.circuits.group import CircuitGroup
    from railyard.netemu.circuits.pipe import Pipe
    from railyard.netemu.fabric.groups import FlowGroup


class Flow(msgspec.Struct, eq=False):  # as a struct, it is made in half the time
    """An open flow."""

    spec: FlowSpec
    route: Route
    sequence: int  #: flows are numbered as they come
    size_bytes: int  #: as far as it is known
    more: bool  #: whether it will grow
    belongs: FlowGroup | CircuitGroup | Pipe
    coflow: Coflow | None
    weight: float  #: its part of its class's service
    batch: Batch | None = None  #: between racks, if there are circuits
    booked_bytes: float = 0.0  #: what it sent on other routes than this one
    group: FlowClass | None = None  #: None as long as it takes part in no class
    sent_bytes: float = 0.0  #: known while it takes part in no class, and once it is cancelled
    apart: Hashable = ()  #: what tells it from others of its route
    # Known while it takes part in a class:
    joined_at: float = 0.0  #: its class's service when it joined
    #: its class's service when it will be finished; not noted if it was always alone in a row
    needs: float = 0.0
    sent_before: float = 0.0  #: bytes sent before it joined

    def sent_at(self, service: float) -> float:
        """Bytes sent when its class has had that much service."""
        sent = self.sent_before + (service - self.joined_at) * self.weight
        return min(sent, float(self.size_bytes))


class FlowClass(msgspec.Struct, eq=False):
    """The flows of one row; most have only one."""

    route: Route
    apart: Hashable = ()
    row: int = 0
    known_by: Hashable = None  #: its key in its group
    only: Flow | None = None  #: the only one that came since there was none
    members: int = 0
    #: heap of (needs, sequence, flow) once there are several; may hold entries of flows that left
    #: or grew
    flows: list[tuple[float, int, Flow]] = []

    def first(self) -> Flow:
        """The member that will finish first."""
        if self.only is not None:
            return self.only
        while True:
            needs, _, flow = self.flows[0]
            if flow.group is self and flow.needs == needs:
                return flow
            heappop(self.flows)

    def all(self) -> list[Flow]:
        """The members, if none has left since it was empty."""
        return [flow for _, _, flow in self.flows] if self.only is None else [self.only]

    def admit(self, flow: Flow) -> None:
        """Take in a flow that knows what it needs."""
        self.members += 1
        if self.members == 1:
            self.only = flow
            return
        if self.only is not None:
            self.flows = [(self.only.needs, self.only.sequence, self.only)]
            self.only = None
        heappush(self.flows, (flow.needs, flow.sequence, flow))

    def release(self, flow: Flow) -> None:
        """Let a member go."""
        flow.group = None
        self.members -= 1
        if flow is self.only:
            self.only = None

    def take_last(self) -> Flow:
        """Let the only member go."""
        flow = self.first()
        flow.group = self.only = None
        self.members = 0
        return flow

    def take(self, enough: float) -> list[Flow]:
        """Let those members go that need no more service than that."""
        if self.only is not None:
            return [self.take_last()] if self.only.needs <= enough else []
        taken, flows = [], self.flows
        while self.members:
            needs, _, flow = flows[0]
            if flow.group is self and flow.needs == needs:
                if needs > enough:
                    break
                self.release(flow)
                taken.append(flow)
            heappop(flows)
        return taken


@dataclass(slots=True)
class Coflow:
    """A registered coflow, for whoever wants to know."""

    flows: dict[FlowId, None] = field(default_factory=dict)  #: those that are open
    started_s: float | None = None  #: when its first flow was started
    finished_s: float | None = None  #: when its last flow so far finished
