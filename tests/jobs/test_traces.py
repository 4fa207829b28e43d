"""SWIM traces: the jobs of their lines, the known statistics of the public files, wrong lines."""

from __future__ import annotations

import json
import math

import pytest

from railyard.cluster.errors import UsageError
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.coflows import coflow_trace, load_coflow_benchmark
from railyard.jobs.workloads.swim import load_swim
from railyard.jobs.workloads.wfcommons import load_wfformat


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
def test_a_malformed_job_is_reported_with_its_place_and_a_correction(tmp_path, was, now, message):
    path = tmp_path / "t.tsv"
    path.write_text(GOOD.replace(was, now, 1))
    with pytest.raises(UsageError) as error:
        load_swim(path)
    assert f"{path}{message}" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_no_swim_traces(tmp_path):
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


# The coflow-benchmark format: correct files, and the errors of wrong ones.


FACEBOOK = "coflow-benchmark/FB2010-1Hr-150-0.txt"
SOUND = "4 2\n7 1500 2 0 1 2 2:3.0 3:1.5\n8 0 1 3 1 0:10\n"


@pytest.fixture
def write(tmp_path):
    def write(text):
        path = tmp_path / "trace.txt"
        path.write_text(text)
        return path

    return write


def test_coflows_come_in_order_of_arrival(write):
    trace = load_coflow_benchmark(write(SOUND))
    assert (trace.racks, trace.width) == (4, 5)
    late = trace.coflows[1]
    assert [coflow.name for coflow in trace.coflows] == ["8", "7"]
    assert (late.arrival_s, late.mappers) == (1.5, (0, 1))
    assert late.reducers == ((2, 3_000_000), (3, 1_500_000))
    assert late.size_bytes == 4_500_000
    assert [coflow.name for coflow in trace.first(1).coflows] == ["8"]


def test_a_reducer_s_bytes_are_spread_evenly_and_none_is_lost(write):
    [coflow] = load_coflow_benchmark(write("5 1\n1 0 3 0 1 1 1 4:1.0\n")).coflows
    assert list(coflow.flows()) == [(0, 4, 333_334), (1, 4, 333_333), (1, 4, 333_333)]


@pytest.mark.parametrize(
    ("was", "now", "message"),
    [
        ("4 2\n", "4\n", ":1: ends before the number of coflows: need more than 1 words"),
        ("4 2\n", "4 x\n", ":1: number of coflows = 'x': need a whole number >= 0"),
        ("4 2\n", "4 2 9\n", ":1: goes on with '9': need 2 words, by its own counts"),
        ("4 2\n", "4 3\n", ":1: 3 coflows, but 2 follow: need as many as there are"),
        ("7 1500 2", "7 1500 3", ":2: reducer '3:1.5': need rack:megabytes"),
        ("7 1500 2", "7 -1 2", ":2: arrival in ms = '-1': need a number >= 0"),
        ("7 1500 2", "7 1500 0", ":2: number of mappers = '0': need a whole number >= 1"),
        ("2 0 1 2", "2 0 4 2", ":2: mapper's rack = '4': need a port of 0 to 3"),
        ("2:3.0", "9:3.0", ":2: reducer '9:3.0': rack = '9': need a port of 0 to 3"),
        ("2:3.0", "2:x", ":2: reducer '2:x': need rack:megabytes, such as 4:27.0"),
        ("2:3.0", "2:nan", ":2: reducer '2:nan': need rack:megabytes, such as 4:27.0"),
        (" 3:1.5", "", ":2: ends before the reducer: need more than"),
        (" 3:1.5", " 3:1.5 3:2", ":2: goes on with '3:2': need"),
        ("8 0 1", "7 0 1", ":3: coflow 7 is there already: need an id of its own"),
        ("0:10", "0;10", ":3: reducer '0;10': need rack:megabytes"),
        (SOUND, "", ":1: ends before the number of ports: need more than 0 words"),
    ],
)
def test_a_malformed_coflow_is_reported_with_its_place_and_a_correction(write, was, now, message):
    assert was in SOUND
    path = write(SOUND.replace(was, now, 1))
    if (was, now) == ("7 1500 2", "7 1500 3"):  # the third mapper is then the number of reducers
        message = ":2: number of reducers = '2:3.0': need a whole number >= 1"
    with pytest.raises(UsageError) as error:
        load_coflow_benchmark(path)
    assert f"{path}{message}" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_no_coflow_traces(tmp_path, write):
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        load_coflow_benchmark(tmp_path / "none.txt")
    with pytest.raises(UsageError, match="cannot be read: Is a directory"):
        load_coflow_benchmark(tmp_path)
    path = write("")
    path.write_bytes(b"\xf7\xfe\x00")
    with pytest.raises(UsageError, match="is no coflow-benchmark trace"):
        load_coflow_benchmark(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coflow-bench:x", 'unknown workload "coflow-bench": did you mean "coflow-benchmark"?'),
        ("coflow-benchmark", "need a file, as in coflow-benchmark:FILE"),
        ("coflow-benchmark:", "need a file, as in coflow-benchmark:FILE"),
    ],
)
def test_workloads_that_are_not_there(text, message):
    with pytest.raises(UsageError) as error:
        coflow_trace(text)
    assert message in str(error.value)


def test_facebook_s_trace_has_the_known_statistics(public_trace):
    trace = coflow_trace(f"coflow-benchmark:{public_trace(FACEBOOK)}")
    assert (trace.racks, len(trace.coflows), trace.width) == (150, 526, 706_397)
    total = sum(coflow.size_bytes for coflow in trace.coflows)
    assert total == sum(size for coflow in trace.coflows for _, _, size in coflow.flows())
    assert total == 35_533_534_000_000


# WfFormat: workflows of each schema as jobs, and the errors of wrong files.


@pytest.fixture
def made(tmp_path):
    """A workload of a workflow."""

    def made(data, options=""):
        path = tmp_path / "w.json"
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return workload(f"wfcommons:{path}{options}", 1)

    return made


def test_each_task_is_a_stage_and_inputs_are_sent_on(made, workflow):
    [job] = made(workflow).jobs
    stages = {stage.name: stage for stage in job.stages}
    inp, nt, a, b0, b1, b2, c = job.stages
    # 500 MB for a, 5 GB for all b: stages without computing, a task for each block.
    assert [(s.tasks, s.output_bytes, s.rate_bytes_per_s) for s in (inp, nt)] == [
        (2, 500_000_000, math.inf),
        (20, 5_000_000_000, math.inf),
    ]
    assert (a.reads, b0.reads) == ((inp.name,), (nt.name, a.name))
    assert c.reads == (b0.name, b1.name, b2.name)
    assert a.output_bytes == 20  # its children read 10, 20 and 30 bytes: 60 in all
    assert [stage.output_bytes for stage in (b0, b1, b2, c)] == [5, 6, 7, 100]
    assert {stage.task_s for stage in (a, b0, b1, b2, c)} == {1.5}
    assert len(stages) == 7
    assert job.input_bytes == 5_500_000_000


def test_statistics_have_the_bytes_between_tasks(made, workflow):
    statistics = {statistic.name: statistic for statistic in made(workflow).statistics}
    assert statistics["bytes between tasks"].measured == 60 + 18
    assert statistics["bytes between tasks"].holds
    assert statistics["makespan as traced"].measured == 7.5


def test_several_runs_share_the_inputs(made, workflow):
    jobs = made(workflow, ",jobs=3,arrivals=poisson,gap=60s").jobs
    assert [job.name for job in jobs] == ["fj-0", "fj-1", "fj-2"]
    assert len({file for job in jobs for file in (job.files,)}) == 1
    assert jobs[0].submit_s < jobs[1].submit_s


@pytest.mark.parametrize("version", ["1.3", "1.4"])
def test_older_schemas_give_the_same_job(made, workflow, version):
    sizes = {
        file["id"]: file["sizeInBytes"] for file in workflow["workflow"]["specification"]["files"]
    }
    size = "sizeInBytes" if version == "1.4" else "size"
    tasks = []
    for task in workflow["workflow"]["specification"]["tasks"]:
        files = [{"link": "input", "name": f, size: sizes[f]} for f in task["inputFiles"]]
        files += [{"link": "output", "name": f, size: sizes[f]} for f in task["outputFiles"]]
        tasks.append(
            {
                "name": task["name"],
                "id": f"ID{task['id']}",
                "type": "compute",
                "parents": [f"{parent}_name" for parent in task["parents"]],
                "children": [f"{child}_name" for child in task["children"]],
                "files": files,
                "runtimeInSeconds" if version == "1.4" else "runtime": 1.5,
            }
        )
    old = {
        "name": "fj",
        "schemaVersion": version,
        "workflow": {"makespanInSeconds": 7.5, "tasks": tasks},
    }
    assert made(old) == made(workflow)


def test_parents_can_be_given_by_files_alone(made, workflow):
    for task in workflow["workflow"]["specification"]["tasks"]:
        task["parents"] = task["children"] = []
    b0 = made(workflow).jobs[0].stages[3]
    assert len(b0.reads) == 2


def test_names_that_are_no_paths_are_no_matter(made, workflow):
    workflow["name"] = "my flow/../x"
    for task in workflow["workflow"]["specification"]["tasks"]:
        task["inputFiles"] = ["s3://in/../x\n" if f == "in" else f for f in task["inputFiles"]]
    workflow["workflow"]["specification"]["files"][0]["id"] = "s3://in/../x\n"
    [job] = made(workflow).jobs
    assert job.name == "my_flow_.._x-0"
    assert [file.path for file in job.files] == ["/workload/input-0", "/workload/input-1"]


def test_a_file_that_two_tasks_write_makes_no_parents(made, workflow):
    tasks = workflow["workflow"]["specification"]["tasks"]
    tasks[2]["outputFiles"] = ["y0", "y1"]
    assert made(workflow).jobs[0].stages[-1].reads == ("d", "e", "f")
    for task in tasks:
        task["parents"] = task["children"] = []
    assert made(workflow).jobs[0].stages[-1].reads == ("e", "f")  # y0 may be either's


def test_without_times_bytes_take_the_topology_s_rate(made, workflow):
    del workflow["workflow"]["execution"]
    tasks = made(workflow).jobs[0].stages[2:]
    assert {(stage.task_s, stage.rate_bytes_per_s) for stage in tasks} == {(0.0, None)}


def test_a_task_that_reads_nothing_and_files_of_no_bytes(made, workflow):
    for file in workflow["workflow"]["specification"]["files"]:
        file["sizeInBytes"] = 0
    [job] = made(workflow).jobs
    assert (len(job.stages), job.files) == (5, ())
    assert (job.stages[0].reads, job.stages[0].tasks) == ((), 1)


def _task(index, **changes):
    def change(data):
        data["workflow"]["specification"]["tasks"][index] |= changes

    return change


def _ran(**changes):
    return lambda data: data["workflow"]["execution"]["tasks"][0].update(changes)


def _file(**changes):
    return lambda data: data["workflow"]["specification"]["files"][0].update(changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_task(1, parents=["x"]), 'task b0: parent "x" does not exist: need the id of a task'),
        (_task(1, parents=["x\ny"]), 'task b0: parent "x y" does not exist: need the id of a task'),
        (_task(1, children=["x"]), 'task b0: child "x" does not exist: need the id of a task'),
        (_task(1, inputFiles=["x"]), 'task b0: file "x" has no size: need it among the files'),
        (_task(1, id="a"), "task a: there are two of that id: need one each"),
        (_task(1, id="", name=""), "task 1: has neither id nor name: need one"),
        (_task(0, parents=["c"]), "tasks wait for one another: "),
        (_task(0, parents=["a"]), "tasks wait for one another: a -> a: need a graph without"),
        (_task(0, parents="c"), "is no WfFormat: Expected array, got str"),
        (_ran(id="x"), 'execution: task "x" does not exist: need the id of a task'),
        (_ran(runtimeInSeconds=-1), "task a: runtime = -1.0: need seconds >= 0"),
        (_ran(runtimeInSeconds="1"), "is no WfFormat: Expected float, got str"),
        (_file(sizeInBytes=-5), 'file "in": size = -5.0: need bytes >= 0'),
        (lambda data: data.pop("workflow"), "missing required field workflow"),
        (lambda data: data["workflow"].pop("specification"), "has no tasks: need workflow.spec"),
        (lambda data: data["workflow"]["specification"].update(tasks=[]), "has no tasks"),
    ],
)
def test_what_is_wrong_is_reported_in_one_line(tmp_path, workflow, change, message):
    change(workflow)
    path = tmp_path / "w.json"
    path.write_text(json.dumps(workflow))
    with pytest.raises(UsageError) as error:
        load_wfformat(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"name": "x",\n "workflow": }', ":2: is no JSON"),
        (b"\xf7\xfe", ": is no JSON"),
        (b"", ":1: is no JSON"),
        (b"[]", ": is no WfFormat: Expected object, got array"),
    ],
)
def test_files_that_are_no_workflows(tmp_path, data, message):
    path = tmp_path / "w.json"
    path.write_bytes(data)
    with pytest.raises(UsageError) as error:
        load_wfformat(path)
    assert f"{path}{message}" in str(error.value)


def test_a_statistic_says_how_much_of_what_is_fetched_is_another_childs(made, workflow):
    name = "of these, fetched by another child"
    statistics = {each.name: each for each in made(workflow).statistics}
    assert statistics[name].measured == pytest.approx(10 / 78)  # of a's 10, 20 and 30 bytes
