"""What there is: the topologies and schedulers that come with Railyard, and those of plugins."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import msgspec

from railyard.api.results import data_frame, html_table
from railyard.cluster.acceptance import meanings
from railyard.cluster.topology import load_topology, topology_names
from railyard.cluster.units import format_number
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
        return data_frame(map(msgspec.structs.asdict, self.values()))

    def _repr_html_(self) -> str:
        rows = [list(msgspec.structs.asdict(one).values()) for one in self.values()]
        names = next(iter(self.values())).__struct_fields__ if self else ()
        return html_table(rows, names) if rows else "none"


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


@dataclass(frozen=True)
class Setting:
    """A setting of a scheduler; its meaning is what the comment in its code says."""

    name: str  #: "corral.imbalance"
    default: str
    meaning: str  #: "" = its code does not say


def settings_of_recipe(recipe: Recipe) -> Iterator[Setting]:
    """All settings of a recipe, by name."""
    for section, config in sorted(recipe.sections):
        said = meanings(config)
        for field in sorted(msgspec.structs.fields(config), key=lambda field: field.name):
            name = f"{section}.{field.name}"
            default = _shown(recipe.settings.get(name, _default(field)))
            words = [said.get(field.name, ""), _choices(field.type)]
            yield Setting(name, default, "; ".join(filter(None, words)))


def _choices(kind: Any) -> str:
    """The values that a setting may have, if they are a few words: "all or free"."""
    return " or ".join(map(str, get_args(kind))) if get_origin(kind) is Literal else ""


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return None if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format_number(value).replace(",", "")
    return "none" if value in (None, {}, "", ()) else str(value)
