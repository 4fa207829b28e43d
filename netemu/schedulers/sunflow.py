"""Sunflow: circuits for the shortest coflow first, and never taken away within a coflow.

Source: Huang, Sun and Ng, Sunflow: Efficient Optical Circuit Scheduling for Coflows, CoNEXT 2016,
as Co-scheduler has it: coflows in the order of T(C), the lower bound of their completion time
(section II-C, equations 2 and 15); within a coflow circuits are not preempted, and later coflows
send in the gaps that earlier ones leave (III-B); a port's reconfiguration stops only that port
(II-B).  ``netemu.circuits.sunflow`` decides which circuits there are, ``netemu.circuits.pairs``
which bytes go by circuits.

Left open there, chosen here:
- T(C) is of what a coflow has left to send by circuits, and coflows are put in order anew whenever
  bytes for circuits come, or a coflow has none left.  Ties: the earlier arrival, then the name.
- Bytes that do not go by circuits share the packet switches in a max-min way, as TCP flows do.
  Where a node's NIC is shared by both kinds, all its flows share it in a max-min way.
- Flows that share a circuit share it in a max-min way, too.
"""

from __future__ import annotations

from railyard.netemu.schedulers.base import FlowScheduler, Serves


class Sunflow(FlowScheduler):
    """Circuits by ascending T(C); all links, those of circuits among them, max-min."""

    name = "sunflow"
    source = "Huang, Sun and Ng, Sunflow, CoNEXT 2016"
    serves = Serves.ALL
    circuit_policy = "sunflow"
