"""``railyard up``: start a cluster and leave it running for the commands that follow."""

from __future__ import annotations

import time
from typing import Any

import click

from railyard.cluster.units import format_duration
from railyard.scripts.clusters.launch import daemons_of, leave_running
from railyard.scripts.terminal.options import ClusterChoice, cluster_options


@click.command()
@cluster_options
def up(**choice: Any) -> None:
    """Start a cluster and leave it running."""
    begun_s = time.monotonic()
    config = ClusterChoice(**choice).config()
    cluster = leave_running(config)
    daemons = len(daemons_of(cluster.folder))
    topology = config.topology
    click.echo(
        f"{topology.name} is up after {format_duration(time.monotonic() - begun_s)}: {daemons} "
        f"daemons, {topology.racks.count} racks, {topology.slots} slots, "
        f"scheduler {config.scheduler}.  railyard run JOB uses it, railyard down ends it."
    )
