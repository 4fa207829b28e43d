"""``railyard up`` and ``down``: a cluster that is left running."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import click
import msgspec

from railyard.cluster.errors import UsageError
from railyard.cluster.units import format_duration
from railyard.gateway.address import LOOPBACK, gateway_lines, listen
from railyard.runs.clusters import daemons_of, leave_running, stop_running
from railyard.runs.home import current_folder, dead_current_folder, forget
from railyard.runs.requests import CLUSTER, PLACE, RunRequest
from railyard.terminal.options import Command, command, option


class HttpAddress(NamedTuple):
    """Where to answer HTTP; port 0 is any that is free."""

    host: str
    port: int


def http_address(_: click.Context, option: click.Parameter, value: str) -> HttpAddress | None:
    """An address: of this machine alone unless a host is named; None for "none"."""
    if value in ("auto", "none"):
        return HttpAddress(LOOPBACK, 0) if value == "auto" else None
    host, _colon, port = value.rpartition(":")
    if not (port.isdecimal() and port.isascii() and 0 < int(port) < 2**16):
        right = "auto, none, or a port from 1 to 65535, as in 8088 or 192.168.1.5:8088"
        raise UsageError(f"{option.opts[0]} {value}: need {right}")
    return HttpAddress(host.removeprefix("[").removesuffix("]") or LOOPBACK, int(port))


def _origins(_: click.Context, option: click.Parameter, typed: str) -> tuple[str, ...]:
    from railyard.gateway.http.guard import origins_of  # and aiohttp

    return origins_of(option.opts[0], typed)


@dataclass(frozen=True, kw_only=True)
class UpRequest(RunRequest):
    """A cluster that is left running, with a gateway."""

    http: HttpAddress | None = option(
        "--http",
        metavar="auto|none|[HOST:]PORT",
        default="auto",
        callback=http_address,
        help="Where the gateway answers HTTP; default: auto, a free port that only this machine "
        "reaches. Any other HOST needs a token, which is printed.",
    )
    http_origins: tuple[str, ...] = option(
        "--http-origins",
        metavar="ORIGIN[,ORIGIN]",
        default="",
        callback=_origins,
        help="Sites whose pages may read what the gateway answers, such as http://localhost:3000; "
        "default: none.",
    )


@command(UpRequest, f"http http_origins {CLUSTER} {PLACE}")
def up(request: UpRequest) -> None:
    """Start a cluster and leave it running."""
    begun_s = time.monotonic()
    config = request.config()
    if request.http is not None:
        host, port = request.http
        listen(host, port).close()  # says so at once if it is taken
        config = msgspec.structs.replace(config, http=port, http_host=host)
        config = msgspec.structs.replace(config, http_origins=request.http_origins)
    elif request.http_origins:
        raise UsageError("--http-origins: need a gateway: --http none leaves it out")
    cluster = leave_running(config)
    daemons = len(daemons_of(cluster.folder))
    topology = config.topology
    click.echo(
        f"{topology.name} is up after {format_duration(time.monotonic() - begun_s)}: {daemons} "
        f"daemons, {topology.racks.count} racks, {topology.slots} slots, "
        f"scheduler {config.scheduler}.  railyard run JOB uses it, railyard down ends it."
    )
    for line in gateway_lines(cluster.folder):
        click.echo(line)


@click.command(cls=Command)
def down() -> None:
    """Stop the cluster that is up, and remove its folder with all its files."""
    folder = current_folder()
    if folder is not None:
        stop_running(folder)
        click.echo("stopped")
        return
    dead = dead_current_folder()
    if dead is None:
        raise UsageError("no cluster is up: railyard up starts one")
    forget(dead)
    click.echo("it had ended already; its folder is removed")
