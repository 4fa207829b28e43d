"""What sample jobs should write, by plain programs that share no code with them.

One pass over the files with dictionaries, decimals and sorting: no SQL, no numpy where the job has
it, and none of the jobs' readers.
"""

from __future__ import annotations

import math
from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from railyard.jobs.plan import Files, decoded, lines_of

# Query --------------------------------------------------------------------------------------------
ResultRow = tuple[str, ...]  #: a row of the output: address, revenue, mean rank


def expected_rows(
    files: Files, rankings: str, uservisits: str, since: str, until: str
) -> list[ResultRow]:
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


def found_rows(files: Files, output: str) -> list[ResultRow]:
    """The rows of an output."""
    return [tuple(decoded(line).split("\t")) for line in lines_of(files, output)]


def _mean(ranks: list[int]) -> str:
    """The mean to the nearest thousandth; halves are rounded up."""
    thousandths = math.floor(Fraction(1000 * sum(ranks), len(ranks)) + Fraction(1, 2))
    return str(Decimal(thousandths).scaleb(-3).quantize(Decimal("0.001")))


# Correlation -------------------------------------------------------------------------------------
def expected_ranks(files: Files, source: str) -> tuple[list[bytes], str]:
    """The lines of the ranks of all names, in order, and the coefficient as it is printed."""
    least: dict[bytes, tuple[int, ...]] = {}
    for line in lines_of(files, source):
        name, *numbers = line.split(b",")
        row = tuple(map(int, numbers))
        if name not in least or row < least[name]:
            least[name] = row
    names = sorted(least)
    first, second = (_ranks(np.array([least[name][of] for name in names])) for of in (0, 1))
    lines = [
        b"%s\t%s\t%s" % (name, _rank_text(one), _rank_text(other))
        for name, one, other in zip(names, first.tolist(), second.tolist(), strict=True)
    ]
    if first.min() == first.max() or second.min() == second.max():
        return lines, "undefined"
    return lines, f"{np.corrcoef(first, second)[0, 1]:.6f}"


def _ranks(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """From 1 on; the mean rank of equal ones."""
    _, group, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    means: npt.NDArray[np.float64] = np.cumsum(counts) - (counts - 1) / 2
    return means[group]


def _rank_text(rank: float) -> bytes:
    return f"{rank:.1f}".removesuffix(".0").encode()


# Self-join ---------------------------------------------------------------------------------------
def expected_candidates(files: Files, source: str) -> list[bytes]:
    """All candidates, sorted."""
    rows = sorted({tuple(line.strip().split(b",")) for line in lines_of(files, source)})
    found = []
    for _, group in groupby(rows, key=lambda row: row[:-1]):
        alike = list(group)
        for number, row in enumerate(alike):
            found += [b",".join((*row, other[-1])) for other in alike[number + 1 :]]
    return sorted(found)


# Sequence-count and ranked-inverted-index --------------------------------------------------------
_DIGITS_MAX = 18


def wrong_counts(files: Files, source: str, output: str) -> tuple[int, int, str]:
    """How often three words follow one another, against the counts in an output.

    Returns the number of sequences with their documents, how many occurrences they have, and what
    is wrong: "" = nothing.  They are compared by hashes of 64 bits, which take little memory.
    """
    every = np.fromiter(map(hash, _occurrences(files, source)), np.int64)
    expected, times = np.unique(every, return_counts=True)
    marks, counts = array("q"), array("q")
    for line in lines_of(files, output):
        what, _, count = line.rpartition(b"\t")
        if not (count.isdigit() and len(count) <= _DIGITS_MAX):
            return len(expected), len(every), f'"{_line_text(line)}" has no count'
        marks.append(hash(what))
        counts.append(int(count))
    found = np.array(marks, np.int64)
    order = np.argsort(found)
    same = np.array_equal(found[order], expected)
    if same and np.array_equal(np.array(counts, np.int64)[order], times):
        return len(expected), len(every), ""
    right = dict(zip(expected.tolist(), times.tolist(), strict=True))
    lines = zip(lines_of(files, output), marks, counts, strict=True)
    others = [line for line, mark, count in lines if right.pop(mark, None) != count]
    example = f', such as "{_line_text(others[0])}"' if others else ""
    wrong = f"{len(others)} wrong lines{example}, {len(right)} are missing"
    return len(expected), len(every), wrong


def _occurrences(files: Files, source: str) -> Iterator[bytes]:
    """Each occurrence of three words in a row, as "word word word<TAB>document"."""
    for path in files.list(source):
        name = path.rsplit("/", 1)[-1].encode("utf-8", "surrogateescape")
        for line in lines_of(files, path):
            document, text = line.split(b"\t", 1) if b"\t" in line else (name, line)
            words = text.split()
            for at in range(len(words) - 2):
                yield b"%s %s %s\t%s" % (words[at], words[at + 1], words[at + 2], document)


def ranked_lines(files: Files, source: str) -> list[bytes]:
    """The lines of the index of these counts, sorted."""
    rows = []
    for line in lines_of(files, source):
        sequence, document, count = line.split(b"\t")
        rows.append((sequence, -int(count), document))
    rows.sort()
    return [
        sequence + b"".join(b"\t%d %s" % (-count, document) for _, count, document in group)
        for sequence, group in groupby(rows, key=itemgetter(0))
    ]


def _line_text(line: bytes) -> str:
    return decoded(line[:80]).replace("\t", " ")


# K-means -----------------------------------------------------------------------------------------
_CENTROID_RATINGS_MAX = 4096

Rated = tuple[Sequence[int], Sequence[int]]  #: raters, and the rating of each


class Clusters(NamedTuple):
    """The result of a number of iterations."""

    lines: list[bytes]  #: of the last iteration's output, sorted
    similarity: float  #: mean of the movies' similarities to their centroids, in the last iteration
    similarity_first: float  #: in the first one
    sizes: list[int]  #: movies of each cluster


def expected_clusters(files: Files, source: str, k: int, iterations: int) -> Clusters:
    """The clusters after so many iterations, from the first ``k`` movies as centroids."""
    lines = [line.rstrip(b"\r") for line in lines_of(files, source)]
    movies = [_rated(line) for line in lines]
    numbers = [int(line.split(b":")[0]) for line in lines]
    centroids = [_cut(line) for line in lines[:k]]
    means = []
    for _ in range(iterations):
        nearest = _nearest(movies, [_rated(line) for line in centroids])
        members: list[list[int]] = [[] for _ in range(k)]
        for movie, (cluster, _) in enumerate(nearest):
            members[cluster].append(movie)
        for cluster, of in enumerate(members):
            if of:
                mean = math.fsum(nearest[movie][1] for movie in of) / len(of)
                away = [(abs(nearest[m][1] - mean), numbers[m], lines[m]) for m in of]
                centroids[cluster] = _cut(min(away)[2])
        means.append(math.fsum(similarity for _, similarity in nearest) / len(nearest))
    written = [b"centroid\t%d\t%s" % each for each in enumerate(centroids)]
    written += [
        b"%d\t%s" % (cluster, line) for line, (cluster, _) in zip(lines, nearest, strict=True)
    ]
    return Clusters(sorted(written), means[-1], means[0], list(map(len, members)))


def _rated(line: bytes) -> Rated:
    pairs = [pair.split(b"_") for pair in line.split(b":")[1].split(b",")]
    return array("q", [int(rater) for rater, _ in pairs]), array("b", [int(r) for _, r in pairs])


def _cut(line: bytes) -> bytes:
    return b",".join(line.split(b",")[:_CENTROID_RATINGS_MAX])


def _nearest(movies: list[Rated], centroids: list[Rated]) -> list[tuple[int, float]]:
    """For each movie the most similar centroid, the first of equal ones, and the similarity."""
    rated: dict[int, list[tuple[int, int]]] = {}  #: {rater: each centroid with its rating}
    for cluster, (raters, ratings) in enumerate(centroids):
        for rater, rating in zip(raters, ratings, strict=True):
            rated.setdefault(rater, []).append((cluster, rating))
    squares = [sum(rating * rating for rating in ratings) for _, ratings in centroids]
    found = []
    for raters, ratings in movies:
        sums = [0] * len(centroids)
        for rater, rating in zip(raters, ratings, strict=True):
            for cluster, other in rated.get(rater, ()):
                sums[cluster] += rating * other
        own = sum(rating * rating for rating in ratings)
        cosines = [at / math.sqrt(own * square) for at, square in zip(sums, squares, strict=True)]
        best = max(cosines)
        found.append((cosines.index(best), best))
    return found
