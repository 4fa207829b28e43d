"""``railyard explain``, ``replay`` and ``view``: a run that has ended, from its events."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import webbrowser
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from railyard.cluster.errors import UsageError, printable
from railyard.cluster.units import format_count, format_duration
from railyard.gateway.address import LOOPBACK, listen, url_of
from railyard.runs.folder import EVENTS, NETWORK, SUMMARY, write_json, write_or_print_json
from railyard.runs.home import current_folder
from railyard.terminal.options import Command, writable_file

if TYPE_CHECKING:
    from aiohttp import web


@click.command(cls=Command)
@click.argument("run", metavar="DIR|cluster")
@click.argument("what", metavar="WHAT")
@click.option("--json", "json_file", metavar="FILE", help="Write it as JSON; - prints it.")
def explain(run: str, what: str, json_file: str | None) -> None:
    """Say why a task, job, flow, circuit or file of a run went where it did, or waited.

    DIR is what run or simulate wrote with --out, or an events.jsonl file; "cluster" is the cluster
    that is up.  WHAT is a task (j3.m7), an attempt (j3.m7.0), a job (j3), a coflow (j3.r), a flow
    (j3.r2.0:r0n1:0), the circuits from one rack to another (r0-r3), or a file (/in/data).

    The answers come from the run's events, replayed through the same scheduler.
    """
    from railyard.netemu.record import read_circuits
    from railyard.report.explanation import lines_of
    from railyard.resourcemanager.driving.explain import explain as explained

    events = _events_of(run)
    network = events.parent / NETWORK
    circuits = read_circuits(network) if network.is_file() else None
    explanation = explained(events, what, circuits)
    if json_file is not None:
        write_or_print_json(msgspec.to_builtins(explanation), json_file)
        return
    for line in lines_of(explanation):
        click.echo(line)


def _events_of(run: str) -> Path:
    """The events of a run's folder, or of the cluster that is up."""
    if run == "cluster":
        folder = current_folder()
        if folder is None:
            raise UsageError("cluster: no cluster is up; need one, or the folder of a run")
        return folder.jobs / EVENTS
    path = Path(run)
    return path / EVENTS if path.is_dir() else path


@click.command(cls=Command)
@click.argument("folder", metavar="DIR")
@click.option("--trace", callback=writable_file, help="Write its trace for ui.perfetto.dev.")
def replay(folder: str, trace: Path | None) -> None:
    """Send the events of a run to a fresh core, and check that it gives the same commands.

    DIR is what run or simulate wrote with --out, or an events.jsonl file.
    """
    from railyard.netemu.record import read_circuits, read_samples
    from railyard.resourcemanager.driving.eventlog import Step
    from railyard.resourcemanager.driving.eventlog import replay as steps_of
    from railyard.resourcemanager.driving.trace import chrome_trace

    path = Path(folder)
    if path.is_dir():
        path = path / EVENTS
    events, commands, last_s = 0, 0, 0.0

    def counted() -> Iterator[Step]:
        nonlocal events, commands, last_s
        for step in steps_of(path):
            events, commands, last_s = events + 1, commands + len(step.commands), step.at_s
            yield step

    if trace is None:
        deque(counted(), maxlen=0)
    else:
        circuits = read_circuits(path.parent / NETWORK)
        samples = read_samples(path.parent / NETWORK)
        write_json(chrome_trace(counted(), circuits, samples), trace, indent=None)
    click.echo(
        f"{printable(str(path))}: {format_count(events, 'event')} in {format_duration(last_s)}, "
        f"{format_count(commands, 'command')}: the same as then"
    )


@click.command(cls=Command)
@click.argument("folder", metavar="DIR")
@click.option("--port", default=0, help="Where to answer; 0: any port that is free.")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser at once.")
def view(folder: str, port: int, opens: bool) -> None:
    """Show a finished run in the browser, as the page of a cluster shows one that goes on.

    DIR is what run or simulate wrote with --out, or an events.jsonl file.  The page is served to
    your processes on this machine alone, until Ctrl-C.
    """
    from aiohttp import web

    from railyard.gateway.http.guard import guard
    from railyard.gateway.page.history import events_of, recorded
    from railyard.gateway.page.viewers import Page, Viewers

    events = events_of(Path(folder))
    beside = events.parent
    kept = recorded(events, beside / NETWORK, **_about(beside))
    listening = listen(LOOPBACK, port)
    app = web.Application(middlewares=[guard()])
    Page(Viewers(kept), beside / "attempts").add_to(app)
    url = f"{url_of(listening)}/"
    click.echo(f"{url}  (until Ctrl-C)")
    if opens:
        webbrowser.open(url)
    asyncio.run(_serve(app, listening))


async def _serve(app: web.Application, listening: socket.socket) -> None:
    """Answer, as the gateway does, until somebody asks this process to end."""
    from aiohttp import web

    from railyard.gateway.http.connections import answer

    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    runner = web.AppRunner(app, shutdown_timeout=1.0)
    [server] = await answer(runner, [listening])
    await over.wait()
    server.close()
    await runner.cleanup()


def _about(folder: Path) -> dict[str, Any]:
    """What the run's summary says of it as a whole; nothing if there is none."""
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        title = f"{summary['workload']} under {summary['scheduler']}"
        return {"title": title, "clock": summary["clock"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
