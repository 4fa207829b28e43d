"""Capacities that people change while a job runs: its transfers slow down, and can be seen to."""

from __future__ import annotations

import json
import math
from collections import Counter
from contextlib import ExitStack, contextmanager

import pytest

from railyard.benchmarks._common.maplaunches import map_launches
from railyard.cli.commands.registry import railyard as commands
from railyard.cluster.faults import Fault
from railyard.cluster.ids import rack_of
from railyard.cluster.messages import SlotsChanged
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.measurement import measured_workload
from railyard.jobs.workloads.mixes import Defaults, read_mix
from railyard.netemu.messages import (
    GetNetworkStats,
    LinksObserved,
    NetworkStats,
    NetworkView,
    SetCapacity,
    WatchNetwork,
)
from railyard.resourcemanager.driving.eventlog import EventLog, read_log, replay
from railyard.resourcemanager.interface.events import DataStored, InputMoved
from railyard.resourcemanager.process.messages import ClusterStatus, GetClusterStatus, SetSlots
from railyard.runs.config import Pair, cluster_config
from railyard.simulator.simulation import Simulation
from tests.command_line import SMALL, command_line, up
from tests.integration.processes import folder_of, restart
from tests.integration.tutorials import schedulers
from tests.waiting import wait_for

MBPS = 1e6 / 8


@pytest.fixture
def transport(railyard):
    railyard.ok("up", "--topology", SMALL)
    transport = Transport(RunFolder(railyard.current()))
    yield transport
    transport.close()
    railyard.ok("down")
    assert railyard.nothing_left()


class Watched:
    """The network as it is reported to whoever subscribed."""

    def __init__(self, transport):
        self.link = transport.link("network")
        self._reactor = transport.reactor
        self.link.on(NetworkView, lambda view, _: setattr(self, "view", view))
        wish = WatchNetwork(period_s=0.05, with_rates=True)
        self.view = self.link.call(wish, NetworkView)

    def wait(self, condition):
        assert self._reactor.run_until(condition, 40), "waited in vain"

    def from_rack_0(self):
        """Rates of shuffle flows of terasort that leave rack 0 once its uplink is slow."""
        return {
            flow: rate
            for flow, rate in self.view.rates_bytes_per_s.items()
            if flow.startswith("j2.r") and ":r0n" in flow and 0 < rate <= 10 * MBPS
        }

    def carried(self):
        """Seconds with open flows, and what the uplink of rack 0 carried in them."""
        stats = self.link.call(GetNetworkStats(), NetworkStats)
        return stats.active_s, stats.cross_rack_links["r0.up"]


class ResourceManager:
    """What the ResourceManager says is there."""

    def __init__(self, transport):
        self._link = transport.link("resourcemanager")

    def jobs(self):
        return {job.job for job in self._link.call(GetClusterStatus(), ClusterStatus).jobs}


def test_a_running_transfer_slows_with_its_link_and_the_view_shows_it(
    railyard, transport, tmp_path
):
    network, resource_manager = Watched(transport), ResourceManager(transport)
    report = tmp_path / "t.json"
    job = railyard.start("run", "terasort", "--size", "1GB", "--json", report)
    network.wait(lambda: "j2" in resource_manager.jobs())  # its maps will work for a while
    network.link.call(SetCapacity(link="r0.up", bytes_per_s=10 * MBPS), Done)  # so that it lasts
    network.wait(lambda: network.from_rack_0())
    flow, rate = next(iter(network.from_rack_0().items()))
    assert network.view.links["r0.up"].free_bytes_per_s == pytest.approx(0, abs=1)
    said = railyard.ok("network", "set", "r0.up", "1Mbps")
    assert "r0.up carries 1 Mbps, stated 10 Gbps" in said
    network.wait(lambda: network.view.links["r0.up"].capacity_bytes_per_s == MBPS)
    assert network.view.rates_bytes_per_s[flow] < rate / 2
    assert sum(network.from_rack_0().values()) <= MBPS * 1.001
    shown = " ".join(railyard.ok("network", "show").split())
    assert "Gbps Gbps Gbps Gbps" in shown
    assert "r0.up 0.001 10.0 0.001" in shown

    began_s, before = network.carried()
    transport.reactor.run_until(lambda: False, 1.0)
    ended_s, after = network.carried()
    assert 0 < after - before <= (ended_s - began_s) * MBPS + 2
    assert job.poll() is None

    railyard.ok("network", "set", "r0.up", "default")
    assert job.wait(60) == 0, job.communicate()
    assert json.loads(report.read_text())["verified"] is True
    job.communicate()


def test_a_job_that_waits_for_a_stopped_link_says_so_and_goes_on_once_it_carries(
    railyard, transport
):
    link = transport.link("network")
    link.call(SetCapacity(link="r1.up", bytes_per_s=0.0), Done)
    job = railyard.start("run", "terasort", "--size", "1GB")
    said = next(line for line in job.stderr if "nothing has gone on" in line)
    assert "links that carry nothing: r1.up (railyard network set LINK default)" in said
    railyard.ok("network", "set", "r1.up", "default")
    out, errors = job.communicate(timeout=100)
    assert job.returncode == 0, out + errors


# Slots that people change while a job runs: nothing is killed, and the job goes on.


@pytest.fixture
def slots_cluster(railyard):
    yield from up(railyard, "--topology", SMALL, "--network", "compute.map_rate=100MB/s")


class Nodes:
    """What the ResourceManager says of its nodes."""

    def __init__(self, line):
        self.transport = Transport(folder_of(line))
        self.link = self.transport.link("resourcemanager")

    def __call__(self):
        """{node: (slots, attempts that hold them, alive)}"""
        status = self.link.call(GetClusterStatus(), ClusterStatus)
        return {node.node: (node.slots, len(node.attempts), node.alive) for node in status.nodes}


@pytest.fixture
def nodes(slots_cluster):
    asked = Nodes(slots_cluster)
    yield asked
    asked.transport.close()


def test_nodes_and_racks_are_changed_together(slots_cluster, nodes):
    said = slots_cluster.ok("slots", "set", "r1", "r0n1", "r1n0", "0")
    assert said.splitlines() == [f"{n} has 0 slots, stated 1" for n in ("r1n0", "r1n1", "r0n1")]
    assert {name for name, (slots, *_) in nodes().items() if not slots} == {"r0n1", "r1n0", "r1n1"}
    wrong = slots_cluster.run("slots", "set", "r1", "r9", "default")
    assert wrong.returncode == 2
    assert 'unknown node or rack "r9"' in wrong.stderr
    assert nodes()["r1n0"][0] == 0, "nothing is changed if a name is wrong"
    slots_cluster.ok("slots", "set", "r0", "r1", "default")
    assert {slots for slots, *_ in nodes().values()} == {1}


def test_a_job_goes_on_with_other_slots(slots_cluster, nodes, tmp_path):
    report = tmp_path / "t.json"
    said = slots_cluster.ok("slots", "set", "r0n1", "3")
    assert "r0n1 has 3 slots, stated 1" in said
    job = slots_cluster.start("run", "terasort", "--size", "2GB", "--json", report)
    wait_for(lambda: nodes()["r0n1"] == (3, 3, True), 40, "more run at once than are stated")
    nodes.link.call(SetSlots(node="r0n1", slots=0), Done)
    slots, held, _ = nodes()["r0n1"]
    assert slots == 0 < held  # what runs there runs on
    wait_for(lambda: nodes()["r0n1"][1] == 0, 40, "no more tasks are started there")
    assert "r0n1 0 1 0 r1n0 1 " in " ".join(slots_cluster.ok("slots", "show").split())
    assert slots_cluster.ok("slots", "set", "r0n1", "default") == "r0n1 has 1 slot, stated 1\n"
    assert job.wait(90) == 0, job.communicate()
    job.communicate()
    summary = json.loads(report.read_text())
    assert summary["verified"] is True
    assert summary["tasks"]["killed"] == summary["tasks"]["failed"] == 0
    assert len(list(replay(folder_of(slots_cluster).events))) > 50


def test_slots_stay_as_they_were_set_when_a_nodemanager_comes_back(slots_cluster, nodes):
    slots_cluster.ok("slots", "set", "r0n0", "3")
    restart(slots_cluster, "nodemanager-r0")
    log = folder_of(slots_cluster).events
    back = '"type": "node-restarted", "node": "r0n0"'
    wait_for(lambda: back in log.read_text(), 20, "it is back")
    assert nodes()["r0n0"] == (3, 0, True)


def test_slots_that_are_none_are_refused(slots_cluster):
    for arguments, words in (
        (("set", "r0n9", "1"), 'unknown node or rack "r0n9": did you mean "r0n'),
        (("set", "r0n0", "1.5"), "slots 1.5: need a whole number up to 65536, or default"),
        (("set", "r0n0", "-1"), "slots -1: need a whole number up to 65536, or default"),
        (("set", "r0n0", "65537"), "slots 65537: need a whole number up to 65536, or default"),
        (("sett", "r0n0", "1"), 'unknown slots command "sett": did you mean "set"?'),
    ):
        done = slots_cluster.run("slots", *arguments)
        assert (done.returncode, words in done.stderr) == (2, True), done.stderr


# Links that change while a job runs, as they are reported to a scheduler that uses the network.


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
def links_cluster(wide):
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


def test_a_scheduler_heeds_links_that_people_change(links_cluster, tmp_path):
    log, report = RunFolder(links_cluster.current()).jobs / "events.jsonl", tmp_path / "t.json"
    links_cluster.ok("network", "set", "r0.down", "1Gbps")
    wait_for(lambda: observed(log).get("r0.down"), why="it is observed")
    assert observed(log)["r0.down"] == [1000 * MBPS]
    links_cluster.ok("run", "terasort", "--size", "1GB", "--reduces", "4", "--json", report)
    assert json.loads(report.read_text())["verified"] is True
    assert set(observed(log)) >= {"r1.up", "r2.up"}  # flows have used them
    assert "the same as then" in links_cluster.ok("replay", log, "--trace", tmp_path / "trace.json")
    ran = nodes_of_reduces(tmp_path / "trace.json")
    assert ran
    assert not ran & {"r0n0", "r0n1"}
    links_cluster.ok("network", "set", "r0.down", "default")
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


# A site that loses half of its slots and bandwidth while a job runs: who moves work away?
#
# On both clocks, ``tetrium`` and ``in-place`` run the same job, its input spread over three sites.
# The command that runs a job checks its output.


SITES = """
name = "sites"
description = "3 sites with links that are fast for what tasks read"
scale = 1000
[racks]
count = 3
nodes = 1
slots = 2
[links]
nic = "unlimited"
uplink = "4Gbps"
way = "wan"
[storage]
block = "64MB"
replication = 1
[compute]
map_rate = "64MB/s"
reduce_rate = "400MB/s"
"""
BLOCKS = 30
#: What is set when the job has begun: half of what there is.
DROPS = (
    ("slots", "set", "r0", "1"),
    ("network", "set", "r0.up", "2Gbps"),
    ("network", "set", "r0.down", "2Gbps"),
)


class Placements:
    """Where the maps with input at r0 ran, before its slots were halved and afterwards."""

    def __init__(self, events):
        changes_s, capacities = [], set()
        for step in replay(events):
            match step.event:
                case SlotsChanged(node="r0n0", slots=1):
                    changes_s.append(step.at_s)
                case LinksObserved(links=links) if "r0.up" in links:
                    capacities.add(links["r0.up"].capacity_bytes_per_s)
        [changed_s] = changes_s
        self.capacities = capacities  #: of its uplink, bytes/s
        self.before, self.after = Counter(), Counter()  #: {rack: maps}
        for launch in map_launches(events):
            if launch.job_name.startswith("wordcount") and launch.input_nodes == ("r0n0",):
                now = self.after if launch.at_s >= changed_s else self.before
                now[rack_of(launch.node)] += 1

    def moved(self, launched):
        return launched.total() - launched["r0"]


def check(placements):
    """Of both schedulers."""
    tetrium, in_place = placements["tetrium"], placements["in-place"]
    assert tetrium.before["r0"] > 0 < in_place.before["r0"], "some had begun"
    assert in_place.moved(in_place.before) == in_place.moved(in_place.after) == 0
    assert in_place.after["r0"] > 2
    assert tetrium.moved(tetrium.after) >= 2
    assert tetrium.moved(tetrium.before) <= 1, "the sites hold about as much each"
    assert 250e6 in tetrium.capacities, "the change of the link was not reported"


def test_real_work_moves_away_from_a_site_that_people_made_smaller(clusters, tmp_path, monkeypatch):
    lines = [f"word{number % 991} of {number % 37}\n" for number in range(BLOCKS * 64_000 // 13)]
    (tmp_path / "text").write_text("".join(lines))
    job = ("run", "wordcount", "--input", tmp_path / "text", "--reduces", "3", "--json")
    jobs = [line.start(*job, tmp_path / f"{name}.json") for name, line in clusters.items()]
    logs = {
        name: RunFolder(line.current()).jobs / "events.jsonl" for name, line in clusters.items()
    }
    for name, log in logs.items():
        wait_for(lambda log=log: '"job-submitted"' in log.read_text(), 40, "the job runs")
        monkeypatch.setenv("RAILYARD_HOME", str(clusters[name].home))
        for drop in DROPS:  # in this process, as starting another takes as long as a map
            commands.main(list(drop), standalone_mode=False)
    for process in jobs:
        said, errors = process.communicate(timeout=90)
        assert process.returncode == 0, said + errors
    check({name: Placements(log) for name, log in logs.items()})
    for name in clusters:
        summary = json.loads((tmp_path / f"{name}.json").read_text())
        assert summary["verified"] is True
        assert summary["tasks"]["killed"] == summary["tasks"]["failed"] == 0


@pytest.fixture
def clusters(tmp_path):
    """{scheduler: the command line of a cluster under it}"""
    (tmp_path / "sites.toml").write_text(SITES)
    settings = {"tetrium": ("--set", "links.period_s=0.2"), "in-place": ()}
    up = ("up", "--topology", tmp_path / "sites.toml", "--scheduler")
    with ExitStack() as homes:
        found = {name: homes.enter_context(contextmanager(command_line)()) for name in settings}
        wait_for_all([found[name].start(*up, name, *settings[name]) for name in found])
        yield found
        wait_for_all([line.start("down") for line in found.values()])


def wait_for_all(processes):
    for process in processes:
        said, errors = process.communicate(timeout=60)
        assert process.returncode == 0, said + errors


def test_simulated_work_moves_away_from_a_site_with_faults(tmp_path):
    logs = {name: simulated(name, tmp_path) for name in ("tetrium", "in-place")}
    check({name: Placements(log) for name, log in logs.items()})


def test_a_simulation_with_all_that_changes_is_replayed(tmp_path):
    """Slots, links, stored data and input that moves: ``Centralized`` hears of all of them."""
    (tmp_path / "centralized").mkdir()
    kinds = {type(step.event) for step in replay(simulated("centralized", tmp_path))}
    assert kinds >= {SlotsChanged, LinksObserved, DataStored, InputMoved}


def simulated(scheduler, folder):
    """``events.jsonl`` of a simulation with faults at 2 s."""
    (folder / "sites.toml").write_text(SITES)
    config = cluster_config(
        load_topology(str(folder / "sites.toml")),
        pair=Pair(scheduler, "maxmin"),
    )
    mix = read_mix(["wordcount,skew=0"], Defaults(size_bytes=BLOCKS * 64_000_000), seed=1)
    log = EventLog(folder / f"{scheduler}.jsonl", config, buffered=True)
    faults = (
        Fault(kind="slots", target="r0n0", amount=0.5, at_s=2.0, lasts_s=math.inf),
        Fault(kind="link", target="r0.up", amount=0.5, at_s=2.0, lasts_s=math.inf),
        Fault(kind="link", target="r0.down", amount=0.5, at_s=2.0, lasts_s=math.inf),
    )
    workload = measured_workload(mix, config.topology, seed=1)
    simulation = Simulation(config, workload, faults=faults, log=log)
    simulation.run()
    log.close()
    assert all(job["ok"] for job in simulation.summary()["jobs"])
    return folder / f"{scheduler}.jsonl"
