"""``railyard slots``: the nodes' slots in the cluster that is up, and changing their number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topologies.linknames import place_named
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_count, whole_number
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus, SetSlots
from railyard.scripts.clusters.session import running_session
from railyard.scripts.terminal.request import Commands

if TYPE_CHECKING:
    from railyard.scripts.terminal.tables import Cell

#: A number of slots that means: as the topology states it.
_DEFAULT = "default"
#: Most slots of a node.
_SLOTS_MAX = 2**16


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
        chosen = _chosen(nodes, session.config.topology)
        wanted = None if number == _DEFAULT else _number(number)
        manager = session.link("resourcemanager")
        for node in chosen:
            count = stated[node] if wanted is None else wanted
            manager.ask(SetSlots(node=node, slots=count), Done)
            click.echo(f"{node} has {format_count(count, 'slot')}, stated {stated[node]}")


@slots.command()
def show() -> None:
    """Show each node's slots, and how many of them attempts hold."""
    from railyard.scripts.terminal.tables import Column, plain_console, plain_numbers, show_table

    with running_session() as session:
        status = session.link("resourcemanager").ask(GetClusterStatus(), ClusterStatus)
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


def _chosen(words: Iterable[str], topology: Topology) -> list[NodeId]:
    """The nodes that are named, by themselves or by their racks, each once; ``UsageError``."""
    known = {str(rack.id): [node.id for node in rack.nodes] for rack in topology.rack_list()}
    known |= {str(node.id): [node.id] for node in topology.nodes()}
    words = [place_named(word, topology.places()) for word in words]
    for word in words:
        if word not in known:
            raise unknown_name("node or rack", word, known)
    return list(dict.fromkeys(node for word in words for node in known[word]))


def _number(text: str) -> int:
    number = whole_number(text)
    if number is None or number > _SLOTS_MAX:
        right = f"a whole number up to {_SLOTS_MAX}, or {_DEFAULT}"
        raise UsageError(f"slots {text}: need {right}")
    return number
