"""All flow schedulers: a line for each, then what other packages add.

Another package adds a flow scheduler through an entry point of the group
"railyard.flow_schedulers":

    [project.entry-points."railyard.flow_schedulers"]
    mine = "my_package.my_module:MyFlowScheduler"

which names a subclass of ``FlowScheduler``, or a tuple of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint

from railyard.cluster.errors import unknown_name
from railyard.cluster.registry import with_plugins
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


def flow_schedulers(added: Iterable[EntryPoint] | None = None) -> dict[str, type[FlowScheduler]]:
    """Every flow scheduler by its name; ``added`` are other packages', by default those installed.

    Raises ``UsageError`` for a name that is taken twice, for what is no flow scheduler and for
    what can't be loaded.
    """
    own = dict(FLOW_SCHEDULERS)
    return with_plugins("flow scheduler", "railyard.flow_schedulers", own, _checked, added)


def flow_scheduler(name: str) -> FlowScheduler:
    """A new flow scheduler of that name; ``UsageError`` if there is none."""
    if name in FLOW_SCHEDULERS:
        return FLOW_SCHEDULERS[name]()
    kinds = flow_schedulers()
    if name not in kinds:
        raise unknown_name("flow scheduler", name, kinds)
    return kinds[name]()


def _checked(kind: object) -> type[FlowScheduler]:
    if not (isinstance(kind, type) and issubclass(kind, FlowScheduler)):
        raise TypeError(f"{kind!r}, no subclass of FlowScheduler")
    return kind
