"""A cluster with circuits, and jobs on it, for tests of Co-scheduler."""

from __future__ import annotations

from collections import Counter

from railyard.cluster.ids import NodeId, rack_of
from railyard.cluster.topologies.tables import Ocs
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.events import DataAnnounced
from railyard.resourcemanager.interface.forecast import Forecast, StageForecast
from tests.harness import TinyCluster, tiny_cluster

MB, GB = 10**6, 10**9
BLOCK = 256 * MB
ALWAYS = {"co-scheduler.only_if_faster": False}
OCS = Ocs(port_bytes_per_s=12.5 * GB, delta_s=0.01, elephant_bytes=1_125_000_000)


def hybrid(scheduler: str = "co-scheduler", **more) -> TinyCluster:
    """The shape of hybrid-8x4: 8 racks of 4 nodes with a slot each, and circuits.

    Jobs follow their guidelines even where that takes longer, as on an idle cluster.
    """
    shape = {"racks": 8, "nodes": 4, "slots": 1, "ocs": OCS, "flow_s": 1.0} | more
    options = ALWAYS | shape.pop("options", {})
    return tiny_cluster(scheduler=scheduler, options=options, **shape)


def planned(c: TinyCluster, size_bytes: int, forecast: Forecast | None = None):
    """The racks for each replica of a job's input."""
    c.feed(DataAnnounced(path="/in", size_bytes=size_bytes, forecast=forecast))
    [plan] = c.led_to[-1]
    assert isinstance(plan, PlaceData)
    return plan.racks


def store(c: TinyCluster, name: str, blocks: int, racks) -> None:
    """A file; each replica is spread evenly over its racks."""
    nodes = len(c.topology.rack_list()[0].nodes)
    places = [
        [f"{each[at % len(each)]}n{at // len(each) % nodes}" for each in racks]
        for at in range(blocks)
    ]
    c.store(name, blocks=places, block_bytes=BLOCK)


def terasort(c: TinyCluster, job: str = "j0", blocks: int = 40, reduces: int = 10, **more) -> None:
    """Input as the scheduler wants it, and as much shuffle as input."""
    store(c, job, blocks, planned(c, blocks * BLOCK) or [["r0"], ["r1"], ["r2"]])
    c.submit(job, input=job, reduces=reduces, partition_bytes=BLOCK // reduces, **more)


def racks_of(nodes: list[str]) -> Counter[str]:
    return Counter(rack_of(NodeId(node)) for node in nodes)


def forecast(shuffle_gb: float, maps: int = 40, reduces: int = 10) -> Forecast:
    """A recurring MapReduce job."""
    size = int(shuffle_gb * GB)
    return Forecast(
        name="nightly",
        stages=(
            StageForecast(name="m", tasks=maps, input_bytes=maps * BLOCK, output_bytes=size),
            StageForecast(
                name="r", reads=("m",), tasks=reduces, input_bytes=size, output_bytes=size
            ),
        ),
    )
