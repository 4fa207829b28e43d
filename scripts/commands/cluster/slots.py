"""``railyard slots``: the nodes' slots in the cluster that is up, and changing their number."""

from __future__ import annotations

import click

from railyard.cluster.errors import UsageError, unknown_name
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topology import Topology
from railyard.cluster.units import format_count, whole_number
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus, SetSlots
from railyard.scripts.clusters.session import running_session
from railyard.scripts.terminal.request import Commands

#: A number of slots that means: as the topology states it.
_DEFAULT = "default"
#: Most slots of a node.
_SLOTS_MAX = 2**16


@click.group(cls=Commands)
def slots() -> None:
    """See and change the slots of the cluster that is up."""


@slots.command("set")
@click.argument("node")
@click.argument("number")
def set_slots(node: str, number: str) -> None:
    """Give NODE another number of slots from now on, while jobs run.

    NODE is as r3n0; NUMBER as 2, 0 (it gets no more tasks), or default (as the topology states
    it).  What runs there runs on: with more attempts than slots, a slot is free once enough of
    them have ended.
    """
    with running_session() as session:
        stated = _stated(session.config.topology)
        name = NodeId(node)
        if name not in stated:
            raise unknown_name("node", node, stated)
        wanted = stated[name] if number == _DEFAULT else _number(number)
        session.link("resourcemanager").call(SetSlots(node=name, slots=wanted), Done)
        click.echo(f"{name} has {format_count(wanted, 'slot')}, stated {stated[name]}")


@slots.command()
def show() -> None:
    """Show each node's slots, and how many of them attempts hold."""
    from rich.box import SIMPLE
    from rich.table import Table

    from railyard.scripts.terminal.tables import plain_console

    with running_session() as session:
        status = session.link("resourcemanager").call(GetClusterStatus(), ClusterStatus)
        stated = _stated(session.config.topology)
    table = Table("node", "slots", "stated", "held", "", box=SIMPLE)
    known = {node.node: node for node in status.nodes}
    for name, if_stated in stated.items():
        node = known.get(name)
        if node is None:
            table.add_row(name, "", str(if_stated), "", "has not joined")
            continue
        changed = "" if node.slots == if_stated else str(if_stated)
        held = str(len(node.attempts)) if node.alive else ""
        table.add_row(name, str(node.slots), changed, held, "" if node.alive else "lost")
    plain_console(highlight=False).print(table)


def _stated(topology: Topology) -> dict[NodeId, int]:
    return {node.id: node.slots for node in topology.nodes()}


def _number(text: str) -> int:
    number = whole_number(text)
    if number is None or number > _SLOTS_MAX:
        right = f"a whole number up to {_SLOTS_MAX}, or {_DEFAULT}"
        raise UsageError(f"slots {text}: need {right}")
    return number
