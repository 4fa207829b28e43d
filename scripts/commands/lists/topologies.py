"""``railyard topologies``: the networks that come with Railyard."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import click

from railyard.cluster.topology import Topology, load_topology, topology_names
from railyard.cluster.units import (
    format_duration,
    format_rate,
    format_share,
    format_size,
    rate_unit,
)
from railyard.scripts.terminal.request import argument, command
from railyard.scripts.terminal.tables import (
    Cell,
    Column,
    plain_console,
    plain_numbers,
    show_table,
    wrapped,
)


@dataclass(frozen=True, kw_only=True)
class TopologiesRequest:
    """Arguments of ``railyard topologies``."""

    names: tuple[str, ...] = argument(nargs=-1, metavar="[NAME]...")


@command(TopologiesRequest)
def topologies(request: TopologiesRequest) -> None:
    """List the topologies that come with Railyard; a .toml file of your own works too.

    With NAMEs, or files, only these, with each of their racks or sites.
    """
    for name in request.names or topology_names():
        topology = load_topology(name)
        figures = f"{_shape(topology)}; {_core(topology)}; scale {topology.scale}"
        click.echo(name)
        for text in filter(None, (topology.description, figures, topology.source)):
            click.echo(wrapped(text, 4))
        if request.names:
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
