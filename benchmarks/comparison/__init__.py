"""Does a comparison call a difference what chance made, and does it find what is one?

Pairs of identical schedulers, the same recipe under another name, run the same small jobs in
virtual time with dice of their own: other computing times, and from there other places and orders.
At most 5 % of the pairs may have any metric called better or worse.  Then the second one has a
planted difference: all of its times are 10 % longer, as if its clock ran slower.  With ten seeds at
least 90 % of these must be called worse.

How much chance varies a time decides how many seeds it takes.  Half of the pairs are *quiet*:
three jobs, of whose time the network is a small part, with computing times that vary by a
twentieth.  The others are *noisy*: a single job, links as busy as slots, and one attempt in fifty
takes three times as long.  The bound on what is found is for the quiet ones; notes say by how much
each metric varies.

``railyard bench comparison`` also shows what other tests would have made of the same pairs, without
bounds (docs/decisions/comparisons.md).

Not here: how a comparison is made (``experiments``).
Open ``_pairs`` first.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, pstdev

from railyard.benchmarks._common.rows import Row, bench_row
from railyard.benchmarks.comparison._othertests import OTHER_TESTS, other_test
from railyard.benchmarks.comparison._pairs import (
    NOISY,
    QUIET,
    SEEDS_MAX,
    Other,
    Pair,
    logs,
    same,
    simulated_pair,
    slower,
)
from railyard.experiments.contenders import Contender, rows_of
from railyard.experiments.statements import Statement, Verdict, statements
from railyard.runs.figures import COMPARED, Summary
from railyard.runs.simulation import sweep

PAIRS = 200
SEEDS = (3, 5, SEEDS_MAX)
#: Largest share of pairs of identical schedulers with anything called a difference, in %.
FALSE_MAX = 5.0
#: Least share of planted differences that are found with the most seeds, in %.
FOUND_MIN = 90.0


def run(quick: bool = False) -> list[Row]:
    """The rows of ``railyard bench comparison``."""
    pairs = sweep(simulated_pair, range(PAIRS // 5 if quick else PAIRS))
    rows = [_identical(pairs, seeds) for seeds in SEEDS]
    for noise in (QUIET, NOISY):
        of = [pair for pair in pairs if pair.noise == noise]
        rows += [_planted(of, seeds, is_bound=noise is QUIET) for seeds in SEEDS]
    for name, p_value in OTHER_TESTS.items():
        rows += [other_test(name, p_value, pairs, seeds) for seeds in SEEDS]
    return rows


def called(pairs: Sequence[Pair], seeds: int, other: Other, *verdicts: Verdict) -> float:
    """Share of pairs in % with a statement of these verdicts, from the first so many seeds."""
    found = [said_of(pair.first[:seeds], other(pair)[:seeds]) for pair in pairs]
    return 100 * fmean(any(one.verdict in verdicts for one in said) for said in found)


def said_of(first: list[Summary], other: list[Summary]) -> tuple[Statement, ...]:
    """What a comparison says of two contenders' runs."""
    names = (Contender(name, "maxmin", "virtual") for name in ("fair", "other"))
    return statements(rows_of(dict(zip(names, (first, other), strict=True)))).every


# Rows ---------------------------------------------------------------------------------------------
def _identical(pairs: Sequence[Pair], seeds: int) -> Row:
    return bench_row(
        f"identical schedulers, {seeds} seeds: pairs called different",
        called(pairs, seeds, same, Verdict.BETTER, Verdict.WORSE),
        "%",
        bound=FALSE_MAX,
        note=f"{len(pairs)} pairs",
    )


def _planted(pairs: Sequence[Pair], seeds: int, *, is_bound: bool) -> Row:
    share = called(pairs, seeds, slower, Verdict.WORSE)
    is_bound = is_bound and seeds == SEEDS[-1]
    wrong = called(pairs, seeds, slower, Verdict.BETTER)
    return bench_row(
        f"10 % longer, {pairs[0].noise.name}, {seeds} seeds: pairs called worse",
        share,
        "%",
        bound=FOUND_MIN if is_bound else None,
        ok=share >= FOUND_MIN if is_bound else None,
        note=f"called better: {wrong:.1f} %; {_by_metric(pairs, seeds)}",
    )


def _by_metric(pairs: Sequence[Pair], seeds: int) -> str:
    """Of each metric, how much chance varies it, and how often it was called worse."""
    said = [said_of(pair.first[:seeds], slower(pair)[:seeds]) for pair in pairs]
    shares = []
    for metric in COMPARED:
        found = [
            one.verdict is Verdict.WORSE for each in said for one in each if one.metric == metric
        ]
        spread = fmean(pstdev(logs(pair, metric, same, SEEDS[-1])) for pair in pairs)
        shares.append(f"{metric.title} (varies by {spread:.0%}) {fmean(found):.0%}")
    return ", ".join(shares)
