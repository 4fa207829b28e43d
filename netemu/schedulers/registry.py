"""All flow schedulers: a line for each, then what other packages add.

Another package adds a flow scheduler through an entry point of the group
"railyard.flow_schedulers":

    [project.entry-points."railyard.flow_schedulers"]
    mine = "my_package.my_module:MyFlowScheduler"

which names a subclass of ``FlowScheduler``, or a tuple of them.
"""

from __future__ import annotations

from railyard.cluster.registry import Registry
from railyard.netemu.schedulers.aalo import Aalo, WeightedAalo
from railyard.netemu.schedulers.afap import AsFastAsPossible
from railyard.netemu.schedulers.base import FlowScheduler
from railyard.netemu.schedulers.fifo import Fifo
from railyard.netemu.schedulers.maxmin import MaxMin
from railyard.netemu.schedulers.sjf import ShortestFirst
from railyard.netemu.schedulers.sunflow import Sunflow
from railyard.netemu.schedulers.varys import Varys

#: The flow schedulers that come with Railyard.
FLOW_SCHEDULERS: dict[str, type[FlowScheduler]] = {
    kind.name: kind
    for kind in (Aalo, AsFastAsPossible, Fifo, MaxMin, ShortestFirst, Sunflow, Varys, WeightedAalo)
}


def _checked(kind: object) -> type[FlowScheduler]:
    if not (isinstance(kind, type) and issubclass(kind, FlowScheduler)):
        raise TypeError(f"{kind!r}, no subclass of FlowScheduler")
    return kind


_ALL = Registry("flow scheduler", "railyard.flow_schedulers", lambda: FLOW_SCHEDULERS, _checked)
#: Every flow scheduler by its name, those of other packages included.
flow_schedulers = _ALL.all


def flow_scheduler(name: str) -> FlowScheduler:
    """A new flow scheduler of that name; ``UsageError`` if there is none."""
    return _ALL.named(name)()
