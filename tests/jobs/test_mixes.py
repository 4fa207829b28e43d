"""Mixes of jobs: parsing of words and files, forecasts, plans."""

import pytest

from railyard.cluster.errors import UsageError
from railyard.jobs.mixes.mixes import Defaults, is_single, read_mix
from railyard.jobs.samples.catalog import find
from railyard.jobs.samples.sample import Request

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


def test_files_of_a_file_are_beside_it(tmp_path, monkeypatch, caplog):
    evening = tmp_path / "evening"
    evening.mkdir()
    for name in ("mine.py", "a.txt", "b.csv"):
        (evening / name).touch()
    (tmp_path / "old.txt").touch()
    (evening / "jobs.toml").write_text(
        '[[job]]\njob = "mine.py:Mine"\ninput = ["a.txt", "dfs:/c", "/d.txt"]\n'
        '[[job]]\njob = "wordcount"\ninput = { o = ["b.csv", "*.csv"] }\n'
        '[[job]]\njob = "wordcount"\ninput = ["old.txt", "none.txt", "o=a.txt"]\n'
    )
    monkeypatch.chdir(tmp_path)
    jobs = mix("evening/jobs.toml")
    assert [job.job for job in jobs] == ["evening/mine.py:Mine", "wordcount", "wordcount"]
    assert [job.inputs for job in jobs] == [
        ("evening/a.txt", "dfs:/c", "/d.txt"),
        ("o=evening/b.csv", "o=evening/*.csv"),
        ("old.txt", "evening/none.txt", "o=evening/a.txt"),
    ]
    [warned] = caplog.messages
    assert warned.startswith("evening/jobs.toml: old.txt is looked for beside this file now")
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
