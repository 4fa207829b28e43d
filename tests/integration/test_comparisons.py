"""``railyard compare`` with real processes and in virtual time; what an interrupt leaves."""

import json
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from railyard.cluster.messages.execution import AttemptSucceeded, LaunchAttempt
from railyard.resourcemanager.driving.eventlog import read_log, replay
from tests.command_line import SMALL, interrupt
from tests.waiting import wait_for

REAL = "capacity-maxmin-wall-1"


def test_both_clocks_run_the_same_jobs_on_the_same_blocks(railyard, tmp_path):
    out = tmp_path / "out"
    said = railyard.ok(
        *("compare", "terasort,size=300MB", "wordcount,size=300MB", "--schedulers", "capacity"),
        *("--topology", SMALL, "--json", tmp_path / "c.json", "--out", out),
    )
    assert "emulated" in said
    assert "simulated" in said
    real, virtual = json.loads((tmp_path / "c.json").read_text())
    assert (real["clock"], real["verified"], real["seeds"]) == ("wall", [True], [1])
    assert virtual["seeds"] == [1, 2, 3, 4, 5]
    for key in ("input_bytes", "shuffle_bytes", "output_bytes", "maps", "reduces", "name"):
        [a, b] = ([job[key] for job in told["runs"][0]["jobs"]] for told in (real, virtual))
        assert a == b, key
    assert "Do the two clocks agree?" in said
    page = (out / "index.html").read_text()
    assert "simulated 20 more times" in page
    low, high = real["by_chance"]["jct_s.mean"]
    assert 0 < low <= high
    assert virtual["by_chance"] == {}
    [from_seed] = [run["jct_s"]["mean"] for run in virtual["runs"] if run["seed"] == 1]
    told = {one["metric"]: one for one in real["agreement"]}["jct_s.mean"]
    assert told["simulated_from_seed"] == from_seed
    twin = json.loads((out / f"{REAL}-twin" / "summary.json").read_text())
    assert told["simulated_with_its_blocks"] == twin["jct_s"]["mean"]

    def placed(run):
        events = (out / run / "events.jsonl").read_text().splitlines()
        rows = [row for row in map(json.loads, events) if row["type"] == "job-submitted"]
        found = {row["name"]: row["stages"][0]["inputs"] for row in rows}
        return {
            job: [sorted(one["nodes"]) for one in found[job]] for job in ("terasort", "wordcount")
        }

    assert placed(REAL) == placed(f"{REAL}-twin")
    for clock in ("wall", "virtual"):
        folder = out / f"capacity-maxmin-{clock}-1"
        summary = json.loads((folder / "summary.json").read_text())
        expected = skews_by_placement(folder / "events.jsonl")
        for job in summary["jobs"]:
            # at 400 MB/s a slot, all that is read and all that is fetched
            paced_s = (job["input_bytes"] + job["shuffle_bytes"]) / 400e6
            assert paced_s * 0.999 <= job["computed_s"] <= job["slot_s"] * 1.001, clock
            if clock == "virtual":
                assert job["computed_s"] == pytest.approx(paced_s, rel=1e-6)
            skew = expected[job["id"]]  # None: nothing of it left its rack
            assert job["shuffle_skew"] == (skew and pytest.approx(skew, rel=1e-9)), clock
        assert 0 < summary["compute_utilization"] < summary["slot_utilization"]
        assert summary["shuffle_skew"]["max"] == pytest.approx(
            max(filter(None, expected.values())), rel=1e-9
        )
        assert set(summary["figures"]["delay"]) == {"waits", "waits_node_local", "waited_s"}
        assert "figures_error" not in summary
    assert "The schedulers' own figures" in page
    assert "waits node local" in said
    assert railyard.nothing_left()


def test_stragglers_straggle_on_both_clocks(railyard, tmp_path):
    """The share of attempts that says so computes three times as long as the rate demands."""
    out = tmp_path / "out"
    railyard.ok(
        *("compare", "terasort,size=1500MB", "--schedulers", "fair", "--topology", SMALL),
        *("--network", "compute.stragglers=0.4", "--network", "compute.straggler_factor=3"),
        *("--seed", "2", "--seeds", "1", "--out", out),
    )
    for clock in ("wall", "virtual"):
        config, events = read_log(out / f"fair-maxmin-{clock}-2" / "events.jsonl")
        factors = set()
        for event in (logged.event for logged in events):
            if isinstance(event, AttemptSucceeded) and event.input_bytes:
                paced_s = event.input_bytes / 400e6
                factors.add(straggle := config.topology.compute.straggle(event.attempt, 2))
                assert event.computed_s >= paced_s * straggle * 0.999
                if clock == "virtual":
                    assert event.computed_s == pytest.approx(paced_s * straggle)
        assert factors == {1.0, 3.0}


def skews_by_placement(events: Path) -> dict[str, float]:
    """Equations 6, 7 and 10 of Wu et al., Shadow, by where the winners of maps and reduces ran."""
    rack: dict[str, str] = {}
    outputs: dict[str, list[tuple[str, tuple[int, ...]]]] = {}  # of maps: (rack, to each reduce)
    reduces: dict[str, dict[int, str]] = {}
    for step in replay(events):
        for command in step.commands:
            if isinstance(command, LaunchAttempt):
                rack[command.attempt] = command.node.split("n")[0]
        if isinstance(step.event, AttemptSucceeded):
            job, task, _ = step.event.attempt.split(".")
            if task.startswith("m"):
                one = rack[step.event.attempt], step.event.partition_bytes
                outputs.setdefault(job, []).append(one)
            else:
                reduces.setdefault(job, {})[int(task[1:])] = rack[step.event.attempt]
    found = {}
    for job, maps in outputs.items():
        loads: Counter[str] = Counter()
        for source, partitions in maps:
            for index, target in reduces.get(job, {}).items():
                if source != target:
                    loads[f"{source} up"] += partitions[index]
                    loads[f"{target} down"] += partitions[index]
        used = [load for load in loads.values() if load]
        found[job] = max(used) / min(used) if used else None
    return found


def test_an_interrupt_ends_simulations_on_other_cores(railyard):
    words = ("compare", "corral-w1", "--clock", "virtual", "--seeds", "4", "--topology")
    running = railyard.start(*words, "corral-7x30")
    children = set()

    def two_work():
        children.update(psutil.Process(running.pid).children(recursive=True))
        return len(children) >= 2

    wait_for(two_work, 60, "simulations run on both cores")
    time.sleep(0.5)
    status, said = interrupt(running)
    assert status == 130, said
    assert said.splitlines()[-1] == "railyard: interrupted (SIGINT)"
    wait_for(lambda: not any(child.is_running() for child in children), why="workers ended")
