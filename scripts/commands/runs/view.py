"""``railyard view``: the live page of a run that has ended, with a slider over time."""

from __future__ import annotations

import json
import webbrowser
from pathlib import Path
from typing import Any

import click

from railyard.scripts.results.folder import NETWORK, SUMMARY


@click.command()
@click.argument("folder", metavar="DIR")
@click.option("--port", default=0, help="Where to answer; 0: any port that is free.")
@click.option("--open", "opens", is_flag=True, help="Open it in the browser at once.")
def view(folder: str, port: int, opens: bool) -> None:
    """Show a finished run in the browser, as the page of a cluster shows one that goes on.

    DIR is what run or simulate wrote with --out, or an events.jsonl file.  The page is served to
    this machine alone, until Ctrl-C.
    """
    from aiohttp import web

    from railyard.gateway.address import LOOPBACK, listen, url_of
    from railyard.gateway.http.guard import guard
    from railyard.gateway.page.recorded import events_of, recorded
    from railyard.gateway.page.routes import Page
    from railyard.gateway.page.viewers import Viewers

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
    web.run_app(app, sock=listening, print=None, access_log=None, shutdown_timeout=1.0)


def _about(folder: Path) -> dict[str, Any]:
    """What the run's summary says of it as a whole; nothing if there is none."""
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
        title = f"{summary['workload']} under {summary['scheduler']}"
        return {"title": title, "clock": summary["clock"]}
    except (OSError, ValueError, KeyError, TypeError):
        return {}
