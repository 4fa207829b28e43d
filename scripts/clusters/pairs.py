"""A scheduler and the flow scheduler that it runs with, as people type them: "delay + sjf".

Without "+ sjf" it is the one of --flow-scheduler, or else the one that the recipe names.
The plus has spaces around it, since names may have one: "aalo+weighted".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from railyard.cluster.errors import UsageError, require_once
from railyard.cluster.shown import printable
from railyard.netemu.schedulers import flow_scheduler, flow_schedulers
from railyard.resourcemanager.schedulers import all_recipes, recipe_named

_PLUS = re.compile(r"\s\+(?:\s|$)|^\+\s")


class Pair(NamedTuple):
    """A scheduler and a flow scheduler, both of which exist."""

    scheduler: str
    flow_scheduler: str

    def __str__(self) -> str:
        return f"{self.scheduler} + {self.flow_scheduler}"


def pair_of(text: str, flows: str | None = None) -> Pair:
    """The pair of a scheduler, and its flow scheduler or ``flows`` or its recipe's own.

    Raises ``UsageError`` for names that do not exist, and if two flow schedulers are given.
    """
    [pair] = pairs_of([text], [] if flows is None else [flows])
    return pair


def pairs_of(texts: Iterable[str], flows: Sequence[str] = ()) -> list[Pair]:
    """Each scheduler with its flow scheduler, or with each of ``flows``, or with its recipe's own.

    Raises ``UsageError`` as ``pair_of`` does, and for a pair that is given twice.
    """
    typed = [typed_pair(text) for text in texts]
    if flows and typed and all(own is not None for _, own in typed):
        [(scheduler, own), *_] = typed
        right = "need one of the two"
        raise UsageError(f'--flow-scheduler {flows[0]}: "{scheduler} + {own}" has one: {right}')
    pairs = [
        Pair(scheduler, flow_scheduler(name).name)
        for scheduler, own in typed
        for name in ([own] if own is not None else flows or [_own_of(scheduler)])
    ]
    require_once(map(str, pairs))
    return pairs


def typed_pair(text: str) -> tuple[str, str | None]:
    """A scheduler's name, and that of the flow scheduler if there is one; ``UsageError``."""
    parts = [part.strip() for part in _PLUS.split(text, maxsplit=1)]
    if not all(parts):
        raise UsageError(f'{printable(text)!r}: need "SCHEDULER" or "SCHEDULER + FLOW SCHEDULER"')
    scheduler, flows = parts[0], parts[1] if len(parts) > 1 else None
    try:
        found = recipe_named(scheduler)
    except UsageError:
        _require_no_slip(scheduler)
        raise
    return found.name, None if flows is None else flow_scheduler(flows).name


def _require_no_slip(name: str) -> None:
    """Raise ``UsageError`` for mistakes that a list of all schedulers would not explain."""
    schedulers, flows = all_recipes(), flow_schedulers()
    if name in flows:
        right = f'need a scheduler before it, such as "fair + {name}"'
        raise UsageError(f"{name}: is a flow scheduler: {right}")
    for plus in re.finditer(r"\s*\+\s*", name):
        first, second = name[: plus.start()], name[plus.end() :]
        if first in schedulers and second in flows:
            raise UsageError(f'{name}: need spaces around the plus: "{first} + {second}"')


def _own_of(scheduler: str) -> str:
    """The flow scheduler that a recipe names; ``UsageError`` if it does not exist."""
    name = recipe_named(scheduler).flow_scheduler
    if name not in flow_schedulers():
        right = "need another one, by --flow-scheduler"
        raise UsageError(f"{scheduler}: goes with flow scheduler {name}, which is missing: {right}")
    return name
