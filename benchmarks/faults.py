"""Random small clusters, jobs and faults under every scheduler: how many break a rule.

Besides the schedulers, "dice" proposes by dice all that can be (``simulator.faults.toys``).
See ``simulator.scenarios`` for the rules.  One is repeated, with its events, by

    python -m railyard.benchmarks.faults SCHEDULER SEED [events.jsonl]
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.cluster.errors import RailyardError
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.resourcemanager.schedulers import all_recipes
from railyard.scripts.terminal.steps import steps_done
from railyard.simulator.faults import toys
from railyard.simulator.faults.scenarios import Scenario

SCENARIOS = 100_000
QUICK = 2_000
_BATCH = 100
_SHOWN = 5


def run(quick: bool = False) -> list[Row]:
    """Run them, spread over the cores; ``quick`` runs fewer."""
    wanted = QUICK if quick else SCENARIOS
    schedulers = [*all_recipes(), toys.RECIPE.name]
    batches = [(scheduler, seeds) for seeds in _seeds(wanted) for scheduler in schedulers]
    batches = batches[: -(-wanted // _BATCH)]
    broken: dict[str, list[str]] = {scheduler: [] for scheduler in schedulers}
    counts = dict.fromkeys(broken, 0)
    cpu_s = 0.0
    with (
        ProcessPoolExecutor(max_workers=os.cpu_count()) as pool,
        steps_done("checking", "checked", len(batches), "part") as advance,
    ):
        for (scheduler, seeds), (texts, took_s) in zip(
            batches, pool.map(_batch, batches), strict=True
        ):
            broken[scheduler] += texts
            counts[scheduler] += len(seeds)
            cpu_s += took_s
            advance()
    rows = [_row(scheduler, counts[scheduler], texts) for scheduler, texts in broken.items()]
    each = {"name": "CPU time of one", "value": 1000 * cpu_s / sum(counts.values()), "unit": "ms"}
    return [*rows, each | dict.fromkeys(("reference", "ratio", "bound")) | {"ok": True}]


def again(scheduler: str, seed: int) -> str:
    """The command that repeats one."""
    return f"again with: python -m railyard.benchmarks.faults {scheduler} {seed}"


def broken_rule(scheduler: str, seed: int) -> str:
    """What rule a scenario breaks, and how to repeat it; "" if it keeps them all."""
    try:
        Scenario(scheduler, seed).go()
    except Exception as error:
        return f"{type(error).__name__}: {error}; {again(scheduler, seed)}"
    return ""


def _seeds(wanted: int) -> Iterator[range]:
    """As many batches of seeds as are enough for any scheduler."""
    return (range(first, first + _BATCH) for first in range(0, wanted, _BATCH))


def _batch(batch: tuple[str, range]) -> tuple[list[str], float]:
    scheduler, seeds = batch
    begun_s = time.process_time()
    texts = [text for seed in seeds if (text := broken_rule(scheduler, seed))]
    return texts, time.process_time() - begun_s


def _row(scheduler: str, scenarios: int, broken: list[str]) -> Row:
    return bench_row(
        f"{scheduler}: of {scenarios} scenarios, those that break a rule",
        len(broken),
        bound=0,
        note="; ".join(broken[:_SHOWN]),
    )


def _main(scheduler: str, seed: str, events: str = "") -> int:
    scenario = Scenario(scheduler, int(seed))
    if events:
        scenario.log = EventLog(Path(events), scenario.run.config)
    try:
        scenario.go()
    except RailyardError as error:
        print(f"{type(error).__name__}: {error}")
        return 1
    print(f"all rules are kept; {scenario.run.jobs.ended} jobs ended")
    return 0


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
