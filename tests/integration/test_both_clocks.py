"""``railyard compare`` with real processes and in virtual time; what an interrupt leaves."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from statistics import median

import psutil
import pytest

from railyard.cluster.ids import rack_of
from railyard.cluster.messages import AttemptSucceeded, LaunchAttempt, StartFlow
from railyard.cluster.messaging.wire import Event
from railyard.experiments.comparison import placed_as_in
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.resourcemanager.driving.eventlog import EventLog, read_log, replay
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.events import JobSubmitted
from railyard.simulator.simulation import Simulation
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


# A small job for real, and simulated with its blocks where they were: what its attempts report.


SIZE_BYTES = 1_500_000_000


def succeeded(events: Path, name: str) -> dict[str, list[AttemptSucceeded]]:
    """{stage: what its attempts reported} of the job of that name."""
    _, rows = read_log(events)
    found: list[Event] = [row.event for row in rows]
    [job] = [e.job for e in found if isinstance(e, JobSubmitted) and e.name == name]
    reports = [
        e for e in found if isinstance(e, AttemptSucceeded) if e.attempt.startswith(f"{job}.")
    ]
    return {stage: [e for e in reports if f".{stage}" in e.attempt] for stage in "mr"}


def test_both_clocks_report_the_same_times(railyard, tmp_path):
    railyard.ok("run", "terasort", "--size", "1.5GB", "--topology", SMALL, "--out", tmp_path / "e")
    emulated = tmp_path / "e" / "events.jsonl"
    config, _ = read_log(emulated)
    mix = read_mix(["terasort"], Defaults(size_bytes=SIZE_BYTES), seed=1)
    workload = placed_as_in(measured_workload(mix, config.topology, seed=1), emulated)
    log = EventLog(tmp_path / "simulated.jsonl", config, buffered=True)
    Simulation(config, workload, log=log).run()
    log.close()

    real = succeeded(emulated, "terasort")
    model = succeeded(tmp_path / "simulated.jsonl", workload.jobs[0].name)
    for stage in "mr":
        assert len(real[stage]) == len(model[stage]) > 0
        # The pace is the same; on a busy machine a few may compute for longer than it demands.
        computed_s = [median(each.computed_s for each in run[stage]) for run in (real, model)]
        assert computed_s[0] == pytest.approx(computed_s[1], rel=0.02)
    nic_bytes_per_s = next(iter(config.topology.nodes())).nic_bytes_per_s
    for run in (real, model):
        assert all(one.read_s == 0 for one in run["m"] if not one.rack_bytes + one.remote_bytes)
        fetched = [one for one in run["r"] if one.read_s > 0]
        assert fetched
        # A third of it and more comes from other nodes: no quicker than the NIC can.
        assert all(one.read_s >= one.input_bytes / 3 / nic_bytes_per_s for one in fetched)


# TeraSorts whose shuffles go by circuits, in real processes, and what can be seen of it.


#: Small bytes for small tests: what one pair of racks has to shuffle is well above it.
ELEPHANT = "ocs.elephant_bytes=30MB"


def left_by(folder):
    """The summary, the rows of circuits, and the slices of circuits in the trace."""
    summary = json.loads((folder / "summary.json").read_text())
    network = [json.loads(line) for line in (folder / "network.jsonl").read_text().splitlines()]
    trace = json.loads((folder / "trace.json").read_text())["traceEvents"]
    circuits = [row for row in network if row.get("type") == "circuit"]
    return summary, network, circuits, [row for row in trace if row.get("cat") == "circuit"]


def test_a_shuffle_of_few_reduces_rides_circuits_and_the_trace_shows_it(railyard, tmp_path):
    said = railyard.ok(
        *("run", "terasort", "--size", "1GB", "--reduces", "2", "--flow-scheduler", "sunflow"),
        *("--network", ELEPHANT, "--out", "all"),
        cwd=tmp_path,
    )
    assert "records in order" in said
    summary, network, circuits, shown = left_by(tmp_path / "all")
    assert summary["verified"] is True
    assert summary["bytes"]["ocs"] > 0
    assert summary["bytes"]["ocs"] + summary["bytes"]["eps"] == summary["bytes"]["cross_rack"]
    [job] = [row["id"] for row in summary["jobs"]]
    shuffled = [row for row in circuits if row["coflow"].startswith(f"{job}.")]
    assert shuffled
    for row in circuits:
        assert row["src"] != row["dst"]
        if row["lit_s"] is not None:
            assert row["begin_s"] <= row["lit_s"] <= row["end_s"]
    dark_s = [row["lit_s"] - row["begin_s"] for row in circuits if row["lit_s"] is not None]
    assert abs(max(dark_s) - 0.01) < 1e-6
    assert {row["args"]["phase"] for row in shown} == {"dark", "lit"}
    assert {row["args"]["coflow"] for row in shown} == {row["coflow"] for row in circuits}
    totals = {}
    for row in network:
        totals |= row.get("bytes", {})
    assert sum(totals.get(f"r{rack}.ocs.up", 0) for rack in range(8)) >= summary["bytes"]["ocs"]
    explained = json.loads(
        railyard.call("explain", tmp_path / "all", shuffled[0]["coflow"], "--json", "-").stdout
    )
    used = [use for pair in explained["pairs"] for use in pair["circuits"]]
    assert len(used) == sum(row["coflow"] == explained["what"] for row in shuffled)
    for pair in explained["pairs"]:  # it is an elephant, or by packets
        assert not pair["circuits"] or pair["most_left_bytes"] >= explained["elephant_bytes"]
    assert railyard.nothing_left()


def test_most_of_a_co_scheduled_shuffle_rides_circuits(railyard, tmp_path):
    railyard.ok(
        *("run", "terasort", "--size", "1GB", "--reduces", "4", "--scheduler", "co-scheduler"),
        *("--set", "co-scheduler.only_if_faster=false"),
        *("--network", "elephant=50MB", "--out", "all"),
        cwd=tmp_path,
    )
    summary, _, circuits, _ = left_by(tmp_path / "all")
    assert summary["verified"] is True
    assert circuits
    assert summary["bytes"]["ocs"] > summary["bytes"]["eps"]
    assert railyard.nothing_left()


def test_ports_can_fail_and_work_again_while_a_job_runs(railyard, tmp_path):
    railyard.ok("up", "--flow-scheduler", "sunflow", "--network", ELEPHANT)
    job = railyard.start("run", "terasort", "--size", "1GB", "--reduces", "2")
    seen = ""
    while job.poll() is None and " to r" not in seen:
        seen = railyard.ok("network", "show")
        time.sleep(0.05)
    assert " to r" in seen, job.communicate()
    for rack in range(8):
        said = railyard.ok("network", "set", f"r{rack}.ocs.up", "0")
        assert f"r{rack}.ocs.up carries 0 bps, stated 100 Gbps" in said
    assert " to r" not in railyard.ok("network", "show")
    railyard.ok("network", "set", "r3.ocs.up", "default")
    assert job.wait(60) == 0, job.communicate()
    assert "records in order" in job.communicate()[0]
    said = railyard.call("explain", "cluster", "j2").stdout
    assert "j2 (terasort)" in said
    assert "j2 succeeded" in said
    railyard.ok("down")
    assert railyard.nothing_left()


# A TeraSort under Co-scheduler, in real processes: its shuffle is fit for circuits.


ELEPHANT_BYTES = 100_000_000


def test_data_maps_and_reduces_are_on_few_racks(railyard, tmp_path):
    """1 GB at T_e = 100 MB: sqrt(10) allows for 3 racks, and 8 racks for 2 with three replicas."""
    said = railyard.ok(
        *("run", "terasort", "--size", "1GB", "--reduces", "4", "--scheduler", "co-scheduler"),
        *("--set", "co-scheduler.only_if_faster=false"),
        *("--network", "elephant=100MB", "--out", "all"),
        cwd=tmp_path,
    )
    assert "records in order" in said
    commands = [
        command for step in replay(tmp_path / "all" / "events.jsonl") for command in step.commands
    ]
    [plan] = [command for command in commands if isinstance(command, PlaceData)]
    assert [len(racks) for racks in plan.racks] == [2, 2, 2]

    summary = json.loads((tmp_path / "all" / "summary.json").read_text())
    assert summary["locality"]["remote"] == 0
    [job] = [row["id"] for row in summary["jobs"]]
    launched = [command for command in commands if isinstance(command, LaunchAttempt)]
    for stage, most in (("m", 2), ("r", 4)):
        there = {rack_of(o.node) for o in launched if o.attempt.startswith(f"{job}.{stage}")}
        assert 1 <= len(there) <= most, stage

    pairs: Counter[tuple[str, str]] = Counter()
    for flow in commands:
        if isinstance(flow, StartFlow) and flow.reader.startswith(f"{job}."):
            pairs[rack_of(flow.src), rack_of(flow.dst)] += flow.size_bytes
    crossing = {pair: size for pair, size in pairs.items() if pair[0] != pair[1]}
    # TeraSort's cuts come from a sample: a reduce may get a little less than its share
    assert min(crossing.values()) >= 0.9 * ELEPHANT_BYTES
    assert railyard.nothing_left()


def test_a_file_that_is_put_there_goes_where_its_job_should_run(railyard, tmp_path):
    (tmp_path / "records").write_bytes(bytes(600_000))
    railyard.ok("up", "--scheduler", "co-scheduler", "--network", "elephant=100MB")
    railyard.ok("fs", "put", "records", "/records", cwd=tmp_path)
    places = [
        {rack_of(node) for node in line.split()[2:]}
        for line in railyard.ok("fs", "locations", "/records").splitlines()
    ]
    assert [len(racks) for racks in places] == [3, 3, 3]  # of each block; otherwise it is two
    assert len(set.union(*places)) <= 6
    railyard.ok("down")
    assert railyard.nothing_left()
