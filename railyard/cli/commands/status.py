"""``railyard status``: the cluster that is up, its daemons, nodes and jobs."""

from __future__ import annotations

import functools
import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.text import Text

from railyard.cluster.errors import PeerLost, Refused, UsageError, printable
from railyard.cluster.machine import is_stopped
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.transport import Describe, Description
from railyard.cluster.units import PERCENT, format_count, format_duration, format_size, time_unit
from railyard.dfs.messages import GetSafeMode, GetUsage, SafeModeStatus, Usage
from railyard.gateway.address import gateway_lines
from railyard.resourcemanager.process.messages import ClusterStatus
from railyard.runs.clusters import daemons_of
from railyard.runs.outputfile import write_json
from railyard.runs.session import Session, running_session
from railyard.terminal import interrupts
from railyard.terminal.options import Command
from railyard.terminal.tables import Cell, Column, cell, plain_console, plain_numbers, show_table

if TYPE_CHECKING:
    from rich.console import Console


_ANSWER_TIMEOUT_S = 3.0
#: From one view of --watch to the next.
_WATCH_PERIOD_S = 1.0

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


@dataclass(frozen=True)
class _State:
    """What is known of a cluster at one time."""

    rows: list[dict[str, Any]]  #: of its daemons' processes
    deaths: list[dict[str, Any]]
    described: dict[str, Description]  #: of the daemons that answer
    cluster: ClusterStatus | None  #: None: the ResourceManager does not answer
    usage: Usage | str | None  #: of the block store; or why that is not known
    safe_mode: SafeModeStatus | None  #: of the NameNode; None if that is not known

    def of(self, row: dict[str, Any]) -> Text:
        """The state of the daemon of a process."""
        deaths = [death for death in self.deaths if death["name"] == row["name"]]
        return _daemon_state(self.described.get(row["name"]), deaths, row["pid"])


@click.command(cls=Command)
@click.option(
    "--json",
    "file",
    metavar="[FILE|-]",
    is_flag=False,
    flag_value="-",
    help="Write it as JSON; - or no FILE is standard output.",
)
@click.option("--watch", is_flag=True, help="Show it anew every second, until Ctrl-C.")
def status(file: str | None, watch: bool) -> None:
    """Show the cluster that is up: daemons, nodes, slots, jobs, files, refused messages."""
    if watch and file is not None:
        raise UsageError("--watch: shows tables: need no --json beside it")
    with running_session() as session:
        if file is not None:
            _write(_as_json(session, _state_of(session)), file)
        elif watch:
            with suppress(interrupts.Interrupted):  # that is how it ends
                _watch(session)
        else:
            _show(session, _state_of(session), plain_console(highlight=False))


def _watch(session: Session) -> None:
    console = plain_console(highlight=False)
    while True:
        state = _state_of(session)
        if console.is_terminal:
            console.clear()
        _show(session, state, console)
        session.reactor.run_until(lambda: False, _WATCH_PERIOD_S)


def _state_of(session: Session) -> _State:
    rows, deaths = daemons_of(session.folder), session.folder.deaths()
    dead = {row["pid"] for row in deaths}
    described = _describe_all(session, [row["name"] for row in rows if row["pid"] not in dead])
    return _State(
        rows=rows,
        deaths=deaths,
        described=described,
        cluster=session.status() if "resourcemanager" in described else None,
        usage=_usage(session) if "namenode" in described else None,
        safe_mode=_safe_mode(session) if "namenode" in described else None,
    )


def _show(session: Session, state: _State, console: Console) -> None:
    console.print(_headline(session, state.cluster), markup=False)
    console.print()
    show_table(console, _DAEMONS, _daemons(state))
    if state.cluster is not None:
        console.print()
        show_table(console, _RACKS, _racks(state.cluster))
        if state.cluster.jobs:
            console.print()
            show_table(console, _JOBS, _jobs(state.cluster))
    if state.usage is not None:
        console.print()
        console.print(_files(session, state.usage), markup=False)
    if state.safe_mode is not None and state.safe_mode.on:
        console.print(str(state.safe_mode), markup=False)
    for line in gateway_lines(session.folder):
        click.echo(line)


def _as_json(session: Session, state: _State) -> dict[str, Any]:
    """The same for programs, with the fields of ``ClusterStatus`` and of ``Usage``."""
    config, cluster, usage = session.config, state.cluster, state.usage
    daemons = [
        {
            "name": row["name"],
            "pid": row["pid"],
            "answers": row["name"] in state.described,
            "messages": getattr(state.described.get(row["name"]), "requests", None),
            "refused": getattr(state.described.get(row["name"]), "refused", None),
            "state": state.of(row).plain,
        }
        for row in state.rows
    ]
    return {
        "folder": str(session.folder.path),
        "topology": config.topology.name,
        "scheduler": config.scheduler,
        "flow_scheduler": config.flow_scheduler,
        "scale": config.topology.scale,
        "up_s": None if cluster is None else cluster.now_s,
        "daemons": daemons,
        "nodes": [] if cluster is None else msgspec.to_builtins(cluster.nodes),
        "jobs": [] if cluster is None else msgspec.to_builtins(cluster.jobs),
        "files": msgspec.to_builtins(usage) if isinstance(usage, Usage) else None,
        "safe_mode": None if state.safe_mode is None else state.safe_mode.on,
    }


def _write(said: dict[str, Any], file: str) -> None:
    if file == "-":
        click.echo(json.dumps(said, indent=2))
    else:
        write_json(said, Path(file))


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


def _daemons(state: _State) -> list[list[Cell]]:
    table: list[list[Cell]] = []
    for row in state.rows:
        answer = state.described.get(row["name"])
        counts = ("", "") if answer is None else (answer.requests, answer.refused)
        table.append([row["name"], str(row["pid"]), *counts, state.of(row)])
    return table


def _daemon_state(answer: Description | None, deaths: list[dict[str, Any]], pid: int) -> Text:
    """The state of a daemon that runs, or ran last, as process ``pid``."""
    if deaths and deaths[-1]["pid"] == pid:
        return cell(f"died: {deaths[-1]['how']}; {deaths[-1]['next']}", "red")
    if answer is None:
        stopped = f": it is stopped, until kill -CONT {pid}" if is_stopped(pid) else ""
        return cell(f"does not answer{stopped}", "red")
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
        drained = [f"{node.node} is {node.drain}" for node in alive if node.drain]
        words = "  ".join([running, *waiting, *drained, *lost]).strip()
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


def _usage(session: Session) -> Usage | str:
    try:
        return session.link("namenode").ask(GetUsage(path="/"), Usage)
    except (PeerLost, Refused) as error:
        return str(error)


def _safe_mode(session: Session) -> SafeModeStatus | None:
    try:
        return session.link("namenode").ask(GetSafeMode(), SafeModeStatus)
    except (PeerLost, Refused):
        return None


def _files(session: Session, usage: Usage | str) -> str:
    if isinstance(usage, str):
        return f"block store: {usage}"
    scale = session.config.topology.scale
    return (
        f"block store: {format_count(usage.files, 'file')} in "
        f"{format_count(usage.blocks, 'block')}, "
        f"{format_size(usage.stored_bytes * scale)} "
        f"({format_size(usage.stored_bytes)} real, {format_size(usage.stored_disk_bytes)} on disk)"
    )
