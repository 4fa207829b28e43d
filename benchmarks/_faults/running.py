"""Runs schedules of faults by seed, and says which law one breaks and how to repeat it.

Not here: how many, and what is printed of them.
"""

from __future__ import annotations

from railyard.benchmarks._faults import toys
from railyard.benchmarks._faults.scenarios import Scenario
from railyard.benchmarks._faults.schedules import Schedule, large_schedule, small_schedule
from railyard.benchmarks._faults.shrinking import Part, in_words, of_parts, shrunk
from railyard.resourcemanager.schedulers import all_recipes

#: One schedule in so many is large.
LARGE_EVERY = 50


def schedulers() -> list[str]:
    """All schedulers, and the toys'."""
    return [*sorted(all_recipes()), toys.RECIPE.name]


def schedule_of(number: int, among: list[str]) -> Schedule:
    """The schedule of a number: its scheduler, its size, and its seed."""
    scheduler, seed = among[number % len(among)], number // len(among)
    if seed % LARGE_EVERY == LARGE_EVERY - 1:
        return large_schedule(scheduler, number)
    return small_schedule(scheduler, seed)


def named(size: str, scheduler: str, seed: int) -> Schedule:
    """The schedule of a size, a scheduler and a seed."""
    return large_schedule(scheduler, seed) if size == "large" else small_schedule(scheduler, seed)


def broken_law(schedule: Schedule) -> str:
    """What law a schedule breaks; "" if it keeps them all."""
    try:
        Scenario(schedule).go()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def again(schedule: Schedule, parts: list[Part] | None = None) -> str:
    """The command that repeats a schedule, or parts of it."""
    only = "" if parts is None else " " + ",".join(f"{kind}{place}" for kind, place in parts)
    return f"python -m railyard.benchmarks.faults {schedule.name}{only}"


def made_short(schedule: Schedule) -> tuple[Schedule, list[str]]:
    """The least of a failing schedule that fails, and lines that say what it is."""
    parts = shrunk(schedule, lambda smaller: bool(broken_law(smaller)))
    short = of_parts(schedule, parts)
    lines = [broken_law(short).splitlines()[0], *in_words(short)]
    return short, [*lines, f"again with: {again(schedule, parts)}"]
