"""Every sample job from its request to its verdict; wrong requests; wrong outputs."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from railyard.cluster.errors import UsageError
from railyard.jobs.local import FilesInMemory, run_locally
from railyard.jobs.package import load_job
from railyard.jobs.plan import Plan, Request, Verdict
from railyard.jobs.samples import checks
from railyard.jobs.samples.catalog import CATALOG, find
from railyard.jobs.skew import Skew
from railyard.jobs.taskio import BadInput

OWN_JOB = """
from railyard import Job

class Lengths(Job):
    least: int = 1

    def map(self, line):
        for word in line.split():
            if len(word) >= self.least:
                yield len(word), 1

    def reduce(self, length, counts):
        yield length, sum(counts)

class Made(Job):
    def map(self, line):
        yield line, None
"""


def carry_out(plan: Plan, store: FilesInMemory) -> None:
    for step in plan.steps:
        files = {path: store[path] for source in step.sources for path in store.list(source)}
        named = {name: store.list(path) for name, path in step.inputs}
        run = run_locally(load_job(step.pack(store)), files, step.reduces, 30_000, named)
        store.update(run.files(step.output))


def verdict(plan: Plan, store: FilesInMemory) -> Verdict:
    assert plan.verify is not None
    return plan.verify(store)


def request(**given) -> Request:
    return Request(
        **{"folder": "/runs/1", "stored_bytes": 100_000, "parts": 3, "reduces": 3} | given
    )


@pytest.mark.parametrize("name", CATALOG)
@pytest.mark.parametrize("seed", [1, 2])
def test_generated_input_is_worked_on_and_verified(name, seed):
    plan, store = find(name).plan(request(seed=seed)), FilesInMemory()
    carry_out(plan, store)
    assert verdict(plan, store).ok
    measured = ["kmeans", "kmeans.2", "kmeans.3"] if name == "kmeans" else [name]
    assert [step.name for step in plan.steps if step.measured] == measured
    sources = plan.sources
    parts = {"query": [1, 3], "ranked-inverted-index": [4]}.get(name, [3])
    assert [len(store.list(path)) for path in sources] == parts
    skewed = find(name).plan(request(seed=seed, skew=Skew(exponent=2.0), racks=4))
    by_output = {step.output: step for step in skewed.before}
    assert all(len(by_output[path].shares) == 4 for path in skewed.sources)
    assert all(not step.shares for path, step in by_output.items() if path not in skewed.sources)
    wanted = sum(by_output[path].generated_bytes for path in skewed.sources)
    assert wanted == sum(step.generated_bytes for step in skewed.before)
    made = sum(len(store[path]) for source in sources for path in store.list(source))
    assert 0.9 < made / wanted < 1.1


@pytest.mark.parametrize("name", CATALOG)
def test_the_users_input_is_worked_on_and_verified(name):
    made, store = find(name).plan(request()), FilesInMemory()
    carry_out(made, store)
    store = FilesInMemory({path.replace("/runs/1", "/mine"): data for path, data in store.items()})
    mine = [path.replace("/runs/1", "/mine") for path in made.sources]
    names = [each for each, _ in made.measured[0].inputs]
    given = {"inputs": tuple(zip(names, mine, strict=True))} if names else {}
    plan = find(name).plan(request(input=mine[0], output="/mine/result", **given))
    carry_out(plan, store)
    assert verdict(plan, store).ok
    assert store.list("/mine/result")
    assert not store.list("/runs/1/output")


@pytest.mark.parametrize("name", CATALOG)
def test_a_wrong_output_is_found(name):
    plan, store = find(name).plan(request()), FilesInMemory()
    carry_out(plan, store)
    (path, *_) = [path for path in store.list("/runs/1/output") if store[path]]
    whole = store[path]
    unit = 100 if name == "terasort" else whole.index(b"\n") + 1
    record = whole[:unit]
    for wrong in (whole[unit:], record + whole, whole[: -unit // 2], b"", whole + b"\n\tx\n"):
        store[path] = wrong
        if name == "terasort":  # its check is a job, which reads whole records
            store[path] = wrong[: len(wrong) // 100 * 100]
            carry_out(Plan(steps=plan.steps[-1:], input=plan.input), store)
        assert verdict(plan, store).ok == (store[path] == whole)


def test_ascii_records_are_sorted_as_lines_are():
    plan, store = find("terasort").plan(request(params={"ascii": "true"})), FilesInMemory()
    carry_out(plan, store)
    assert verdict(plan, store).ok
    made = b"".join(store[path] for path in store.list("/runs/1/input"))
    out = b"".join(store[path] for path in store.list("/runs/1/output"))
    assert out.splitlines() == sorted(made.splitlines())


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("terasort", {"stored_bytes": 99}, "size = 99: need at least one record"),
        ("terasort", {"params": {"asci": "1"}}, 'unknown parameter of terasort "asci"'),
        ("terasort", {"input": "/x", "params": {"ascii": "1"}}, "no parameters for records"),
        ("wordcount", {"stored_bytes": 0}, "size = 0: need at least one real byte"),
        ("query", {"stored_bytes": 200}, "a row of each table"),
        ("query", {"params": {"most": "0"}}, "most = 0: need a whole number >= 1"),
        ("query", {"params": {"until": "1979-12-31"}}, "need 1980-01-01 or later"),
        ("query", {"params": {"since": "1980"}}, "since = '1980': need a day such as 1980-01-31"),
        ("wordcount", {"params": {"combine": "1"}}, 'did you mean "combined"'),
        ("sequence-count", {"stored_bytes": 0}, "size = 0: need at least one real byte"),
        ("ranked-inverted-index", {"stored_bytes": 999}, "size = 999: need at least 1000 real"),
        ("kmeans", {"params": {"iterations": "0"}}, "iterations = 0: need 1 to 1000"),
        ("kmeans", {"params": {"k": "0"}}, "k = 0: need 1 to 256 clusters"),
        ("kmeans", {"params": {"centroids": "1:2_3"}}, 'unknown parameter of kmeans "centroids"'),
        ("self-join", {"stored_bytes": 26}, "size = 26: need at least an association of 27 real"),
        ("self-join", {"params": {"items": "1"}}, "items = 1: need 2 to 100"),
        ("self-join", {"params": {"item": "2"}}, 'did you mean "items"'),
        ("self-join", {"input": "/x", "params": {"items": "2"}}, "no parameters for associations"),
        ("correlation", {"stored_bytes": 22}, "size = 22: need at least a row of 23 real bytes"),
        ("correlation", {"params": {"most": "1"}}, 'unknown parameter of Correlation "most"'),
        ("topwords", {"params": {"most": "0"}}, "most = 0: need a whole number >= 1"),
    ],
)
def test_wrong_requests_are_refused(name, given, message):
    with pytest.raises(UsageError, match=message):
        find(name).plan(request(**given))


def test_an_unknown_job_is_reported_with_the_nearest():
    with pytest.raises(UsageError, match='unknown job "terasrt": did you mean "terasort"'):
        find("terasrt")


def test_a_file_that_is_not_there_is_reported():
    with pytest.raises(UsageError, match=r"nowhere/job.py: no such file"):
        find("nowhere/job.py")


def test_a_users_job_has_a_plan_as_well(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(OWN_JOB)
    with pytest.raises(UsageError, match="has 2 jobs: choose one of Lengths, Made"):
        find(str(file)).plan(request())
    sample = find(f"{file}:Lengths")
    plan = sample.plan(request(input="/in", reduces=1, params={"least": "2"}))
    store = FilesInMemory({"/in": b"a bb bb ccc\n"})
    carry_out(plan, store)
    assert store["/runs/1/output/part-r-00000"] == b"2\t2\n3\t1\n"
    assert (sample.name, plan.needs_input, plan.verify) == ("mine", True, None)


def test_a_plan_refuses_a_file_that_it_cannot_read():
    with pytest.raises(BadInput, match="record at offset 100 is cut short"):
        find("terasort").plan(request(input="/in")).input.check("/in", 150)
    with pytest.raises(BadInput, match="/in: is empty"):
        find("wordcount").plan(request(input="/in")).input.check("/in", 0)


def test_checks_share_nothing_with_the_jobs():
    imports = re.findall(r"^(?:from|import) .*", Path(checks.__file__).read_text(), re.MULTILINE)
    assert not [one for one in imports if "jobs.samples" in one or "sqlite" in one]
    for of_kmeans in (checks.expected_clusters, checks._rated, checks._cut, checks._nearest):
        assert "np." not in inspect.getsource(of_kmeans)
