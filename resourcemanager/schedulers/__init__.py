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
from importlib.metadata import EntryPoint, entry_points

from railyard.cluster.errors import UsageError, unknown_name
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers import capacity, delay, fair, shufflewatcher
from railyard.resourcemanager.schedulers.co_scheduler import scheduler as co_scheduler
from railyard.resourcemanager.schedulers.corral import scheduler as corral

#: The recipes that come with Railyard.
OWN = (
    capacity.RECIPE,
    *co_scheduler.RECIPES,
    *corral.RECIPES,
    delay.RECIPE,
    fair.RECIPE,
    shufflewatcher.RECIPE,
)


def all_recipes(added: Iterable[EntryPoint] | None = None) -> dict[str, Recipe]:
    """Every recipe by its name; ``added`` are other packages', by default those installed.

    Raises ``UsageError`` for a name that is taken twice, and for an entry point that is no recipe
    or cannot be loaded.
    """
    recipes = {recipe.name: recipe for recipe in OWN}
    owner = dict.fromkeys(recipes, "railyard")
    for point in entry_points(group="railyard.schedulers") if added is None else added:
        for recipe in _recipes(point):
            if recipe.name in recipes:
                both = f"{owner[recipe.name]} and {point.value}"
                raise UsageError(f'scheduler "{recipe.name}" is there twice: in {both}')
            recipes[recipe.name] = recipe
            owner[recipe.name] = point.value
    return recipes


def _recipes(point: EntryPoint) -> tuple[Recipe, ...]:
    """The recipes that an entry point names."""
    loaded = _load(point)
    several = loaded if isinstance(loaded, tuple) else (loaded,)
    for recipe in several:
        if not isinstance(recipe, Recipe):
            found = type(recipe).__name__
            raise UsageError(f'scheduler "{point.name}" of {point.value} is a {found}, no Recipe')
    return several


def _load(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:  # third parties' code
        what = f"{type(error).__name__}: {error}"
        text = f'scheduler "{point.name}" ({point.value}) cannot be loaded: {what}'
        raise UsageError(text) from error


def recipe_named(name: str) -> Recipe:
    """The recipe of that name; ``UsageError`` with the nearest right name if there is none."""
    recipes = all_recipes()
    if name not in recipes:
        raise unknown_name("scheduler", name, recipes)
    return recipes[name]
