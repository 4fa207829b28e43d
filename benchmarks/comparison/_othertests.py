"""What other tests would call different, corrected for the number of metrics likewise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

import numpy as np
from scipy.stats import bootstrap, permutation_test, wilcoxon

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.comparison._pairs import QUIET, Other, Pair, logs, same, slower
from railyard.experiments.contenders import TOGETHER
from railyard.runs.figures import COMPARED

PValue = Callable[[list[float]], float]


def other_test(name: str, p_value: PValue, pairs: Sequence[Pair], seeds: int) -> Row:
    """What another test, also corrected for the number of metrics, calls different."""

    def share(of: Sequence[Pair], other: Other) -> float:
        bound = (1 - TOGETHER) / len(COMPARED)
        return 100 * fmean(
            any(p_value(logs(pair, metric, other, seeds)) <= bound for metric in COMPARED)
            for pair in of
        )

    quiet = [pair for pair in pairs if pair.noise == QUIET]
    return bench_row(
        f"{name}, {seeds} seeds: identical pairs it would call different",
        share(pairs, same),
        "%",
        note=f"of the quiet pairs that are 10 % longer: {share(quiet, slower):.0f} %",
    )


def _wilcoxon(values: list[float]) -> float:
    return float(wilcoxon(values).pvalue) if any(values) else 1.0


def _sign_flips(values: list[float]) -> float:
    found = permutation_test(
        (np.array(values),), np.mean, permutation_type="samples", n_resamples=9999, rng=1
    )
    return float(found.pvalue)


def _bootstrap(values: list[float]) -> float:
    """1 if the percentile interval, corrected for the metrics, has 0 in it, else 0."""
    if len(set(values)) < 2:
        return 1.0
    level = 1 - (1 - TOGETHER) / len(COMPARED)
    options = {"confidence_level": level, "n_resamples": 1999, "method": "percentile"}
    low, high = bootstrap((np.array(values),), np.mean, **options, rng=1).confidence_interval
    return float(low <= 0 <= high)


OTHER_TESTS: dict[str, PValue] = {
    "Wilcoxon's signed ranks": _wilcoxon,
    "permutation of signs": _sign_flips,
    "bootstrap, percentiles": _bootstrap,
}
