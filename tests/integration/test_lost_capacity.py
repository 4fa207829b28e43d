"""A site that loses half of its slots and bandwidth while a job runs: who moves work away?

On both clocks, ``tetrium`` and ``in-place`` run the same job, its input spread over three sites.
The command that runs a job checks its output.
"""

import json
import math
from collections import Counter
from contextlib import ExitStack, contextmanager

import pytest

from railyard.benchmarks._common.maplaunches import map_launches
from railyard.cluster.files.runfolder import RunFolder
from railyard.cluster.ids import rack_of
from railyard.cluster.messages.execution import SlotsChanged
from railyard.cluster.topology import load_topology
from railyard.jobs.mixes.measured import measured_workload
from railyard.jobs.mixes.mixes import Defaults, read_mix
from railyard.netemu.messages import LinksObserved
from railyard.resourcemanager.driving.eventlog import EventLog, replay
from railyard.resourcemanager.interface.events import DataStored, InputMoved
from railyard.scripts.clusters.config import cluster_config
from railyard.scripts.clusters.pairs import Pair
from railyard.scripts.commands.registry import railyard as commands
from railyard.simulator.cluster import Simulation
from railyard.simulator.faults.faults import CapacityDrop, SlotsChange
from tests.command_line import command_line
from tests.waiting import wait_for

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
        SlotsChange(node="r0n0", share=0.5, at_s=2.0, lasts_s=math.inf),
        CapacityDrop(link="r0.up", share=0.5, at_s=2.0, lasts_s=math.inf),
        CapacityDrop(link="r0.down", share=0.5, at_s=2.0, lasts_s=math.inf),
    )
    workload = measured_workload(mix, config.topology, seed=1)
    simulation = Simulation(config, workload, faults=faults, log=log)
    simulation.run()
    log.close()
    assert all(job["ok"] for job in simulation.summary()["jobs"])
    return folder / f"{scheduler}.jsonl"
