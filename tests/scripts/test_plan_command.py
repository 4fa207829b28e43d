"""``railyard plan`` as people type it."""

import json

import pytest

from railyard.resourcemanager.schedulers.corral.planfile import load_plan
from railyard.resourcemanager.schedulers.corral.prediction import Run, record
from railyard.resourcemanager.schedulers.corral.profiles import JobProfile, StageProfile
from railyard.scripts.simulating.request import SimulateRequest


def test_a_workload_is_planned_into_a_file(railyard, tmp_path):
    figures = tmp_path / "plan.json"
    said = railyard.ok(
        *("plan", "--workload", "corral-w1,jobs=30", "--topology", "corral-7x30", "--bound"),
        *("--output", tmp_path / "w1.toml", "--json", figures),
    )
    plan = load_plan(tmp_path / "w1.toml")
    assert (plan.scenario, plan.racks, len(plan.jobs)) == ("online", 7, 30)
    assert plan.workload == "corral-w1,jobs=30, seed 1"
    assert "30 jobs of corral-w1" in said
    assert "no plan has an average below" in said
    numbers = json.loads(figures.read_text())
    assert numbers["completion_s"] == pytest.approx(plan.completion_s)
    assert numbers["bound_s"] <= plan.completion_s


def test_the_plain_algorithm_writes_the_same_plan(railyard, tmp_path):
    asked = ("plan", "--workload", "corral-w3,jobs=12", "--scenario", "batch", "--seed", "3")
    for name, more in (("quick", ()), ("plain", ("--plain",))):
        railyard.ok(*asked, *more, "--output", tmp_path / name)
    assert (tmp_path / "quick").read_text() == (tmp_path / "plain").read_text()


def test_only_predicted_jobs_are_planned(railyard, tmp_path):
    railyard.ok("plan", "--workload", "corral-mix,jobs=10,ad_hoc=5", cwd=tmp_path)
    assert len(load_plan(tmp_path / "plan.toml").jobs) == 10


def test_a_mix_of_real_jobs_is_planned_under_the_names_that_they_run_by(railyard, tmp_path):
    railyard.ok("plan", "--workload", "mix,jobs=4,sizes=500MB,recurring=0.5", cwd=tmp_path)
    names = {job.name for job in load_plan(tmp_path / "plan.toml").jobs}
    assert len(names) == 2
    assert all(name.startswith(("terasort-", "wordcount-")) for name in names)


def test_jobs_are_predicted_from_earlier_runs(railyard, tmp_path):
    for day, size in ((0, 1e9), (1, 3e9), (5, 9e9)):
        maps = StageProfile(maps=8, input_bytes=size, map_rate_bytes_per_s=1e6)
        profile = JobProfile(name="x", arrive_s=60.0, stages=(maps,))
        record(Run(job="logs", day=day, profile=profile), tmp_path / "runs.jsonl")
    asked = ("plan", "--runs", "runs.jsonl", "--day", "7", "--set", "imbalance=0")
    assert "2 GB" in railyard.ok(*asked, cwd=tmp_path)  # a Monday: the mean of 1 and 3
    [job] = load_plan(tmp_path / "plan.toml").jobs
    assert (job.name, job.arrive_s, job.planned_s) == ("logs", 60.0, job.latency_s)


def test_a_plan_is_shown_beside_a_run_of_its_jobs(railyard, tmp_path):
    asked = ("--workload", "corral-w3,jobs=3,grain=48,recurring=1", "--topology", "corral-7x30")
    railyard.ok("plan", *asked, cwd=tmp_path)
    planned = load_plan(tmp_path / "plan.toml").jobs
    longest_s = max(job.end_s - job.arrive_s for job in planned)
    jobs = [{"name": job.name, "ok": True, "jct_s": 2 * longest_s} for job in planned]
    (tmp_path / "run.json").write_text(json.dumps({"makespan_s": 60.0, "jobs": jobs}))
    said = railyard.ok(
        "plan", *asked, "--beside", "run.json", "--json", "second.json", cwd=tmp_path
    )
    assert "makespan 60.00 s" in said
    run = json.loads((tmp_path / "second.json").read_text())["run"]
    assert (len(run["jobs"]), run["later"]) == (3, 0.0)
    assert max(job["planned_s"] / job["actual_s"] for job in run["jobs"]) == pytest.approx(0.5)
    assert 0.5 <= run["mean_error"] < 1.0


def test_a_plan_has_the_topology_that_simulate_makes_for_merged_tasks(railyard, tmp_path):
    asked = ("--workload", "corral-w1,jobs=6,grain=12", "--topology", "corral-7x30")
    done = railyard.run("plan", *asked, cwd=tmp_path)
    assert done.stderr == (
        "grain=12: 12 tasks are one; 10 machines a rack with 2 slots each, as fast together as "
        "30 with 8\n"
    )
    request = SimulateRequest(words=asked[1:2], topology="corral-7x30")
    assert load_plan(tmp_path / "plan.toml").topology == request.place.name


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "plan: need --workload NAME or --runs FILE, one of the two"),
        (("--workload", "corral-w1", "--day", "3"), "plan: need --runs FILE and --day N together"),
        (("--runs", "none.jsonl", "--day", "3"), "none.jsonl: cannot be read"),
        (("--workload", "corral-w1", "--beside", "none.json"), "none.json: cannot be read"),
        (("--workload", "swin"), 'unknown workload "swin": did you mean "swim"'),
        (("--workload", "corral-w1,recurring=0"), "nothing was predicted: need a workload with"),
        (("--workload", "corral-w1", "--set", "imbalance=-1"), "imbalance = -1.0: need a number"),
        (("--workload", "corral-w1", "--set", "alpha=1"), '--set: unknown key "alpha"'),
    ],
)
def test_a_wrong_plan_command_is_one_line(railyard, tmp_path, arguments, words):
    done = railyard.run("plan", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "plan.toml").exists()
