"""KMeans: one iteration, which finds the nearest centroid of each movie, and then new centroids.

A map finds for each movie of its splits the most similar centroid, and ships the movie to the
reduce of that cluster.  A reduce takes as the new centroid the movie whose similarity to the old
one is closest to the mean of the cluster, and writes, each in a line, the centroids of its clusters
("centroid<TAB>cluster<TAB>movie"), then their movies ("cluster<TAB>movie").

Source: K-Means of the PUMA suite (Ahmad et al., 2012): cosine similarity of the vectors of ratings,
whole movies in the shuffle, a movie as the new centroid, chosen by the mean similarity, of which
only the first ratings are kept.  An iteration is a run there; here a job has several.  Chosen here:
norms are those of whole vectors (PUMA's code counts common raters only, so that one of them makes
two movies equal); of two movies equally close to the mean the lower number counts; a cluster
without movies keeps its centroid.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

from railyard.cluster.errors import require
from railyard.cluster.messages.execution import TaskSpec
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job, Stage
from railyard.jobs.operators import FETCHED_SHARE, fetch, split_bytes
from railyard.jobs.samples.checkedlines import parsed_blocks
from railyard.jobs.samples.kmeans.ratings import Centroids, as_centroid, movies
from railyard.jobs.taskio import Buffer, Counters, TaskIO, TaskResult

K_MAX = 256
ITERATIONS_MAX = 1000
#: What the lines of centroids begin with.
CENTROID = b"centroid\t"

_HEADER = struct.Struct("<QQdQ")  # cluster, movie's number, similarity, bytes of its line
_LINES_PER_PIECE = 2**8


class KMeans(Job):
    """Forms `k` clusters in `iterations`; `centroids` are the lines of those of one iteration."""

    input = Lines()
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
        recentre = _Recentre(self)
        return (Stage("m", _Assign(self)), Stage("r", recentre, reads=("m",), tasks=self.reduces))


class _Assign:
    """Ships each movie of its splits to the reduce of its cluster."""

    def __init__(self, job: KMeans) -> None:
        self._job = job

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        centroids = Centroids(self._job.centroids)
        partitions: list[list[Buffer]] = [[] for _ in range(task.partitions)]
        total, done = max(1, split_bytes(task)), 0
        counters |= {"movies": 0, "ratings": 0}
        for split in task.splits:
            for block, found in parsed_blocks(movies, io.open(split.path), split):
                for movie in found:
                    cluster, similarity = centroids.nearest(movie)
                    header = _HEADER.pack(cluster, movie.number, similarity, len(movie.line))
                    partitions[cluster % task.partitions] += [header, movie.line]
                    counters["ratings"] += len(movie.raters)
                counters["movies"] += len(found)
                done += len(block)
                io.progress(min(1.0, done / total))
        return TaskResult(partitions=partitions, input_bytes=split_bytes(task), counters=counters)


class _Member(NamedTuple):
    """A movie of a cluster; they are written in this order."""

    number: int
    line: bytes
    similarity: float  #: to the cluster's centroid


class _Recentre:
    """Finds the new centroids of its clusters, and writes these."""

    def __init__(self, job: KMeans) -> None:
        self._job = job

    def run(self, task: TaskSpec, io: TaskIO, counters: Counters) -> TaskResult:
        clusters: dict[int, list[_Member]] = {}
        fetched_bytes = 0
        for _, output in fetch(task, io):
            fetched_bytes += len(output)
            for cluster, member in _shipped(output):
                clusters.setdefault(cluster, []).append(member)
        pieces = self._lines(clusters, task, io)
        return TaskResult(output=pieces, input_bytes=fetched_bytes, counters=counters)

    def _lines(
        self, clusters: dict[int, list[_Member]], task: TaskSpec, io: TaskIO
    ) -> Iterator[Buffer]:
        job = self._job
        for cluster in range(task.index, job.k, job.reduces):
            members = clusters.get(cluster, [])
            line = _centre(members).line if members else job.centroids[cluster]
            yield b"%s%d\t%s\n" % (CENTROID, cluster, as_centroid(line))
        for done, cluster in enumerate(sorted(clusters), start=1):
            members = sorted(clusters[cluster])
            for start in range(0, len(members), _LINES_PER_PIECE):
                piece = members[start : start + _LINES_PER_PIECE]
                yield b"".join([b"%d\t%s\n" % (cluster, member.line) for member in piece])
            io.progress(FETCHED_SHARE + (1 - FETCHED_SHARE) * done / len(clusters))


def _centre(members: list[_Member]) -> _Member:
    """The movie whose similarity to the centroid is closest to the mean; then the lowest number."""
    mean = math.fsum(member.similarity for member in members) / len(members)
    return min(members, key=lambda member: (abs(member.similarity - mean), member))


def _shipped(output: memoryview) -> Iterator[tuple[int, _Member]]:
    """(Cluster, movie) in one fetched output."""
    at = 0
    while at < len(output):
        cluster, number, similarity, length = _HEADER.unpack_from(output, at)
        at += _HEADER.size
        yield cluster, _Member(number, bytes(output[at : at + length]), similarity)
        at += length
