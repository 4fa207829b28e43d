"""First come, first served, by coflow: whoever came first gets all that it can use.

Source: Chowdhury et al., Managing Data Transfers in Computer Clusters with Orchestra, SIGCOMM
2011: FIFO between transfers (section 5) and weighted shuffle scheduling inside of one (4.3), where
a flow's rate is in proportion to its bytes, so that the flows that share the bottleneck end at
the same time.

Left open there, chosen here: a flow's bytes are those that remain; coflows that came at the same
time are ordered by name; flows without a coflow are coflows of their own.  What a coflow can't use
goes to the next ones, so that no link idles that an open flow could use.
"""

from __future__ import annotations

from collections.abc import Sequence

from railyard.netemu.model.arrays import Floats
from railyard.netemu.model.flows import FlowSpec
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.reference.inorder import InOrder, by_arrival


class Fifo(InOrder):
    """Coflows in the order in which their first flows came."""

    name = "fifo"
    source = "Chowdhury et al., Orchestra, SIGCOMM 2011, 4.3 and 5"
    # The flows that end first are those that were held up last, by a link on which no other flow
    # that is left is held up.
    ends_matter = False

    def compiled(self) -> FlowScheduler:
        """The compiled version, for many open flows."""
        from railyard.netemu.schedulers.fast.fifo import CompiledFifo

        return CompiledFifo()

    def order(self, traffic: Traffic) -> Sequence[Group]:
        """By arrival."""
        return sorted(traffic.groups, key=by_arrival)

    def weight(self, flow: FlowSpec, remaining_bytes: float) -> float:  # noqa: ARG002
        """Flows of one route end at the same time."""
        return remaining_bytes

    def shares(self, group: Group) -> Floats:
        """In proportion to what remains."""
        return group.remaining_bytes()
