"""``railyard network``: the links of the cluster that is up, and changing what they carry."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import click

from railyard.cluster.messaging.wire import Done
from railyard.cluster.units import format_count, format_duration, format_rate, parse_rate, rate_unit
from railyard.netemu.messages import NetworkView, SetCapacity, WatchNetwork
from railyard.netemu.model.network import Network
from railyard.scripts.clusters.session import running_session
from railyard.scripts.terminal.request import Commands

if TYPE_CHECKING:
    from railyard.scripts.terminal.tables import Cell

#: A capacity that means: as the topology states it.
_DEFAULT = "default"
#: Nothing is nothing in whatever unit.
_ZERO = {"0": "0bps"}


@click.group(cls=Commands)
def network() -> None:
    """See and change the links of the cluster that is up."""


@network.command("set")
@click.argument("link")
@click.argument("rate")
def set_capacity(link: str, rate: str) -> None:
    """Give LINK another capacity from now on, while jobs run.

    LINK is as r3.up or r3.down (from and to a rack), Tokyo.up (of a site with a name), r3n1.up (a
    NIC), r3.ocs.up (an optical port), r3.tor, agg0, root: network show lists them.  RATE is as
    1Gbps, 0 (stops it), unlimited, or default (as the topology states it).
    """
    with running_session() as session:
        links = Network(session.config.topology)
        name = links.link_named(link)
        stated = float(links.capacities[links.number[name]])
        bytes_per_s = stated if rate == _DEFAULT else parse_rate(_ZERO.get(rate, rate), link)
        order = SetCapacity(link=name, bytes_per_s=bytes_per_s)
        session.link("network").ask(order, Done)
        click.echo(f"{name} carries {format_rate(bytes_per_s)}, stated {format_rate(stated)}")


@network.command()
@click.option("--all", "with_nics", is_flag=True, help="The nodes' NICs too.")
def show(with_nics: bool) -> None:
    """Show each link's capacity and what flows use of it now, and the circuits that there are."""
    from railyard.scripts.terminal.tables import Column, plain_console, show_table

    with running_session() as session:
        view = session.link("network").ask(WatchNetwork(), NetworkView)
        links = Network(session.config.topology)
    named = {rack: name for name, rack in session.config.topology.places().items() if name != rack}
    shown = links.number if with_nics else (*links.cross_rack, *links.ports, *links.clients)
    table: list[list[Cell]] = []
    for name in shown:
        state, stated = view.links[name], float(links.capacities[links.number[name]])
        capacity, free = state.capacity_bytes_per_s, state.free_bytes_per_s
        used = capacity - free if math.isfinite(capacity) else ""
        if_changed = "" if capacity == stated else _limit(stated)
        site = named.get(name.split(".")[0], "")
        table.append([name, site, _limit(capacity), if_changed, used, _limit(free)])
    console = plain_console(highlight=False)
    most = max(filter(math.isfinite, map(float, links.capacities)), default=0.0)
    unit = rate_unit(most)
    rates = [Column(heading, lambda _: unit) for heading in ("capacity", "stated", "used")]
    about = [Column("link"), Column("site", rank=2)]
    show_table(console, [*about, *rates, Column("free", lambda _: unit, rank=1)], table)
    if view.circuits:
        columns = [Column("circuit"), Column("coflow", rank=1), Column("state")]
        show_table(console, columns, _circuits(view))
    click.echo(f"{format_count(view.flows_open, 'flow')} open")


def _limit(bytes_per_s: float) -> Cell:
    """As a cell of a column of rates."""
    return bytes_per_s if math.isfinite(bytes_per_s) else "unlimited"


def _circuits(view: NetworkView) -> list[list[Cell]]:
    table: list[list[Cell]] = []
    for circuit in view.circuits:
        since_s = view.now_s - circuit.ready_s
        dark = f"dark for {format_duration(-since_s)} more"
        state = dark if since_s < 0 else f"lit for {format_duration(since_s)}"
        table.append([f"{circuit.src} to {circuit.dst}", circuit.coflow or "", state])
    return table
