"""What a flow scheduler is: it sets the rates at which flows send.

The fabric asks it again whenever flows arrive, grow or end or a capacity changes, and when the
scheduler itself asked for it; in between, rates are constant.  It must not know which clock runs
it, nor keep time itself.

A scheduler sees *groups* of flows: one for each coflow (a flow without a coflow is one of its
own), or a single one for all flows if it does not care about coflows.  In a group, flows that are
served alike are one row of arrays (see ``netemu.flowgroups``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from railyard.cluster.ids import CoflowId, FlowId, NodeId

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


class FlowSpec(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A flow as it was asked for."""

    flow: FlowId
    src: NodeId
    dst: NodeId
    size_bytes: int
    coflow: CoflowId | None = None
    weight: float = 1.0
    #: for schedulers that go by priority: the smaller comes first, item by item
    priority: tuple[float, ...] = ()
    #: more bytes will come: it does not finish before ``Fabric.grow`` says that there are no more
    more: bool = False


class Group(Protocol):
    """Flows that are ordered as one, as a scheduler sees them.  Arrays have a value for each row.

    Reading ``weights`` and ``paths`` is free; ``remaining_bytes`` and ``sent_bytes`` are as of now
    and cost a pass over the rows.
    """

    @property
    def key(self) -> str:
        """The coflow's name, or the flow's that has none."""

    @property
    def arrived_s(self) -> float:
        """When its first flow started."""

    @property
    def paths(self) -> Numbers:
        """[position, row]: numbers of the limited links that a row's flows cross.

        Short routes are filled up with the last, unlimited link.
        """

    @property
    def crossed(self) -> int:
        """The links on these paths, as the bits of a number: 1 << link."""

    @property
    def weights(self) -> Floats:
        """Sums over the rows' flows of what ``FlowScheduler.weight`` said."""

    @property
    def rates(self) -> Floats:
        """Bytes/s for each unit of weight, as set last; 0 for rows that are new."""

    @property
    def rate_bytes_per_s(self) -> float:
        """At which all of it is sending."""

    @property
    def layout(self) -> int:
        """Another number whenever rows have other numbers than before; new ones come last."""

    @property
    def load(self) -> Floats:
        """Bytes/s that it puts on each link; without the flows that have ended since."""

    @property
    def only_ended(self) -> bool:
        """Whether all that happened since its rates were set is that rows have sent all."""

    @property
    def circuit_bytes_per_s(self) -> float:
        """Of the circuit that all of it goes through; inf: it goes by packets."""

    def apart(self, row: int) -> Any:
        """What ``FlowScheduler.tells_apart`` said of a row's flows."""

    def remaining_bytes(self, rows: Numbers | slice = ...) -> Floats:
        """What is left to send, more than 0; of these rows only, if they are given."""

    def sent_bytes(self) -> float:
        """What all of its flows, finished ones included, have sent."""

    def set_rates(self, rates: Floats) -> None:
        """Send at these bytes/s for each unit of weight; inf where nothing limits it."""

    def keep_rates(self) -> None:
        """Let the rows that are left send as before; only where rows ``only_ended``."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Who wants to send over which links."""

    now_s: float
    capacities: Floats  #: bytes/s of each link; the last one stands for no link, and is unlimited
    groups: Collection[Group]  #: those that have something to send
    #: the groups among them whose flows have changed since the last decision
    changed: frozenset[Group]
    #: by link: whether it is an optical port; of interest to those that use circuits
    is_port: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class CoflowsOnCircuits:
    """What coflows have left to send by circuits, summed up by port: [coflow, out or in, rack]."""

    port_bytes: Floats
    port_batches: Numbers  #: pairs of racks
    circuit_bytes_per_s: Floats  #: of each port's wavelengths: [out or in, rack]
    delta_s: float  #: how long it takes to set a circuit up
    wavelengths: int


class FlowScheduler(ABC):
    """Decides how flows share the links."""

    name: ClassVar[str]
    source: ClassVar[str]  #: where it was published
    #: whether each coflow is a group; otherwise all flows are one
    by_coflow: ClassVar[bool] = False
    #: whether flows ride circuits where there are some (see ``netemu.circuitplane``)
    uses_circuits: ClassVar[bool] = False
    #: whether rows that end stay for a while, with weight and rate 0, so that others keep their
    #: numbers; otherwise the last rows take their places
    rows_stay: ClassVar[bool] = False

    def compiled(self) -> FlowScheduler:
        """One that decides the same, quicker where there are thousands of flows; or itself.

        It begins anew: what this one knows of earlier decisions is not passed on.
        """
        return self

    def tells_apart(self, flow: FlowSpec) -> Hashable:  # noqa: ARG002 (for subclasses)
        """Keep flows of one group and route apart that are not to be served alike."""
        return ()

    def weight(self, flow: FlowSpec, remaining_bytes: float) -> float:  # noqa: ARG002
        """How a row's rate is shared by its flows: in proportion to this."""
        return flow.weight

    @classmethod
    def looks_at_flows(cls) -> bool:
        """Whether it has anything to say of single flows; otherwise it need not be asked."""
        asked = (FlowScheduler.tells_apart, FlowScheduler.weight)
        return (cls.tells_apart, cls.weight) != asked

    def circuit_urgency(self, coflows: CoflowsOnCircuits) -> Floats:
        """Coflows get circuits in ascending order of this; ties: by arrival, then by name."""
        raise NotImplementedError

    @abstractmethod
    def decide(self, traffic: Traffic) -> float:
        """Set the rates of groups; those of groups left alone stay as they are.

        Returns when to ask again even if nothing happens; inf: only when something has.
        """
