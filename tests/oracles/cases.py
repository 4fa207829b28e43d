"""What random cases are made of: a small network, and what happens to it; and a run of one.

``versions`` and ``differential`` draw them, each in its own way.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeVar

from railyard.cluster.ids import CoflowId, FlowId
from railyard.cluster.topology import Topology
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.fabric.store import TRUNKS_FROM
from railyard.netemu.messages import CloseFlow, RegisterCoflow, SetCapacity
from railyard.netemu.model.flows import Finished, FlowSpec
from railyard.netemu.schedulers import flow_scheduler
from railyard.oracles.orders import carry_out, open_flows

#: Ends may differ by what rounding makes of them: of bandwidth that others leave, among the rest.
CLOSE_S = 1e-6
CLOSE_SHARE = 1e-6
RATES = (10**6, 3 * 10**6, 7 * 10**6, 10**7, 125 * 10**6, 10**9)

Time = TypeVar("Time", bound=float | Fraction)


@dataclass(frozen=True)
class Start:
    """A flow comes."""

    spec: FlowSpec


@dataclass(frozen=True)
class Cancel:
    """A flow is cancelled; it may have ended already."""

    flow: FlowId


@dataclass(frozen=True)
class Limit:
    """A link gets another capacity."""

    link: str
    bytes_per_s: float


Change = Start | Cancel | Limit
Moments = list[tuple[Time, list[Change]]]


@dataclass
class Case(Generic[Time]):
    """A network and its changes by time."""

    topology: Topology
    moments: list[tuple[Time, list[Change]]]

    def __str__(self) -> str:
        links = Fabric(self.topology, flow_scheduler("maxmin")).capacities_bytes_per_s()
        moments = [f"at {float(at_s)!r} s: {changes}" for at_s, changes in self.moments]
        return "\n".join([f"links: {links}", *moments])


def random_links(dice: random.Random) -> dict[str, str]:
    """A topology's table of links, some of them without a limit."""
    return {
        "nic": dice.choice(["unlimited", f"{dice.choice(RATES) * 8}bps"]),
        "uplink": "unlimited" if dice.random() < 0.1 else f"{dice.choice(RATES) * 8}bps",
    }


class Run:
    """A network to which changes happen, and when its flows end."""

    def __init__(
        self,
        topology: Topology,
        scheduler: str,
        *,
        is_compiled: bool,
        trunks_from: float = TRUNKS_FROM,
    ) -> None:
        compiled_from = 0 if is_compiled else math.inf
        self.fabric = Fabric(
            topology,
            flow_scheduler(scheduler),
            compiled_from=compiled_from,
            trunks_from=trunks_from,
        )
        self.ends: dict[str, float] = {}  #: {flow: when it ended}; flows that never do are left out
        self._known: set[CoflowId] = set()

    def all_of(self, moments: Iterable[tuple[float | Fraction, list[Change]]]) -> dict[str, float]:
        """Have all of it happen, and return when each flow ends."""
        for at_s, changes in moments:
            self.until(float(at_s))
            self.do(changes)
        self.until(math.inf)
        return self.ends

    def until(self, at_s: float) -> None:
        """Let time pass: event by event in the end, and else many events at once."""
        fabric = self.fabric
        fabric.next_event_s()  # sets rates, as a look does: some schedulers go by those before
        self.look()
        if at_s < math.inf:
            self._take(fabric.handle(None, max(at_s, fabric.now_s)))
            return
        while (due_s := fabric.next_event_s()) < math.inf:
            self._take(fabric.handle(None, due_s))
            self.look()

    def do(self, changes: list[Change]) -> None:
        """Have these happen now."""
        for change in changes:
            match change:
                case Start(spec):
                    if spec.coflow is not None and spec.coflow not in self._known:
                        self._known.add(spec.coflow)
                        carry_out(self.fabric, RegisterCoflow(coflow=spec.coflow))
                    open_flows(self.fabric, spec)
                case Cancel(flow):
                    carry_out(self.fabric, CloseFlow(flow=flow))
                case Limit(link, bytes_per_s):
                    carry_out(self.fabric, SetCapacity(link=link, bytes_per_s=bytes_per_s))

    def look(self) -> None:
        """Nothing, for subclasses: rates are set, and time is about to pass."""

    def _take(self, ended: list[Finished]) -> None:
        self.ends.update({one.flow: one.finished_s for one in ended})
