"""Makes a cluster's configuration of names and settings, and checks that these exist."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from railyard.cluster.config import ClusterConfig, Restart, TransportKind
from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.files.lasting import Durability
from railyard.cluster.topology import Topology
from railyard.netemu.schedulers import flow_schedulers
from railyard.netemu.schedulers.base import Serves
from railyard.resourcemanager.driving.makecore import core_for
from railyard.resourcemanager.interface.recipe import Option, Recipe, option_names
from railyard.resourcemanager.schedulers import all_recipes, recipe_named
from railyard.scripts.clusters.pairs import Pair
from railyard.scripts.terminal.notices import notice
from railyard.scripts.terminal.options import Settings

V = TypeVar("V")
#: Schedulers that an error names as those with a setting.
_OWNERS_MAX = 3


def cluster_config(
    topology: Topology,
    *,
    pair: Pair,
    options: Settings = (),
    seed: int = 1,
    transport: TransportKind = "ipc",
    durability: Durability | None = None,
    restart: Restart | None = None,
) -> ClusterConfig:
    """A cluster's configuration.

    Raises ``UsageError`` for settings that do not exist, and for what the scheduler cannot work
    with, such as racks that differ or a plan that cannot be read: before a process is started.
    """
    recipe = recipe_named(pair.scheduler)
    for key, _ in options:
        if key not in option_names(recipe):
            _require_nobodys(key, recipe.name)
    config = ClusterConfig(
        topology=topology,
        scheduler=recipe.name,
        flow_scheduler=pair.flow_scheduler,
        seed=seed,
        transport=transport,
        durability=durability or "safe",
        restart=restart or "on-failure",
        scheduler_options=_settings_of(topology, recipe) | dict(options),
    )
    core_for(config)  # makes the policies, which refuse what they cannot work with
    return config


def _settings_of(topology: Topology, recipe: Recipe) -> dict[str, Option]:
    """The cluster's own settings, as far as a scheduler has them and no values for them.

    Raises ``UsageError`` for one that no scheduler has.
    """
    own = option_names(recipe)
    if not all(name in own for name in topology.settings):
        every = {name for each in all_recipes().values() for name in option_names(each)}
        for name in topology.settings:
            if name not in every:
                raise unknown_name(f"setting of {topology.name}", name, sorted(every))
    return {
        name: value
        for name, value in topology.settings.items()
        if name in own and name not in recipe.settings
    }


def own_options(scheduler: str, options: Sequence[tuple[str, V]]) -> tuple[tuple[str, V], ...]:
    """The settings that belong to this scheduler."""
    own = _sections(recipe_named(scheduler))
    return tuple((key, value) for key, value in options if key.partition(".")[0] in own)


def require_known_options(schedulers: Iterable[str], options: Iterable[tuple[str, object]]) -> None:
    """Raise ``UsageError`` for a setting that none of these schedulers has."""
    recipes = [recipe_named(name) for name in schedulers]
    known = {section for recipe in recipes for section in _sections(recipe)}
    for key, _ in options:
        if key.partition(".")[0] not in known:
            _require_nobodys(key, " nor ".join(dict.fromkeys(recipe.name for recipe in recipes)))
            names = [name for recipe in recipes for name in option_names(recipe)]
            raise unknown_name("setting of these schedulers", key, names)


def _require_nobodys(key: str, asked: str) -> None:
    """Raise ``UsageError`` if a setting that ``asked`` has not is another scheduler's."""
    section = key.partition(".")[0]
    owners = [name for name, each in all_recipes().items() if key in option_names(each)]
    if owners:
        owners.sort(key=lambda name: (name != section, "+" in name or ":" in name))
        more = f" (and {len(owners) - _OWNERS_MAX} more)" if len(owners) > _OWNERS_MAX else ""
        whose = f"{', '.join(owners[:_OWNERS_MAX])}{more}"
        right = f"one of {asked}'s (railyard schedulers --settings), or --scheduler {owners[0]}"
        raise UsageError(f"{key}: is a setting of {whose}, not of {asked}: need {right}")


def warn_of_missing_circuits(topology: Topology, names: Iterable[str]) -> None:
    """Say so if a flow scheduler uses circuits and the topology has none."""
    kinds = flow_schedulers()
    for name in names:
        if kinds[name].circuit_policy is not None and topology.ocs is None:
            right = "all goes by packets; --network ocs.port_bytes_per_s=100Gbps adds one"
            notice(f"{name}: {topology.name} has no optical switch: {right}")


def warn_of_idle_priorities(pairs: Iterable[Pair]) -> None:
    """Say so if a scheduler gives priorities to a flow scheduler without any."""
    kinds = flow_schedulers()
    for pair in pairs:
        knows = [name for name, kind in kinds.items() if kind.serves is Serves.PRIORITIES]
        if recipe_named(pair.scheduler).has_priorities and pair.flow_scheduler not in knows:
            right = f"they count for nothing; --flow-scheduler {knows[0]} serves by them"
            notice(f"{pair}: flows have priorities, {pair.flow_scheduler} none: {right}")


def _sections(recipe: Recipe) -> set[str]:
    return {name.partition(".")[0] for name in option_names(recipe)}
