"""``railyard schedulers``: the schedulers that there are, and their settings."""

from __future__ import annotations

import click

from railyard.netemu.schedulers import flow_schedulers
from railyard.resourcemanager.interface.recipe import option_names
from railyard.resourcemanager.schedulers import all_recipes


@click.command()
def schedulers() -> None:
    """List the schedulers with the papers that they come from, and what can be set."""
    for name, recipe in sorted(all_recipes().items()):
        click.echo(f"{name}\n    {recipe.source}")
        if options := option_names(recipe):
            click.echo(f"    --set {', '.join(options)}")
    click.echo(f"\nflow schedulers: {', '.join(sorted(flow_schedulers()))}")
