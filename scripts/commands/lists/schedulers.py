"""``railyard schedulers``: the schedulers that there are, and their settings."""

from __future__ import annotations

from dataclasses import dataclass

import click

from railyard.netemu.schedulers import flow_schedulers
from railyard.resourcemanager.interface.recipe import Recipe, option_names
from railyard.resourcemanager.schedulers import all_recipes, recipe_named
from railyard.scripts.commands.lists.settings import Setting, settings_of_recipe
from railyard.scripts.terminal.request import argument, command, option
from railyard.scripts.terminal.tables import wrapped

_USUAL = Recipe.flow_scheduler


@dataclass(frozen=True, kw_only=True)
class SchedulersRequest:
    """Arguments and options of ``railyard schedulers``."""

    names: tuple[str, ...] = argument(nargs=-1, metavar="[NAME]...")
    settings: bool = option(
        "--settings", is_flag=True, help="Each setting with its default and what it does."
    )


@command(SchedulersRequest)
def schedulers(request: SchedulersRequest) -> None:
    """List the schedulers with the papers that they come from, and what can be set.

    With NAMEs only these.
    """
    known = all_recipes()
    for name in request.names or sorted(known):
        recipe = recipe_named(name)
        click.echo(f"{name}\n{wrapped(recipe.source, 4)}")
        if request.settings:
            for setting in settings_of_recipe(recipe):
                click.echo(_in_words(setting))
        elif options := option_names(recipe):
            click.echo(wrapped(f"--set {', '.join(options)}", 4))
        if recipe.flow_scheduler != _USUAL:
            click.echo(f"    goes with the flow scheduler {recipe.flow_scheduler}")
    if not request.names:
        click.echo()
        click.echo(wrapped(f"flow schedulers: {', '.join(sorted(flow_schedulers()))}"))
        said = f"it is {_USUAL}, unless it says above what goes with it."
        click.echo(wrapped(f"Without --flow-scheduler {said}"))


def _in_words(setting: Setting) -> str:
    return f"    {setting.name}={setting.default}\n{wrapped(setting.meaning, 8)}"
