"""In virtual time flows end in the order of their priorities, as the emulator has them end."""

from __future__ import annotations

from math import inf

import pytest

from railyard.cluster.config import ClusterConfig
from railyard.cluster.ids import task_of
from railyard.cluster.messages.execution import FlowFinished
from railyard.cluster.messaging.wire import Event
from railyard.cluster.topologies.tables import Links, RackShape, SwitchTree
from railyard.cluster.topology import Topology
from railyard.jobs.workloads.model import Workload, WorkloadJob, WorkStage
from railyard.resourcemanager.interface.policies import FlowPolicy
from railyard.resourcemanager.interface.recipe import Recipe
from railyard.resourcemanager.interface.views import AttemptView
from railyard.resourcemanager.schedulers.fair import FairOrder
from railyard.simulator.cluster import Simulation

MB = 10**6
#: One switch for all: each flow of 100 MB takes a second alone.
PLACE = Topology(
    name="t",
    racks=RackShape(count=1, nodes=4, slots=1),
    links=Links(nic=inf),
    tree=SwitchTree(tor=100e6, aggregation=1e12, root=1e12, racks_per_aggregation=1),
)


class Scripted(FlowPolicy):
    """The second reader first, then the third; the first has no priority, and comes last."""

    order = ((), (1.0, 5.0), (1.0, 7.0), (1.0, 7.0, 0.0))

    def priority(self, reader: AttemptView, size_bytes: int) -> tuple[float, ...]:
        return self.order[reader.task.index]


class Ends:
    """When flows ended, by the task that reads them."""

    def __init__(self) -> None:
        self.found: list[tuple[str, float]] = []

    def write(self, at_s: float, event: Event, commands: object = ()) -> None:
        if isinstance(event, FlowFinished):
            self.found.append((task_of(event.flow.split(":")[0]), at_s))


def ends(flows: type[FlowPolicy]) -> list[tuple[str, float]]:
    """The ends of three flows from one map to readers on other nodes."""
    stages = (
        WorkStage(name="m", tasks=1, output_bytes=400 * MB, task_s=1.0),
        WorkStage(name="r", reads=("m",), tasks=4, output_bytes=0, task_s=100.0),
    )
    job = WorkloadJob(name="j", user="u", queue="default", submit_s=0.0, stages=stages)
    recipe = Recipe(name="scripted", source="a test", order=FairOrder, flows=flows)
    config = ClusterConfig(topology=PLACE, flow_scheduler="afap", seed=1)
    log = Ends()
    run = Simulation(config, Workload(name="w", source="", jobs=(job,)), log=log, recipe=recipe)
    run.run()
    return [(task, at_s) for task, at_s in log.found if at_s > 1.0]  # not that within the node


def test_flows_of_three_priorities_end_one_after_the_other():
    found = ends(Scripted)
    order = [task for task, _ in found]
    assert order == sorted(order, key=["j1.r1", "j1.r2", "j1.r3", "j1.r0"].index)
    assert [at_s for _, at_s in found] == pytest.approx([2.0, 3.0, 4.0])


def test_without_priorities_they_end_in_the_order_of_their_names():
    order = [task for task, _ in ends(FlowPolicy)]
    assert order == sorted(order)
