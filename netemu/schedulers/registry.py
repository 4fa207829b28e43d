"""All flow schedulers: a line for each, then what other packages add.

Another package adds a flow scheduler through an entry point of the group
"railyard.flow_schedulers":

    [project.entry-points."railyard.flow_schedulers"]
    mine = "my_package.my_module:MyFlowScheduler"

which names a subclass of ``FlowScheduler``, or a tuple of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from importlib.metadata import EntryPoint
from typing import NamedTuple

from railyard.cluster.errors import unknown_name
from railyard.cluster.plugins import with_plugins
from railyard.netemu.schedulers.base import Fast, FlowScheduler
from railyard.netemu.schedulers.reference.aalo import Aalo, WeightedAalo
from railyard.netemu.schedulers.reference.afap import AsFastAsPossible
from railyard.netemu.schedulers.reference.fifo import Fifo
from railyard.netemu.schedulers.reference.maxmin import MaxMin
from railyard.netemu.schedulers.reference.sjf import ShortestFirst
from railyard.netemu.schedulers.reference.sunflow import Sunflow
from railyard.netemu.schedulers.reference.varys import Varys

_FAST = "railyard.netemu.schedulers.fast"
#: With this many open flows, compiled loops are worth the half second that it takes to load them.
MANY_FLOWS = 2_000


class Versions(NamedTuple):
    """A flow scheduler of Railyard's own."""

    reference: type[FlowScheduler]
    #: "module:class" within ``fast/``, if there is one: imported when it is needed, as numba takes
    #: half a second
    fast: str | None = None
    fast_from_flows: int = MANY_FLOWS


_VERSIONS = (
    Versions(Aalo, "aalo.scheduler:CompiledAalo"),
    Versions(AsFastAsPossible, "afap.scheduler:CompiledAsFastAsPossible"),
    Versions(Fifo, "fifo:CompiledFifo"),
    Versions(MaxMin, "fairshares:CompiledMaxMin"),
    Versions(ShortestFirst, "sjf.scheduler:CompiledShortestFirst"),
    Versions(Sunflow, "sunflow:CompiledSunflow"),
    Versions(Varys, "varys:CompiledVarys"),
    Versions(WeightedAalo, "aalo.scheduler:CompiledWeightedAalo"),
)
#: The flow schedulers that come with Railyard.
FLOW_SCHEDULERS = {versions.reference.name: versions for versions in _VERSIONS}


def flow_schedulers(added: Iterable[EntryPoint] | None = None) -> dict[str, type[FlowScheduler]]:
    """Every flow scheduler by its name; ``added`` are other packages', by default those installed.

    Raises ``UsageError`` for a name that is taken twice, for what is no flow scheduler and for
    what can't be loaded.
    """
    own = {name: versions.reference for name, versions in FLOW_SCHEDULERS.items()}
    return with_plugins("flow scheduler", "railyard.flow_schedulers", own, _checked, added)


def flow_scheduler(name: str) -> FlowScheduler:
    """A new flow scheduler of that name; ``UsageError`` if there is none."""
    if name in FLOW_SCHEDULERS:
        return FLOW_SCHEDULERS[name].reference()
    kinds = flow_schedulers()
    if name not in kinds:
        raise unknown_name("flow scheduler", name, kinds)
    return kinds[name]()


def fast_version(name: str, from_flows: float | None = None) -> Fast | None:
    """The compiled version of the flow scheduler of that name, if there is one.

    ``from_flows``: how many open flows it takes over from, if not as many as usual.
    """
    versions = FLOW_SCHEDULERS.get(name)
    if versions is None or versions.fast is None:
        return None
    module, kind = versions.fast.split(":")

    def make() -> FlowScheduler:
        made: FlowScheduler = getattr(import_module(f"{_FAST}.{module}"), kind)()
        return made

    return Fast(versions.fast_from_flows if from_flows is None else from_flows, make)


def _checked(kind: object) -> type[FlowScheduler]:
    if not (isinstance(kind, type) and issubclass(kind, FlowScheduler)):
        raise TypeError(f"{kind!r}, no subclass of FlowScheduler")
    return kind
