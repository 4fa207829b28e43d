"""What the papers say of their workloads, beyond the statistics that each reports itself."""

import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.population import dice
from railyard.jobs.workloads.shapes import (
    by_percentiles,
    correlated_ranks,
    stage_name,
    strata,
    zipf_shares,
)
from railyard.jobs.workloads.tetrium import random_tree

SEEDS = range(3)


@pytest.mark.parametrize("seed", SEEDS)
def test_w1_jobs_are_small_medium_or_large_in_equal_numbers(seed):
    jobs = workload("corral-w1,jobs=300", seed).jobs
    tasks = np.array([job.tasks for job in jobs])
    for least, most in ((5, 50), (51, 500), (1000, 2000)):
        assert ((tasks >= least) & (tasks <= most)).sum() == 100
    for job in jobs:
        maps, reduces = job.stages
        for selectivity in (
            maps.output_bytes / job.input_bytes,
            reduces.output_bytes / maps.output_bytes,
        ):
            assert 0.25 <= selectivity <= 4


@pytest.mark.parametrize("seed", SEEDS)
def test_w2_has_two_large_jobs(seed):
    jobs = workload("corral-w2", seed).jobs
    large = [job for job in jobs if job.input_bytes > 1e12]
    assert len(large) == 2
    for job in large:
        assert job.input_bytes == pytest.approx(5.5e12, rel=0.02)
        assert job.shuffle_bytes == pytest.approx(1.8 * job.input_bytes, rel=1e-6)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_mix_has_ad_hoc_jobs_in_a_batch(seed):
    jobs = workload("corral-mix", seed).jobs
    ad_hoc = [job for job in jobs if job.recurrence is None]
    assert [job.submit_s for job in ad_hoc] == [0.0] * 50
    assert len(jobs) == 150


@pytest.mark.parametrize("name", ["corral-mix", "corral-tpch"])
def test_ad_hoc_jobs_may_have_a_queue_of_their_own(name):
    shared, own = (workload(f"{name}{text}", 1).jobs for text in ("", ",ad_hoc_queue=own"))
    assert {job.queue for job in shared} == {"default"}
    assert {(job.queue, job.recurrence is None) for job in own} == {
        ("default", False),
        ("adhoc", True),
    }
    assert [msgspec.structs.replace(job, queue="default") for job in own] == list(shared)


@pytest.mark.parametrize("seed", SEEDS)
def test_tpch_queries_share_the_tables(seed):
    jobs = workload("corral-tpch,jobs=30,ad_hoc=3", seed).jobs
    queries = [job for job in jobs if job.name.startswith("q")]
    assert len(queries) == 30
    assert len({job.name.partition("-")[0] for job in queries}) == 22
    files = {file.path for job in queries for file in job.files}
    assert files <= {f"/tpch/{name}" for name in (
        "lineitem", "orders", "partsupp", "customer", "part", "supplier")}  # fmt: skip
    for job in queries:
        scans = [stage for stage in job.stages if stage.files]
        assert len(job.stages) == 2 * len(scans) + 1  # joins, a grouping and a sort
        assert job.stages[-1].tasks == 1


@pytest.mark.parametrize(
    ("name", "least", "most"), [("tetrium-tpcds", 6, 16), ("tetrium-bigdata", 2, 5)]
)
def test_queries_are_sequences(name, least, most):
    made = workload(f"{name},jobs=200", 1)
    assert {len(job.stages) for job in made.jobs} == set(range(least, most + 1))
    for job in made.jobs:
        assert [stage.reads for stage in job.stages[1:]] == [(s.name,) for s in job.stages[:-1]]
        assert job.files[0].block_bytes == 100_000_000


@pytest.mark.parametrize("name", ["tetrium", "tetrium-tpcds", "tetrium-bigdata"])
def test_jobs_of_more_stages_are_larger_unless_that_is_left_out(name):
    def sizes(follows):
        jobs = workload(f"{name},jobs=300,size_by_stages={follows}", 1).jobs
        return [(len(job.stages), sum(file.blocks for file in job.files)) for job in jobs]

    def correlation(follows):
        stages, blocks = zip(*sizes(follows), strict=True)
        return np.corrcoef(stages, np.log(blocks))[0, 1]

    assert abs(correlation(0)) < 0.2 < 0.5 < correlation(0.5) < 0.95 < correlation(1)
    medians = [np.median([blocks for _, blocks in sizes(follows)]) for follows in (0, 1)]
    assert medians[1] == pytest.approx(medians[0], rel=0.25), "as many small and large ones"
    assert workload(f"{name},jobs=30", 1) == workload(f"{name},jobs=30,size_by_stages=1", 1)


def test_tetrium_s_jobs_are_trees_of_skewed_files():
    made = workload("tetrium", 1)
    assert {len(job.stages) for job in made.jobs} == set(range(2, 17))
    skews = []
    for job in made.jobs:
        read = [name for stage in job.stages for name in stage.reads]
        assert sorted(read) == sorted(stage.name for stage in job.stages[:-1])  # each once
        skews += [np.std(file.shares) * 50 for file in job.files]
    assert max(skews) <= 2.5 + 1e-6
    assert np.mean(skews) == pytest.approx(1.25, rel=0.1)


def test_shadow_s_applications():
    jobs = workload("shadow", 1).jobs
    assert {job.input_bytes for job in jobs} == {120 * 10**9}
    assert [job.stages[0].tasks for job in jobs] == [469] * 6
    assert [job.stages[1].tasks for job in jobs] == [52] * 6
    [sort] = workload("shadow,app=terasort,input=30GB", 1).jobs
    assert (sort.name, sort.shuffle_bytes) == ("terasort", 30 * 10**9)
    assert [job.output_replication for job in jobs] == [0] * 5 + [1]  # TeraSort's own default
    [more] = workload("shadow,app=terasort,output_replication=3", 1).jobs
    assert more.output_replication == 3


def test_what_shadow_s_applications_shuffle_and_write_is_measured_or_given():
    jobs = {job.name: job for job in workload("shadow,input=10GB", 1).jobs}
    assert jobs["sequence-count"].shuffle_bytes == 31 * 10**9
    given = workload("shadow,input=10GB,shuffle=1.5,output=0", 1).jobs
    assert {job.shuffle_bytes for job in given} == {15 * 10**9}
    assert {job.output_bytes for job in given} == {0}


@pytest.mark.parametrize("seed", SEEDS)
def test_joint_s_tasks_of_a_stage_take_the_same_time(seed):
    jobs = workload("joint", seed).jobs
    for job in jobs:
        maps, reduces = job.stages
        assert maps.rate_bytes_per_s == reduces.rate_bytes_per_s == math.inf
        assert 0.5 < maps.task_s < 40
    gaps = np.diff([job.submit_s for job in jobs])
    assert np.mean(gaps) == pytest.approx(15, rel=0.1)
    assert np.std(gaps) == pytest.approx(5, rel=0.2)


def test_joint_s_edges_are_read_in_three_ways():
    made = {edges: workload(f"joint,edges={edges}", 1) for edges in ("jobs", "all", "trace")}
    assert made["trace"] == workload("joint", 1)
    shuffles = {
        edges: np.array([job.shuffle_bytes for job in each.jobs]) for edges, each in made.items()
    }
    assert np.mean(shuffles["all"]) == pytest.approx(3.75e9)  # 15 s of the root
    assert np.mean(shuffles["trace"]) == pytest.approx(22.2e12 / 5894)
    assert np.ptp(shuffles["all"] / shuffles["jobs"]) < 1e-3, "the same jobs, but larger"
    maps = [job.stages[0].tasks for job in made["trace"].jobs]
    assert np.ptp(shuffles["trace"] / maps) < 1
    small = workload("joint,edges=all,edge=1KB", 1).jobs  # all of which the root can carry
    edges = [job.stages[0].tasks * job.stages[1].tasks for job in small]
    assert sum(job.shuffle_bytes for job in small) / sum(edges) == pytest.approx(1000, rel=1e-3)
    with pytest.raises(UsageError, match='edges = \'none\': need "all" or "jobs" or "trace"'):
        workload("joint,edges=none", 1)


def test_joint_s_jobs_are_as_large_and_as_unlike_as_asked_for():
    def tasks(options):
        return [job.tasks for job in workload(f"joint,{options}", 1).jobs]

    alike, unlike = tasks("jobs=200"), tasks("median=4")
    for counts in (alike, unlike):
        assert np.mean(counts) == pytest.approx(121 / 13, rel=0.03)
    assert np.std(alike) < 6 < 15 < np.std(unlike)
    assert np.mean(tasks("work=1210s,median=20")) == pytest.approx(1210 / 13, rel=0.02)
    with pytest.raises(UsageError, match=r"median = 50\.0: need 2 to 9\.31, the mean"):
        workload("joint,median=50", 1)
    read = workload("joint,reads=0.5", 1).jobs
    assert all(job.input_bytes <= 0.5 * job.shuffle_bytes + job.tasks for job in read)


@pytest.mark.parametrize("seed", SEEDS)
def test_joint_s_jobs_have_table_2_s_means(seed):
    made = workload("joint", seed)
    known = {each.name: each for each in made.statistics if each.published is not None}
    assert {name: each.published[0] for name, each in known.items()} == {
        "jobs": 200,
        "job size, mean": 121,
        "gap, mean": 15,
        "task, mean": 13,
        "edge, mean over all": 196e6,
    }
    for each in known.values():
        assert each.measured == pytest.approx(each.published[0], rel=each.tolerance), each.name
    assert all(job.input_bytes == job.stages[0].tasks for job in made.jobs), "a byte each"
    older = workload("joint,edges=jobs,work=1210s,median=20", seed).statistics
    over_jobs = next(each for each in older if each.name == "edge, mean over jobs")
    assert over_jobs.measured == pytest.approx(196e6, rel=0.001)


def test_coflows_become_jobs(coflow_file):
    made = workload(f"coflow-benchmark:{coflow_file}", 1)
    first, second = made.jobs
    assert (first.name, second.name, second.submit_s) == ("c8", "c7", 1.5)
    assert first.files[0].shares == (0.0, 2 / 3, 0.0, 1 / 3)
    maps, reduces = second.stages
    assert (maps.tasks, reduces.tasks) == (2, 2)
    assert reduces.parts(maps.output_bytes) == [3_000_000, 1_500_000]
    assert len(workload(f"coflow-benchmark:{coflow_file},jobs=1", 1).jobs) == 1


# How they are drawn ------------------------------------------------------------------------------
@given(seed=st.integers(0, 2**32), count=st.integers(1, 40))
def test_trees_are_read_once_and_end_in_one(seed, count):
    reads = random_tree(dice(seed, "test"), count)
    assert len(reads) == count
    assert sorted(each for read in reads for each in read) == list(range(count - 1))
    assert all(each < at for at, read in enumerate(reads) for each in read)


@given(sites=st.integers(2, 60), part=st.floats(0, 0.97), seed=st.integers(0, 100))
def test_shares_have_the_variation_asked_for(sites, part, seed):
    variation = part * math.sqrt(sites - 1)
    shares = np.array(zipf_shares(dice(seed, "test"), sites, variation))
    assert shares.sum() == pytest.approx(1)
    assert shares.min() >= 0
    assert shares.std() / shares.mean() == pytest.approx(variation, abs=0.01)


def test_strata_hit_the_percentiles():
    rng = dice(1, "test")
    ranks = strata(rng, 200)
    values = by_percentiles(ranks, 180, 2060)
    assert np.percentile(values, [50, 95]) == pytest.approx([180, 2060], rel=0.05)
    others = correlated_ranks(rng, ranks)
    assert np.percentile(others, [50, 95]) == pytest.approx([0.5, 0.95], abs=0.01)
    assert np.corrcoef(ranks, others)[0, 1] > 0.8


def test_stage_names_are_letters_and_unique():
    names = [stage_name(number) for number in range(2000)]
    assert names[:2] + names[25:28] == ["a", "b", "z", "ba", "bb"]
    assert len(set(names)) == 2000
    assert all(name.isalpha() and name.islower() for name in names)


@pytest.mark.parametrize("jobs", [1, 10, 15])
def test_w2_needs_two_jobs_between_tiny_and_large(jobs: int):
    with pytest.raises(UsageError, match=r"jobs = .*: need a whole number >= 16"):
        workload(f"corral-w2,jobs={jobs}", 1)
    assert len(workload("corral-w2,jobs=16", 1).jobs) == 16
