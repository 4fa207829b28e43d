"""KMeans: clusters movies by who rated them how; one iteration a job.

A movie is a line "movie:rater_rating,rater_rating,...", with ratings from 1 to 5.  A map finds for
each movie of its splits the most similar centroid, and ships the movie to the reduce of that
cluster.  A reduce takes as the new centroid the movie whose similarity to the old one is closest to
the mean of the cluster, and writes, each in a line, the centroids of its clusters
("centroid<TAB>cluster<TAB>movie"), then their movies ("cluster<TAB>movie").  The first k movies are
the first centroids.  Each iteration is a job of its own, which reads all ratings and has the
centroids of the one before as a parameter; together they are the measured job.

Source: K-Means of the PUMA suite (Ahmad et al., 2012), and the layout of its movie data sets:
cosine similarity of the vectors of ratings, whole movies in the shuffle, a movie as the new
centroid, chosen by the mean similarity, of which only the first ratings are kept.  An iteration is
a run there; here a job has several.  Chosen here: norms are those of whole vectors (PUMA's code
counts common raters only, so that one of them makes two movies equal); of two movies equally close
to the mean the lower number counts; a cluster without movies keeps its centroid.

Ratings are generated as those of the Netflix Prize's training set: 100,480,507 ratings of 17,770
movies by 480,189 customers.  Of a movie's raters, 60 % are drawn among the customers who like its
genre.  The n-th most active customer rates in proportion to 1 / n**0.5.  Movies have lognormal
numbers of ratings, 200 in the mean, by 20,000 customers: about as dense as Netflix's (1 % of all
pairs), so that movies have raters in common although there are few movies.  Two ratings are drawn
with Netflix's shares; the higher one counts for customers who like the genre, the lower for others.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, islice, pairwise, takewhile
from typing import NamedTuple

import numpy as np

from railyard.cluster.errors import UsageError, require
from railyard.cluster.messages import JobPackage, TaskSpec
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import Work, after_fetch, fetched
from railyard.jobs.package import pack_job
from railyard.jobs.plan import (
    Files,
    GivenFile,
    Plan,
    Request,
    Step,
    Verdict,
    difference,
    lines_of,
    output_of,
    require_params,
)
from railyard.jobs.samples.checks import expected_clusters
from railyard.jobs.samples.tasks import (
    BadLine,
    Generator,
    Numbers,
    Part,
    generated,
    lines_in,
    malformed,
    parsed_file,
    parsed_splits,
)
from railyard.jobs.taskio import Buffer, Counters, FileReader, TaskIO, TaskResult

K_MAX = 256
ITERATIONS_MAX = 1000
#: Ratings of its movie that a centroid has at most, the first ones of its line.
CENTROID_RATINGS_MAX = 4096
CENTROID = b"centroid\t"  #: what the lines of centroids begin with
MOVIE_BYTES = 1_775  #: mean of a generated movie's line, measured

_MOVIE = re.compile(rb"([0-9]{1,15}):([0-9]{1,15}_[1-5](?:,[0-9]{1,15}_[1-5])*)\r?")
_RIGHT = "movie:rater_rating,rater_rating,... with ratings of 1 to 5, as in 17:148_3,82_5"
_HEADER = struct.Struct("<QQdQ")  # cluster, movie's number, similarity, bytes of its line
_LINES_PER_PIECE = 2**8
_SHOWN = 5  #: clusters that a verdict shows

#: Ratings of 1, 2, ... 5 in the training set.
_NETFLIX = (4_617_990, 10_132_080, 28_811_247, 33_750_958, 23_168_232)
_CUSTOMERS, _GENRES = 20_000, 8
_FANS_SHARE, _ACTIVITY_EXPONENT = 0.6, 0.5
_RATINGS_MEAN, _RATINGS_MIN, _RATINGS_MAX, _SIGMA = 200, 3, _CUSTOMERS // 4, 1.0
#: Customers' numbers are below, as Netflix's; a multiplier without common factor keeps them apart.
_CUSTOMER_NUMBERS, _SPREAD = 2_649_429, 48_271


# Movies ------------------------------------------------------------------------------------------
class Movie(NamedTuple):
    """A movie and its ratings."""

    number: int
    raters: Numbers
    ratings: Numbers
    line: bytes


def movies(block: Buffer) -> list[Movie]:
    """The movies in these lines; ``BadLine`` for the first line of another layout."""
    return [_movie(at, line.removesuffix(b"\r")) for at, line in enumerate(lines_in(block))]


def _movie(at: int, line: bytes) -> Movie:
    found = _MOVIE.fullmatch(line)
    if found is None:
        raise malformed(at, line, _RIGHT)
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


# The job -----------------------------------------------------------------------------------------
class KMeans(Job):
    """Forms `k` clusters in `iterations`; `centroids` are the lines of those of one iteration."""

    centroids: list[bytes]
    k: int = 16
    iterations: int = 3
    reduces: int = 1  #: how many its reduces are; cluster c is that of reduce c modulo ``reduces``

    def setup(self) -> None:
        require(1 <= self.k <= K_MAX, "k", self.k, f"1 to {K_MAX} clusters")
        right = f"1 to {ITERATIONS_MAX}"
        require(1 <= self.iterations <= ITERATIONS_MAX, "iterations", self.iterations, right)
        require(1 <= self.reduces <= self.k, "reduces", self.reduces, "1 to the number of clusters")

    def stages(self) -> tuple[Stage, ...]:
        recentre = Stage("r", Work(self._recentre), reads=("m",), tasks=self.reduces)
        return (Stage("m", Work(self._assign)), recentre)

    def _assign(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        centroids = Centroids(self.centroids)
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        counters |= {"movies": 0, "ratings": 0}
        for found in parsed_splits(movies, task, io):
            for movie in found:
                cluster, similarity = centroids.nearest(movie)
                header = _HEADER.pack(cluster, movie.number, similarity, len(movie.line))
                partitions[cluster % task.partitions] += [header, movie.line]
                counters["ratings"] += len(movie.raters)
            counters["movies"] += len(found)
        return TaskResult(partitions=partitions)

    def _recentre(self, task: TaskSpec, io: TaskIO, _counters: Counters) -> TaskResult:
        clusters: dict[int, list[_Member]] = {}
        for _, output in fetched(task, io):
            for cluster, member in _shipped(output):
                clusters.setdefault(cluster, []).append(member)
        return TaskResult(output=self._lines(clusters, task, io))

    def _lines(
        self, clusters: dict[int, list[_Member]], task: TaskSpec, io: TaskIO
    ) -> Iterator[Buffer]:
        for cluster in range(task.index, self.k, self.reduces):
            members = clusters.get(cluster, [])
            line = _centre(members).line if members else self.centroids[cluster]
            yield b"%s%d\t%s\n" % (CENTROID, cluster, as_centroid(line))
        for done, cluster in enumerate(sorted(clusters), start=1):
            members = sorted(clusters[cluster])
            for start in range(0, len(members), _LINES_PER_PIECE):
                piece = members[start : start + _LINES_PER_PIECE]
                yield b"".join([b"%d\t%s\n" % (cluster, member.line) for member in piece])
            io.progress(after_fetch(done / len(clusters)))


class _Member(NamedTuple):
    """A movie of a cluster; they are written in this order."""

    number: int
    line: bytes
    similarity: float  #: to the cluster's centroid


def _centre(members: list[_Member]) -> _Member:
    """The movie whose similarity to the centroid is closest to the mean; then the lowest number."""
    mean = math.fsum(member.similarity for member in members) / len(members)
    return min(members, key=lambda member: (abs(member.similarity - mean), member))


def _shipped(output: memoryview) -> Iterator[tuple[int, _Member]]:
    at = 0
    while at < len(output):
        cluster, number, similarity, length = _HEADER.unpack_from(output, at)
        at += _HEADER.size
        yield cluster, _Member(number, bytes(output[at : at + length]), similarity)
        at += length


# Generated ratings -------------------------------------------------------------------------------
class RatingsGen(Generator):
    """Generates the ratings of `movies` movies in `parts` files."""

    TOTAL, OF = "movies", "movies"
    movies: int
    parts: int = 1
    seed: int = 1

    def pieces(self, part: Part, counters: Counters) -> Iterator[tuple[Buffer, int]]:
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


# The plan ----------------------------------------------------------------------------------------
def plan_kmeans(request: Request) -> Plan:
    """Cluster the movies of generated or given ratings."""
    require_params(request, "kmeans", ["k", "iterations"])
    job = KMeans(**{"centroids": []} | dict(request.params))
    before = () if request.input else (_generate(request, job.k),)
    source = before[0].output if before else request.input
    steps = _iterations(job, request, source)

    def verify(files: Files) -> Verdict:
        expected = expected_clusters(files, source, job.k, job.iterations)
        if wrong := difference(sorted(lines_of(files, steps[-1].output)), expected.lines, "lines"):
            return wrong
        largest = sorted(range(job.k), key=lambda cluster: -expected.sizes[cluster])[:_SHOWN]
        similar = f"{expected.similarity:.3f}, {expected.similarity_first:.3f} in the first"
        detail = f"{sum(expected.sizes)} movies in {job.k} clusters, as computed independently"
        first = f"mean similarity to their centroids {similar} iteration"
        sizes = [f"cluster {cluster}: {expected.sizes[cluster]} movies" for cluster in largest]
        return Verdict(True, detail, (first, *sizes))

    return Plan(
        steps=(*before, *steps),
        input=KMeans.input,
        check_files=partial(_check_files, job.k),
        verify=verify,
    )


def _iterations(job: KMeans, request: Request, source: str) -> tuple[Step, ...]:
    """A step for each iteration; the last one writes the output."""
    reduces = min(request.reduces, job.k)

    def pack(files: Files, before: str) -> JobPackage:
        found = _new_centroids(files, before) if before else _first_centroids(files, source, job.k)
        of = {"k": job.k, "iterations": job.iterations, "reduces": reduces}
        return pack_job(KMeans, {"centroids": found, **of})

    outputs = [f"{request.folder}/iteration-{at}" for at in range(1, job.iterations)]
    outputs.append(output_of(request))
    return tuple(
        Step(
            name="kmeans" if number == 1 else f"kmeans.{number}",
            input=source,
            output=output,
            reduces=reduces,
            pack=partial(pack, before=before),
            measured=True,
        )
        for number, (before, output) in enumerate(pairwise(["", *outputs]), start=1)
    )


def _generate(request: Request, k: int) -> Step:
    size = request.stored_bytes
    require(size >= 1, "size", size, "at least one real byte")
    count = max(1, size // MOVIE_BYTES)
    _require_enough(k, count)
    return generated(RatingsGen, request, movies=count)


def _check_files(k: int, files: Sequence[GivenFile]) -> None:
    """Raise ``BadInput`` unless all lines are ratings, ``UsageError`` for fewer than k movies."""
    found = (movie for one in files for movie in _movies_of(one.file, one.shown))
    _require_enough(k, sum(1 for _ in found))


def _first_centroids(files: Files, source: str, k: int) -> list[bytes]:
    every = (_movies_of(files.open(path), path) for path in files.list(source))
    found = [as_centroid(movie.line) for movie in islice(chain.from_iterable(every), k)]
    _require_enough(k, len(found))
    return found


def _movies_of(file: FileReader, shown: str) -> Iterator[Movie]:
    return chain.from_iterable(parsed_file(movies, file, shown))


def _new_centroids(files: Files, folder: str) -> list[bytes]:
    """The centroids that an iteration has written at the heads of its files, by their clusters."""
    found: dict[int, bytes] = {}
    for path in files.list(folder):
        lines = chain.from_iterable(parsed_file(lines_in, files.open(path), path))
        for line in takewhile(lambda line: line.startswith(CENTROID), lines):
            cluster, _, movie = line.removeprefix(CENTROID).partition(b"\t")
            found[int(cluster)] = movie
    return [found[cluster] for cluster in sorted(found)]


def _require_enough(k: int, found: int) -> None:
    if found < k:
        raise UsageError(f"k = {k}: the ratings are of {found} movies: need at most as many")
