"""``railyard nodes``, ``slots`` and ``network``: what the cluster that is up has."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from railyard.cluster.errors import Refused, UsageError, unknown_name
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import place_named
from railyard.cluster.units import (
    format_count,
    format_duration,
    format_rate,
    parse_rate,
    rate_unit,
    whole_number,
)
from railyard.dfs.messages import GetSafeMode, SafeModeStatus
from railyard.netemu.messages import NetworkView, SetCapacity, WatchNetwork
from railyard.netemu.model.network import Network
from railyard.resourcemanager.process.messages import (
    ActivateNode,
    DrainNode,
    NodeStatus,
    SetSlots,
)
from railyard.runs.session import Session, running_session
from railyard.terminal.options import Commands

if TYPE_CHECKING:
    from railyard.terminal.tables import Cell


_POLL_S = 0.2  #: how often ``--wait`` asks
#: A number of slots or a capacity that means: as the topology states it.
_DEFAULT = "default"
_SLOTS_MAX = 2**16  #: of a node
#: Nothing is nothing in whatever unit.
_ZERO = {"0": "0bps"}


@click.group(cls=Commands, invoke_without_command=True)
@click.pass_context
def nodes(context: click.Context) -> None:
    """See the nodes of the cluster that is up, and drain some or take them back."""
    if context.invoked_subcommand is None:
        _show()


@nodes.command()
@click.argument("names", metavar="NODE...", nargs=-1, required=True)
@click.option("--now", is_flag=True, help="Kill what runs there; it is run again elsewhere.")
@click.option("--wait", is_flag=True, help="Return once they are drained.")
def drain(names: tuple[str, ...], now: bool, wait: bool) -> None:
    """Take nodes (r3n1) out of use while jobs run.

    A node that is drained gets no new attempts.  What runs there ends as usual, its map output is
    served until the jobs that may need it have ended, and its blocks are copied elsewhere first.
    """
    with running_session() as session:
        chosen = _named(names, session.config.topology)
        safe_mode = session.link("namenode").ask(GetSafeMode(), SafeModeStatus)
        if safe_mode.on and not safe_mode.by_hand:  # which is refused at once
            click.echo("the NameNode is in safe mode: it drains nodes once that is over", err=True)
        for node in chosen:
            _ask(session, DrainNode(node=node, now=now))
        while wait and any(each.drain == "draining" for each in _of(session, chosen)):
            session.reactor.run_until(lambda: False, _POLL_S)
        _print_states(session, chosen)


@nodes.command()
@click.argument("names", metavar="NODE...", nargs=-1, required=True)
def activate(names: tuple[str, ...]) -> None:
    """Take nodes back that are, or are being, drained."""
    with running_session() as session:
        chosen = _named(names, session.config.topology)
        for node in chosen:
            _ask(session, ActivateNode(node=node))
        _print_states(session, chosen)


def _show() -> None:
    from railyard.terminal.tables import Column, plain_console, plain_numbers, show_table

    with running_session() as session:
        status = session.status()
        numbers_of = {node.id: n for n, node in enumerate(session.config.topology.nodes())}
    table: list[list[Cell]] = [
        [each.node, each.rack, each.slots, len(each.attempts) if each.alive else "", _state(each)]
        for each in sorted(status.nodes, key=lambda each: numbers_of[each.node])
    ]
    numbers = [Column(heading, plain_numbers) for heading in ("slots", "held")]
    show_table(
        plain_console(highlight=False),
        [Column("node"), Column("rack"), *numbers, Column("state")],
        table,
    )


def _state(node: NodeStatus) -> str:
    if not node.alive:
        return f"lost: {node.lost_because}"
    if node.drain == "draining":
        return f"draining: {node.left} left"
    return node.drain or "active"


def _ask(session: Session, message: DrainNode | ActivateNode) -> None:
    try:
        session.link("resourcemanager").ask(message, Done)
    except Refused as refused:
        raise UsageError(str(refused)) from None


def _of(session: Session, chosen: list[NodeId]) -> list[NodeStatus]:
    known = {each.node: each for each in session.status().nodes}
    return [known[node] for node in chosen if node in known]


def _print_states(session: Session, chosen: list[NodeId]) -> None:
    for each in _of(session, chosen):
        click.echo(f"{each.node} is {_state(each)}")


@click.group(cls=Commands)
def slots() -> None:
    """See and change the slots of the cluster that is up."""


@slots.command("set", context_settings={"ignore_unknown_options": True})  # -1 is none
@click.argument("nodes", metavar="NODE|RACK...", nargs=-1, required=True)
@click.argument("number")
def set_slots(nodes: tuple[str, ...], number: str) -> None:
    """Give nodes another number of slots each from now on, while jobs run.

    NODE is as r3n0, RACK as r3 or its site's name (all of its nodes); NUMBER as 2, 0 (no more
    tasks), or default (as the topology states it).  What runs there runs on: with more attempts
    than slots, a slot is free once enough of them have ended.
    """
    with running_session() as session:
        stated = _stated(session.config.topology)
        chosen = _named(nodes, session.config.topology, with_racks=True)
        wanted = None if number == _DEFAULT else _number(number)
        manager = session.link("resourcemanager")
        for node in chosen:
            count = stated[node] if wanted is None else wanted
            manager.ask(SetSlots(node=node, slots=count), Done)
            click.echo(f"{node} has {format_count(count, 'slot')}, stated {stated[node]}")


@slots.command("show")
def show_slots() -> None:
    """Show each node's slots, and how many of them attempts hold."""
    from railyard.terminal.tables import Column, plain_console, plain_numbers, show_table

    with running_session() as session:
        status = session.status()
        stated = _stated(session.config.topology)
    table: list[list[Cell]] = []
    known = {node.node: node for node in status.nodes}
    for name, if_stated in stated.items():
        node = known.get(name)
        if node is None:
            table.append([name, "", if_stated, "", "has not joined"])
            continue
        changed = "" if node.slots == if_stated else if_stated
        held = len(node.attempts) if node.alive else ""
        table.append([name, node.slots, changed, held, "" if node.alive else "lost"])
    numbers = [Column(heading, plain_numbers) for heading in ("slots", "stated", "held")]
    columns = [Column("node"), *numbers, Column("state")]
    show_table(plain_console(highlight=False), columns, table)


def _stated(topology: Topology) -> dict[NodeId, int]:
    return {node.id: node.slots for node in topology.nodes()}


def _named(words: Iterable[str], topology: Topology, *, with_racks: bool = False) -> list[NodeId]:
    """The nodes that are named, or their racks, each once; ``UsageError``."""
    known = {str(node.id): [node.id] for node in topology.nodes()}
    if with_racks:
        racks = {str(rack.id): [node.id for node in rack.nodes] for rack in topology.rack_list()}
        known = racks | known
        words = [place_named(word, topology.places()) for word in words]
    for word in words:
        if word not in known:
            raise unknown_name("node or rack" if with_racks else "node", word, known)
    return list(dict.fromkeys(node for word in words for node in known[word]))


def _number(text: str) -> int:
    number = whole_number(text)
    if number is None or number > _SLOTS_MAX:
        right = f"a whole number up to {_SLOTS_MAX}, or {_DEFAULT}"
        raise UsageError(f"slots {text}: need {right}")
    return number


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


@network.command("show")
@click.option("--all", "with_nics", is_flag=True, help="The nodes' NICs too.")
def show_links(with_nics: bool) -> None:
    """Show each link's capacity and what flows use of it now, and the circuits that there are."""
    from railyard.terminal.tables import Column, plain_console, show_table

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
