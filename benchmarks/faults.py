"""Schedules of faults by seed under every scheduler: how many break a law, how many run a second.

Daemons die at any event and are restarted, nodes, disks and links fail; the laws are checked after
every event (``_faults.laws``).  Besides the schedulers, "dice" proposes by dice all that
can be (``_faults.toys``).  Bugs of several kinds are planted, too
(``oracles.faults.planted``): so many schedules find each.

    python -m railyard.benchmarks.faults --schedules 1000000
    python -m railyard.benchmarks.faults small fair 4711            repeats one
    python -m railyard.benchmarks.faults small fair 4711 --shrink   makes it short, if it fails
    python -m railyard.benchmarks.faults small fair 4711 f0,f2,j1   repeats these parts of it
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from pathlib import Path

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.cluster.processes import die_with_parent
from railyard.oracles.faults.planted import PLANTED, planted
from railyard.oracles.faults.scenarios import (
    Scenario,
    again,
    broken_law,
    in_words,
    made_short,
    named,
    of_parts,
    schedule_of,
    schedulers,
)
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.terminal.notices import steps_done

SCHEDULES = 100_000
QUICK = 2_000
#: A planted bug is to be found by fewer schedules than these.
FOUND_BY = 10_000
#: 500 schedules a second on a core.
SCHEDULE_MS_MAX = 2.0
#: Schedules that a process runs at once, and how often that is done before all processes end with
#: the garbage, 0.2 MB a schedule, for which none of them looks.
_BATCH, _ROUND = 100, 16
#: After so many schedules nearly all clusters and schedulers have been made once.
_WARMED_BY = 340
_SHOWN = 5
_LETTERS = 160  #: of what is said of a law that was broken


def run(quick: bool = False) -> list[Row]:
    """Run them, spread over the cores; ``quick`` runs fewer, and plants no bugs."""
    rows = _kept(QUICK if quick else SCHEDULES)
    return rows if quick else [*rows, *_found()]


def _kept(wanted: int) -> list[Row]:
    """How many of so many schedules break a law, and how many run a second on a core."""
    among = schedulers()
    batches = [(at, min(at + _BATCH, wanted)) for at in range(0, wanted, _BATCH)]
    broken: list[str] = []
    cpu_s = 0.0
    with (
        _without_collections(),
        steps_done("checking", "checked", len(batches), "part") as advance,
    ):
        for texts, took_s in _in_rounds(batches):
            broken += texts
            for text in texts:
                print(text, file=sys.stderr, flush=True)
            cpu_s += took_s
            advance()
    return [
        bench_row(
            f"of {wanted:,} schedules over {len(among)} schedulers, those that break a law",
            len(broken),
            bound=0,
            note="; ".join(broken[:_SHOWN]),
        ),
        bench_row(
            "CPU time of a schedule",
            round(cpu_s / wanted * 1e3, 2),
            "ms",
            bound=SCHEDULE_MS_MAX,
            note=f"{wanted / cpu_s:.0f} a second",
        ),
    ]


@contextmanager
def _without_collections() -> Iterator[None]:
    """Make what all schedules need, and look for garbage neither there nor in forked processes."""
    among = schedulers()
    for number in range(_WARMED_BY):
        broken_law(schedule_of(number, among))
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _in_rounds(batches: list[tuple[int, int]]) -> Iterator[tuple[list[str], float]]:
    """``_batch`` of each, in order, by processes that end after each round."""
    for at in range(0, len(batches), _ROUND):
        with ProcessPoolExecutor(
            os.cpu_count(), initializer=die_with_parent, initargs=(os.getpid(),)
        ) as pool:
            yield from pool.map(_batch, batches[at : at + _ROUND])


def _batch(numbers: tuple[int, int]) -> tuple[list[str], float]:
    """Those that break a law of the schedules from a number to before another; CPU seconds."""
    among, begun_s = schedulers(), time.process_time()
    texts = []
    for number in range(*numbers):
        schedule = schedule_of(number, among)
        if text := broken_law(schedule):
            texts.append(
                f"{schedule.name}: {text.splitlines()[0][:_LETTERS]}; again with: {again(schedule)}"
            )
    return texts, time.process_time() - begun_s


def _found() -> list[Row]:
    """By how many schedules each planted bug is found."""
    with (
        ProcessPoolExecutor(max_workers=os.cpu_count()) as pool,
        steps_done("planting", "planted", len(PLANTED), "bug") as advance,
    ):
        rows = []
        for bug, (count, law) in zip(PLANTED, pool.map(found_by, PLANTED), strict=True):
            name = f"{bug}: found by so many schedules"
            rows.append(bench_row(name, count, bound=FOUND_BY - 1, ok=bool(law), note=law))
            advance()
    return rows


def found_by(bug: str) -> tuple[int, str]:
    """How many schedules it took to find a planted bug, and which law it broke; "" for none."""
    among = schedulers()
    with planted(bug):
        for number in range(FOUND_BY - 1):
            if text := broken_law(schedule_of(number, among)):
                return number + 1, text.splitlines()[0][:_LETTERS]
    return FOUND_BY, ""


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(prog="python -m railyard.benchmarks.faults")
    options.add_argument("--schedules", type=int, help="run so many, by all schedulers in turn")
    options.add_argument("size", nargs="?", choices=("small", "large"))
    options.add_argument("scheduler", nargs="?")
    options.add_argument("seed", nargs="?", type=int)
    options.add_argument("parts", nargs="?", help="such as f0,f2,j1: these faults and jobs alone")
    options.add_argument("--bug", choices=PLANTED, help="with this bug planted")
    options.add_argument("--shrink", action="store_true", help="find the least that fails")
    options.add_argument("--events", help="write the events to this file")
    return options.parse_args()


def _main() -> int:
    options = _options()
    if options.schedules:
        rows = _kept(options.schedules)
        for row in rows:
            print(f"{row['name']}: {row['value']:,} {row['unit']}  {row['note']}")
        return int(rows[0]["value"] > 0)
    if options.seed is None:
        print("need --schedules N, or a size, a scheduler and a seed", file=sys.stderr)
        return 2
    with planted(options.bug) if options.bug else nullcontext():
        return _one(options)


def _one(options: argparse.Namespace) -> int:
    schedule = named(options.size, options.scheduler, options.seed)
    if options.parts:
        parts = [(each[0], int(each[1:])) for each in options.parts.split(",")]
        schedule = of_parts(schedule, parts)
    print("\n".join(in_words(schedule)))
    scenario = Scenario(schedule)
    if options.events:
        scenario.log = EventLog(Path(options.events), schedule.config)
    try:
        scenario.go()
    except Exception as error:
        print(f"{type(error).__name__}: {error}")
        if options.shrink:
            print("\n".join(made_short(schedule)[1]))
        return 1
    print(f"all laws are kept; {scenario.run.jobs.ended} jobs ended")
    return 0


if __name__ == "__main__":
    sys.exit(_main())
