"""The flow schedulers: one file and one line here for each."""

from __future__ import annotations

from cluster.errors import unknown_name
from netemu.schedulers.aalo import Aalo, WeightedAalo
from netemu.schedulers.afap import AsFastAsPossible
from netemu.schedulers.base import FlowScheduler
from netemu.schedulers.fifo import Fifo
from netemu.schedulers.maxmin import MaxMin
from netemu.schedulers.sjf import ShortestFirst
from netemu.schedulers.sunflow import Sunflow
from netemu.schedulers.varys import Varys

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
