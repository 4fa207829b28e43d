"""The plan of K-means: ratings generated or given, an iteration after the other, checked.

The first k movies are the first centroids.  Each iteration is a job of its own, which reads all
ratings and has the centroids of the one before as a parameter; together they are the measured job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain, islice

from railyard.cluster.errors import UsageError, require, unknown_name
from railyard.cluster.messages.execution import JobPackage
from railyard.cluster.shown import printable
from railyard.jobs.package import pack_job
from railyard.jobs.samples.checkedlines import parsed_file
from railyard.jobs.samples.kmeans.check import expected_clusters
from railyard.jobs.samples.kmeans.generate import MOVIE_BYTES, RatingsGen
from railyard.jobs.samples.kmeans.job import CENTROID, KMeans
from railyard.jobs.samples.kmeans.ratings import Movie, as_centroid, movies
from railyard.jobs.samples.sample import Files, GivenFile, Plan, Request, Step, Verdict
from railyard.jobs.samples.steps import decoded, generating_step, lines_of, output_of
from railyard.jobs.taskio import FileReader

_NAME = "kmeans"
#: Bytes of an output's head that are read at first; the centroids are there.
_HEAD_BYTES = 2**12
_SHOWN = 5
_SHOWN_LETTERS_MAX = 60


def plan_kmeans(request: Request) -> Plan:
    """Cluster the movies of generated or given ratings."""
    job = _job(request)
    generate = None if request.input else _ratings(request, job.k)
    source = generate.output if generate else request.input
    steps = _iterations(job, request, source)

    def verify(files: Files) -> Verdict:
        """Compare with a plain program that shares no code with the job."""
        expected = expected_clusters(files, source, job.k, job.iterations)
        found = sorted(lines_of(files, steps[-1].output))
        if found != expected.lines:
            odd = next(iter(sorted(set(found) ^ set(expected.lines))), b"a line twice")
            shown = printable(decoded(odd), _SHOWN_LETTERS_MAX)
            words = f"{len(found)} lines, {len(expected.lines)} expected; others, such as: {shown}"
            return Verdict(False, words)
        largest = sorted(range(job.k), key=lambda cluster: -expected.sizes[cluster])[:_SHOWN]
        similar = f"{expected.similarity:.3f}, {expected.similarity_first:.3f} in the first"
        return Verdict(
            True,
            f"{sum(expected.sizes)} movies in {job.k} clusters, as computed independently",
            (
                f"mean similarity to their centroids {similar} iteration",
                *(f"cluster {cluster}: {expected.sizes[cluster]} movies" for cluster in largest),
            ),
        )

    return Plan(
        steps=(generate, *steps) if generate else steps,
        input=KMeans.input,
        check_files=partial(_check_files, job.k),
        verify=verify,
    )


def _job(request: Request) -> KMeans:
    """The job with its parameters, but without centroids."""
    for name in request.params:
        if name not in ("k", "iterations"):
            raise unknown_name(f"parameter of {_NAME}", name, ["k", "iterations"])
    return KMeans(**{"centroids": []} | dict(request.params))


def _iterations(job: KMeans, request: Request, source: str) -> tuple[Step, ...]:
    """A step for each iteration; the last one writes the output."""
    reduces = min(request.reduces, job.k)

    def pack(files: Files, centroids: Callable[[Files], list[bytes]]) -> JobPackage:
        of = {"k": job.k, "iterations": job.iterations, "reduces": reduces}
        return pack_job(KMeans, {"centroids": centroids(files), **of})

    steps: list[Step] = []
    for number in range(1, job.iterations + 1):
        last = number == job.iterations
        centroids = (
            partial(_new_centroids, folder=steps[-1].output)
            if steps
            else partial(_first_centroids, source=source, k=job.k)
        )
        steps.append(
            Step(
                name=_NAME if number == 1 else f"{_NAME}.{number}",
                input=source,
                output=output_of(request) if last else f"{request.folder}/iteration-{number}",
                reduces=reduces,
                pack=partial(pack, centroids=centroids),
                measured=True,
            )
        )
    return tuple(steps)


def _ratings(request: Request, k: int) -> Step:
    size = request.stored_bytes
    require(size >= 1, "size", size, "at least one real byte")
    count = max(1, size // MOVIE_BYTES)
    _require_enough(k, count)
    params = {"movies": count, "parts": min(request.parts, count), "seed": request.seed}
    return generating_step("ratingsgen", request, pack_job(RatingsGen, params), size)


def _check_files(k: int, files: Sequence[GivenFile]) -> None:
    """Raise ``BadInput`` unless all lines are ratings, ``UsageError`` for fewer than k movies."""
    found = (movie for one in files for movie in _movies_of(one.file, one.shown))
    _require_enough(k, sum(1 for _ in found))


def _first_centroids(files: Files, source: str, k: int) -> list[bytes]:
    """The first ``k`` movies of these files."""
    every = (_movies_of(files.open(path), path) for path in files.list(source))
    found = [as_centroid(movie.line) for movie in islice(chain.from_iterable(every), k)]
    _require_enough(k, len(found))
    return found


def _movies_of(file: FileReader, shown: str) -> Iterator[Movie]:
    return chain.from_iterable(parsed_file(movies, file, shown))


def _new_centroids(files: Files, folder: str) -> list[bytes]:
    """The centroids that an iteration has written, by their clusters' numbers."""
    found: dict[int, bytes] = {}
    for path in files.list(folder):
        for line in _head(files.open(path)):
            cluster, _, movie = line.removeprefix(CENTROID).partition(b"\t")
            found[int(cluster)] = movie
    return [found[cluster] for cluster in sorted(found)]


def _head(file: FileReader) -> Iterator[bytes]:
    """The lines of centroids that an output begins with; reads little more than these."""
    data, length = b"", _HEAD_BYTES
    while True:
        data += bytes(file.read(len(data), length))
        *lines, _ = data.split(b"\n")
        heads = [line for line in lines if line.startswith(CENTROID)]
        if len(heads) < len(lines) or len(data) >= file.stored_bytes:
            yield from heads
            return
        length = len(data)


def _require_enough(k: int, found: int) -> None:
    if found < k:
        raise UsageError(f"k = {k}: the ratings are of {found} movies: need at most as many")
