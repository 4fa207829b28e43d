"""``railyard simulate`` of jobs, and ``railyard replay``, as people type them."""

import json

import pytest
from click.testing import CliRunner

from railyard.scripts.commands.runs.simulate import simulate
from railyard.simulator import coarsening

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
    monkeypatch.setattr(coarsening, "TASKS_MAX", 100)
    monkeypatch.setattr(coarsening, "WAVES", 6)
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
    monkeypatch.setattr(coarsening, "TASKS_MAX", 100)
    monkeypatch.setattr(coarsening, "WAVES", 6)
    words = [*MANY, "--scheduler", "fair", "--scheduler", "capacity"]
    words += ["--json", str(tmp_path / "c.json")]
    said = CliRunner().invoke(simulate, words)
    assert said.exit_code == 0
    assert said.stderr.count("coarse, ") == 1
    text = (tmp_path / "c.json").read_text()
    assert text.count('"coarse"') == 2
