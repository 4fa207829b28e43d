"""Ratings of movies as those of Netflix's customers, made up by seed.

There are 8 genres.  Of a movie's raters, 60 % are drawn among the customers who like its genre.
Some customers rate far more than others (the n-th most active one in proportion to 1 / n**0.5).
Movies have very unequal numbers of ratings (lognormal, at least 3), 200 in the mean, by 20,000
customers: about as dense as Netflix's (1 % of all pairs), so that movies have raters in common
although there are few movies.  Two ratings are drawn with Netflix's shares; the higher one counts
for customers who like the genre, the lower one for others.

Source: the Netflix Prize's training set, 100,480,507 ratings of 17,770 movies by 480,189 customers.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from railyard.cluster.errors import require
from railyard.jobs.formats import Lines
from railyard.jobs.generating import Part, check_parts, generating_stages
from railyard.jobs.model import Job, Stage
from railyard.jobs.taskio import Buffer, Counters

#: Mean bytes of a movie's line, measured.
MOVIE_BYTES = 1_775

#: Ratings of 1, 2, ... 5 in the training set.
_NETFLIX = (4_617_990, 10_132_080, 28_811_247, 33_750_958, 23_168_232)
_CUSTOMERS, _GENRES = 20_000, 8
_FANS_SHARE, _ACTIVITY_EXPONENT = 0.6, 0.5
_RATINGS_MEAN, _RATINGS_MIN, _RATINGS_MAX, _SIGMA = 200, 3, _CUSTOMERS // 4, 1.0
#: Customers' numbers are below, as Netflix's; a multiplier without common factor keeps them apart.
_CUSTOMER_NUMBERS, _SPREAD = 2_649_429, 48_271

Numbers = npt.NDArray[np.int64]


class RatingsGen(Job):
    """Generates the ratings of `movies` movies in `parts` files."""

    input = Lines()
    movies: int
    parts: int = 1
    seed: int = 1

    def setup(self) -> None:
        require(self.movies >= 1, "movies", self.movies, "a whole number >= 1")
        check_parts(self.movies, "movies", self.parts, self.seed)

    def stages(self) -> tuple[Stage, ...]:
        return generating_stages(self.movies, self.parts, self._lines)

    def _lines(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
        dice = np.random.default_rng((self.seed, part.index))
        counters |= {"movies": part.stop - part.first, "ratings": 0}
        for movie, wanted in enumerate(_lengths(part.stop - part.first, dice), part.first + 1):
            raters, ratings = _ratings(int(dice.integers(_GENRES)), wanted, dice)
            counters["ratings"] += len(raters)
            pairs = zip(raters.tolist(), ratings.tolist(), strict=True)
            yield b"%d:%s\n" % (movie, ",".join([f"{a}_{b}" for a, b in pairs]).encode()), 1


def _lengths(movies: int, dice: np.random.Generator) -> list[int]:
    """The number of ratings of each movie; their sum is about as large for all seeds."""
    weights = dice.lognormal(0.0, _SIGMA, movies)
    wanted = movies * _RATINGS_MEAN * weights / weights.sum()
    lengths: list[int] = np.clip(wanted, _RATINGS_MIN, _RATINGS_MAX).astype(np.int64).tolist()
    return lengths


def _ratings(genre: int, wanted: int, dice: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Who rates a movie, at most ``wanted`` customers in the order of their numbers, and how."""
    by_fan = dice.random(wanted) < _FANS_SHARE
    fans = _active(_CUSTOMERS // _GENRES, wanted, dice) * _GENRES + genre
    customers = np.unique(np.where(by_fan, fans, _active(_CUSTOMERS, wanted, dice)))
    shares = np.cumsum(_NETFLIX) / sum(_NETFLIX)
    first, second = np.searchsorted(shares, dice.random((2, len(customers)))) + 1
    likes = customers % _GENRES == genre
    ratings = np.where(likes, np.maximum(first, second), np.minimum(first, second))
    numbers = (customers + 1) * _SPREAD % _CUSTOMER_NUMBERS
    order = np.argsort(numbers)
    return numbers[order], ratings[order]


def _active(choices: int, count: int, dice: np.random.Generator) -> Numbers:
    """Numbers below ``choices``, 0 the most frequent: the integral of n**-0.5, inverted."""
    drawn = choices * dice.random(count) ** (1 / (1 - _ACTIVITY_EXPONENT))
    return drawn.astype(np.int64)
