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
from railyard.netemu.model.traffic import Traffic


@dataclass(frozen=True)
class Fast:
    """What takes over from a flow scheduler, and decides the same, with many open flows."""

    from_flows: float  #: from so many open flows on
    #: it begins anew: what is known of earlier decisions is not passed on
    make: Callable[[], FlowScheduler]


class FlowScheduler(ABC):
    """Decides how flows share the links."""

    name: ClassVar[str]
    source: ClassVar[str]  #: where it was published
    #: whether each coflow is a group; otherwise all flows are one
    by_coflow: ClassVar[bool] = False
    #: the circuit policy that says which circuits there are where there can be some (see
    #: ``netemu.circuits.policies``); None: flows use no circuits
    circuit_policy: ClassVar[str | None] = None
    #: whether rows that end stay for a while, with weight and rate 0, so that others keep their
    #: numbers; otherwise the last rows take their places
    rows_stay: ClassVar[bool] = False

    def class_key(self, flow: FlowSpec) -> Hashable:  # noqa: ARG002 (for subclasses)
        """Keep flows of one group and route apart that are not to be served alike."""
        return ()

    def weight(self, flow: FlowSpec, remaining_bytes: float) -> float:  # noqa: ARG002
        """How a row's rate is shared by its flows: in proportion to this."""
        return flow.weight

    @classmethod
    def looks_at_flows(cls) -> bool:
        """Whether it has anything to say of single flows; otherwise it need not be asked."""
        asked = (FlowScheduler.class_key, FlowScheduler.weight)
        return (cls.class_key, cls.weight) != asked

    @abstractmethod
    def decide(self, traffic: Traffic) -> float:
        """Set the rates of groups; those of groups left alone stay as they are.

        Returns when to ask again even if nothing happens; inf: only when something has.
        """
