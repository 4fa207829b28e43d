"""What schedulers' settings are by default, and what they do, as the comments in their code say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, get_args, get_origin

import msgspec

from railyard.cluster.accepted import meanings
from railyard.cluster.units import format_number
from railyard.resourcemanager.interface.links import SECTION as LINKS
from railyard.resourcemanager.interface.links import LinksConfig
from railyard.resourcemanager.interface.recipe import Recipe


@dataclass(frozen=True)
class Setting:
    """A setting of a scheduler."""

    name: str  #: "corral.imbalance"
    default: str
    meaning: str  #: "" = its code does not say


def settings_of_recipe(recipe: Recipe) -> Iterator[Setting]:
    """All settings of a recipe, by name."""
    configs = {kind.section: kind.Config for kind in recipe.with_settings() if kind.section}
    if recipe.uses_network:
        configs[LINKS] = LinksConfig
    for section, config in sorted(configs.items()):
        said = meanings(config)
        for field in sorted(msgspec.structs.fields(config), key=lambda field: field.name):
            name = f"{section}.{field.name}"
            default = _shown(recipe.settings.get(name, _default(field)))
            words = [said.get(field.name, ""), _choices(field.type)]
            yield Setting(name, default, "; ".join(filter(None, words)))


def _choices(kind: Any) -> str:
    """The values that a setting may have, if they are a few words: "all or free"."""
    return " or ".join(map(str, get_args(kind))) if get_origin(kind) is Literal else ""


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return None if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format_number(value).replace(",", "")
    return "none" if value in (None, {}, "", ()) else str(value)
