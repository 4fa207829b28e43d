"""SWIM traces: the jobs of their lines, the known statistics of the public files, wrong lines."""

import math

import pytest

from railyard.cluster.errors import UsageError
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.traces.swim import load_swim


def test_a_line_becomes_maps_and_reduces(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text(
        "tera\t100\t0\t10000000000\t10000000000\t5\n"  # Co-scheduler: 40 maps, 10 reduces
        "maps\t110\t10\t256000001\t0\t7\n"
        "none\t120\t10\t0\t0\t9\n"
        "huge\t130\t10\t1\t5000000000000\t0\n"
    )
    tera, maps, none, huge = workload(f"swim:{path}", 1).jobs
    assert [stage.tasks for stage in tera.stages] == [40, 10]
    assert (tera.input_bytes, tera.shuffle_bytes, tera.output_bytes) == (10**10, 10**10, 5)
    assert [(stage.tasks, stage.output_bytes) for stage in maps.stages] == [(2, 7)]
    assert [(stage.tasks, stage.files, stage.output_bytes) for stage in none.stages] == [(1, (), 9)]
    assert huge.stages[1].tasks == 1000
    assert [job.submit_s for job in (tera, maps, none, huge)] == [0, 10, 20, 30]


def test_how_tasks_are_derived_can_be_changed(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_text("a\t0\t0\t1000000000\t1000000000\t0\n")
    text = f"swim:{path},block=100MB,reduce_size=50MB,reduces_max=12,start=3s,map_rate=20MB/s"
    [job] = workload(text, 1).jobs
    maps, reduces = job.stages
    assert (maps.tasks, reduces.tasks) == (10, 12)
    assert (maps.task_s, maps.rate_bytes_per_s) == (3.0, 20e6)
    assert (reduces.task_s, reduces.rate_bytes_per_s) == (3.0, None)


def test_a_sample_is_by_seed_and_in_order(swim_file):
    first, again, other = (workload(f"swim:{swim_file},jobs=20", seed).jobs for seed in (1, 1, 2))
    assert first == again
    assert [job.name for job in first] != [job.name for job in other]
    times_s = [job.submit_s for job in first]
    assert times_s == sorted(times_s)
    assert all(at % 10 == 0 for at in times_s)
    with pytest.raises(UsageError, match="jobs = 61: need at most the 60 jobs of /"):
        workload(f"swim:{swim_file},jobs=61", 1)


def test_co_scheduler_s_jobs(public_trace):
    trace = public_trace("swim/FB-2009_samples_24_times_1hr_0.tsv")
    jobs = workload(f"co-scheduler:{trace}", 1).jobs
    assert len(jobs) == 1000
    assert {job.user for job in jobs} == {f"u{number}" for number in range(20)}
    assert sum(job.recurrence is not None for job in jobs) == 500
    assert {job.submit_s for job in jobs} == {0.0}
    assert min(job.shuffle_bytes for job in jobs) >= 1
    assert max(max(job.input_bytes, job.shuffle_bytes) for job in jobs) <= 4e12
    assert {job.output_replication for job in jobs} == {1}


def test_co_scheduler_s_jobs_as_printed(public_trace):
    trace = public_trace("swim/FB-2009_samples_24_times_1hr_0.tsv")
    jobs = workload(f"co-scheduler:{trace},arrivals=uniform,shuffle_min=0B,size_max=0B", 1).jobs
    assert 5300 < jobs[-1].submit_s <= 5400
    assert 0.2 < sum(job.shuffle_bytes > 0 for job in jobs) / len(jobs) < 0.3


def test_shadow_s_facebook_jobs_are_those_that_shuffle_enough(swim_file):
    shuffles = {job.name: job.shuffle_bytes for job in workload(f"swim:{swim_file}", 1).jobs}
    least = sorted(shuffles.values())[len(shuffles) // 2]
    made = workload(f"shadow-facebook:{swim_file},jobs=5,shuffle_min={least}B", 1)
    assert len(made.jobs) == 5
    assert all(shuffles[job.name] >= least for job in made.jobs)


def test_shadow_s_facebook_jobs_keep_their_gaps(swim_file):
    jobs = workload(f"shadow-facebook:{swim_file}", 1).jobs
    assert [job.submit_s for job in jobs] == [10.0 * at for at in range(50)]
    assert sum(job.input_bytes for job in jobs) == pytest.approx(730e9, rel=1e-6)


@pytest.mark.parametrize(
    ("year", "jobs", "shuffling", "heavy", "shuffle_bytes", "maps"),
    [(2009, 5894, 0.25, 338, 22.2e12, 110_483), (2010, 24_442, 0.66, 2194, 438e12, 4_248_112)],
)
def test_facebook_s_traces_have_the_known_statistics(
    public_trace, year, jobs, shuffling, heavy, shuffle_bytes, maps
):
    trace = public_trace(f"swim/FB-{year}_samples_24_times_1hr_0.tsv")
    made = workload(f"swim:{trace}", 1)
    assert len(made.jobs) == jobs
    shuffles = [job.shuffle_bytes for job in made.jobs]
    assert sum(size > 0 for size in shuffles) / jobs == pytest.approx(shuffling, abs=0.006)
    assert sum(size > 1_125_000_000 for size in shuffles) == heavy
    assert sum(shuffles) == pytest.approx(shuffle_bytes, rel=0.003)
    assert sum(job.stages[0].tasks for job in made.jobs) == maps
    assert all(statistic.holds for statistic in made.statistics)


GOOD = "job0\t49\t49\t740773\t2339561\t627471\njob1\t101\t52\t736346\t1700537\t432269\n"


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("job1\t101", "job1 101", ":2: has 5 fields: need 6, with tabs between: job id, submit"),
        ("\t432269", "", ":2: has 5 fields: need 6"),
        ("\t432269", "\t432269\t1", ":2: has 7 fields: need 6"),
        ("\t101\t", "\tsoon\t", ":2: submit time = 'soon': need a whole number >= 0"),
        ("\t101\t", "\t-101\t", ":2: submit time = '-101': need a whole number >= 0"),
        ("\t1700537\t", "\t1.5\t", ":2: shuffle bytes = '1.5': need a whole number >= 0"),
        ("\t736346\t", "\t\t", ":2: input bytes = '': need a whole number >= 0"),
        ("job1", "job0", ":2: job job0 is there already: need an id of its own"),
        ("job1", "", ":2: job id = '': need letters, digits, _, - and . only"),
        ("job1", "../x", ":2: job id = '../x': need letters, digits"),
        (GOOD, "", ": has no jobs: need a line for each"),
        (GOOD, "\n\n", ": has no jobs: need a line for each"),
    ],
)
def test_a_malformed_line_is_reported_with_its_place_and_a_correction(tmp_path, was, now, message):
    path = tmp_path / "t.tsv"
    path.write_text(GOOD.replace(was, now, 1))
    with pytest.raises(UsageError) as error:
        load_swim(path)
    assert f"{path}{message}" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_no_traces(tmp_path):
    with pytest.raises(UsageError, match="No such file or directory: railyard workloads fetch"):
        load_swim(tmp_path / "none.tsv")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_swim(tmp_path)
    path = tmp_path / "binary"
    path.write_bytes(b"\xf7\xfe\x00")
    with pytest.raises(UsageError, match="is no SWIM trace: need text in ASCII"):
        load_swim(path)


def test_blank_lines_and_windows_line_ends_are_no_matter(tmp_path):
    path = tmp_path / "t.tsv"
    path.write_bytes(("\r\n" + GOOD.replace("\n", "\r\n") + "\r\n").encode())
    assert [job.output_bytes for job in load_swim(path)] == [627471, 432269]
    assert math.isclose(workload(f"swim:{path}", 1).jobs[1].submit_s, 52.0)


def test_jobs_that_shuffle_too_little_are_left_out(swim_file):
    made = workload(f"swim:{swim_file},shuffle_min=30GB,jobs=5", 1)
    assert len(made.jobs) == 5
    assert min(job.shuffle_bytes for job in made.jobs) >= 30e9
    with pytest.raises(
        UsageError, match=r"jobs = 15: need at most the 13 jobs of .* 30 GB or more"
    ):
        workload(f"swim:{swim_file},shuffle_min=30GB,jobs=15", 1)


def test_jobs_that_read_shuffle_or_write_too_much_are_left_out(tmp_path):
    path = tmp_path / "t.tsv"
    most = 10**12
    sizes = [(most, most, most), (most + 1, 1, 1), (1, most + 1, 1), (1, 1, most + 1)]
    lines = [f"j{n}\t{n}\t1\t{i}\t{s}\t{o}" for n, (i, s, o) in enumerate(sizes)]
    path.write_text("\n".join(lines))
    assert [job.name for job in workload(f"swim:{path},size_max=1TB", 1).jobs] == ["j0"]
    with pytest.raises(UsageError, match=r"need at most the 1 jobs of .*, of at most 1 TB"):
        workload(f"swim:{path},size_max=1TB,jobs=2", 1)


def test_jobs_of_more_bytes_have_as_many_tasks(swim_file):
    plain, larger = (workload(f"swim:{swim_file}{more}", 1).jobs for more in ("", ",times=2.5"))
    for before, now in zip(plain, larger, strict=True):
        assert [stage.tasks for stage in now.stages] == [stage.tasks for stage in before.stages]
        assert now.shuffle_bytes == 2.5 * before.shuffle_bytes
        assert now.submit_s == before.submit_s
