"""``railyard up``: start a cluster and leave it running for the commands that follow."""

from __future__ import annotations

import time
from dataclasses import dataclass

import click
import msgspec

from railyard.cluster.errors import UsageError
from railyard.cluster.units import format_duration
from railyard.gateway.address import gateway_lines, listen
from railyard.gateway.http.crossorigin import origins_of
from railyard.scripts.clusters.launch import daemons_of, leave_running
from railyard.scripts.clusters.request import ClusterRequest
from railyard.scripts.terminal.httpaddress import HttpAddress, http_address
from railyard.scripts.terminal.request import command, option


@dataclass(frozen=True, kw_only=True)
class UpRequest(ClusterRequest):
    """Options of ``railyard up``."""

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
        callback=lambda _, option, typed: origins_of(option.opts[0], typed),
        help="Sites whose pages may read what the gateway answers, such as http://localhost:3000; "
        "default: none.",
    )


@command(UpRequest)
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
