"""``railyard status``: daemons, nodes, jobs and files of the cluster that is up."""

from __future__ import annotations

import functools
from typing import Any

import click
from rich.box import SIMPLE
from rich.table import Table

from railyard.cluster.errors import PeerLost, Refused
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.transport import Describe, Description
from railyard.cluster.shown import printable
from railyard.cluster.units import format_count, format_duration, format_size
from railyard.dfs.client import DfsClient
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from railyard.scripts.clusters.launch import daemons_of
from railyard.scripts.clusters.session import Session, running_session
from railyard.scripts.terminal.tables import cell, plain_console

_ANSWER_TIMEOUT_S = 3.0


@click.command()
def status() -> None:
    """Show the cluster that is up: daemons, nodes, slots, jobs, files, refused messages."""
    with running_session() as session:
        console = plain_console(highlight=False)
        rows, deaths = daemons_of(session.folder), session.folder.deaths()
        dead = {row["pid"] for row in deaths}
        described = _describe_all(session, [row["name"] for row in rows if row["pid"] not in dead])
        cluster = _ask_manager(session) if "resourcemanager" in described else None
        console.print(_headline(session, cluster), markup=False)
        console.print(_daemons(rows, deaths, described))
        if cluster is not None:
            console.print(_nodes(cluster))
            if cluster.jobs:
                console.print(_jobs(cluster))
        if "namenode" in described:
            console.print(_files(session), markup=False)


def _ask_manager(session: Session) -> ClusterStatus:
    return session.link("resourcemanager").call(GetClusterStatus(), ClusterStatus)


def _headline(session: Session, cluster: ClusterStatus | None) -> str:
    if cluster is None:
        name = session.config.topology.name
        folder = printable(str(session.folder.path))
        return f"{name}: the ResourceManager does not answer\nrun folder {folder}"
    slots = sum(node.slots for node in cluster.nodes if node.alive)
    busy = sum(len(node.attempts) for node in cluster.nodes)
    return (
        f"{cluster.topology}: scheduler {cluster.scheduler}, flows {cluster.flow_scheduler}, "
        f"up for {format_duration(cluster.now_s)}, {busy} of {slots} slots busy\n"
        f"run folder {printable(str(session.folder.path))}"
    )


def _daemons(
    rows: list[dict[str, Any]], deaths: list[dict[str, Any]], described: dict[str, Description]
) -> Table:
    table = Table("daemon", "process", "messages", "refused", "", box=SIMPLE)
    for row in rows:
        name = row["name"]
        answer = described.get(name)
        counts = ("", "") if answer is None else (str(answer.requests), str(answer.refused))
        state = _state(answer, [death for death in deaths if death["name"] == name], row["pid"])
        table.add_row(name, str(row["pid"]), *counts, state)
    return table


def _state(answer: Description | None, deaths: list[dict[str, Any]], pid: int) -> str:
    """The state of a daemon that runs, or ran last, as process ``pid``."""
    if deaths and deaths[-1]["pid"] == pid:
        return f"[red]died: {deaths[-1]['how']}; {deaths[-1]['next']}[/]"
    if answer is None:
        return "[red]does not answer[/]"
    said = []
    if answer.unreachable:
        said.append(f"[red]waits for a connection to {', '.join(answer.unreachable)}[/]")
    if deaths:
        said.append(f"started again; died {format_count(len(deaths), 'time')}: {deaths[-1]['how']}")
    return "; ".join(said)


def _describe_all(session: Session, names: list[str]) -> dict[str, Description]:
    """The daemons' descriptions of themselves, of those that answer in time."""
    answers: dict[str, Any] = {}
    links: list[Link] = []
    for name in names:
        links.append(session.transport.link(name))
        links[-1].request(Describe(), Description, functools.partial(_note, answers, name))
    session.reactor.run_until(lambda: len(answers) == len(names), _ANSWER_TIMEOUT_S)
    for link in links:
        link.close()
    return {n: a for n, a in answers.items() if isinstance(a, Description)}


def _note(answers: dict[str, Any], name: str, answer: object, _payload: object) -> None:
    answers[name] = answer


def _nodes(cluster: ClusterStatus) -> Table:
    table = Table("rack", "nodes", "slots", "running", box=SIMPLE)
    racks = sorted({node.rack for node in cluster.nodes}, key=lambda rack: int(rack[1:]))
    for rack in racks:
        nodes = [node for node in cluster.nodes if node.rack == rack]
        alive = [node for node in nodes if node.alive]
        lost = [f"{node.node} lost: {node.lost_because}" for node in nodes if not node.alive]
        running = " ".join(attempt for node in alive for attempt in node.attempts)
        waiting = [f"{each} waits for a slot" for node in alive for each in node.reserved]
        table.add_row(
            rack,
            str(len(alive)),
            str(sum(node.slots for node in alive)),
            cell("  ".join([running, *waiting, *lost]).strip()),
        )
    return table


def _jobs(cluster: ClusterStatus) -> Table:
    table = Table("job", "name", "user", "queue", "state", "done", "time", "", box=SIMPLE)
    for job in cluster.jobs:
        end_s = cluster.now_s if job.finished_s is None else job.finished_s
        table.add_row(
            job.job,
            cell(job.name),
            cell(job.user),
            cell(job.queue),
            job.state,
            f"{job.progress:.0%}",
            format_duration(end_s - job.submitted_s),
            cell(job.waiting),
        )
    return table


def _files(session: Session) -> str:
    try:
        store = DfsClient(session.transport, session.config.topology, node=None, network=None)
        usage = store.usage("/")
    except (PeerLost, Refused) as error:
        return f"block store: {error}"
    scale = session.config.topology.scale
    return (
        f"block store: {format_count(usage.files, 'file')} in "
        f"{format_count(usage.blocks, 'block')}, "
        f"{format_size(usage.stored_bytes * scale)} "
        f"({format_size(usage.stored_bytes)} real, {format_size(usage.stored_disk_bytes)} on disk)"
    )
