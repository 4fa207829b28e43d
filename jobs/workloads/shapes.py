"""Helpers of the generators: distributions of sizes, MapReduce jobs, graphs of stages."""

from __future__ import annotations

import functools
import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from railyard.jobs.workloads.model import InputFile, WorkStage
from railyard.jobs.workloads.population import Shape

_NORMAL = NormalDist()


def map_reduce(
    name: str,
    *,
    input_bytes: int,
    block_bytes: int,
    shuffle_bytes: int,
    output_bytes: int,
    reduces: int,
    times_s: tuple[float, float] = (0.0, 0.0),
    rates: tuple[float | None, float | None] = (None, None),
) -> Shape:
    """A MapReduce job; without ``reduces`` its maps write the output.

    Of maps and of reduces, ``times_s`` are the constant part of a task's computing time, ``rates``
    the bytes/s.  Without input there is one map, which reads nothing.
    """
    files: tuple[InputFile, ...] = ()
    if input_bytes:
        path = f"/workload/{name}"
        files = (InputFile(path=path, size_bytes=input_bytes, block_bytes=block_bytes),)
    maps = WorkStage(
        name="m",
        files=tuple(file.path for file in files),
        tasks=sum(file.blocks for file in files) or 1,
        output_bytes=shuffle_bytes if reduces else output_bytes,
        task_s=times_s[0],
        rate_bytes_per_s=rates[0],
    )
    if not reduces:
        return Shape(name, (maps,), files)
    reducing = WorkStage(
        name="r",
        reads=("m",),
        tasks=reduces,
        output_bytes=output_bytes,
        task_s=times_s[1],
        rate_bytes_per_s=rates[1],
    )
    return Shape(name, (maps, reducing), files)


def stage_name(number: int) -> str:
    """The name of a stage, of small letters only: a, b, ..., z, ba, bb, ..."""
    number, letter = divmod(number, 26)
    name = chr(ord("a") + letter)
    while number:
        number, letter = divmod(number, 26)
        name = chr(ord("a") + letter) + name
    return name


def log_uniform(rng: np.random.Generator, least: float, most: float, count: int) -> np.ndarray:
    """``count`` numbers from ``least`` to ``most``; their logarithms are uniform."""
    return np.exp(rng.uniform(math.log(least), math.log(most), count))


def strata(rng: np.random.Generator, count: int) -> np.ndarray:
    """Stratified random ranks, 0 to 1: one near the middle of each ``count``-th, in random order.

    Even a small sample drawn by them has nearly the percentiles of its distribution.
    """
    return (rng.permutation(count) + rng.uniform(0.3, 0.7, count)) / count


def by_percentiles(ranks: np.ndarray, p50: float, p95: float) -> np.ndarray:
    """Quantiles at ``ranks`` of 0 to 1 of the lognormal distribution with these percentiles."""
    sigma = math.log(p95 / p50) / _NORMAL.inv_cdf(0.95)
    return p50 * np.exp(sigma * scores(ranks))


def scores(ranks: np.ndarray) -> np.ndarray:
    """The quantiles of the standard normal distribution at ``ranks`` of 0 to 1."""
    return np.array([_NORMAL.inv_cdf(rank) for rank in ranks.tolist()])


def correlated_ranks(rng: np.random.Generator, ranks: np.ndarray) -> np.ndarray:
    """Stratified ranks that are correlated with ``ranks``: 0.9 by their scores before ranking."""
    count = len(ranks)
    mixed = 0.9 * scores(ranks) + math.sqrt(1 - 0.9**2) * scores(strata(rng, count))
    out = np.empty(count)
    out[np.argsort(mixed, kind="stable")] = (np.arange(count) + 0.5) / count
    return out


def zipf_shares(rng: np.random.Generator, sites: int, variation: float) -> tuple[float, ...]:
    """Shares of ``sites`` by Zipf's law, in random order, with this coefficient of variation.

    ``variation`` is at most sqrt(sites - 1), when a single site has everything.
    """
    exponents, variations = _zipf_variations(sites)
    weights = _zipf_weights(sites, np.interp(variation, variations, exponents))
    return tuple(rng.permutation(weights / math.fsum(weights)).tolist())


def _zipf_weights(sites: int, exponent: float) -> np.ndarray:
    weights: np.ndarray = np.arange(1, sites + 1, dtype=float) ** -exponent
    return weights


@functools.cache
def _zipf_variations(sites: int) -> tuple[np.ndarray, np.ndarray]:
    """Zipf exponents, from 0 for equal shares, and the coefficient of variation of each."""
    exponents = np.linspace(0.0, 16.0, 1601)
    weights = [_zipf_weights(sites, exponent) for exponent in exponents.tolist()]
    return exponents, np.array([each.std() / each.mean() for each in weights])


# Jobs of many stages, each read by one other, so that each has one number of partitions -----------
class StageNode(NamedTuple):
    """A stage of the graph, before its sizes are known."""

    reads: tuple[int, ...]  #: numbers of earlier stages; () = it reads ``file``
    selectivity: float  #: output bytes / input bytes
    file: InputFile | None = None
    tasks: int = 0  #: 0 = one task for each ``part_bytes`` of input


def stages_of(
    nodes: list[StageNode], part_bytes: int, tasks_max: int = 1000
) -> tuple[WorkStage, ...]:
    """The stages; one that fetches has a task for each ``part_bytes``, 1 to ``tasks_max``."""
    stages: list[WorkStage] = []
    for number, node in enumerate(nodes):
        input_bytes = sum(stages[read].output_bytes for read in node.reads)
        tasks = node.tasks or min(tasks_max, max(1, -(-input_bytes // part_bytes)))
        files: tuple[str, ...] = ()
        if node.file is not None:
            input_bytes, tasks, files = node.file.size_bytes, node.file.blocks, (node.file.path,)
        stages.append(
            WorkStage(
                name=stage_name(number),
                reads=tuple(stages[read].name for read in node.reads),
                files=files,
                tasks=tasks,
                output_bytes=round(input_bytes * node.selectivity),
            )
        )
    return tuple(stages)
