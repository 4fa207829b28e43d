"""What schedulers' settings are by default, and what they do, as the comments in their code say."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from railyard.resourcemanager.interface.links import SECTION as LINKS
from railyard.resourcemanager.interface.links import LinksConfig
from railyard.resourcemanager.interface.recipe import Recipe

#: a field of a class, and what is said of it after "#:" on its line
_FIELD = re.compile(r"    (\w+): [^#]*?(?:#: (.*))?$")
_COMMENT = re.compile(r"    #: (.*)$")


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
            yield Setting(name, default, said.get(field.name, ""))


def meanings(config: type[msgspec.Struct]) -> dict[str, str]:
    """{field: the comments before it and on its line}, of a class and those that it is made of."""
    found: dict[str, str] = {}
    for kind in reversed(config.__mro__):
        try:
            source = inspect.getsource(kind)
        except (OSError, TypeError):  # built in, or without its source
            continue
        before: list[str] = []
        for line in source.splitlines():
            field, comment = _FIELD.match(line), _COMMENT.match(line)
            if comment:
                before.append(comment[1].strip())
                continue
            if field:
                found[field[1]] = " ".join([*before, *([field[2]] if field[2] else [])])
            before = []
    return found


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return None if field.default_factory is msgspec.NODEFAULT else field.default_factory()


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value) if value != "" else '""'
