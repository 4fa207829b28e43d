"""What a flow scheduler is: it sets the rates at which flows send.

The fabric asks it again whenever a flow arrives or ends or a capacity changes; in between, rates
are constant.  It must not know which clock runs it, nor keep time itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from cluster.ids import CoflowId, FlowId, NodeId

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowSpec:
    """A flow as it was asked for."""

    flow: FlowId
    src: NodeId
    dst: NodeId
    size_bytes: int
    coflow: CoflowId | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Demand:
    """Who wants to send over which links: a row for each class of flows.

    A class is all flows with the same route for which ``FlowScheduler.group`` answers the same;
    the bytes/s of a class are shared by its flows according to their weights.
    """

    #: numbers of each class's links; shorter routes are filled up with the last, unlimited link
    paths: Numbers
    weights: Floats  #: sum over the class's flows
    capacities: Floats  #: bytes/s of each link


class FlowScheduler(ABC):
    """Decides how flows share the links."""

    name: ClassVar[str]
    source: ClassVar[str]  #: where it was published

    def group(self, flow: FlowSpec) -> Hashable:  # noqa: ARG002 (for subclasses)
        """Tell apart flows of one route that are not to be served alike."""
        return ()

    @abstractmethod
    def rates(self, demand: Demand) -> Floats:
        """Bytes/s for each unit of weight, for each class; inf where nothing limits it."""
