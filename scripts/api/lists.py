"""What there is: the topologies and schedulers that come with Railyard, and those of plugins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from railyard.cluster.topology import load_topology, topology_names
from railyard.resourcemanager.interface.recipe import Recipe, option_names
from railyard.resourcemanager.schedulers import all_recipes, recipe_named

if TYPE_CHECKING:
    from pandas import DataFrame


class TopologyInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A topology that comes with Railyard."""

    name: str
    description: str
    source: str  #: the paper whose set-up it is; "" = none
    racks: int  #: or sites
    nodes: int
    slots: int
    scale: int  #: bytes of the model per real byte
    has_circuits: bool  #: an optical switch

    def __str__(self) -> str:
        return self.name


class SchedulerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A scheduler."""

    name: str
    source: str  #: the paper that it comes from
    flow_scheduler: str  #: the one that it goes with
    settings: tuple[str, ...]  #: names for ``settings={"delay.node_wait_s": 3}``

    def __str__(self) -> str:
        return self.name


class Listing(dict[str, Any]):
    """What there is, by name; a notebook shows it as a table."""

    def to_pandas(self) -> DataFrame:
        """A row for each, its fields as columns.

        Raises ``UsageError`` if pandas is not installed.
        """
        from railyard.scripts.api.shown.frames import listing_frame

        return listing_frame(self.values())

    def _repr_html_(self) -> str:
        from railyard.scripts.api.shown.words import listing_as_html

        return listing_as_html(self)


def topologies() -> Listing:
    """The topologies that come with Railyard: {name: ``TopologyInfo``}."""
    return Listing({name: _topology(name) for name in topology_names()})


def schedulers() -> Listing:
    """The schedulers, those of installed packages, too: {name: ``SchedulerInfo``}."""
    return Listing({name: _scheduler(recipe_named(name)) for name in sorted(all_recipes())})


def _topology(name: str) -> TopologyInfo:
    topology = load_topology(name)
    return TopologyInfo(
        name=name,
        description=topology.description,
        source=topology.source,
        racks=topology.racks.count,
        nodes=len(topology.nodes()),
        slots=topology.slots,
        scale=topology.scale,
        has_circuits=topology.ocs is not None,
    )


def _scheduler(recipe: Recipe) -> SchedulerInfo:
    return SchedulerInfo(
        name=recipe.name,
        source=recipe.source,
        flow_scheduler=recipe.flow_scheduler,
        settings=tuple(option_names(recipe)),
    )
