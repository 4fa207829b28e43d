"""What a flow scheduler is: it says who comes first, and in what proportion; never rates.

It is asked for a ``Plan`` whenever flows arrive or are cancelled, when a capacity changes,
and when its last plan has ended.  While a plan holds, the network goes from event to event by
itself.  A flow scheduler must not know which clock runs it, nor keep time itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, Protocol

from railyard.netemu.kernel.state import AT_ARRIVALS, AT_ENDS, AT_GROUPS
from railyard.netemu.model.arrays import Floats, Numbers


class Serves(Enum):
    """What a flow scheduler puts in order."""

    ALL = "all"  #: nothing: all flows share links
    COFLOWS = "coflows"  #: coflows; a flow without one is a coflow of its own
    SHORTEST = "shortest"  #: flows, by the bytes that they have left to send
    PRIORITIES = "priorities"  #: flows, by their priorities; they keep what they were given


class Holds(Enum):
    """Until when a plan holds, beside the next arrival."""

    UNTIL_ARRIVALS = AT_ARRIVALS  #: no longer, nor shorter
    UNTIL_EMPTY = AT_GROUPS  #: until a coflow has nothing left to send
    UNTIL_END = AT_ENDS  #: until any flow ends


class Traffic(Protocol):
    """The coflows that have something to send, by arrival, then by name."""

    @property
    def now_s(self) -> float:
        """The time."""

    def __len__(self) -> int:
        """How many they are."""

    @property
    def names(self) -> list[str]:
        """[coflow]: its name; of a flow without one, the flow's."""

    @property
    def arrived_s(self) -> Floats:
        """[coflow]: when its first flow was started."""

    @property
    def sent_bytes(self) -> Floats:
        """[coflow]: bytes that its flows have sent by now, ended ones included."""

    @property
    def left_bytes(self) -> Floats:
        """[coflow]: bytes that its open flows have left to send."""

    @property
    def bottleneck_s(self) -> Floats:
        """[coflow]: seconds that its slowest link needs for what is left, alone in the network."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Who comes first: coflows by their places among those of ``Traffic``."""

    order: Numbers  #: the coflows, the first one first; each gets what it can use of what is left
    #: each coflow, in order, first gets the least with which it ends as soon as it can; needs
    #: ``by_bytes``
    ends_together: bool = False
    #: [place in order]: the queue of each; queues have their ``shares`` of all links first
    queues: Numbers | None = None
    shares: Floats | None = None  #: [queue]: its share, between 0 and 1
    #: [coflow]: the plan ends when one has sent so much; not with ``by_bytes``
    limits_bytes: Floats | None = None
    holds: Holds = Holds.UNTIL_ARRIVALS


class FlowScheduler:
    """Decides who may use the links first."""

    name: ClassVar[str]
    source: ClassVar[str]  #: where it was published
    serves: ClassVar[Serves] = Serves.COFLOWS
    #: whether a coflow's flows share links in proportion to the bytes that they have left to send,
    #: not to their weights: those that share a bottleneck end together
    by_bytes: ClassVar[bool] = False
    #: the circuit policy (see ``netemu.fabric.optics``) for topologies with an optical switch;
    #: None: flows use no circuits
    circuit_policy: ClassVar[str | None] = None

    def plan(self, traffic: Traffic) -> Plan:
        """Put coflows in order; asked of those that serve ``Serves.COFLOWS`` only."""
        raise NotImplementedError(f"{self.name} serves coflows, and says in no order")
