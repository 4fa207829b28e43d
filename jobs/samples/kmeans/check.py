"""The clusters of movies, by a plain program that shares no code with the job."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from typing import NamedTuple

from railyard.jobs.samples.sample import Files
from railyard.jobs.samples.steps import lines_of

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
