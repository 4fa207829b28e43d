"""The trace of a whole run: phases lie in attempts, arrows join them, counters add up."""

from __future__ import annotations

import itertools
import json
import re
from collections import defaultdict

import pytest

from docs.reference_pages import PAGES
from railyard.cluster.config import ClusterConfig
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.runs.simulation import VirtualRun, run_virtually
from railyard.simulator.behaviour import Behaviour

WORDS = ("terasort,size=2GB", "wordcount,size=1GB,submit=500ms")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """What a simulated run with circuits leaves."""
    topology = load_topology("hybrid-8x4", (("elephant", "20MB"),))
    mix = read_mix(WORDS, Defaults(size_bytes=10**9), 1)
    path = tmp_path_factory.mktemp("runs") / "run"
    run = VirtualRun(
        config=ClusterConfig(topology=topology, scheduler="fair", flow_scheduler="sunflow"),
        workload=measured_workload(mix, topology, 1),
        behaviour=Behaviour(launch_s=0.1),
        results=path,
    )
    run_virtually(run)
    return path


@pytest.fixture(scope="module")
def rows(folder):
    return json.loads((folder / "trace.json").read_text())["traceEvents"]


def slices(rows, category):
    return [row for row in rows if row.get("cat") == category and row["ph"] == "X"]


def test_an_attempt_has_the_name_of_its_job_and_stage_and_where_its_input_was(folder, rows):
    attempts = slices(rows, "attempt")
    assert {row["name"] for row in attempts} == {
        f"{job} {stage}" for job in ("terasort", "wordcount") for stage in ("m", "r")
    }
    localities = [row["args"]["locality"] for row in attempts if row["name"].endswith(" m")]
    summary = json.loads((folder / "summary.json").read_text())
    words = {"node": "node-local", "rack": "rack-local", "remote": "remote"}
    assert {key: localities.count(word) for key, word in words.items()} == summary["locality"]


def test_phases_fill_their_attempt_one_after_the_other(rows):
    phases = defaultdict(list)
    for row in slices(rows, "phase"):
        phases[row["pid"], row["tid"]].append(row)
    for attempt in slices(rows, "attempt"):
        begin, end = attempt["ts"], attempt["ts"] + attempt["dur"]
        lane = phases[attempt["pid"], attempt["tid"]]
        inside = sorted(
            (row for row in lane if begin - 1 <= row["ts"] < end - 1), key=lambda row: row["ts"]
        )
        assert {row["name"]: row["dur"] / 1e6 for row in inside} == pytest.approx(
            attempt["args"]["phases_s"]
        )
        at = begin
        for row in inside:
            assert row["ts"] == pytest.approx(at, abs=2)
            at += row["dur"]
        assert at == pytest.approx(end, abs=2)
        names = [row["name"] for row in inside]
        assert names[0] == "start"
        assert ("shuffle" in names) == attempt["name"].endswith(" r")


def test_arrows_go_from_maps_to_the_readers_of_their_output(rows):
    flows = {row["id"]: row for row in rows if row.get("cat") == "flow" and row["ph"] == "b"}
    ends = {ph: {r["id"]: r for r in rows if r["ph"] == ph} for ph in ("s", "f")}
    assert set(ends["s"]) == set(ends["f"]) == set(flows)
    nodes = {row["pid"]: row["args"]["name"] for row in rows if row["name"] == "process_name"}

    def under(end):
        return [
            one["name"]
            for one in slices(rows, "attempt")
            if (one["pid"], one["tid"]) == (end["pid"], end["tid"])
            and one["ts"] <= end["ts"] <= one["ts"] + one["dur"]
        ]

    for flow, row in flows.items():
        source, reader = ends["s"][flow], ends["f"][flow]
        assert row["name"] == f"{nodes[source['pid']]} to {nodes[reader['pid']]}"
        assert any(name.endswith(" m") for name in under(source))
        assert any(name.endswith(" r") for name in under(reader))
        assert source["ts"] <= reader["ts"]


def test_a_links_counter_adds_up_to_its_bytes(folder, rows):
    carried: dict[str, float] = {}
    for line in (folder / "network.jsonl").read_text().splitlines():
        carried |= json.loads(line).get("bytes", {})
    counters = defaultdict(list)
    for row in rows:
        if row["ph"] == "C" and row["name"] != "circuits":
            counters[row["name"]].append((row["ts"] / 1e6, row["args"]["Gbps"]))
    assert set(counters) == set(carried)
    for link, values in counters.items():
        assert values[-1][1] == 0
        pairs = itertools.pairwise(values)
        total = sum(rate * 1e9 / 8 * (next_s - at_s) for (at_s, rate), (next_s, _) in pairs)
        assert total == pytest.approx(carried[link], rel=1e-3, abs=1e4)


def test_circuits_are_counted_dark_and_lit(rows):
    counts = [row["args"] for row in rows if row["ph"] == "C" and row["name"] == "circuits"]
    assert max(count["lit"] for count in counts) > 0
    assert max(count["dark"] for count in counts) > 0
    assert min(min(count.values()) for count in counts) == 0
    assert counts[-1] == {"lit": 0, "dark": 0}


def test_the_reference_names_every_kind_of_row(rows):
    table = PAGES["files.md"]().partition("| `cat` | `ph` |")[2]
    kinds = re.findall(r"^\| (?:`([\w-]+)`)? \| `([A-Za-z, ]+)` \|", table, re.M)
    known = {(category, phase) for category, phases in kinds for phase in phases.split(", ")}
    assert {(row.get("cat", ""), row["ph"]) for row in rows} <= known
