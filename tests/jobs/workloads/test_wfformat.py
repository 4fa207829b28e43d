"""WfFormat: workflows of each schema as jobs, and the errors of wrong files."""

import json
import math

import pytest

from railyard.cluster.errors import UsageError
from railyard.jobs.workloads.catalog import workload
from railyard.jobs.workloads.traces.wfformat import load_wfformat


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
