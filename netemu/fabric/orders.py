"""What can be asked of a ``Fabric``: orders.  Those that come by a socket, too, are messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from railyard.cluster.ids import CoflowId
from railyard.netemu.messages import CloseFlow, FinishCoflow, GrowFlow, RegisterCoflow, SetCapacity
from railyard.netemu.model.flows import CoflowPast, FlowRows, FlowSpec


@dataclass(frozen=True, slots=True)
class StartFlows:
    """Open flows, in this order; those before a wrong one stay open.

    For many, ``FlowRows`` are quicker, of which none is open then.
    """

    flows: Sequence[FlowSpec]


@dataclass(frozen=True, slots=True)
class TakeUpFlow:
    """Open a flow of which another fabric has carried ``sent_bytes``, 0 to its size."""

    flow: FlowSpec
    sent_bytes: float


@dataclass(frozen=True, slots=True)
class TakeUpCoflow:
    """Accept flows of a coflow that another fabric knew; ``past``: on this fabric's clock."""

    coflow: CoflowId
    past: CoflowPast


Order = (
    StartFlows
    | FlowRows
    | TakeUpFlow
    | GrowFlow
    | CloseFlow
    | RegisterCoflow
    | TakeUpCoflow
    | FinishCoflow
    | SetCapacity
)
