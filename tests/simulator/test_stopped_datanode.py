"""A DataNode that is stopped: what it sends and receives stands still, what it tells is late."""

from __future__ import annotations

import msgspec
import pytest

from railyard.benchmarks._faults.schedules import Schedule
from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.cluster.messages.execution import AttemptSucceeded, LaunchAttempt
from railyard.cluster.topologies.tables import Compute, Links, Liveness, RackShape, Storage
from railyard.cluster.topology import Topology
from railyard.jobs.workloads.model import InputFile, WorkloadJob, WorkStage
from railyard.netemu.fabric.fabric import Fabric
from railyard.netemu.schedulers import flow_scheduler
from railyard.simulator.heap import EventHeap
from railyard.simulator.network.network import SimulatedNetwork
from railyard.simulator.nodes.behaviour import Behaviour
from railyard.simulator.nodes.blockstore import BlockStore
from railyard.simulator.silence.daemons import DaemonDown, DaemonStopped
from tests.simulator.test_stopped_manager import seen, with_faults

BLOCK_BYTES = 50_000_000
#: When maps have begun to read, or to write, which takes a second or more.
BEGAN_S, LASTS_S = 0.5, 1.7


def topology(replication: int) -> Topology:
    """Two racks of a node each; their links carry a block in a second."""
    return Topology(
        name="two racks",
        racks=RackShape(count=2, nodes=1, slots=2),
        links=Links(nic=BLOCK_BYTES, uplink=BLOCK_BYTES),
        compute=Compute(map_rate=1e15, reduce_rate=1e15),
        storage=Storage(block=BLOCK_BYTES, replication=replication),
        liveness=Liveness(heartbeat=0.2, expiry_s=2.0),
    )


def schedule(job: WorkloadJob, replication: int, *faults: DaemonStopped | DaemonDown) -> Schedule:
    return msgspec.structs.replace(
        with_faults(0, *faults),
        config=ClusterConfig(
            topology=topology(replication), scheduler="fair", flow_scheduler="maxmin", seed=1
        ),
        jobs=(job,),
        behaviour=Behaviour(),
    )


def reading(*faults: DaemonStopped | DaemonDown) -> Schedule:
    """Four maps whose blocks are all in r0: two of them run in r1."""
    data = InputFile(
        path="/in", size_bytes=4 * BLOCK_BYTES, block_bytes=BLOCK_BYTES, shares=(1.0, 0.0)
    )
    maps = WorkStage(name="m", files=("/in",), tasks=4, output_bytes=0)
    job = WorkloadJob(
        name="job", user="a", queue="default", submit_s=0.1, stages=(maps,), files=(data,)
    )
    return schedule(job, 1, *faults)


def writing(*faults: DaemonStopped | DaemonDown) -> Schedule:
    """A map whose output goes to both racks."""
    maps = WorkStage(name="m", tasks=1, task_s=0.1, output_bytes=BLOCK_BYTES)
    job = WorkloadJob(name="job", user="a", queue="default", submit_s=0.1, stages=(maps,), files=())
    return schedule(job, 2, *faults)


def ends(of: Schedule) -> list[tuple[str, float]]:
    """(rack, seconds) of the attempts that succeeded."""
    log = seen(of)
    racks = {o.attempt: rack_of(o.node) for _, o in log.ordered if isinstance(o, LaunchAttempt)}
    return [
        (racks[event.attempt], at_s)
        for at_s, event in log.told
        if isinstance(event, AttemptSucceeded)
    ]


def stop(daemon: str, at_s: float = BEGAN_S) -> DaemonStopped:
    return DaemonStopped(daemon=daemon, at_s=at_s, lasts_s=LASTS_S)


def test_blocks_are_read_from_it_when_it_goes_on():
    without = [at_s for rack, at_s in ends(reading()) if rack == "r1"]
    assert len(without) == 2
    assert all(BEGAN_S < at_s < BEGAN_S + LASTS_S + 0.1 for at_s in without)
    stopped = ends(reading(stop("datanode-r0")))
    assert [at_s for rack, at_s in stopped if rack == "r1"] == pytest.approx(
        [max(at_s, BEGAN_S + LASTS_S) for at_s in without]
    )
    assert max(at_s for rack, at_s in stopped if rack == "r0") < BEGAN_S


def test_a_read_that_begins_meanwhile_is_heard_when_it_goes_on():
    late = [at_s for rack, at_s in ends(reading(stop("datanode-r0", 0.05))) if rack == "r1"]
    assert late == pytest.approx([0.05 + LASTS_S + 2.0] * 2)


def test_a_read_goes_elsewhere_if_it_dies_instead():
    death = DaemonDown(daemon="datanode-r0", at_s=0.5, lasts_s=0.3)
    late = [at_s for rack, at_s in ends(reading(stop("datanode-r0", 0.05), death)) if rack == "r1"]
    assert late
    assert max(late) < 0.05 + LASTS_S + 2.0


@pytest.mark.parametrize("daemon", ["datanode-r0", "datanode-r1"])
def test_a_pipeline_stands_still_with_each_of_its_nodes(daemon: str):
    [(_, without_s)] = ends(writing())
    assert BEGAN_S < without_s < BEGAN_S + LASTS_S
    [(_, end_s)] = ends(writing(stop(daemon)))
    assert end_s == pytest.approx(BEGAN_S + LASTS_S)


def test_it_hears_orders_and_registers_when_it_goes_on():
    heap = EventHeap()
    network = SimulatedNetwork(Fabric(topology(2), flow_scheduler("maxmin")), heap)
    store = BlockStore(topology(2), 1, heap, network)
    store.stop_datanode(RackId("r0"))
    [block] = store.put("/one", [BLOCK_BYTES], at=[(NodeId("r0n0"),)])
    store.tick()  # the order to copy it goes to the DataNode of r0
    assert network.counts.opened == 0
    store.down.begin(NodeId("r0n0"))
    store.send_heartbeat(RackId("r0"))
    assert store.locate(block) == ("r0n0",)  # the NameNode has not heard of it
    store.down.end(NodeId("r0n0"))
    store.datanode_goes_on(RackId("r0"))
    assert network.counts.opened == 1
    assert store.locate(block) == ("r0n0",)


def test_one_that_was_silent_for_too_long_registers_again():
    heap = EventHeap()
    network = SimulatedNetwork(Fabric(topology(1), flow_scheduler("maxmin")), heap)
    store = BlockStore(topology(1), 1, heap, network)
    [block] = store.put("/one", [BLOCK_BYTES], at=[(NodeId("r0n0"),)])
    store.stop_datanode(RackId("r0"))
    heap.now_s = 5.0  # as its NameNode was stopped, too
    store.tick()
    assert store.locate(block) == ()
    store.datanode_goes_on(RackId("r0"))
    assert store.locate(block) == ("r0n0",)
