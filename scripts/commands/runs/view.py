"""``railyard view``: the live page of a run that has ended, with a slider over time."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import webbrowser
from pathlib import Path
from typing import Any

import click
from aiohttp import web

from railyard.gateway.address import LOOPBACK, listen, url_of
from railyard.gateway.http.connections import answer
from railyard.gateway.http.guard import guard
from railyard.gateway.page.recorded import events_of, recorded
from railyard.gateway.page.routes import Page
from railyard.gateway.page.viewers import Viewers
from railyard.scripts.results.folder import NETWORK, SUMMARY
from railyard.scripts.terminal.request import Command


@click.command(cls=Command)
@click.argument("folder", metavar="DIR")
@click.option("--port", default=0, help="Where to answer; 0: any port that is free.")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser at once.")
def view(folder: str, port: int, opens: bool) -> None:
    """Show a finished run in the browser, as the page of a cluster shows one that goes on.

    DIR is what run or simulate wrote with --out, or an events.jsonl file.  The page is served to
    your processes on this machine alone, until Ctrl-C.
    """
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
