"""``railyard schedulers``, ``topologies`` and ``workloads``: what there is to choose from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import click

from railyard.cluster.errors import printable
from railyard.cluster.topology import Topology, load_topology, topology_names
from railyard.cluster.units import (
    format_duration,
    format_number,
    format_rate,
    format_share,
    format_size,
    rate_unit,
)
from railyard.runs.traces import fetch
from railyard.terminal.options import SEED, Command, Commands
from railyard.terminal.tables import Cell, Column, plain_console, plain_numbers, show_table, wrapped

if TYPE_CHECKING:
    from railyard.jobs.workloads.model import Statistic


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--settings", is_flag=True, help="Each setting with its default and what it does.")
def schedulers(names: tuple[str, ...], settings: bool) -> None:
    """List the schedulers with the papers that they come from, and what can be set.

    With NAMEs only these.
    """
    from railyard.api.listings import settings_of_recipe
    from railyard.netemu.schedulers import flow_schedulers
    from railyard.resourcemanager.interface.recipe import Recipe, option_names
    from railyard.resourcemanager.schedulers import all_recipes, recipe_named

    known, usual = all_recipes(), Recipe.flow_scheduler
    for name in names or sorted(known):
        recipe = recipe_named(name)
        click.echo(f"{name}\n{wrapped(recipe.source, 4)}")
        if settings:
            for setting in settings_of_recipe(recipe):
                click.echo(f"    {setting.name}={setting.default}\n{wrapped(setting.meaning, 8)}")
        elif options := option_names(recipe):
            click.echo(wrapped(f"--set {', '.join(options)}", 4))
        if recipe.flow_scheduler != usual:
            click.echo(f"    goes with the flow scheduler {recipe.flow_scheduler}")
    if not names:
        click.echo()
        click.echo(wrapped(f"flow schedulers: {', '.join(sorted(flow_schedulers()))}"))
        said = f"it is {usual}, unless it says above what goes with it."
        click.echo(wrapped(f"Without --flow-scheduler {said}"))


@click.command(cls=Command)
@click.argument("names", nargs=-1, metavar="[NAME]...")
def topologies(names: tuple[str, ...]) -> None:
    """List the topologies that come with Railyard; a .toml file of your own works too.

    With NAMEs, or files, only these, with each of their racks or sites.
    """
    for name in names or topology_names():
        topology = load_topology(name)
        figures = f"{_shape(topology)}; {_core(topology)}; scale {topology.scale}"
        click.echo(name)
        for text in filter(None, (topology.description, figures, topology.source)):
            click.echo(wrapped(text, 4))
        if names:
            _show_racks(topology)


def _show_racks(topology: Topology) -> None:
    """A row for each rack, or for each group of racks one after the other that are alike."""
    rows: list[list[Cell]] = []
    first: dict[int, str] = {}
    for rack in topology.rack_list():
        slots = [node.slots for node in rack.nodes]
        rates: list[Cell] = [
            rate if math.isfinite(rate) else "unlimited"
            for rate in (rack.uplink_bytes_per_s, rack.downlink_bytes_per_s)
        ]
        site = rack.name if rack.name != rack.id else ""
        row: list[Cell] = [rack.id, site, len(rack.nodes), _range(slots), *rates]
        if rows and rows[-1][1:] == row[1:]:
            start = first.setdefault(len(rows), str(rows[-1][0]))
            rows[-1][0] = f"{start} to {rack.id}"
        else:
            rows.append(row)
    finite = [rate for row in rows for rate in row[4:] if isinstance(rate, float)]
    unit = rate_unit(max(finite, default=0.0))
    about = [Column("rack"), Column("site", rank=1), Column("nodes", plain_numbers)]
    links = [Column(heading, lambda _: unit) for heading in ("up", "down")]
    show_table(plain_console(highlight=False), [*about, Column("slots a node"), *links], rows)


def _shape(topology: Topology) -> str:
    racks = topology.rack_list()
    nodes = _range([len(rack.nodes) for rack in racks])
    slots = _range([node.slots for node in topology.nodes()])
    unit = "sites" if topology.links.way == "wan" else "racks"
    return f"{len(racks)} {unit} x {nodes} nodes x {slots} slots"


def _core(topology: Topology) -> str:
    words = [f"NIC {format_rate(topology.links.nic)}"]
    tree, ocs, background = topology.tree, topology.ocs, topology.links.background
    if tree is not None:
        rates = (tree.tor, tree.aggregation, tree.root)
        words.append(f"switches {' / '.join(format_rate(rate) for rate in rates)}")
    else:
        racks = topology.rack_list()
        up = [rack.uplink_bytes_per_s for rack in racks]
        down = [rack.downlink_bytes_per_s for rack in racks]
        words.append(f"uplink {_range(up, format_rate)}")
        if up != down:
            words.append(f"downlink {_range(down, format_rate)}")
    if background:
        words.append(f"{format_share(background)} of the core already taken off for other traffic")
    if ocs is not None:
        waves = f" x {ocs.wavelengths} wavelengths" if ocs.wavelengths > 1 else ""
        words.append(
            f"circuits {format_rate(ocs.port_bytes_per_s)}{waves}, set up in "
            f"{format_duration(ocs.delta_s)}, from {format_size(ocs.elephant_bytes)} on"
        )
    return ", ".join(words)


def _range(values: Sequence[float], words_of: Callable[[float], str] = str) -> str:
    least, most = words_of(min(values)), words_of(max(values))
    return least if least == most else f"{least} to {most}"


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
def workloads(context: click.Context) -> None:
    """List the workloads that simulate can run, and the papers or projects they come from.

    Options follow the name: corral-w1,jobs=100,window=60min.  All workloads have skew=1.2 (inputs
    spread over the racks by Zipf's law) and skew_ratio=8 (most / least); see docs/workloads.md.
    """
    if context.invoked_subcommand is not None:
        return
    from railyard.jobs.workloads.catalog import FAMILIES

    for name, family in FAMILIES.items():
        click.echo(f"{name}:{family.file}" if family.file else name)
        for text in (family.about, family.source, ", ".join(family.defaults())):
            click.echo(wrapped(text, 4))


workloads.add_command(fetch)


@workloads.command()
@click.argument("name", metavar="NAME[:FILE][,KEY=VALUE...]")
@click.option("--seed", type=SEED, default=1, help="Default: 1.")
def show(name: str, seed: int) -> None:
    """Show the statistics of a workload, next to the published ones."""
    from railyard.jobs.workloads.catalog import FAMILIES, workload
    from railyard.jobs.workloads.statistics import general

    made = workload(name, seed)
    console = plain_console(highlight=False)
    click.echo(printable(f"{made.name}, seed {seed}"))
    click.echo(f"{FAMILIES[name.partition(',')[0].partition(':')[0]].source}\n")
    rows: list[list[Cell]] = [
        [statistic.name, _value(statistic.measured, statistic.unit), *_published(statistic)]
        for statistic in made.statistics
    ]
    columns = [Column(""), Column("here", plain_numbers), Column("published", plain_numbers)]
    if rows:
        show_table(console, [*columns, Column("source")], rows)
        click.echo()
    named = {statistic.name for statistic in made.statistics}
    rows = [
        [statistic.name, _value(statistic.measured, statistic.unit)]
        for statistic in general(made.jobs)
        if statistic.name not in named
    ]
    show_table(console, columns[:2], rows)


def _published(statistic: Statistic) -> tuple[str, str]:
    """The published number and its source, or by how much it is missed."""
    if statistic.published is None:
        return "", statistic.note
    least, most = (_value(value, statistic.unit) for value in statistic.published)
    words = least if least == most else f"{least} to {most}"
    if statistic.holds:
        return words, statistic.note
    by = f" by more than {format_share(statistic.tolerance)}" if statistic.tolerance else ""
    return words, f"missed{by}; {statistic.note}"


def _value(value: float, unit: str) -> str:
    shows = {"bytes": format_size, "s": format_duration, "share": format_share}
    return shows.get(unit, format_number)(value)
