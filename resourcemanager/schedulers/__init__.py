"""All schedulers: one line each, then those of other packages.

Not here: the interface (``resourcemanager.interface``), and a scheduler's name anywhere else.
Open ``delay`` first.

Another package adds a recipe through an entry point of the group "railyard.schedulers":

    [project.entry-points."railyard.schedulers"]
    mine = "my_package.my_module:RECIPE"

or several at once, as a tuple of recipes.  A variant of a scheduler, such as a paper's ablation, is
a recipe of its own, called "SCHEDULER:VARIANT" (see ``Recipe.variant``).
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import EntryPoint

from railyard.cluster.errors import unknown_name
from railyard.cluster.plugins import with_plugins
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers import (
    capacity,
    centralized,
    delay,
    fair,
    in_place,
    iridium,
    shufflewatcher,
    tetris,
)
from railyard.resourcemanager.schedulers.co_scheduler import scheduler as co_scheduler
from railyard.resourcemanager.schedulers.corral import scheduler as corral
from railyard.resourcemanager.schedulers.tetrium import scheduler as tetrium

#: The recipes that come with Railyard.
OWN = (
    capacity.RECIPE,
    centralized.RECIPE,
    *co_scheduler.RECIPES,
    *corral.RECIPES,
    delay.RECIPE,
    fair.RECIPE,
    in_place.RECIPE,
    iridium.RECIPE,
    shufflewatcher.RECIPE,
    tetris.RECIPE,
    *tetrium.RECIPES,
)


def all_recipes(added: Iterable[EntryPoint] | None = None) -> dict[str, Recipe]:
    """Every recipe by its name; ``added`` are other packages', by default those installed.

    Raises ``UsageError`` for a name that is taken twice, and for an entry point that is no recipe
    or cannot be loaded.
    """
    own = {recipe.name: recipe for recipe in OWN}
    return with_plugins("scheduler", "railyard.schedulers", own, _checked, added)


def _checked(recipe: object) -> Recipe:
    if not isinstance(recipe, Recipe):
        raise TypeError(f"a {type(recipe).__name__}, no Recipe")
    return recipe


def recipe_named(name: str) -> Recipe:
    """The recipe of that name; ``UsageError`` with the nearest right name if there is none."""
    recipes = all_recipes()
    if name not in recipes:
        raise unknown_name("scheduler", name, recipes)
    return recipes[name]
