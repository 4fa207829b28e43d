"""What a simulation must do exactly as the real processes do."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import AttemptId
from railyard.cluster.messages.execution import StartFlow, TaskSpec
from railyard.cluster.topologies.tables import Compute, Links, RackShape
from railyard.cluster.topology import Topology
from railyard.dfs.messages.files import BlockLocation, FileBlocks
from railyard.dfs.reading import DfsFile, ReadServices
from railyard.jobs.workloads.model import Workload, WorkStage
from railyard.netemu.messages import RegisterCoflow
from railyard.nodemanager.attempt.pace import paced_s
from railyard.oracles.orders import carry_out
from railyard.simulator.cluster import Simulation
from railyard.simulator.heap import EventHeap
from railyard.simulator.nodes.blockstore import BlockStore
from railyard.simulator.nodes.jobwork import StageWork


def topology(**compute: object) -> Topology:
    return Topology(
        name="t",
        racks=RackShape(count=4, nodes=3),
        links=Links(nic=1e9, uplink=1e9),
        compute=Compute(map_rate=2e6, reduce_rate=5e6, **compute),
    )


@pytest.mark.parametrize("reads", [(), ("m",)], ids=["map", "reduce"])
@pytest.mark.parametrize("compute", [{}, {"skew": 0.25}, {"skew": 0.9}, {"mode": "real"}])
def test_a_task_computes_for_the_same_time(compute: dict[str, object], reads: tuple[str, ...]):
    place = topology(**compute)
    work = StageWork(
        WorkStage(name="s", reads=reads, tasks=40, output_bytes=0), None, (), place.compute
    )
    for task in range(40):
        order = TaskSpec(stage="s", index=task, reads=reads)
        in_processes_s = paced_s(place, order, stored_bytes=3_000_000)
        assert work.computing_s(task, 3_000_000) == pytest.approx(in_processes_s)


def test_a_straggler_is_one_on_both_clocks():
    place = topology(stragglers=0.3, straggler_factor=4.0)
    work = StageWork(WorkStage(name="m", tasks=40, output_bytes=0), None, (), place.compute)
    factors = set()
    for task in range(40):
        attempt = AttemptId(f"j1.m{task}.0")
        straggle = place.compute.straggle(attempt, 7)
        order = TaskSpec(stage="m", index=task)
        in_processes_s = paced_s(place, order, 3_000_000, straggle)
        simulated_s = work.computing_s(task, 3_000_000) * work.straggle(attempt, 7)
        assert simulated_s == pytest.approx(in_processes_s)
        factors.add(simulated_s / 1.5)
    assert factors == {1.0, 4.0}


class Asked(Exception):
    """The node that a reader asks first."""


class Peers:
    def of(self, node: str) -> None:
        raise Asked(node)

    def is_lost(self, node: str) -> bool:
        return False


def asked_first(reader: str, replicas: tuple[str, ...]) -> str:
    services = ReadServices(reactor=None, folder=None, namenode=None, peers=Peers(), node=reader)
    block = BlockLocation(block=1, stored_offset=0, stored_length=9, nodes=replicas)
    file = DfsFile(services, FileBlocks(path="/f", stored_length=9, blocks=(block,)))
    with pytest.raises(Asked) as asked:
        file.read(0, 9)
    return str(asked.value)


def test_a_reader_takes_the_same_replica_whichever_block_it_is():
    place = topology()
    store = BlockStore(place, 1, EventHeap(), SimpleNamespace())
    nodes = [node.id for node in place.nodes()]
    dice = random.Random(1)
    blocks = [tuple(dice.sample(nodes, 3)) for _ in range(40)]
    for block, replicas in zip(store.put("/f", [9] * 40, at=blocks), blocks, strict=True):
        shuffled = tuple(dice.sample(replicas, 3))
        for reader in nodes:
            if reader in replicas:
                assert store.nearest(block, reader) == reader
            else:
                assert store.nearest(block, reader) == asked_first(reader, shuffled)


def test_a_fetch_keeps_the_priority_that_the_core_gave_it():
    config = ClusterConfig(topology=topology(), flow_scheduler="afap")
    run = Simulation(config, Workload(name="none", source="a test", jobs=()), one_by_one=True)
    fetches = [  # by name the first would go first
        StartFlow(
            flow=flow,
            coflow="c",
            src="r0n0",
            dst="r1n0",
            size_bytes=10**9,
            reader="j1.r0.0",
            outputs=("j1.m0.0",),
            partition=0,
            priority=priority,
        )
        for flow, priority in [("a", (2.0,)), ("b", (1.0,))]
    ]
    carry_out(run.network.fabric, RegisterCoflow(coflow="c"))
    for fetch in fetches:
        run.workers.start_flow(fetch)
    rates = [run.network.fabric.rate_bytes_per_s(flow) for flow in "ab"]
    assert rates == [0, 1e9]
