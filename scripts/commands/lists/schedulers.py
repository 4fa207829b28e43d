"""``railyard schedulers``: the schedulers that there are, and their settings."""

from __future__ import annotations

import click

from railyard.netemu.schedulers import flow_schedulers
from railyard.resourcemanager.interface.recipe import Recipe, option_names
from railyard.resourcemanager.schedulers import all_recipes

_USUAL = Recipe.flow_scheduler


@click.command()
def schedulers() -> None:
    """List the schedulers with the papers that they come from, and what can be set."""
    for name, recipe in sorted(all_recipes().items()):
        click.echo(f"{name}\n    {recipe.source}")
        if options := option_names(recipe):
            click.echo(f"    --set {', '.join(options)}")
        if recipe.flow_scheduler != _USUAL:
            click.echo(f"    goes with the flow scheduler {recipe.flow_scheduler}")
    click.echo(f"\nflow schedulers: {', '.join(sorted(flow_schedulers()))}")
    click.echo(f"Without --flow-scheduler it is {_USUAL}, unless it says above what goes with it.")
