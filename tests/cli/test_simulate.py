"""``railyard simulate`` as people type it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from railyard.cli.commands.runs import simulate
from railyard.simulator import behaviour
from tests.command_line import CommandLine


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "small.txt"
    path.write_text("3 2\n1 0 1 0 1 1:250\n2 1000 1 0 1 2:125\n")
    return f"coflow-benchmark:{path}"


def test_a_trace_gives_a_table_and_a_summary(railyard, trace, tmp_path):
    said = railyard.ok("simulate", "--workload", trace, "--json", tmp_path / "s.json")
    assert "small.txt: 2 coflows, 2 flows, 375 MB, on ports-150x1,racks.count=3" in said
    assert "maxmin" in said
    assert said.split("\n")[-2].split()[:6] == ["maxmin", "2.50", "2.50", "2.95", "2.99", "3.00"]
    summary = json.loads((tmp_path / "s.json").read_text())
    assert (summary["workload"], summary["clock"]) == (trace, "virtual")
    assert summary["cct_s"]["mean"] == pytest.approx(2.5)


def test_network_and_number_of_coflows_can_be_chosen(railyard, trace):
    said = railyard.ok(
        "simulate", "--workload", trace, "--first", "1",
        "--topology", "hybrid-8x4", "--network", "uplink=100Mbps",
    )  # fmt: skip
    assert "1 coflow, 1 flow, 250 MB, on hybrid-8x4,uplink=100Mbps" in said
    assert "20.0" in said.split()


def test_a_scheduler_of_circuits_without_any_is_reported(railyard, trace):
    words = "sunflow: ports-150x1,racks.count=3 has no optical switch: all goes by packets"
    assert (
        words in railyard.run("simulate", "--workload", trace, "--flow-scheduler", "sunflow").stderr
    )
    jobs = ("--workload", "joint,jobs=1", "--topology", "joint-16x6", "--flow-scheduler", "sunflow")
    assert "sunflow: joint-16x6 has no optical switch" in railyard.run("simulate", *jobs).stderr


def test_several_flow_schedulers_stand_in_one_table(railyard, trace, tmp_path):
    both = ("--flow-scheduler", "maxmin", "--flow-scheduler", "sjf")
    railyard.ok("simulate", "--workload", trace, *both, "--json", tmp_path / "s.json")
    rows = json.loads((tmp_path / "s.json").read_text())
    assert [row["flow_scheduler"] for row in rows] == ["maxmin", "sjf"]
    assert rows[0]["bytes"] == rows[1]["bytes"]


def test_schedulers_and_seeds_stand_in_one_table(railyard, tmp_path):
    said = railyard.ok(
        *("simulate", "--workload", "terasort", "--size", "500MB", "--topology", "flat-4x4"),
        *("--scheduler", "fair", "--scheduler", "delay", "--seeds", "2"),
        *("--json", tmp_path / "s.json"),
    )
    assert "simulated, seeds 1 to 2: means" in said
    rows = json.loads((tmp_path / "s.json").read_text())
    assert [(row["scheduler"], row["seeds"]) for row in rows] == [
        ("fair", [1, 2]),
        ("delay", [1, 2]),
    ]


# ``railyard simulate`` of jobs, and ``railyard replay``, as people type them.


KEYS = {
    "scheduler", "flow_scheduler", "topology", "workload", "clock", "seed", "scale", "makespan_s",
    "jct_s", "cct_s", "bytes", "locality", "tasks", "link_skew", "slot_utilization",
    "network_utilization", "scheduling_s", "verified", "jobs", "figures", "shuffle_skew",
    "compute_utilization",
}  # fmt: skip


def test_terasort_is_simulated_and_replayed(railyard, tmp_path):
    out = tmp_path / "out"
    said = railyard.ok("simulate", "--workload", "terasort", "--out", out, "--scheduler", "delay")
    assert "terasort on hybrid-8x4, scheduler delay, flows maxmin" in said
    summary = json.loads((out / "summary.json").read_text())
    assert set(summary) == KEYS
    assert (summary["clock"], summary["seed"], summary["scale"]) == ("virtual", 1, 1000)
    assert set(summary["figures"]) == {"delay"}
    assert "figures    delay: waits 4, waits node local 4, waited 8.75 s" in said
    (job,) = summary["jobs"]
    assert job["input_bytes"] == job["shuffle_bytes"] == job["output_bytes"] == 10 * 10**9
    assert json.loads((out / "trace.json").read_text())["traceEvents"]
    assert ": the same as then" in railyard.ok("replay", out, "--trace", tmp_path / "t.json")
    assert json.loads((tmp_path / "t.json").read_text())["traceEvents"]


def test_the_same_seed_gives_the_same_run(railyard, tmp_path):
    logs = []
    for name in ("a", "b"):
        out = tmp_path / name
        railyard.ok(
            "simulate", "--workload", "joint,jobs=1", "--topology", "joint-16x6", "--out", out,
            "--behaviour", "variance=0.3", "--faults", "slow:r0n1*3@2s+3s,link:r3.tor*0.2@1s+5s",
            "--seed", "3",
        )  # fmt: skip
        logs.append((out / "events.jsonl").read_text())
    assert logs[0] == logs[1]


def test_size_and_number_of_reduces_can_be_chosen(railyard, tmp_path):
    railyard.ok(
        "simulate", "--workload", "wordcount", "--size", "2GB", "--reduces", "3",
        "--json", tmp_path / "s.json",
    )  # fmt: skip
    (job,) = json.loads((tmp_path / "s.json").read_text())["jobs"]
    assert (job["input_bytes"], job["maps"], job["reduces"]) == (2 * 10**9, 8, 3)


@pytest.mark.parametrize(
    ("topology", "size", "reduces"),
    [
        pytest.param("co-scheduler-60x10", "10GB", 40, id="one-per-block"),
        pytest.param("hybrid-8x4", "10GB", 16, id="at-most-half-of-the-slots"),
        pytest.param("hybrid-8x4", "1MB", 1, id="at-least-one"),
    ],
)
def test_the_number_of_reduces_follows_the_input(railyard, tmp_path, topology, size, reduces):
    railyard.ok(
        "simulate", "--workload", "terasort", "--topology", topology, "--size", size,
        "--json", tmp_path / "s.json",
    )  # fmt: skip
    (job,) = json.loads((tmp_path / "s.json").read_text())["jobs"]
    assert job["reduces"] == reduces


def test_jobs_of_a_mix_are_simulated_as_they_are_run(railyard, tmp_path):
    railyard.ok(
        "simulate", "--workload", "mix,jobs=2,of=topwords,sizes=20MB", "--json", tmp_path / "s.json"
    )
    jobs = json.loads((tmp_path / "s.json").read_text())["jobs"]
    assert [(job["name"], job["ok"]) for job in jobs] == [
        ("topwords-1", True),
        ("topwords-2", True),
    ]


def test_a_job_that_fails_is_reported(railyard):
    done = railyard.run(
        "simulate", "--workload", "terasort", "--size", "1GB", "--behaviour", "failures=1"
    )
    assert done.returncode == 1
    assert "FAILED" in done.stdout
    assert "failed 4 of 4 attempts" in done.stdout


def test_wrong_commands_are_reported_in_one_line(railyard):
    for arguments, right in (
        (("--workload", "terasrot"), 'unknown workload "terasrot": did you mean "terasort"?'),
        (("--workload", "corral-w9", "--seeds", "2"), 'unknown workload "corral-w9": did you mean'),
        (("--workload", "terasort", "--faults", "x"), "--faults x: need node:"),
        (("--workload", "terasort", "--behaviour", "x=1"), "--behaviour: unknown"),
        (("--workload", "joint", "--size", "1GB"), "--size: joint says that itself"),
        (
            ("--workload", "joint", "--size", "1GB", "--seeds", "2"),
            "--size: joint says that itself",
        ),
        (("--workload", "tetrium,jobs=1", "--seeds", "2"), "has 8 racks: need at least the 50"),
        (("--workload", "tetrium,jobs=1"), "has 8 racks: need at least the 50 sites"),
        (("--workload", "coflow-benchmark:x", "--seed", "1"), "--seed: coflows alone have none"),
    ):
        done = railyard.call("simulate", *arguments)
        assert done.returncode == 2, arguments
        assert right in done.stderr, arguments
        assert done.stderr.count("\n") == 1, arguments


def test_a_log_that_was_changed_is_no_replay(railyard, tmp_path):
    out = tmp_path / "out"
    railyard.ok("simulate", "--workload", "terasort", "--size", "1GB", "--out", out)
    log = out / "events.jsonl"
    log.write_text(log.read_text().replace('"led_to": ', '"led_to": 1', 1))
    done = railyard.run("replay", out)
    assert done.returncode == 1
    assert "led to other commands than now" in done.stderr


#: 200 maps on 16 slots: of those, twice the waves that are left
MANY = ("--workload", "terasort", "--size", "51GB", "--topology", "flat-4x4")


def test_a_run_of_too_many_tasks_is_coarse_says_so_and_can_be_had_exactly(monkeypatch, tmp_path):
    monkeypatch.setattr(behaviour, "TASKS_MAX", 100)
    monkeypatch.setattr(behaviour, "WAVES", 6)
    found = {}
    for name, more in (("coarse", ()), ("exact", ("--exact",))):
        file = tmp_path / f"{name}.json"
        said = CliRunner().invoke(simulate, [*MANY, *more, "--json", str(file)])
        assert said.exit_code == 0
        found[name] = said.stderr, json.loads(file.read_text())
    lines = [line for line in found["coarse"][0].splitlines() if line.startswith("coarse, ")]
    assert len(lines) == 1
    assert "--exact" in lines[0]
    assert found["coarse"][1]["coarse"]["tasks_in_one"] == 2
    assert "coarse, " not in found["exact"][0]
    assert set(found["exact"][1]) == KEYS


def test_a_comparison_of_too_many_tasks_is_coarse_says_so_once(monkeypatch, tmp_path):
    monkeypatch.setattr(behaviour, "TASKS_MAX", 100)
    monkeypatch.setattr(behaviour, "WAVES", 6)
    words = [*MANY, "--scheduler", "fair", "--scheduler", "capacity"]
    words += ["--json", str(tmp_path / "c.json")]
    said = CliRunner().invoke(simulate, words)
    assert said.exit_code == 0
    assert said.stderr.count("coarse, ") == 1
    text = (tmp_path / "c.json").read_text()
    assert text.count('"coarse"') == 2


# ``railyard explain`` on a run's folder: lines for people, JSON for programs, errors in a line.


def test_everything_can_be_explained_for_people_and_programs(railyard: CommandLine, tmp_path: Path):
    results = tmp_path / "results"
    workload = ["--workload", "mix,jobs=5,window=5s", "--scheduler", "co-scheduler", "--seed", "2"]
    done = railyard.call("simulate", *workload, "--out", results)
    assert done.returncode == 0, done.stderr
    flow = next(
        json.loads(line)["flow"]
        for line in (results / "events.jsonl").read_text().splitlines()
        if '"flow-finished"' in line
    )
    stage = flow.split(".0:")[0].rstrip("0123456789")
    said = {}
    for what in ("j1", "j1.m0", "j1.m0.0", stage, flow, "r0-r1", "/mix/inputs"):
        done = railyard.call("explain", results, what)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].startswith(what)
        assert "co-scheduler" in lines[0] + lines[1]
        assert max(map(len, lines)) <= 80
        said[what] = " ".join(done.stdout.split())
    assert "co-scheduler/tasks placed it: line 7: its job is not shuffle-heavy" in said["j1.m0"]
    e = json.loads(railyard.call("explain", results, "j1.m0", "--json", "-").stdout)
    assert (e["kind"], e["what"], e["scheduler"]) == ("task", "j1.m0", "co-scheduler")
    assert e["attempts"][0]["chosen"]["who"] == "co-scheduler/tasks"
    file = tmp_path / "e.json"
    assert railyard.call("explain", results, "j1.m0", "--json", file).returncode == 0
    assert json.loads(file.read_text()) == e
    _require_one_line(railyard, (results, "j99"), "j99: there is no such job")
    _require_one_line(railyard, (results, "what"), "what: need a job (j3), a task (j3.m7)")


def test_what_is_no_run_is_refused(railyard: CommandLine, tmp_path: Path):
    _require_one_line(railyard, (tmp_path / "none", "j1"), "cannot be read: No such file")
    _require_one_line(railyard, ("cluster", "j1"), "no cluster is up")


def _require_one_line(railyard: CommandLine, arguments: tuple[str | Path, ...], said: str) -> None:
    done = railyard.call("explain", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_pairs_of_racks_go_by_circuit_if_they_are_elephants(railyard: CommandLine, tmp_path: Path):
    size = ["--workload", "terasort", "--size", "40GB", "--scheduler", "co-scheduler"]
    done = railyard.call("simulate", *size, "--seed", "1", "--out", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    rows = map(json.loads, (tmp_path / "results" / "network.jsonl").read_text().splitlines())
    circuits = [row for row in rows if row.get("type") == "circuit"]
    assert circuits
    e = json.loads(railyard.call("explain", tmp_path / "results", "j1.r", "--json", "-").stdout)
    by_circuit = {(pair["src"], pair["dst"]) for pair in e["pairs"] if pair["circuits"]}
    assert by_circuit == {(row["src"], row["dst"]) for row in circuits}
    for pair in e["pairs"]:  # T_e of hybrid-8x4
        assert (pair["most_left_bytes"] >= 1_125_000_000) == bool(pair["circuits"])
    src, dst = sorted(by_circuit)[0]
    said = railyard.call("explain", tmp_path / "results", f"{src}-{dst}").stdout
    [row] = [row for row in circuits if (row["src"], row["dst"]) == (src, dst)]
    assert f"{row['begin_s']:.3f} - {row['end_s']:.3f} s" in said
    assert f"by circuit; it carried from {row['lit_s']:.3f} s" in " ".join(said.split())
