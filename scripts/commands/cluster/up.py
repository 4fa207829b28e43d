"""``railyard up``: start a cluster and leave it running for the commands that follow."""

from __future__ import annotations

import time

import click

from railyard.cluster.units import format_duration
from railyard.scripts.clusters.launch import daemons_of, leave_running
from railyard.scripts.clusters.request import ClusterRequest
from railyard.scripts.terminal.request import command


@command(ClusterRequest)
def up(request: ClusterRequest) -> None:
    """Start a cluster and leave it running."""
    begun_s = time.monotonic()
    config = request.config()
    cluster = leave_running(config)
    daemons = len(daemons_of(cluster.folder))
    topology = config.topology
    click.echo(
        f"{topology.name} is up after {format_duration(time.monotonic() - begun_s)}: {daemons} "
        f"daemons, {topology.racks.count} racks, {topology.slots} slots, "
        f"scheduler {config.scheduler}.  railyard run JOB uses it, railyard down ends it."
    )
