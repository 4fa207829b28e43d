"""A scheduler as a recipe of six policies, and how their settings are read."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec

from railyard.cluster.errors import require, unknown_name
from railyard.cluster.inputfile import build
from railyard.resourcemanager.interface.defaults import ClosestTasks, SlowStart, StoreDecides
from railyard.resourcemanager.interface.policies import (
    CopyPolicy,
    DataPolicy,
    FlowPolicy,
    OrderPolicy,
    Policy,
    ShufflePolicy,
    TaskPolicy,
)
from railyard.resourcemanager.interface.speculation import Speculation

Option = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A scheduler: its name, the paper that it comes from, its six policies."""

    name: str
    source: str
    order: type[OrderPolicy]
    data: type[DataPolicy] = StoreDecides
    tasks: type[TaskPolicy] = ClosestTasks
    shuffle: type[ShufflePolicy] = SlowStart
    copies: type[CopyPolicy] = Speculation
    flows: type[FlowPolicy] = FlowPolicy
    #: the flow scheduler that it goes with, unless somebody names another one
    flow_scheduler: str = "maxmin"
    #: settings that differ from its policies' own defaults, such as {"delay.node_wait_s": 0}
    settings: Mapping[str, Option] = field(default_factory=dict)

    def variant(self, name: str, source: str, settings: Mapping[str, Option]) -> Recipe:
        """The same scheduler with other settings, called "SELF:NAME": for a paper's ablations."""
        return replace(
            self, name=f"{self.name}:{name}", source=source, settings={**self.settings, **settings}
        )

    @cached_property
    def uses_forecasts(self) -> bool:
        """Whether any of its policies looks at jobs' forecasts."""
        return any(
            kind.uses_forecasts or kind.jobs_predicted is not Policy.jobs_predicted
            for kind in self.classes
        )

    @cached_property
    def uses_data(self) -> bool:
        """Whether any of its policies looks at where data is."""
        moves = self.data.propose is not Policy.propose
        return moves or any(kind.uses_data for kind in self.classes)

    @property
    def reserves(self) -> bool:
        """Whether its tasks policy may propose attempts without slots."""
        return self.tasks.propose is not Policy.propose

    @cached_property
    def uses_network(self) -> bool:
        """Whether any of its policies looks at the links between racks."""
        return any(
            kind.uses_network or kind.links_observed is not Policy.links_observed
            for kind in self.classes
        )

    @cached_property
    def classes(self) -> tuple[type[Policy], ...]:
        """The classes of its policies, each once."""
        roles = (self.data, self.order, self.tasks, self.shuffle, self.copies, self.flows)
        return tuple(dict.fromkeys(roles))

    @cached_property
    def with_settings(self) -> tuple[type[Policy], ...]:
        """The classes of its policies, and of their parts with settings of their own."""
        kinds = [each for kind in self.classes for each in (kind, *kind.part_settings)]
        return tuple(dict.fromkeys(kinds))

    @cached_property
    def sections(self) -> tuple[tuple[str, type[msgspec.Struct]], ...]:
        """Each prefix of its settings, with their class."""
        kinds = {kind.section: kind.Config for kind in self.with_settings if kind.section}
        return tuple((kinds | ({LINKS: LinksConfig} if self.uses_network else {})).items())


def read_options(
    recipe: Recipe, options: Mapping[str, Option]
) -> dict[type[Policy], msgspec.Struct]:
    """{policy, or part with settings of its own: its settings}: defaults, changed by ``options``.

    An option is "section.field", or "section.field.key" where the field is a mapping.  Raises
    ``UsageError`` for a name that this recipe does not have and for an impossible value.
    """
    made = _read_sections(recipe, options)
    return {
        kind: made[kind.section] if kind.section else kind.Config() for kind in recipe.with_settings
    }


def read_links_options(recipe: Recipe, options: Mapping[str, Option]) -> LinksConfig | None:
    """How links are observed for a recipe; None if it does not use the network."""
    if not recipe.uses_network:
        return None
    found = _read_sections(recipe, options)[LINKS]
    assert isinstance(found, LinksConfig), "as the section's class is"
    return found


def option_names(recipe: Recipe) -> list[str]:
    """The names of all settings of a recipe, such as "delay.node_wait_s"."""
    return _names(dict(recipe.sections))


def _read_sections(recipe: Recipe, options: Mapping[str, Option]) -> Mapping[str, msgspec.Struct]:
    """{prefix: its settings}"""
    given = {**recipe.settings, **options}
    typed = tuple((name, type(value), value) for name, value in given.items())  # as 1 is not True
    return _made(recipe.name, recipe.sections, typed)


@functools.lru_cache(maxsize=256)  # it takes longer than the shortest simulations
def _made(
    recipe: str,
    sections: tuple[tuple[str, type[msgspec.Struct]], ...],
    given: tuple[tuple[str, type, Option], ...],
) -> Mapping[str, msgspec.Struct]:
    known = dict(sections)
    nested: dict[str, dict[str, Any]] = {}
    for name, _, value in given:
        section, _, rest = name.partition(".")
        field, _, key = rest.partition(".")
        if section not in known or field not in _fields(known[section]):
            raise unknown_name("scheduler option", name, _names(known))
        table = nested.setdefault(section, {})
        if key:
            table.setdefault(field, {})[key] = value
        else:
            table[field] = value
    # A section's name, which errors give, may be no name in Python.
    fields = {f"section_{number}": section for number, section in enumerate(known)}
    kinds = list(zip(fields, known.values(), strict=True))
    every = msgspec.defstruct("Options", kinds, rename=fields)
    made = build({section: nested.get(section, {}) for section in known}, every, recipe)
    return dict(zip(known, msgspec.structs.astuple(made), strict=True))


@functools.cache  # msgspec evaluates the annotations of all fields
def _fields(config: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple([field.name for field in msgspec.structs.fields(config)])


def _names(sections: Mapping[str, type[msgspec.Struct]]) -> list[str]:
    found: Iterable[str] = (f"{s}.{f}" for s, config in sections.items() for f in _fields(config))
    return sorted(found)


#: The prefix of these settings.
LINKS = "links"


class LinksConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "links.*" of every scheduler that uses the network: how it observes links.

    They are looked at every ``period_s``; those that have changed are reported to the core
    (``LinksObserved``).
    """

    period_s: float = 1.0  #: between two looks at the links
    #: what is free of a link has changed once it differs by more than this share of the capacity
    change: float = 0.05

    def __post_init__(self) -> None:
        right = "seconds from 0.05 to 3600"
        require(0.05 <= self.period_s <= 3600, f"{LINKS}.period_s", self.period_s, right)
        require(0 <= self.change <= 1, f"{LINKS}.change", self.change, "a share in [0, 1]")
