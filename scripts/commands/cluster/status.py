"""``railyard status``: daemons, nodes, jobs and files of the cluster that is up."""

from __future__ import annotations

import functools
from typing import Any

import click
from rich.text import Text

from railyard.cluster.errors import PeerLost, Refused
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.transport import Describe, Description
from railyard.cluster.shown import printable
from railyard.cluster.units import PERCENT, format_count, format_duration, format_size, time_unit
from railyard.dfs.client import DfsClient
from railyard.gateway.address import gateway_lines
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus
from railyard.scripts.clusters.launch import daemons_of
from railyard.scripts.clusters.session import Session, running_session
from railyard.scripts.terminal.tables import (
    Cell,
    Column,
    cell,
    plain_console,
    plain_numbers,
    show_table,
)

_ANSWER_TIMEOUT_S = 3.0

_DAEMONS = (
    Column("daemon"),
    Column("process", plain_numbers, rank=2),
    Column("messages", plain_numbers, rank=3),
    Column("refused", plain_numbers, rank=1),
    Column(""),
)
_RACKS = (
    Column("rack"),
    Column("nodes", plain_numbers, rank=1),
    Column("slots", plain_numbers),
    Column("running"),
)
_JOBS = (
    Column("job"),
    Column("name"),
    Column("user", rank=2),
    Column("queue", rank=3),
    Column("state"),
    Column("done", lambda _: PERCENT),
    Column("time", time_unit, rank=1),
    Column("why"),
)


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
        console.print()
        show_table(console, _DAEMONS, _daemons(rows, deaths, described))
        if cluster is not None:
            console.print()
            show_table(console, _RACKS, _racks(cluster))
            if cluster.jobs:
                console.print()
                show_table(console, _JOBS, _jobs(cluster))
        if "namenode" in described:
            console.print()
            console.print(_files(session), markup=False)
        for line in gateway_lines(session.folder):
            console.print(line, markup=False)


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
) -> list[list[Cell]]:
    table: list[list[Cell]] = []
    for row in rows:
        name = row["name"]
        answer = described.get(name)
        counts = ("", "") if answer is None else (answer.requests, answer.refused)
        state = _state(answer, [death for death in deaths if death["name"] == name], row["pid"])
        table.append([name, str(row["pid"]), *counts, state])
    return table


def _state(answer: Description | None, deaths: list[dict[str, Any]], pid: int) -> Text:
    """The state of a daemon that runs, or ran last, as process ``pid``."""
    if deaths and deaths[-1]["pid"] == pid:
        return cell(f"died: {deaths[-1]['how']}; {deaths[-1]['next']}", "red")
    if answer is None:
        return cell("does not answer", "red")
    said = []
    if answer.unreachable:
        said.append(cell(f"waits for a connection to {', '.join(answer.unreachable)}", "red"))
    if deaths:
        times = format_count(len(deaths), "time")
        said.append(cell(f"started again; died {times}: {deaths[-1]['how']}"))
    return Text("; ").join(said)


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


def _racks(cluster: ClusterStatus) -> list[list[Cell]]:
    table: list[list[Cell]] = []
    racks = sorted({node.rack for node in cluster.nodes}, key=lambda rack: int(rack[1:]))
    for rack in racks:
        nodes = [node for node in cluster.nodes if node.rack == rack]
        alive = [node for node in nodes if node.alive]
        lost = [f"{node.node} lost: {node.lost_because}" for node in nodes if not node.alive]
        running = " ".join(attempt for node in alive for attempt in node.attempts)
        waiting = [f"{each} waits for a slot" for node in alive for each in node.reserved]
        slots = sum(node.slots for node in alive)
        words = "  ".join([running, *waiting, *lost]).strip()
        table.append([rack, len(alive), slots, words])
    return table


def _jobs(cluster: ClusterStatus) -> list[list[Cell]]:
    table: list[list[Cell]] = []
    for job in cluster.jobs:
        end_s = cluster.now_s if job.finished_s is None else job.finished_s
        time_s = end_s - job.submitted_s
        state = "killed" if job.stopped else job.state
        about = (job.job, job.name, job.user, job.queue, state)
        table.append(
            [*about, float(job.progress), time_s, job.waiting or job.reason.partition("\n")[0]]
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
