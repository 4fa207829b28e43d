"""TeraSorts whose shuffles go by circuits, in real processes, and what can be seen of it."""

import json
import time

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
