"""Mixes of jobs: parsing of words and files, forecasts, plans."""

from __future__ import annotations

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.jobs.plan import Request
from railyard.jobs.samples.catalog import find
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, is_single, read_mix
from tests.workloads import check_workload

GIVEN = Defaults(size_bytes=10**10, user="me")


def mix(*words, seed=1, defaults=GIVEN):
    return read_mix(words, defaults, seed).jobs


def test_a_job_alone_is_no_mix():
    assert is_single(["terasort"])
    assert is_single(["./own.py:Job"])
    assert not is_single(["terasort", "terasort"])
    assert not is_single(["terasort,size=1GB"])
    assert not is_single(["mix"])
    assert not is_single(["jobs.toml"])


def test_jobs_by_name_with_what_is_special_of_them():
    late, *words = reversed(
        mix("terasort,size=2GB,submit=5s,queue=q", "wordcount,times=2,user=ann,param.combined=no")
    )
    assert (late.name, late.job, late.size_bytes, late.submit_s) == (
        "terasort",
        "terasort",
        2 * 10**9,
        5.0,
    )
    assert (late.user, late.queue, late.reduces) == ("me", "q", None)
    assert [job.name for job in words] == ["wordcount-2", "wordcount-1"]
    assert words[0].params == {"combined": "no"}
    assert words[0].size_bytes == 10**10


def test_a_file_says_the_same_as_words(tmp_path):
    file = tmp_path / "jobs.toml"
    file.write_text(
        '[[job]]\njob = "terasort"\nsize = "2GB"\nsubmit = "5s"\nqueue = "q"\n'
        '[[job]]\njob = "wordcount"\ntimes = 2\nuser = "ann"\nparam = { combined = false }\n'
    )
    words = mix(
        "terasort,size=2GB,submit=5s,queue=q", "wordcount,times=2,user=ann,param.combined=false"
    )
    assert mix(str(file)) == words


def test_files_of_a_file_are_beside_it(tmp_path, monkeypatch):
    evening = tmp_path / "evening"
    evening.mkdir()
    for name in ("mine.py", "a.txt", "b.csv"):
        (evening / name).touch()
    (evening / "jobs.toml").write_text(
        '[[job]]\njob = "mine.py:Mine"\ninput = ["a.txt", "dfs:/c", "/d.txt"]\n'
        '[[job]]\njob = "wordcount"\ninput = { o = ["b.csv", "*.csv"] }\n'
        '[[job]]\njob = "wordcount"\ninput = ["none.txt", "o=a.txt"]\n'
    )
    monkeypatch.chdir(tmp_path)
    jobs = mix("evening/jobs.toml")
    assert [job.job for job in jobs] == ["evening/mine.py:Mine", "wordcount", "wordcount"]
    assert [job.inputs for job in jobs] == [
        ("evening/a.txt", "dfs:/c", "/d.txt"),
        ("o=evening/b.csv", "o=evening/*.csv"),
        ("evening/none.txt", "o=evening/a.txt"),
    ]
    monkeypatch.chdir(evening)
    assert mix("jobs.toml")[0].job == "mine.py:Mine"


def test_a_drawn_mix_depends_on_its_seed_only():
    word = "mix,jobs=40,of=terasort+topwords,sizes=1GB+2GB,window=30s,users=3,queues=a+b"
    jobs = mix(word, seed=4)
    assert jobs == mix(word, seed=4)
    assert jobs != mix(word, seed=5)
    assert len({job.name for job in jobs}) == len(jobs) == 40
    assert {job.job for job in jobs} == {"terasort", "topwords"}
    assert {job.size_bytes for job in jobs} == {10**9, 2 * 10**9}
    assert {job.user for job in jobs} == {"user0", "user1", "user2"}
    assert {job.queue for job in jobs} == {"a", "b"}
    times = [job.submit_s for job in jobs]
    assert times == sorted(times)
    assert 0 <= times[0] < 5 < 25 < times[-1] <= 30


def test_all_jobs_are_predicted_rightly_unless_it_is_said_otherwise():
    for job in mix("mix,jobs=5,window=9s", "terasort,submit=2s"):
        assert job.recurrence is not None
        past = (job.recurrence.name, job.recurrence.size_ratio, job.recurrence.submit_s)
        assert past == (job.name, 1.0, job.submit_s)
        assert not job.own_input
    [own] = mix("terasort,recurring=0,inputs=own")
    assert own.recurrence is None
    assert own.own_input


def test_so_large_a_share_is_predicted_and_so_wrongly():
    word = "mix,jobs=40,window=60s,recurring=0.5,size_error=0.1,late=0.25,late_by=3s"
    jobs = mix(word)
    predicted = [(job, job.recurrence) for job in jobs if job.recurrence is not None]
    assert jobs == mix(word)
    assert len(predicted) == 20
    ratios = [past.size_ratio for _, past in predicted]
    assert 0.8 <= min(ratios) < 0.95 < 1.05 < max(ratios) <= 1.2
    off_s = [abs(past.submit_s - job.submit_s) for job, past in predicted]
    assert sum(off > 0 for off in off_s) == 5
    assert max(off_s) <= 3
    plain = mix("mix,jobs=40,window=60s")
    assert [job.submit_s for job in plain] == [job.submit_s for job in jobs]


WRONG = {
    "key of a job": ("terasort,sise=1GB", 'unknown key "sise": did you mean "size"?'),
    "key of a mix": ("mix,job=3", 'unknown key "job": did you mean "jobs"?'),
    "no value": ("terasort,submit", "need KEY=VALUE"),
    "no times": ("terasort,times=0", "times: "),
    "no size": ("mix,sizes=1GB+", "mix,sizes=1GB+: sizes = '': need a size"),
    "no share": ("mix,recurring=2", "recurring = 2.0: need a share of 0 to 1"),
    "no job late": ("mix,late=0.01,jobs=3", "late = 0.01: need 0 or at least 51 predicted jobs"),
    "none predicted": (
        "terasort,recurring=0.5",
        "recurring = 0.5: need 0 or at least 2 jobs: of 1",
    ),
    "all predicted": ("mix,recurring=0.99,jobs=3", "= 0.99: need 1 or at least 51 jobs: of 3"),
    "no error": ("terasort,size_error=0.5", "size_error = 0.5: need 0 to below 0.5"),
    "no such input": ("terasort,inputs=mine", 'inputs = \'mine\': need "own" or "shared"'),
    "no kind": ("mix,of=terasort+", "of = 'terasort+': need names with +"),
    "no file": ("none.toml", "none.toml: cannot be read"),
}


@pytest.mark.parametrize(("word", "words"), WRONG.values(), ids=WRONG)
def test_wrong_words(word, words):
    with pytest.raises(UsageError) as error:
        mix(word)
    assert words in str(error.value)
    assert str(error.value).startswith(word.split("=")[0].split(",")[0])


def test_a_wrong_file_names_the_job(tmp_path):
    file = tmp_path / "jobs.toml"
    file.write_text('[[job]]\njob = "terasort"\n[[job]]\nsize = "1GB"\n')
    with pytest.raises(UsageError, match=r'jobs\.toml: job 2: missing key "job"'):
        mix(str(file))
    file.write_text("")
    with pytest.raises(UsageError, match="has no job"):
        mix(str(file))


def test_equal_inputs_are_shared_and_others_are_not():
    def shared(job, folder, **given):
        request = Request(folder=folder, shared="/mix/inputs", stored_bytes=100_000, **given)
        outputs = [step.output for step in find(job).plan(request).steps]
        return [path for path in outputs if path.startswith("/mix/inputs/")]

    assert shared("terasort", "/mix/a") == shared("terasort", "/mix/b")
    assert shared("wordcount", "/mix/a") == shared("topwords", "/mix/b")
    assert shared("wordcount", "/mix/a") != shared("wordcount", "/mix/b", seed=2)
    outputs = {
        path
        for ascii_ in ("true", "false")
        for path in shared("terasort", "/mix/a", params={"ascii": ascii_})
    }
    assert len(outputs) == 4


# Real jobs as workloads: the simulator gets the sizes that the jobs really have.


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
