"""A TeraSort under Co-scheduler, in real processes: its shuffle is fit for circuits."""

import json
from collections import Counter

from railyard.cluster.ids import rack_of
from railyard.cluster.messages.execution import LaunchAttempt, StartFlow
from railyard.resourcemanager.driving.eventlog import replay
from railyard.resourcemanager.interface.commands import PlaceData

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
