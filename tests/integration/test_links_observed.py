"""Links that change while a job runs, as they are reported to a scheduler that uses the network."""

import json

import pytest

from railyard.cluster.files.runfolder import RunFolder
from railyard.netemu.messages import LinksObserved
from railyard.resourcemanager.driving.eventlog import read_log
from tests.command_line import SMALL
from tests.integration.tutorials import schedulers
from tests.waiting import wait_for

MBPS = 1e6 / 8

#: A scheduler of another package: fair, but no reduce goes to a rack that little can get into.
SCHEDULER = """
from railyard import Pass, Place, Recipe, TaskPolicy
from railyard.resourcemanager.schedulers.fair import FairOrder


class WideTasks(TaskPolicy):
    uses_network = True

    def offer(self, job, slot, now_s):
        reduce = job.next_rerun() or job.next_pending_reduce()
        if reduce is not None:
            if self.cluster.links[f"{slot.rack}.down"].capacity_bytes_per_s > 1e9:
                return Place(reduce)
            return Pass("too little gets into this rack")
        task, level = job.closest_pending_map(slot)
        return Pass("no task is ready") if task is None else Place(task, level)

    def reconsider(self):
        return self.cluster.jobs.values()


RECIPE = Recipe(name="wide", source="a test", order=FairOrder, tasks=WideTasks)
"""


@pytest.fixture
def wide(railyard, tmp_path):
    """A command line that knows the scheduler."""
    schedulers(tmp_path, "wide", SCHEDULER, wide="wide:RECIPE")
    railyard.environment["PYTHONPATH"] = str(tmp_path)
    return railyard


@pytest.fixture
def cluster(wide):
    wide.ok("up", "--topology", SMALL, "--scheduler", "wide", "--set", "links.period_s=0.2")
    yield wide
    wide.ok("down")
    assert wide.nothing_left()


def observed(path):
    """{link: capacities, in the order in which they were observed}"""
    found = {}
    for logged in read_log(path)[1]:
        if isinstance(logged.event, LinksObserved):
            for name, link in logged.event.links.items():
                found.setdefault(name, []).append(link.capacity_bytes_per_s)
    return found


def nodes_of_reduces(trace):
    """The nodes where reduces of the sort ran, by the trace of a replay."""
    rows = json.loads(trace.read_text())["traceEvents"]
    names = {row["pid"]: row["args"]["name"] for row in rows if row["name"] == "process_name"}
    slices = [row for row in rows if row.get("cat") == "attempt"]
    return {names[row["pid"]] for row in slices if row["args"]["attempt"].startswith("j2.r")}


def test_a_scheduler_heeds_links_that_people_change(cluster, tmp_path):
    log, report = RunFolder(cluster.current()).jobs / "events.jsonl", tmp_path / "t.json"
    cluster.ok("network", "set", "r0.down", "1Gbps")
    wait_for(lambda: observed(log).get("r0.down"), why="it is observed")
    assert observed(log)["r0.down"] == [1000 * MBPS]
    cluster.ok("run", "terasort", "--size", "1GB", "--reduces", "4", "--json", report)
    assert json.loads(report.read_text())["verified"] is True
    assert set(observed(log)) >= {"r1.up", "r2.up"}  # flows have used them
    assert "the same as then" in cluster.ok("replay", log, "--trace", tmp_path / "trace.json")
    ran = nodes_of_reduces(tmp_path / "trace.json")
    assert ran
    assert not ran & {"r0n0", "r0n1"}
    cluster.ok("network", "set", "r0.down", "default")
    wait_for(lambda: observed(log)["r0.down"][-1] == 10_000 * MBPS, why="it is observed again")


def test_both_clocks_observe_a_link_in_the_same_period(wide, tmp_path):
    """The virtual clock: the link has a tenth of its capacity from 1.3 s to 2.1 s."""
    common = ("--scheduler", "wide", "--set", "links.period_s=0.5", "--out", tmp_path / "out")
    faults = ("--faults", "link:r0.down*0.1@1.3s+0.8s")
    wide.ok("simulate", "--workload", "terasort", "--topology", SMALL, *common, *faults)
    found = [
        (logged.at_s, link.capacity_bytes_per_s)
        for logged in read_log(tmp_path / "out" / "events.jsonl")[1]
        if isinstance(logged.event, LinksObserved)
        for name, link in logged.event.links.items()
        if name == "r0.down"
    ]
    capacity = 10e9 / 8
    changes = [(at_s, now) for at_s, now in found if now != capacity]
    assert changes[0] == (1.5, capacity / 10)
    assert (2.5, capacity) in found
    wide.ok("replay", tmp_path / "out")
