"""``railyard status``, ``nodes``, ``slots`` and ``network``: what the cluster that is up has."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
import msgspec
from rich.text import Text

from railyard.cluster.errors import PeerLost, Refused, UsageError, printable, unknown_name
from railyard.cluster.ids import NodeId
from railyard.cluster.machine import is_stopped
from railyard.cluster.messaging.transport import Describe, Description
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import place_named
from railyard.cluster.units import (
    PERCENT,
    format_count,
    format_duration,
    format_rate,
    format_size,
    parse_rate,
    rate_unit,
    time_unit,
    whole_number,
)
from railyard.dfs.messages import GetSafeMode, GetUsage, SafeModeStatus, Usage
from railyard.gateway.address import gateway_lines
from railyard.resourcemanager.process.messages import (
    ActivateNode,
    ClusterStatus,
    DrainNode,
    NodeStatus,
    SetSlots,
)
from railyard.runs.clusters import Session, running_session
from railyard.runs.folder import write_or_print_json
from railyard.runs.home import daemons_of
from railyard.terminal import interrupts
from railyard.terminal.options import Command, Commands
from railyard.terminal.tables import Cell, Column, cell, plain_console, plain_numbers, show_table

if TYPE_CHECKING:
    from rich.console import Console

    from railyard.netemu.messages import NetworkView


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
            write_or_print_json(_as_json(session, _state_of(session)), file)
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


def _headline(session: Session, cluster: ClusterStatus | None) -> str:
    folder = f"run folder {printable(str(session.folder.path))}"
    if cluster is None:
        return f"{session.config.topology.name}: the ResourceManager does not answer\n{folder}"
    slots = sum(node.slots for node in cluster.nodes if node.alive)
    busy = sum(len(node.attempts) for node in cluster.nodes)
    return (
        f"{cluster.topology}: scheduler {cluster.scheduler}, flows {cluster.flow_scheduler}, "
        f"up for {format_duration(cluster.now_s)}, {busy} of {slots} slots busy\n{folder}"
    )


def _daemons(state: _State) -> Iterator[list[Cell]]:
    for row in state.rows:
        answer = state.described.get(row["name"])
        counts = ("", "") if answer is None else (answer.requests, answer.refused)
        yield [row["name"], str(row["pid"]), *counts, state.of(row)]


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
    links = {name: session.transport.link(name) for name in names}
    for name, link in links.items():
        link.request(Describe(), Description, functools.partial(_note, answers, name))
    session.reactor.run_until(lambda: len(answers) == len(names), _ANSWER_TIMEOUT_S)
    for link in links.values():
        link.close()
    return {n: a for n, a in answers.items() if isinstance(a, Description)}


def _note(answers: dict[str, Any], name: str, answer: object, _payload: object) -> None:
    answers[name] = answer


def _racks(cluster: ClusterStatus) -> Iterator[list[Cell]]:
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
        yield [rack, len(alive), slots, words]


def _jobs(cluster: ClusterStatus) -> Iterator[list[Cell]]:
    for job in cluster.jobs:
        end_s = cluster.now_s if job.finished_s is None else job.finished_s
        time_s = end_s - job.submitted_s
        state = "killed" if job.stopped else job.state
        about = (job.job, job.name, job.user, job.queue, state)
        why = job.waiting or job.reason.partition("\n")[0]
        yield [*about, float(job.progress), time_s, why]


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


# Nodes, slots and links ---------------------------------------------------------------------------
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
    if context.invoked_subcommand is not None:
        return
    with running_session() as session:
        status = session.status()
        numbers_of = {node.id: n for n, node in enumerate(session.config.topology.nodes())}
    table: list[list[Cell]] = [
        [each.node, each.rack, each.slots, len(each.attempts) if each.alive else "", _state(each)]
        for each in sorted(status.nodes, key=lambda each: numbers_of[each.node])
    ]
    numbers = [Column(heading, plain_numbers) for heading in ("slots", "held")]
    columns = [Column("node"), Column("rack"), *numbers, Column("state")]
    show_table(plain_console(highlight=False), columns, table)


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
    from railyard.netemu.messages import SetCapacity  # and NumPy
    from railyard.netemu.model.network import Network

    with running_session() as session:
        links = Network(session.config.topology)
        name = links.link_named(link)
        stated = float(links.capacities[links.number[name]])
        bytes_per_s = stated if rate == _DEFAULT else parse_rate(_ZERO.get(rate, rate), link)
        session.link("network").ask(SetCapacity(link=name, bytes_per_s=bytes_per_s), Done)
        click.echo(f"{name} carries {format_rate(bytes_per_s)}, stated {format_rate(stated)}")


@network.command("show")
@click.option("--all", "with_nics", is_flag=True, help="The nodes' NICs too.")
def show_links(with_nics: bool) -> None:
    """Show each link's capacity and what flows use of it now, and the circuits that there are."""
    from railyard.netemu.messages import NetworkView, WatchNetwork  # and NumPy
    from railyard.netemu.model.network import Network

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
    unit = rate_unit(max(filter(math.isfinite, map(float, links.capacities)), default=0.0))
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


def _circuits(view: NetworkView) -> Iterator[list[Cell]]:
    for circuit in view.circuits:
        since_s = view.now_s - circuit.ready_s
        dark = f"dark for {format_duration(-since_s)} more"
        state = dark if since_s < 0 else f"lit for {format_duration(since_s)}"
        yield [f"{circuit.src} to {circuit.dst}", circuit.coflow or "", state]
