"""Real jobs as workloads: the simulator gets the sizes that the jobs really have."""

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.jobs.mixes.measured import measured_workload
from railyard.jobs.mixes.mixes import Defaults, read_mix
from railyard.jobs.workloads.model import check_workload


def measured(*words, seed=1, topology="flat-4x4"):
    mix = read_mix(words, Defaults(size_bytes=10**9), seed)
    return measured_workload(mix, load_topology(topology), seed)


def test_terasort_ships_and_writes_each_byte_that_it_reads():
    [job] = measured("terasort,reduces=4").jobs
    assert job.input_bytes == job.shuffle_bytes == job.output_bytes == 10**9
    maps, reduces = job.stages
    assert (maps.name, maps.tasks, reduces.name, reduces.tasks) == ("m", 4, "r", 4)
    parts = reduces.parts(job.shuffle_bytes)
    assert sum(parts) == 10**9
    assert max(parts) < 1.2 * min(parts), "the cuts are sampled"


def test_wordcount_ships_what_its_maps_leave():
    combined, whole = measured("wordcount", "wordcount,param.combined=false").jobs
    assert combined.input_bytes == whole.input_bytes == 10**9
    assert combined.shuffle_bytes < 0.6 * whole.shuffle_bytes
    assert combined.output_bytes == whole.output_bytes > 0


def test_a_job_of_three_stages_keeps_its_graph():
    [job] = measured("topwords").jobs
    assert [bool(stage.files) for stage in job.stages] == [True, False, False]
    assert job.stages[2].reads == (job.stages[1].name,)
    assert job.output_bytes < 1000 * 1000


def test_stages_of_the_query_read_the_inputs_that_they_name():
    [job] = measured("query,skew=2,reduces=4").jobs
    scans = {stage.name: stage.files for stage in job.stages[:2]}
    assert [stage.name for stage in job.stages] == [*scans, "join", "aggregate", "top"]
    assert sorted(path for files in scans.values() for path in files) == sorted(
        file.path for file in job.files
    )
    assert {path.split("/")[3].split("-")[0] for path in scans["rankings"]} == {"rankingsgen"}
    assert len(scans["uservisits"]) == 4
    assert 0.98 * 10**9 < job.input_bytes < 1.02 * 10**9
    joined = job.stages[2]
    assert (joined.reads, joined.tasks) == (("rankings", "uservisits"), 4)
    assert len(joined.weights) == 4
    assert 0 < job.stages[3].output_bytes < joined.output_bytes < job.input_bytes
    assert all(len(file.shares) == 4 for file in job.files)


def test_each_iteration_of_kmeans_is_a_step_after_the_one_before():
    first, second, third, again, then = measured(
        "kmeans,size=500MB,reduces=3,param.k=3,size_error=0.1",
        "kmeans,size=500MB,reduces=3,param.k=3,param.iterations=2",
    ).jobs
    assert [one.name for one in (first, second, third)] == ["kmeans-1", "kmeans-1.2", "kmeans-1.3"]
    assert [job.after for job in (first, second, third)] == ["", "kmeans-1", "kmeans-1.2"]
    assert (again.name, then.after) == ("kmeans-2", "kmeans-2")
    assert first.files == second.files == third.files == again.files
    assert first.input_bytes < first.shuffle_bytes < 1.1 * first.input_bytes
    assert len(first.stages[1].weights) == first.stages[1].tasks == 3
    assert first.stages[1].weights != second.stages[1].weights, "clusters change"
    assert {job.recurrence.size_ratio for job in (first, second)} == {first.recurrence.size_ratio}
    assert second.recurrence.name == "kmeans-1.2"


def test_jobs_share_equal_inputs_and_all_of_it_can_be_run():
    workload = measured("mix,jobs=12,window=10s,users=2,sizes=300MB+600MB")
    check_workload(workload.jobs)
    assert [job.submit_s for job in workload.jobs] == sorted(j.submit_s for j in workload.jobs)
    files = {file.path for job in workload.jobs for file in job.files}
    inputs = {path.rsplit("/", 1)[0] for path in files}
    assert len(inputs) == len({(j.name.split("-")[0], j.input_bytes) for j in workload.jobs})


def test_jobs_with_inputs_of_their_own_share_none():
    shared, own = measured("terasort,times=3").jobs, measured("terasort,times=3,inputs=own").jobs
    assert len({file.path for job in shared for file in job.files}) == shared[0].stages[0].tasks
    assert len({file.folder for job in own for file in job.files}) == 3
    assert own[2].stages[1] == shared[2].stages[1]


def test_what_is_predicted_is_in_proportion_to_what_comes():
    right, wrong = measured("terasort", "wordcount,size_error=0.2,submit=5s").jobs
    assert right.predicted() == right
    assert wrong.recurrence is not None
    ratio = wrong.recurrence.size_ratio
    expected = wrong.predicted()
    assert expected is not None
    assert expected.submit_s == 5
    assert ratio != 1
    assert expected.shuffle_bytes == round(wrong.shuffle_bytes * ratio)
    assert abs(expected.input_bytes - wrong.input_bytes * ratio) < len(wrong.files)


def test_a_seed_gives_the_same_workload_again():
    assert measured("terasort", "wordcount") == measured("terasort", "wordcount")
    assert measured("wordcount") != measured("wordcount", seed=2)


def test_a_job_that_makes_no_sense_is_named():
    with pytest.raises(UsageError, match=r"^terasort: size = 5: need at least 1000 bytes"):
        measured("terasort,size=5")
