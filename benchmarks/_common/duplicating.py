"""What Shadow's decisions cost: Algorithm 1, and selection among late duplicates."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.cluster.topology import load_topology
from railyard.netemu.model.network import Network
from railyard.resourcemanager.schedulers.shadow.scheduler import (
    LateDuplicate,
    Shuffle,
    available_bytes_per_s,
    duplicates,
    select,
)

MAPS, RACKS, LATE = 10_000, 60, 500
BOUND_US = 5000.0


def shadow_decisions(times: int) -> list[Row]:
    """CPU time of each, the mean of so many runs."""
    dice = random.Random(1)
    rack_of_each = dice.choices(range(RACKS), weights=range(1, RACKS + 1), k=MAPS)
    maps = _counted(rack_of_each)
    threshold = round(0.15 * MAPS)
    shuffle = Shuffle([float(count) for count in maps], [1 - 1 / RACKS] * RACKS, [1.0] * RACKS)
    late = [
        LateDuplicate(dice.uniform(0, 9), each.heavy, each.light, 1.0, number)
        for number, each in enumerate(duplicates(maps, LATE))
    ]
    network = Network(load_topology("co-scheduler-60x10"))
    nodes = list(network.node_number)
    read = [(dice.choice(nodes[:300]), dice.choice(nodes[300:])) for _ in range(LATE)]

    def choose() -> None:
        available_bytes_per_s(read, network)
        select(late, shuffle, 0.0)

    launched = len(duplicates(maps, threshold))
    return [
        _row(
            f"Algorithm 1: {MAPS:,} maps on {RACKS} racks, {launched:,} duplicates",
            lambda: duplicates(_counted(rack_of_each), threshold),
            times,
        ),
        _row(f"selection among {LATE} late duplicates, with their bandwidth", choose, times),
    ]


def _counted(rack_of_each: Sequence[int]) -> list[int]:
    """Lines 4 to 6 of Algorithm 1."""
    maps = [0] * RACKS
    for rack in rack_of_each:
        maps[rack] += 1
    return maps


def _row(name: str, decide: Callable[[], object], times: int) -> Row:
    decide()
    begun_s = time.process_time()
    for _ in range(times):
        decide()
    taken_us = (time.process_time() - begun_s) / times * 1e6
    return bench_row(name, taken_us, "us", bound=BOUND_US)
