"""K-means against the plainest program: similarities, iterations, empty clusters; wrong ratings."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.jobs.local import BytesReader, FilesInMemory, run_locally
from railyard.jobs.plan import GivenFile
from railyard.jobs.samples.catalog import find
from railyard.jobs.samples.kmeans import (
    CENTROID_RATINGS_MAX,
    Centroids,
    KMeans,
    RatingsGen,
    as_centroid,
    movies,
)
from railyard.jobs.taskio import BadInput
from tests.jobs.test_samples import carry_out, request, verdict

RATED = st.dictionaries(st.integers(0, 12), st.integers(1, 5), min_size=1, max_size=8)


def line(movie, rated):
    return f"{movie}:{','.join(f'{rater}_{rating}' for rater, rating in rated.items())}".encode()


def cosine(one, other):
    dot = sum(one[rater] * other[rater] for rater in one.keys() & other.keys())
    return dot / math.hypot(*one.values()) / math.hypot(*other.values())


@given(movie=RATED, centroids=st.lists(RATED, min_size=1, max_size=5))
def test_the_nearest_centroid_has_the_largest_cosine(movie, centroids):
    lines = [line(number, rated) for number, rated in enumerate(centroids)]
    [found] = movies(line(7, movie))
    cluster, similarity = Centroids(lines).nearest(found)
    cosines = [cosine(movie, rated) for rated in centroids]
    assert similarity == pytest.approx(max(cosines))
    assert cosines[cluster] == pytest.approx(max(cosines))
    alike = [number for number, rated in enumerate(centroids) if rated == centroids[cluster]]
    assert cluster == alike[0], "the lowest of equal ones"


def iterate(rows, k, reduces=1):
    """The output of one iteration from the first ``k`` movies."""
    job = KMeans(centroids=rows[:k], k=k, iterations=1, reduces=reduces)
    run = run_locally(job, {"/in": b"".join(row + b"\n" for row in rows)})
    return [output.decode().splitlines() for output in run.outputs["r"]]


def test_an_iteration_by_hand():
    """Movies 1, 3, 4 share raters with each other only, and so do 2 and 5.

    The similarities to movie 1 are 1, 0.8 (3: 4 / 5) and 0.6 (4: 3 / 5): the mean is that of 3.
    """
    rows = [b"1:9_1", b"2:8_2", b"3:9_4,7_3", b"4:9_3,7_4", b"5:8_5"]
    [output] = iterate(rows, k=2)
    assert output == [
        *("centroid\t0\t3:9_4,7_3", "centroid\t1\t2:8_2"),
        *("0\t1:9_1", "0\t3:9_4,7_3", "0\t4:9_3,7_4", "1\t2:8_2", "1\t5:8_5"),
    ]


def test_a_cluster_without_movies_keeps_its_centroid():
    rows = [b"1:9_1", b"2:9_1", b"3:8_5", b"4:9_2"]
    first, second = iterate(rows, k=3, reduces=2)
    assert first[:2] == ["centroid\t0\t1:9_1", "centroid\t2\t3:8_5"]
    assert second == ["centroid\t1\t2:9_1"]


@settings(max_examples=30, deadline=None)
@given(
    rated=st.lists(RATED, min_size=3, max_size=15), k=st.integers(1, 3), reduces=st.integers(1, 4)
)
def test_iterations_are_those_of_an_independent_program(rated, k, reduces):
    store = FilesInMemory({"/in": b"\n".join(line(n, movie) for n, movie in enumerate(rated))})
    params = {"k": k, "iterations": 3}
    plan = find("kmeans").plan(request(input="/in", reduces=reduces, params=params))
    carry_out(plan, store)
    found = verdict(plan, store)
    assert found.ok, found.detail
    assert [step.name for step in plan.measured] == ["kmeans", "kmeans.2", "kmeans.3"]
    assert plan.sources == ("/in",)
    assert (plan.before, plan.after) == ((), ())


def test_a_centroid_keeps_so_many_ratings():
    long = b"1:" + b",".join(b"%d_1" % rater for rater in range(CENTROID_RATINGS_MAX + 5))
    assert len(movies(as_centroid(long))[0].raters) == CENTROID_RATINGS_MAX
    assert as_centroid(b"1:9_1,8_2") == b"1:9_1,8_2"
    [output] = iterate([long, b"2:1_1"], k=1)
    assert output[0].count("_") <= CENTROID_RATINGS_MAX
    assert output[1].count("_") == CENTROID_RATINGS_MAX + 5


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        *((line, "need movie:rater_rating,") for line in ("1:", "9_1", "1:9,1,2005-09-06", "")),
        *((line, "with ratings of 1 to 5") for line in ("1:9_6", "1:9_1,", "x:9_1")),
        ("3:9_1,9_2", "two ratings of one rater"),
    ],
)
def test_what_is_no_netflix_layout_is_named_by_file_and_line(bad, words):
    rows = [f"{n}:5_1,6_2,77_5\n" for n in range(40)]
    data = "".join([*rows[:30], f"{bad}\n", *rows[30:]]).encode()
    job = KMeans(centroids=[b"1:5_1"], k=1)
    for split_bytes in (10, 200, 10_000):
        with pytest.raises(BadInput, match=f"^/in:31: .*{words}"):
            run_locally(job, {"/in": data}, 1, split_bytes)
    check_files = find("kmeans").plan(request(input="/in")).check_files
    with pytest.raises(BadInput, match=r"^mine\.txt:31: "):
        check_files([GivenFile("", "mine.txt", BytesReader(data))])
    check_files([GivenFile("", "mine.txt", BytesReader("".join(rows).encode()))])


def test_more_clusters_than_movies_are_refused_wherever_the_movies_are():
    message = "k = 17: the ratings are of 3 movies: need at most as many"
    params = {"params": {"k": "17"}}
    rows = b"1:9_1\n2:9_1\n3:9_1\n"
    plan = find("kmeans").plan(request(input="/in", **params))
    with pytest.raises(UsageError, match=message):
        plan.check_files([GivenFile("", "mine.txt", BytesReader(rows))])
    with pytest.raises(UsageError, match=message):
        plan.steps[0].pack(FilesInMemory({"/in": rows}))
    with pytest.raises(UsageError, match="k = 17: the ratings are of 5 movies"):
        find("kmeans").plan(request(stored_bytes=10_000, **params))


def test_empty_ratings_are_refused():
    plan = find("kmeans").plan(request(input="/in"))
    with pytest.raises(BadInput, match="/in: is empty"):
        plan.input.check("/in", 0)
    with pytest.raises(UsageError, match="the ratings are of 0 movies"):
        plan.steps[0].pack(FilesInMemory({"/in": b""}))


def test_generated_ratings_are_like_netflix_s():
    job = RatingsGen(movies=300, parts=3, seed=4)
    made = run_locally(job, {}).outputs["m"]
    assert made == run_locally(RatingsGen(movies=300, parts=3, seed=4), {}).outputs["m"]
    found = [movie for part in made for movie in movies(part)]
    assert [movie.number for movie in found] == list(range(1, 301))
    ratings = Counter(rating for movie in found for rating in movie.ratings.tolist())
    mean = sum(rating * count for rating, count in ratings.items()) / ratings.total()
    assert 3.4 < mean < 3.8, "Netflix's is 3.60"
    lengths = sorted(len(movie.raters) for movie in found)
    assert lengths[-1] > 4 * lengths[150], "few movies have many ratings"
    raters = Counter(rater for movie in found for rater in movie.raters.tolist())
    assert raters.most_common(1)[0][1] > 20 * ratings.total() / 20_000
    assert max(raters) < 2_649_429
