"""As fast as possible: a flow gets all that is free on its path, keeps it, and gains what is freed.

Source: the joint scheduling of tasks and network flows ("Joint").  Bandwidth is not shared: a new
flow gets the least free bandwidth of the links (or switches) on its path (section IV-C.3).  When
bandwidth is released, it is handed out by priority, to each flow as much as its path then allows
(section IV-C.5, Algorithm 2).

Left open there, chosen here: nobody loses bandwidth to a flow of higher priority that comes later;
flows that come at one time are served by priority, too; equal priorities go by name; flows without
any, such as reads and writes of blocks, come last, so that they starve no shuffle.  Where a
capacity drops below what is in use, the flows of lowest priority give way.  The paper's virtual
flows (lines 9 and 10) hold no bandwidth, so the network never sees them: moving a task starts a
flow.
"""

from __future__ import annotations

from railyard.netemu.schedulers.base import FlowScheduler, Serves


class AsFastAsPossible(FlowScheduler):
    """Hands out what is free, by priority."""

    name = "afap"
    source = "Joint scheduling of tasks and network flows (SDN), IV-C"
    serves = Serves.PRIORITIES
