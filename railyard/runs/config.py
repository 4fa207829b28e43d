"""A cluster's configuration, of names and settings as people type them, which are checked here.

A scheduler is typed with its flow scheduler, "delay + sjf".  Without "+ sjf" it is the one of
--flow-scheduler, or else the one that the recipe names.  The plus has spaces around it, since names
may have one: "aalo+weighted".

A workload's "grain=12" merges twelve tasks into one; the topology becomes as coarse.  A rack keeps
its slots x rate, its NICs and its link to the core: it has fewer and larger machines, each with
fewer and faster slots.  See ``jobs.workloads.model`` for the tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeVar

from railyard.cluster.config import ClusterConfig, Restart, TransportKind
from railyard.cluster.errors import UsageError, printable, require_once, unknown_name
from railyard.cluster.files import Durability
from railyard.cluster.topology import Topology, load_topology
from railyard.cluster.topologyfile import SHORT, split_changes
from railyard.cluster.units import format_count
from railyard.netemu.schedulers import flow_scheduler, flow_schedulers
from railyard.netemu.schedulers.base import Serves
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.interface.policies import FlowPolicy
from railyard.resourcemanager.interface.recipe import Option, Recipe, option_names
from railyard.resourcemanager.schedulers import all_recipes, recipe_named
from railyard.terminal.notices import notice
from railyard.terminal.options import Settings, TextPairs

V = TypeVar("V")
#: Schedulers that an error names as those with a setting.
_OWNERS_MAX = 3
_PLUS = re.compile(r"\s\+(?:\s|$)|^\+\s")


class Pair(NamedTuple):
    """A scheduler and a flow scheduler, both of which exist."""

    scheduler: str
    flow_scheduler: str

    def __str__(self) -> str:
        return f"{self.scheduler} + {self.flow_scheduler}"


def pairs_of(texts: Iterable[str], flows: Sequence[str] = ()) -> list[Pair]:
    """Each scheduler with its flow scheduler, or with each of ``flows``, or with its recipe's own.

    Raises ``UsageError`` for names that do not exist, for a scheduler with two flow schedulers, and
    for a pair that is given twice.
    """
    typed = [typed_pair(text) for text in texts]
    if flows and typed and all(own is not None for _, own in typed):
        [(scheduler, own), *_] = typed
        right = "need one of the two"
        raise UsageError(f'--flow-scheduler {flows[0]}: "{scheduler} + {own}" has one: {right}')
    pairs = [
        Pair(scheduler, flow_scheduler(name).name)
        for scheduler, own in typed
        for name in ([own] if own is not None else flows or [_own_of(scheduler)])
    ]
    require_once(map(str, pairs))
    return pairs


def typed_pair(text: str) -> tuple[str, str | None]:
    """A scheduler's name, and that of the flow scheduler if there is one; ``UsageError``."""
    parts = [part.strip() for part in _PLUS.split(text, maxsplit=1)]
    if not all(parts):
        raise UsageError(f'{printable(text)!r}: need "SCHEDULER" or "SCHEDULER + FLOW SCHEDULER"')
    scheduler, flows = parts[0], parts[1] if len(parts) > 1 else None
    try:
        found = recipe_named(scheduler)
    except UsageError:
        _require_no_slip(scheduler)
        raise
    return found.name, None if flows is None else flow_scheduler(flows).name


def _require_no_slip(name: str) -> None:
    """Raise ``UsageError`` for mistakes that a list of all schedulers would not explain."""
    schedulers, flows = all_recipes(), flow_schedulers()
    if name in flows:
        right = f'need a scheduler before it, such as "fair + {name}"'
        raise UsageError(f"{name}: is a flow scheduler: {right}")
    for plus in re.finditer(r"\s*\+\s*", name):
        first, second = name[: plus.start()], name[plus.end() :]
        if first in schedulers and second in flows:
            raise UsageError(f'{name}: need spaces around the plus: "{first} + {second}"')


def _own_of(scheduler: str) -> str:
    """The flow scheduler that a recipe names; ``UsageError`` if it does not exist."""
    name = recipe_named(scheduler).flow_scheduler
    if name not in flow_schedulers():
        right = "need another one, by --flow-scheduler"
        raise UsageError(f"{scheduler}: goes with flow scheduler {name}, which is missing: {right}")
    return name


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
    # Makes the policies, which refuse what they cannot work with.
    ClusterState(topology, recipe, config.scheduler_options, seed)
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
        has_priorities = recipe_named(pair.scheduler).flows.priority is not FlowPolicy.priority
        if has_priorities and pair.flow_scheduler not in knows:
            right = f"they count for nothing; --flow-scheduler {knows[0]} serves by them"
            notice(f"{pair}: flows have priorities, {pair.flow_scheduler} none: {right}")


def _sections(recipe: Recipe) -> set[str]:
    return {name.partition(".")[0] for name in option_names(recipe)}


#: Whoever changes any of these has made the topology as coarse as it should be.
_OWN = ("racks.nodes", "racks.slots", "links.nic", "storage.block", "compute.", "rack.")


def grain_of(workload: str) -> int:
    """How many tasks of a workload are merged into one; 1 = none are."""
    text = dict(split_changes(workload)[1]).get("grain", "1")
    return int(text) if text.isdecimal() else 1


def coarse_network(
    topology: Topology, tasks: int, machines: int, rate_bytes_per_s: float | None = None
) -> TextPairs:
    """The settings of a topology in which so many machines of a rack are one, and tasks, too.

    ``rate_bytes_per_s``: of a slot before that; None = the topology's.
    """
    racks, compute = topology.racks, topology.compute
    rates = rate_bytes_per_s or compute.map_rate, rate_bytes_per_s or compute.reduce_rate
    return (
        ("racks.nodes", str(racks.nodes // machines)),
        ("racks.slots", str(racks.slots * machines // tasks)),
        ("links.nic", _rate(topology.links.nic * machines)),
        ("storage.block", f"{topology.storage.block * tasks}B"),
        ("compute.map_rate", _rate(rates[0] * tasks)),
        ("compute.reduce_rate", _rate(rates[1] * tasks)),
    )


def topology_for(workload: str, name: str, network: TextPairs) -> Topology:
    """A topology with its changes, as coarse as the workload; says so on standard error.

    It stays as it is if the changes say how large machines and slots are, if racks differ, and if
    slots of whole machines can't be merged.
    """
    topology, tasks = load_topology(name, network), grain_of(workload)
    changed = [SHORT.get(key, key) for key, _ in network]
    if tasks == 1 or any(key.startswith(_OWN) for key in changed):
        return topology
    machines = _machines(topology, tasks)
    if machines is None:
        said = f"{topology.name} has no racks of machines whose slots can be merged so: kept as is"
        notice(f"grain={tasks}: {said}")
        return topology
    made = load_topology(name, (*coarse_network(topology, tasks, machines), *network))
    racks, before = made.racks, topology.racks
    slots = format_count(racks.slots, "slot")
    said = f"{racks.nodes} machines a rack with {slots} each, as fast together as "
    said += f"{before.nodes} with {before.slots}"
    notice(f"grain={tasks}: {tasks} tasks are one; {said}")
    return made


def _machines(topology: Topology, tasks: int) -> int | None:
    """The fewest machines of a rack whose slots are whole ones when tasks are merged."""
    racks = topology.racks
    if topology.rack or racks.reduce_slots:
        return None
    whole = (
        machines
        for machines in range(1, racks.nodes + 1)
        if racks.nodes % machines == 0 and racks.slots * machines % tasks == 0
    )
    return next(whole, None)


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s:.0f}B/s"
