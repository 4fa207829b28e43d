"""The flow schedulers: one file and one line here for each."""

from __future__ import annotations

from railyard.cluster.errors import unknown_name
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.reference.aalo import Aalo, WeightedAalo
from railyard.netemu.schedulers.reference.afap import AsFastAsPossible
from railyard.netemu.schedulers.reference.fifo import Fifo
from railyard.netemu.schedulers.reference.maxmin import MaxMin
from railyard.netemu.schedulers.reference.sjf import ShortestFirst
from railyard.netemu.schedulers.reference.sunflow import Sunflow
from railyard.netemu.schedulers.reference.varys import Varys

FLOW_SCHEDULERS: dict[str, type[FlowScheduler]] = {
    kind.name: kind
    for kind in (
        Aalo,
        AsFastAsPossible,
        Fifo,
        MaxMin,
        ShortestFirst,
        Sunflow,
        Varys,
        WeightedAalo,
    )
}


def flow_scheduler(name: str) -> FlowScheduler:
    """A new flow scheduler of that name; ``UsageError`` if there is none."""
    if name not in FLOW_SCHEDULERS:
        raise unknown_name("flow scheduler", name, FLOW_SCHEDULERS)
    return FLOW_SCHEDULERS[name]()
