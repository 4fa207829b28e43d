"""``railyard nodes``: the nodes of the cluster that is up, and taking some out of use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from railyard.cluster.errors import Refused, UsageError, unknown_name
from railyard.cluster.ids import NodeId
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topology import Topology
from railyard.dfs.messages.files import GetSafeMode, SafeModeStatus
from railyard.resourcemanager.process.messages import (
    ActivateNode,
    ClusterStatus,
    DrainNode,
    GetClusterStatus,
    NodeStatus,
)
from railyard.scripts.clusters.session import running_session
from railyard.scripts.terminal.request import Commands

if TYPE_CHECKING:
    from railyard.scripts.terminal.tables import Cell

_LOOK_S = 0.2  #: how often ``--wait`` looks


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
        manager = session.link("resourcemanager")
        chosen = _chosen(names, session.config.topology)
        safe_mode = session.link("namenode").ask(GetSafeMode(), SafeModeStatus)
        if safe_mode.on and not safe_mode.by_hand:  # which is refused at once
            click.echo("the NameNode is in safe mode: it drains nodes once that is over", err=True)
        for node in chosen:
            _ask(manager, DrainNode(node=node, now=now))
        shown = _of(manager, chosen)
        while wait and any(each.drain == "draining" for each in shown):
            session.reactor.run_until(lambda: False, _LOOK_S)
            shown = _of(manager, chosen)
        for each in shown:
            click.echo(f"{each.node} is {_state(each)}")


@nodes.command()
@click.argument("names", metavar="NODE...", nargs=-1, required=True)
def activate(names: tuple[str, ...]) -> None:
    """Take nodes back that are, or are being, drained."""
    with running_session() as session:
        manager = session.link("resourcemanager")
        chosen = _chosen(names, session.config.topology)
        for node in chosen:
            _ask(manager, ActivateNode(node=node))
        for each in _of(manager, chosen):
            click.echo(f"{each.node} is {_state(each)}")


def _show() -> None:
    from railyard.scripts.terminal.tables import Column, plain_console, plain_numbers, show_table

    with running_session() as session:
        manager = session.link("resourcemanager")
        status = manager.ask(GetClusterStatus(), ClusterStatus)
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


def _ask(manager: LastingLink, message: DrainNode | ActivateNode) -> None:
    try:
        manager.ask(message, Done)
    except Refused as refused:
        raise UsageError(str(refused)) from None


def _of(manager: LastingLink, chosen: list[NodeId]) -> list[NodeStatus]:
    status = manager.ask(GetClusterStatus(), ClusterStatus)
    known = {each.node: each for each in status.nodes}
    return [known[node] for node in chosen if node in known]


def _chosen(names: tuple[str, ...], topology: Topology) -> list[NodeId]:
    """The nodes that are named, each once; ``UsageError``."""
    known = {str(node.id): node.id for node in topology.nodes()}
    for name in names:
        if name not in known:
            raise unknown_name("node", name, known)
    return [known[name] for name in dict.fromkeys(names)]
