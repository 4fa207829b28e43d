"""What a flow scheduler is: it sets the rates at which flows send.

The fabric asks it again whenever flows arrive, grow or end or a capacity changes, and when the
scheduler itself asked for it; in between, rates are constant.  It must not know which clock runs
it, nor keep time itself.

A scheduler sees *groups* of flows: one for each coflow (a flow without a coflow is one of its
own), or a single one for all flows if it does not care about coflows.  In a group, flows that are
served alike are one row of arrays (see ``netemu.model.traffic.Group``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import ClassVar

from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.traffic import Ahead, Traffic


@dataclass(frozen=True)
class Fast:
    """The compiled version of a flow scheduler, which decides the same; from when on it is used."""

    from_flows: float  #: it takes over when this many flows are open
    #: makes one, which starts without knowledge of earlier decisions
    make: Callable[[], FlowScheduler]


class FlowScheduler(ABC):
    """Decides how flows share the links."""

    name: ClassVar[str]
    source: ClassVar[str]  #: where it was published
    #: whether each coflow is a group; otherwise all flows are one
    by_coflow: ClassVar[bool] = False
    #: the circuit policy (see ``netemu.circuits.policies``) for topologies with an optical switch;
    #: None: flows use no circuits
    circuit_policy: ClassVar[str | None] = None
    #: whether it serves flows by their priorities
    by_priority: ClassVar[bool] = False
    #: whether rows that end stay for a while, with weight and rate 0, so that others keep their
    #: numbers; otherwise the last rows take their places
    rows_stay: ClassVar[bool] = False

    def class_key(self, flow: FlowSpec) -> Hashable:  # noqa: ARG002 (for subclasses)
        """Flows of one group and route with different keys are different rows.

        None: the flow is a row of its own.
        """
        return ()

    def weight(self, flow: FlowSpec, remaining_bytes: float) -> float:  # noqa: ARG002
        """A flow's weight: flows share their row's rate in proportion to it."""
        return flow.weight

    @classmethod
    def takes_rows(cls) -> bool:
        """Whether flows may have numbers for names: it looks neither at them nor at coflows."""
        return not (cls.by_coflow or cls.circuit_policy or cls.looks_at_flows())

    @classmethod
    def looks_at_flows(cls) -> bool:
        """Whether it has its own ``class_key`` or ``weight``; otherwise neither is called."""
        asked = (FlowScheduler.class_key, FlowScheduler.weight)
        return (cls.class_key, cls.weight) != asked

    @abstractmethod
    def decide(self, traffic: Traffic) -> float:
        """Set the rates of groups; a group that gets none keeps its rates.

        Returns the time, in seconds, at which to decide again even if nothing happens by then; inf:
        only when something has.
        """

    def go_ahead(
        self,
        traffic: Traffic,  # noqa: ARG002 (for subclasses)
        before_s: float,  # noqa: ARG002
        together_s: float,  # noqa: ARG002
    ) -> Ahead | None:
        """End rows, and set rates anew, at one event after the other that is before then.

        ``traffic`` has the rates of the last decision.  It ends before the first event at which a
        group has nothing left to send.  Rows that end within ``together_s`` end at once.  None:
        nothing has been done.  A flow scheduler need not be able to do it.
        """
        return None
