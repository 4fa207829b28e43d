"""``railyard topologies``: the networks that come with Railyard."""

from __future__ import annotations

from collections.abc import Sequence

import click

from railyard.cluster.topology import Topology, load_topology, topology_names
from railyard.cluster.units import (
    format_duration,
    format_rate,
    format_share,
    format_size,
)
from railyard.scripts.terminal.tables import wrapped


@click.command()
def topologies() -> None:
    """List the topologies that come with Railyard; a .toml file of your own works too."""
    for name in topology_names():
        topology = load_topology(name)
        figures = f"{_shape(topology)}; {_core(topology)}; scale {topology.scale}"
        click.echo(name)
        for text in filter(None, (topology.description, figures, topology.source)):
            click.echo(wrapped(text, 4))


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
        words.append(f"uplink {_rates([rack.uplink_bytes_per_s for rack in racks])}")
        if any(rack.uplink_bytes_per_s != rack.downlink_bytes_per_s for rack in racks):
            words.append(f"downlink {_rates([rack.downlink_bytes_per_s for rack in racks])}")
    if background:
        words.append(f"{format_share(background)} of the core already taken off for other traffic")
    if ocs is not None:
        waves = f" x {ocs.wavelengths} wavelengths" if ocs.wavelengths > 1 else ""
        words.append(
            f"circuits {format_rate(ocs.port_bytes_per_s)}{waves}, set up in "
            f"{format_duration(ocs.delta_s)}, from {format_size(ocs.elephant_bytes)} on"
        )
    return ", ".join(words)


def _range(counts: Sequence[int]) -> str:
    least, most = min(counts), max(counts)
    return str(least) if least == most else f"{least} to {most}"


def _rates(rates: Sequence[float]) -> str:
    least, most = format_rate(min(rates)), format_rate(max(rates))
    return least if least == most else f"{least} to {most}"
