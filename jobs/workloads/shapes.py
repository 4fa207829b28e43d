"""How generators draw sizes and put stages together.

Never here: a workload's own numbers.
"""

from __future__ import annotations

import functools
import math
from statistics import NormalDist

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
    task_s: float = 0.0,
    rates: tuple[float | None, float | None] = (None, None),
    reduce_s: float | None = None,
    shares: tuple[float, ...] = (),
    arrive_s: float | None = None,
) -> Shape:
    """A MapReduce job; without ``reduces`` its maps write the output.

    ``rates`` are those of maps and reduces; ``reduce_s`` is what a reduce takes besides, as
    ``task_s`` is for a map (default: the same).  Without input it has one map that reads nothing.
    """
    files: tuple[InputFile, ...] = ()
    if input_bytes:
        path = f"/workload/{name}"
        files = (
            InputFile(path=path, size_bytes=input_bytes, block_bytes=block_bytes, shares=shares),
        )
    maps = WorkStage(
        name="m",
        files=tuple(file.path for file in files),
        tasks=sum(file.blocks for file in files) or 1,
        output_bytes=shuffle_bytes if reduces else output_bytes,
        task_s=task_s,
        rate_bytes_per_s=rates[0],
    )
    if not reduces:
        return Shape(name, (maps,), files, arrive_s)
    reducing = WorkStage(
        name="r",
        reads=("m",),
        tasks=reduces,
        output_bytes=output_bytes,
        task_s=task_s if reduce_s is None else reduce_s,
        rate_bytes_per_s=rates[1],
    )
    return Shape(name, (maps, reducing), files, arrive_s)


def stage_name(number: int) -> str:
    """Small letters only: a, b, ..., z, ba, bb, ..."""
    number, letter = divmod(number, 26)
    name = chr(ord("a") + letter)
    while number:
        number, letter = divmod(number, 26)
        name = chr(ord("a") + letter) + name
    return name


def log_uniform(rng: np.random.Generator, least: float, most: float, count: int) -> np.ndarray:
    """Between two sizes, each order of magnitude alike."""
    return np.exp(rng.uniform(math.log(least), math.log(most), count))


def strata(rng: np.random.Generator, count: int) -> np.ndarray:
    """Numbers of 0 to 1 in any order, one around the middle of each ``count``-th part.

    Percentiles of what is made of them are those of the distribution, even if there are few.
    """
    return (rng.permutation(count) + rng.uniform(0.3, 0.7, count)) / count


def by_percentiles(ranks: np.ndarray, p50: float, p95: float) -> np.ndarray:
    """The lognormal distribution with these percentiles, at ``ranks`` of 0 to 1."""
    sigma = math.log(p95 / p50) / _NORMAL.inv_cdf(0.95)
    return p50 * np.exp(sigma * scores(ranks))


def scores(ranks: np.ndarray) -> np.ndarray:
    """The standard normal distribution at ``ranks`` of 0 to 1."""
    return np.array([_NORMAL.inv_cdf(rank) for rank in ranks.tolist()])


def alike(rng: np.random.Generator, ranks: np.ndarray, correlation: float) -> np.ndarray:
    """Other ranks, one in each equal part too, that go along with ``ranks``.

    ``correlation`` is that of the normal scores before they are ranked.
    """
    count = len(ranks)
    rest = math.sqrt(1 - correlation**2)
    mixed = correlation * scores(ranks) + rest * scores(strata(rng, count))
    out = np.empty(count)
    out[np.argsort(mixed, kind="stable")] = (np.arange(count) + 0.5) / count
    return out


def zipf_shares(rng: np.random.Generator, sites: int, variation: float) -> tuple[float, ...]:
    """Shares of ``sites``, in any order, by Zipf's law, with this coefficient of variation.

    It can't be more than that of a single site that has everything, sqrt(sites - 1).
    """
    exponents, variations = _zipf_variations(sites)
    weights = _zipf_weights(sites, np.interp(variation, variations, exponents))
    return tuple(rng.permutation(weights / math.fsum(weights)).tolist())


def _zipf_weights(sites: int, exponent: float) -> np.ndarray:
    weights: np.ndarray = np.arange(1, sites + 1, dtype=float) ** -exponent
    return weights


@functools.cache
def _zipf_variations(sites: int) -> tuple[np.ndarray, np.ndarray]:
    """Exponents from 0 (all alike) up, and the coefficient of variation of each."""
    exponents = np.linspace(0.0, 16.0, 1601)
    weights = [_zipf_weights(sites, exponent) for exponent in exponents.tolist()]
    return exponents, np.array([each.std() / each.mean() for each in weights])
