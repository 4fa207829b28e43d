"""``railyard down``: stop the cluster that was left running."""

from __future__ import annotations

import click

from railyard.cluster.errors import UsageError
from railyard.scripts.clusters.folders import current_folder, dead_current_folder, forget
from railyard.scripts.clusters.launch import stop_running
from railyard.scripts.terminal.request import Command


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
