"""What the query should find, by a plain program that shares no code with the job.

One pass over each table, with dictionaries and decimals; no SQL, and none of the job's readers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from decimal import Decimal
from fractions import Fraction

from railyard.jobs.samples.sample import Files
from railyard.jobs.samples.steps import decoded, lines_of

Shown = tuple[str, ...]  #: a row of the output: address, revenue, mean rank


def expected_rows(
    files: Files, rankings: str, uservisits: str, since: str, until: str
) -> list[Shown]:
    """All rows of the result, best first, from the tables at these paths."""
    ranks: dict[bytes, list[int]] = defaultdict(list)
    for line in lines_of(files, rankings):
        url, rank, _ = line.split(b",")
        ranks[url].append(int(rank))
    revenue: dict[bytes, Decimal] = defaultdict(Decimal)
    seen: dict[bytes, list[int]] = defaultdict(list)  #: {address: ranks of the pages it visited}
    for line in lines_of(files, uservisits):
        address, url, day, earned, _ = line.split(b",", 4)
        if since.encode() <= day <= until.encode() and url in ranks:
            revenue[address] += Decimal(earned.decode()) * len(ranks[url])
            seen[address] += ranks[url]
    best = sorted(revenue, key=lambda address: (-revenue[address], address))
    return [(decoded(address), f"{revenue[address]:.9f}", _mean(seen[address])) for address in best]


def found_rows(files: Files, output: str) -> list[Shown]:
    """The rows of an output."""
    return [tuple(decoded(line).split("\t")) for line in lines_of(files, output)]


def _mean(ranks: list[int]) -> str:
    """The mean to the nearest thousandth; halves are rounded up."""
    thousandths = math.floor(Fraction(1000 * sum(ranks), len(ranks)) + Fraction(1, 2))
    return str(Decimal(thousandths).scaleb(-3).quantize(Decimal("0.001")))
