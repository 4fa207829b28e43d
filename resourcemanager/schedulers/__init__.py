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

from functools import cache
from importlib import import_module

from railyard.cluster.registry import Registry
from railyard.resourcemanager.interface.recipe import Recipe

#: The schedulers that come with Railyard, and where each and its variants are: "module:recipes"
#: within this folder, imported when it is asked for, as all of them take 50 ms.
_WHERE = {
    "capacity": "capacity:RECIPE",
    "centralized": "centralized:RECIPE",
    "co-scheduler": "co_scheduler.scheduler:RECIPES",
    "corral": "corral.scheduler:RECIPES",
    "corral-fair": "corral.scheduler:RECIPES",
    "delay": "delay:RECIPE",
    "even": "shadow.baselines:EVEN",
    "fair": "fair:RECIPE",
    "heft": "heft:RECIPE",
    "in-place": "in_place:RECIPES",
    "iridium": "iridium:RECIPE",
    "joint": "joint.scheduler:RECIPES",
    "kmn": "shadow.baselines:KMN",
    "local-shuffle": "corral.scheduler:RECIPES",
    "shadow": "shadow.scheduler:RECIPES",
    "shufflewatcher": "shufflewatcher:RECIPE",
    "tetris": "tetris:RECIPE",
    "tetrium": "tetrium.scheduler:RECIPES",
}


@cache
def _recipes(where: str) -> dict[str, Recipe]:
    module, _, attribute = where.partition(":")
    found = getattr(import_module(f"{__name__}.{module}"), attribute)
    return {recipe.name: recipe for recipe in (found if isinstance(found, tuple) else (found,))}


def _checked(recipe: object) -> Recipe:
    if not isinstance(recipe, Recipe):
        raise TypeError(f"a {type(recipe).__name__}, no Recipe")
    return recipe


_ALL = Registry(
    "scheduler",
    "railyard.schedulers",
    lambda: {name: each for where in _WHERE.values() for name, each in _recipes(where).items()},
    _checked,
)
#: Every recipe by its name, those of other packages included.
all_recipes = _ALL.all


def recipe_named(name: str) -> Recipe:
    """The recipe of that name; ``UsageError`` with the nearest right name if there is none."""
    where = _WHERE.get(name.partition(":")[0].partition("+")[0])
    return _ALL.named(name, _recipes(where) if where else {})
