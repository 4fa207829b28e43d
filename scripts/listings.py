"""``railyard schedulers`` and ``railyard topologies``: what there is to choose from."""

from __future__ import annotations

import click

from cluster.topology import load_topology, topology_names
from cluster.units import format_rate


@click.command()
def topologies() -> None:
    """List the topologies that come with Railyard; a .toml file of your own works too."""
    for name in topology_names():
        topology = load_topology(name)
        racks, links = topology.racks, topology.links
        click.echo(f"{name}\n    {topology.description}")
        click.echo(
            f"    {racks.count} racks x {racks.nodes} nodes x {racks.slots} slots; "
            f"NIC {format_rate(links.nic)}, uplink {format_rate(links.uplink)}; "
            f"scale {topology.scale}"
        )
        if topology.source:
            click.echo(f"    {topology.source}")


@click.command()
def schedulers() -> None:
    """List the schedulers with the papers that they come from, and what can be set."""
    from netemu.schedulers import FLOW_SCHEDULERS
    from resourcemanager.recipe import option_names
    from resourcemanager.schedulers import all_recipes

    for name, recipe in sorted(all_recipes().items()):
        click.echo(f"{name}\n    {recipe.source}")
        if options := option_names(recipe):
            click.echo(f"    --set {', '.join(options)}")
    click.echo(f"\nflow schedulers: {', '.join(sorted(FLOW_SCHEDULERS))}")
