"""Sunflow: circuits for the shortest coflow first, and never taken away within a coflow.

Source: Huang, Sun and Ng, Sunflow: Efficient Optical Circuit Scheduling for Coflows, CoNEXT 2016,
as Co-scheduler has it: coflows in the order of T(C), the lower bound of their completion time
(section II-C, equations 2 and 15); within a coflow circuits are not preempted, and later coflows
send in the gaps that earlier ones leave (III-B); a port's reconfiguration stops only that port
(II-B).  ``netemu.circuits.policies.sunflow`` decides which
circuits there are, ``netemu.circuits.plane`` which bytes go by circuits.

Left open there, chosen here:
- T(C) is of what a coflow has left to send by circuits, and coflows are put in order anew whenever
  bytes for circuits come, or a coflow has none left.  Ties: the earlier arrival, then the name.
- Bytes that do not go by circuits share the packet switches in a max-min way, as TCP flows do.
  Where a node's NIC is shared by both kinds, all its flows share it in a max-min way.
- Flows that share a circuit share it in a max-min way, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from railyard.netemu.model.arrays import Floats, Numbers, places
from railyard.netemu.model.traffic import Group, Traffic
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.filling import fill


class Sunflow(FlowScheduler):
    """Circuits by ascending T(C); packets max-min."""

    name = "sunflow"
    source = "Huang, Sun and Ng, Sunflow, CoNEXT 2016"
    circuit_policy = "sunflow"

    def decide(self, traffic: Traffic) -> float:
        """Share packet switches and circuits, together where they share NICs."""
        share(list(traffic.groups), traffic)
        return np.inf


def _serve_alone(groups: Sequence[Group], traffic: Traffic) -> list[Group]:
    """Serve circuits with one row that share no link with others; returns the other groups.

    It is what ``fill`` comes to, without arrays, in a third of the time: circuits light up when
    this is done.
    """
    crossed = [group.crossed for group in groups]
    some = shared = 0  # links that any group crosses, and those that several do
    for links in crossed:
        shared |= some & links
        some |= links
    others: list[Group] = []
    for group, links in zip(groups, crossed, strict=True):
        weights = group.weights
        if group.circuit_bytes_per_s == np.inf or links & shared or len(weights) > 1:
            others.append(group)
            continue
        capacities = [traffic.capacities.item(link) for link in places(links)]
        rate = min([group.circuit_bytes_per_s, *capacities]) / weights.item()
        if group in traffic.changed or group.rates.item() != rate:
            group.set_rates(np.array([rate]))
    return others


def _path(group: Group, traffic: Traffic) -> Numbers:
    """[position, row]: a group's links; a circuit has its ports for itself, so without them."""
    paths = group.paths
    if group.circuit_bytes_per_s == np.inf:
        return paths
    return np.where(traffic.is_port[paths], len(traffic.capacities) - 1, paths)


def share(
    groups: Sequence[Group],
    traffic: Traffic,
    filling: Callable[[Numbers, Floats, Floats], Floats] = fill,
) -> None:
    """Set max-min rates of all flows of these groups; a circuit is a link of its own."""
    groups = _serve_alone(groups, traffic)
    if not groups:
        return
    links = len(traffic.capacities)
    circuits_bytes_per_s = np.array([group.circuit_bytes_per_s for group in groups])
    left = np.concatenate([traffic.capacities, circuits_bytes_per_s])
    paths = [_path(group, traffic) for group in groups]
    ends = np.cumsum([path.shape[1] for path in paths]).tolist()
    spans = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
    together = np.full((1 + max(map(len, paths)), ends[-1]), links - 1, dtype=np.int64)
    for number, (path, span) in enumerate(zip(paths, spans, strict=True)):
        together[-1, span] = links + number  # unlimited where a group goes by packets
        together[: len(path), span] = path
    weights = np.concatenate([group.weights for group in groups])
    rates = filling(together, weights, left)
    for group, span in zip(groups, spans, strict=True):
        if group in traffic.changed or not np.array_equal(group.rates, rates[span]):
            group.set_rates(rates[span])
