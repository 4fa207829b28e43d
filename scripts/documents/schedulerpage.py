"""The pages of schedulers with their settings, and of flow schedulers, from the lists of both."""

from __future__ import annotations

import inspect
import sys
from collections import Counter

from railyard.netemu.schedulers import flow_schedulers
from railyard.netemu.schedulers.base import FlowScheduler, Serves
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.schedulers import all_recipes
from railyard.scripts.commands.lists.settings import Setting, settings_of_recipe
from railyard.scripts.documents.markdown import WRITTEN, code, plain, table

_SCHEDULERS = f"""\
# Schedulers and their settings

{WRITTEN}
`--scheduler NAME` chooses one, `--set KEY=VALUE` changes a setting. `railyard schedulers
--settings NAME` lists those of one. A name with a colon is a variant: a paper's ablation, or a
scheduler with other settings. A section of settings belongs to a policy; schedulers that share a
policy share its settings. How to write one: [tutorial](../tutorials/write-a-scheduler.md).
"""
_FLOWS = f"""\
# Flow schedulers

{WRITTEN}
A flow scheduler sets the rate of every open flow. `--flow-scheduler NAME` chooses one;
`--scheduler "delay + sjf"` names both. How to write one:
[tutorial](../tutorials/write-a-flow-scheduler.md).
"""


def scheduler_page() -> str:
    """The whole page, in Markdown."""
    recipes = dict(sorted(all_recipes(added=()).items()))
    settings = {name: list(settings_of_recipe(recipe)) for name, recipe in recipes.items()}
    rows = [_row(recipe, settings[name]) for name, recipe in recipes.items()]
    head = ("scheduler", "source", "goes with", "sections of settings")
    return "\n".join([_SCHEDULERS, table(head, rows), *_sections(settings)])


def _row(recipe: Recipe, settings: list[Setting]) -> tuple[str, ...]:
    sections = dict.fromkeys(setting.name.partition(".")[0] for setting in settings)
    listed = ", ".join(map(code, sections))
    return code(recipe.name), plain(recipe.source), code(recipe.flow_scheduler), listed


def _sections(settings: dict[str, list[Setting]]) -> list[str]:
    """A section of the page for each section of settings; each setting once."""
    found: dict[str, dict[str, list[tuple[str, Setting]]]] = {}
    for scheduler, its in settings.items():
        for setting in its:
            section = found.setdefault(setting.name.partition(".")[0], {})
            section.setdefault(setting.name, []).append((scheduler, setting))
    return [
        f"## {name}\n\n" + table(("setting", "default", "meaning"), map(_setting, its.values()))
        for name, its in sorted(found.items())
    ]


def _setting(uses: list[tuple[str, Setting]]) -> tuple[str, ...]:
    counted = Counter(setting.default for _, setting in uses)
    [(usual, _), *others] = counted.most_common()
    words = code(usual)
    for other, _ in others:
        users = ", ".join(code(name) for name, setting in uses if setting.default == other)
        words += f"; {code(other)} for {users}"
    return code(uses[0][1].name), words, plain(uses[0][1].meaning)


def flow_scheduler_page() -> str:
    """The whole page, in Markdown."""
    every = sorted(flow_schedulers(added=()).items())
    rows = [
        (
            code(name),
            plain(_says(kind)),
            plain(kind.source),
            "coflows" if kind.serves is Serves.COFLOWS else "flows",
            code(kind.circuit_policy or ""),
        )
        for name, kind in every
    ]
    head = ("flow scheduler", "what it does", "source", "serves", "circuit policy")
    return f"{_FLOWS}\n{table(head, rows)}"


def _says(kind: type[FlowScheduler]) -> str:
    """The first paragraph of its module, and what its class says of itself."""
    words = (sys.modules[kind.__module__].__doc__, kind.__doc__)
    return " ".join(inspect.cleandoc(text or "").partition("\n\n")[0] for text in words)
