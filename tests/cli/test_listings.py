"""What there is to choose from."""

from __future__ import annotations

import hashlib
import json

import msgspec
import pytest
from click.testing import CliRunner

from railyard.api.listings import settings_of_recipe
from railyard.cli.commands import bench
from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.resourcemanager.schedulers import all_recipes
from railyard.resourcemanager.schedulers.corral.latency import JobProfile, Run, StageProfile
from railyard.resourcemanager.schedulers.corral.planner import load_plan
from railyard.runs import traces as fetching
from railyard.runs.requests import RunRequest


def test_schedulers_name_their_papers_and_settings(railyard):
    said = railyard.ok("schedulers")
    for words in ("delay\n    Zaharia et al., EuroSys 2010", "delay.node_wait_s", "maxmin"):
        assert words in said
    assert "Without --flow-scheduler it is maxmin, unless it says above" in said


def test_topologies_tell_their_figures(railyard):
    said = " ".join(railyard.ok("topologies").split())
    assert "hybrid-8x4" in said
    assert "4 racks x 4 nodes x 1 slots; NIC 10 Gbps, uplink 40 Gbps; scale 1000" in said
    assert "circuits 100 Gbps, set up in 10.0 ms, from 1.12 GB on; scale 1000" in said
    assert "uplink 30 Gbps, 50% of the core already taken off for other traffic" in said
    assert "8 sites x 1 nodes x 4 to 16 slots; NIC unlimited, uplink 100 Mbps to 1 Gbps" in said
    assert "switches 3 Gbps / 2 Gbps / 2 Gbps" in said


def test_a_topology_is_shown_with_its_sites(railyard, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    rows = [line.split() for line in railyard.ok("topologies", "tetrium-8").splitlines()]
    [tokyo] = [row for row in rows if "Tokyo" in row]
    place = load_topology("tetrium-8").rack_list()[5]
    rates_gbps = [place.uplink_bytes_per_s * 8e-9, place.downlink_bytes_per_s * 8e-9]
    assert tokyo[:4] == ["r5", "Tokyo", "1", str(place.nodes[0].slots)]
    assert [float(number) for number in tokyo[4:]] == pytest.approx(rates_gbps, abs=0.005)
    assert any(row[:3] == ["r0", "to", "r6"] for row in _rows(railyard, "corral-7x30"))
    assert "unknown topology" in railyard.call("topologies", "tetrium-9").stderr


def _rows(railyard, name):
    return [line.split() for line in railyard.ok("topologies", name).splitlines()]


def test_every_benchmark_can_be_named():
    assert {"startup", "fidelity", "engine", "coflows", "fabric"} <= set(bench.benchmark_names())


def test_bench_writes_its_rows_and_fails_with_a_broken_bound(monkeypatch, tmp_path, capsys):
    row = {"name": "x", "value": 2.0, "unit": "s", "reference": 1.0, "ratio": 2.0, "bound": 1.5}

    class Module:
        run = staticmethod(lambda quick: [{**row, "ok": False, "note": "too slow"}])

    monkeypatch.setattr(bench.importlib, "import_module", lambda _: Module)
    file = tmp_path / "rows.json"
    status = bench.bench.main(["startup", "--json", str(file)], standalone_mode=False)
    assert status == 1
    assert json.loads(file.read_text())[0]["ratio"] == 2.0
    assert "BROKEN" in capsys.readouterr().out


def test_every_setting_says_what_it_does():
    for recipe in all_recipes().values():
        for setting in settings_of_recipe(recipe):
            assert len(setting.meaning) > 10, setting.name
            assert setting.default not in ("{}", "None", "")


def test_choices_of_a_setting_are_named(railyard):
    said = " ".join(railyard.call("schedulers", "tetrium", "--settings").stdout.split())
    assert "tetrium.map_order=remote-first whether" in said
    assert "remote-first or local-first" in said


@pytest.mark.parametrize("columns", ["60", "80"])
@pytest.mark.parametrize(
    "command",
    [
        ["schedulers", "--settings"],
        ["topologies"],
        ["topologies", "tetrium-8"],
        ["workloads"],
        ["schedulers"],
    ],
)
def test_lists_fit_the_terminal(railyard, monkeypatch, command, columns):
    monkeypatch.setenv("COLUMNS", columns)
    lines = railyard.call(*command).stdout.splitlines()
    assert lines
    for line in lines:
        one_word = len(line.split()) == 1
        assert len(line) <= int(columns) or one_word, line


def test_settings_are_listed_with_defaults_and_what_they_do(railyard):
    said = " ".join(railyard.ok("schedulers", "corral", "shadow", "--settings").split())
    for words in (
        "corral Jalaparti et al., SIGCOMM 2015",
        "corral.work_conserving=false a job may have slots elsewhere",
        "the published effect holds with tasks that keep to R_j",
        "shuffle.slowstart=0.05 share of the tasks read",
        "shuffle.slowstart=0.8",
        "corral.node_wait_s=5 how long a job holds out",
    ):
        assert words in said
    assert "tetrium" not in said
    wrong = railyard.run("schedulers", "coral")
    assert (wrong.returncode, 'did you mean "corral"' in wrong.stderr) == (2, True)


# ``railyard workloads`` as people type it.


def test_the_list_names_sources_and_options(railyard):
    said = railyard.ok("workloads")
    for words in (
        "swim:FILE.tsv\n",
        "Chen et al., MASCOTS 2011",
        "corral-w1\n",
        "size_error=0.065",
        "block=256MB",
    ):
        assert words in said


def test_a_workload_is_shown_next_to_what_was_published(railyard):
    said = railyard.ok("workloads", "show", "corral-w3", "--seed", "3")
    [median] = [line for line in said.splitlines() if "input, p50" in line]
    assert median.split()[3:] == ["GB", "7.1", "GB", "Table", "1"]
    assert "missed" not in said


def test_what_is_not_as_published_is_said(railyard):
    said = railyard.ok("workloads", "show", "corral-w2,jobs=100")
    [jobs] = [line for line in said.splitlines() if line.split()[:1] == ["jobs"]]
    assert jobs.split()[:3] == ["jobs", "100", "400"]
    assert "missed; " in jobs


def test_a_wrong_name_is_one_line(railyard):
    done = railyard.run("workloads", "show", "corral-w4")
    assert done.returncode == 2
    assert done.stderr.startswith(
        'railyard: unknown workload "corral-w4": did you mean "corral-w3"'
    )


# Public traces come whole or not at all.  The publisher is a folder here.


TEXT = b"1\t2\t3\n"


@pytest.fixture
def published(tmp_path, monkeypatch):
    """The only trace that there is; its file can be changed."""
    source = tmp_path / "published.tsv"
    source.write_bytes(TEXT)
    trace = fetching.PublicTrace(
        "swim/jobs.tsv", source.as_uri(), hashlib.sha256(TEXT).hexdigest(), "3 numbers"
    )
    monkeypatch.setattr(fetching, "TRACES", (trace,))
    return source


def fetch(into):
    result = CliRunner().invoke(fetching.fetch, ["--into", str(into)], catch_exceptions=True)
    if result.exception is not None:
        raise result.exception
    return result.output


def test_a_trace_is_fetched_once(published, tmp_path):
    into = tmp_path / "traces"
    assert "swim/jobs.tsv: 6 B, 3 numbers" in fetch(into)
    assert (into / "swim/jobs.tsv").read_bytes() == TEXT
    published.unlink()
    assert "is there" in fetch(into)
    assert [path.name for path in (into / "swim").iterdir()] == ["jobs.tsv"]


def test_a_trace_that_was_cut_short_is_fetched_again(published, tmp_path):
    target = tmp_path / "traces" / "swim/jobs.tsv"
    target.parent.mkdir(parents=True)
    target.write_bytes(TEXT[:3])
    fetch(tmp_path / "traces")
    assert target.read_bytes() == TEXT


def other_contents(target):
    target.write_bytes(b"1\t2\t4")


def longer(target):
    target.write_bytes(TEXT + b"4\t5\t6\n")


def link(target):
    target.symlink_to("elsewhere")


@pytest.mark.parametrize("make", [other_contents, longer, link])
def test_a_users_own_version_is_not_replaced(published, tmp_path, make):
    target = tmp_path / "traces" / "swim/jobs.tsv"
    target.parent.mkdir(parents=True)
    make(target)
    before = target.lstat()
    with pytest.raises(UsageError, match=r"jobs.tsv: is another file than .*: move it away"):
        fetch(tmp_path / "traces")
    assert target.lstat() == before
    assert [path.name for path in target.parent.iterdir()] == ["jobs.tsv"]


def test_other_contents_than_the_known_ones_are_refused(published, tmp_path):
    published.write_bytes(b"something else")
    with pytest.raises(UsageError, match=r"its SHA-256 ends in .*: need one that ends in"):
        fetch(tmp_path / "traces")
    assert not list((tmp_path / "traces" / "swim").iterdir())


def test_what_can_t_be_reached_is_one_line(published, tmp_path):
    published.unlink()
    with pytest.raises(UsageError, match=r"No such file.*: fetch it by hand and put it at"):
        fetch(tmp_path / "traces")


def test_a_folder_that_can_t_be_made_is_one_line(published, tmp_path):
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "swim").write_text("a file")
    with pytest.raises(UsageError, match=r"swim/jobs.tsv: File exists"):
        fetch(tmp_path / "traces")


def test_sums_and_places_are_reported_for_every_trace():
    for trace in fetching.TRACES:
        assert len(trace.sha256) == 64
        assert trace.url.endswith(trace.name.rpartition("/")[2])
        assert trace.about


# ``railyard plan`` as people type it.


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
    runs = []
    for day, size in ((0, 1e9), (1, 3e9), (5, 9e9)):
        maps = StageProfile(maps=8, input_bytes=size, map_rate_bytes_per_s=1e6)
        profile = JobProfile(name="x", arrive_s=60.0, stages=(maps,))
        runs.append(msgspec.json.encode(Run(job="logs", day=day, profile=profile)))
    (tmp_path / "runs.jsonl").write_bytes(b"\n".join(runs))
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
    request = RunRequest(words=asked[1:2], topology="corral-7x30")
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
