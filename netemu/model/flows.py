"""A flow as it was asked for, the end of one, coflows; and what is reported of circuits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec

from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.messaging.wire import Count, Name, RackId, Seconds, SecondsOrInf
from railyard.netemu.model.arrays import Numbers

#: The circuits of an emulator in place of one that died have numbers from the next multiple of this
#: on, and so do their changes: by then, the earlier ones are down.
CIRCUITS_OF_ONE = 2**32


class FlowSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A flow as it was asked for."""

    flow: FlowId
    src: NodeId
    dst: NodeId
    size_bytes: int
    coflow: CoflowId | None = None
    weight: float = 1.0
    #: for schedulers that go by priority: the smaller comes first, item by item; () comes last
    priority: tuple[float, ...] = ()


class FlowRows(NamedTuple):
    """Flows that start together, in this order, as arrays; [flow] each."""

    names: Sequence[FlowId | int]
    src: Numbers  #: nodes, by ``Network.node_number``
    dst: Numbers
    size_bytes: Numbers
    coflow: Numbers  #: places in ``coflows``
    coflows: Sequence[CoflowId]
    #: weight and priority of each, see ``FlowSpec``; empty: those of ``FlowSpec``
    asks: Sequence[tuple[float, tuple[float, ...]]] = ()


class Finished(msgspec.Struct, frozen=True, gc=False):
    """A flow has sent all its bytes."""

    flow: FlowId
    finished_s: float
    coflow: CoflowId | None = None


class CoflowPast(NamedTuple):
    """What flow schedulers know of a coflow beside its open flows."""

    arrived_s: float  #: when its first flow was started
    #: what those of its flows have sent that are not open any more, and that links limited
    ended_bytes: float = 0.0


Change = Literal["set-up", "up", "down"]


class CircuitChange(NamedTuple):
    """Something that happened to a circuit."""

    at_s: Seconds
    #: "set-up": dark from now on; "up": carries from now on, or another coflow uses it from now on
    what: Change
    src: RackId
    dst: RackId
    coflow: Name | None  #: the coflow that uses it; None: none at present
    circuit: Count  #: circuits are numbered as they are set up


class CircuitState(msgspec.Struct, frozen=True):
    """A circuit as it is now."""

    src: RackId
    dst: RackId
    coflow: Name | None  #: the coflow that uses it; None: none at present
    ready_s: SecondsOrInf  #: on the network's own clock: dark until then; then it carries
