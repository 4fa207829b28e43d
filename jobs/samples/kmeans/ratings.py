"""Ratings of movies: a movie a line, "movie:rater_rating,rater_rating,...", ratings from 1 to 5.

Source: the layout of the PUMA suite's movie data sets, made of the Netflix Prize's files.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from railyard.jobs.samples.checkedlines import BadLine
from railyard.jobs.taskio import Buffer

#: Ratings of its movie that a centroid has at most, the first ones of its line.
CENTROID_RATINGS_MAX = 4096

_MOVIE = re.compile(rb"([0-9]{1,15}):([0-9]{1,15}_[1-5](?:,[0-9]{1,15}_[1-5])*)\r?")
_SHOWN_BYTES = 60
_RIGHT = "need movie:rater_rating,rater_rating,... with ratings of 1 to 5, as in 17:148_3,82_5"

Numbers = npt.NDArray[np.int64]


class Movie(NamedTuple):
    """A movie and its ratings."""

    number: int
    raters: Numbers
    ratings: Numbers
    line: bytes


def movies(lines: Buffer) -> list[Movie]:
    """The movies in these lines; ``BadLine`` for the first line of another layout."""
    rows = bytes(lines).split(b"\n")
    if not rows[-1]:
        rows.pop()
    return [_movie(number, row.removesuffix(b"\r")) for number, row in enumerate(rows)]


def _movie(at: int, line: bytes) -> Movie:
    found = _MOVIE.fullmatch(line)
    if found is None:
        raise BadLine(at, f"{line[:_SHOWN_BYTES].decode(errors='replace')!r}: {_RIGHT}")
    both = np.fromstring(found[2].replace(b"_", b","), np.int64, sep=",")
    raters, ratings = both[0::2], both[1::2]
    if len(np.unique(raters)) < len(raters):
        raise BadLine(at, f"movie {int(found[1])} has two ratings of one rater: need one of each")
    return Movie(int(found[1]), raters, ratings, line)


class Centroids:
    """The movies that clusters form around, to compare others with."""

    def __init__(self, lines: Sequence[bytes]) -> None:
        found = [_movie(0, line) for line in lines]
        raters = np.concatenate([movie.raters for movie in found])
        order = np.argsort(raters, kind="stable")
        self._raters = raters[order]  #: of all centroids' ratings
        self._ratings = np.concatenate([movie.ratings for movie in found])[order]
        sizes = [len(movie.raters) for movie in found]
        self._clusters = np.repeat(np.arange(len(found)), sizes)[order]
        self._squares = np.array([_square(movie.ratings) for movie in found], np.float64)

    def nearest(self, movie: Movie) -> tuple[int, float]:
        """The number of the most similar centroid, the lowest of equal ones, and the similarity.

        The similarity is the cosine of the two vectors of ratings.  Sums are whole numbers, so
        they are exact.
        """
        first = np.searchsorted(self._raters, movie.raters, "left")
        counts = np.searchsorted(self._raters, movie.raters, "right") - first
        ends = counts.cumsum()
        rows = np.arange(ends[-1]) + np.repeat(first - (ends - counts), counts)
        products = self._ratings[rows] * np.repeat(movie.ratings, counts)
        sums = np.bincount(self._clusters[rows], products, len(self._squares))
        similarities = sums / np.sqrt(self._squares * float(_square(movie.ratings)))
        nearest = int(np.argmax(similarities))
        return nearest, float(similarities[nearest])


def as_centroid(line: bytes) -> bytes:
    """A movie's line with as many ratings as a centroid has at most."""
    return b",".join(line.split(b",", CENTROID_RATINGS_MAX)[:CENTROID_RATINGS_MAX])


def _square(ratings: Numbers) -> int:
    return int(ratings @ ratings)
