"""A small job for real, and simulated with its blocks where they were: what its attempts report."""

from pathlib import Path
from statistics import median

import pytest

from railyard.cluster.messages.execution import AttemptSucceeded
from railyard.cluster.messaging.wire import Event
from railyard.jobs.mixes.measured import measured_workload
from railyard.jobs.mixes.mixes import Defaults, read_mix
from railyard.resourcemanager.driving.eventlog import EventLog, read_log
from railyard.resourcemanager.interface.events import JobSubmitted
from railyard.scripts.comparing.placed import placed_as_in
from railyard.simulator.cluster import Simulation
from tests.command_line import SMALL

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
