"""Joint's parts: HRRN, AFAP's promises, Earliest Start Time against a look at every server."""

from __future__ import annotations

from math import inf
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import Topology
from railyard.cluster.topologyfile import Links, RackShape, SwitchTree
from railyard.netemu.model.network import LinkState, Network, links_as_stated
from railyard.resourcemanager.schedulers.joint.scheduler import Dispatcher, JointConfig
from railyard.resourcemanager.schedulers.joint.servers import QueuedTask, Servers, mean_capacity
from railyard.resourcemanager.schedulers.joint.switches import EarliestStart, Predecessors, Switches
from tests.harness import tiny_cluster

GB = 1e9
TREE = Topology(
    name="tree",
    racks=RackShape(count=4, nodes=3, slots=1),
    links=Links(nic=inf),
    tree=SwitchTree(tor=3 * GB, aggregation=2 * GB, root=2 * GB, racks_per_aggregation=2),
)
CORE = Topology(
    name="core", racks=RackShape(count=3, nodes=2, slots=1), links=Links(nic=1 * GB, uplink=2 * GB)
)


def job(name: str, submitted_s: float) -> Any:
    return SimpleNamespace(id=name, submitted_s=submitted_s)


def cluster(topology: Topology) -> Any:
    """What these parts see of a cluster whose nodes are up."""
    nodes = {
        node.id: SimpleNamespace(id=node.id, alive=True, slots=node.slots, free=node.slots)
        for node in topology.nodes()
    }
    links = links_as_stated(Network(topology))
    return SimpleNamespace(topology=topology, nodes=nodes, links=links, now_s=0.0)


def parts(topology: Topology) -> tuple[Switches, Servers, EarliestStart]:
    view = cluster(topology)
    switches, servers = Switches(view), Servers(view)
    for node in view.nodes.values():
        assert list(servers.slots_changed(node)) == []
    return switches, servers, EarliestStart(switches, servers)


def set_free(switches: Switches, topology: Topology, **free: float) -> None:
    stated = links_as_stated(Network(topology))
    switches.observed(
        {
            name: LinkState(
                capacity_bytes_per_s=stated[name].capacity_bytes_per_s, free_bytes_per_s=free[key]
            )
            for key in free
            for name in [key.replace("_", ".")]
        }
    )


def busy(servers: Servers, server: int, work_s: float) -> None:
    """Queue so much work on a server."""
    name = f"other.m{servers._allocated}"
    stage = SimpleNamespace(id="other.m")
    task: Any = SimpleNamespace(id=name, stage=stage, state="pending")
    servers.allocate(
        QueuedTask(task=task, server=server, state="scheduled", starts_s=0.0, execution_s=work_s)
    )


def at_once() -> float:
    """How long the least loaded server would let a task wait."""
    return 0.0


# The dispatcher (6) ------------------------------------------------------------------------------
def test_the_highest_response_ratio_is_next():
    queue = Dispatcher(running_max=1)
    queue.submitted(job("long", 0.0), work_s=100.0)
    queue.submitted(job("short", 8.0), work_s=4.0)
    queue.submitted(job("first", 9.0), work_s=4.0)
    delivered = queue.next(10.0, at_once)  # ratios of 10/100, 2/4 and 1/4
    assert delivered is not None
    assert delivered.id == "short"
    assert queue.next(10.0, at_once) is None, "one job may run"
    assert queue.why_waiting(job("long", 0.0), 10.0).startswith("1 job ahead (waited 0.10")
    queue.ended(delivered)
    again = queue.next(410.0, at_once)  # 410/100 and 401/4
    assert again is not None
    assert again.id == "first"


def test_without_a_cap_all_are_delivered_at_once_and_work_of_0_goes_first():
    queue = Dispatcher(running_max=None)
    for name, work_s in (("a", 3.0), ("b", 0.0), ("c", 3.0)):
        queue.submitted(job(name, 5.0), work_s)
    order = []
    while (found := queue.next(5.0, at_once)) is not None:
        order.append(found.id)
    assert order == ["b", "a", "c"]


def test_jobs_are_delivered_as_long_as_a_server_is_free_soon():
    queue = Dispatcher(None, wait_max_s=2.0)
    queue.submitted(job("a", 0.0), 3.0)
    assert queue.next(5.0, lambda: 2.1) is None
    assert queue.why_waiting(job("a", 0.0), 5.0).endswith("0 jobs run)")
    delivered = queue.next(5.0, lambda: 2.0)
    assert delivered is not None
    assert delivered.id == "a"


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"running_max": 0}, "joint.running_max = 0: need a whole number above 0"),
        ({"wait_max_s": -1.0}, "joint.wait_max_s = -1.0: need seconds >= 0"),
        ({"unreachable_wait_s": -1.0}, "joint.unreachable_wait_s = -1.0: need seconds >= 0"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, float], error: str):
    with pytest.raises(UsageError, match=error):
        tiny_cluster(scheduler="joint", **settings)
    assert JointConfig().running_max is None


# As fast as possible (IV-C.3) --------------------------------------------------------------------
def test_a_flow_is_promised_the_least_free_bandwidth_of_its_path():
    switches, _, _ = parts(TREE)
    first = switches.promise(0, 1)  # r0.tor, agg0, r1.tor: 2 GB/s of agg0
    assert first.bytes_per_s == 2 * GB
    assert switches.free()[0].tolist() == [1 * GB, 0, 0, 0]
    assert switches.free()[2].tolist() == [0, 0, 3 * GB, 2 * GB]
    within = switches.promise(0, 0)
    assert within.bytes_per_s == 1 * GB
    switches.give_back(first)
    assert switches.free()[0].tolist() == [2 * GB, 2 * GB, 2 * GB, 2 * GB]


def test_what_was_published_since_is_not_given_back():
    switches, _, _ = parts(TREE)
    first = switches.promise(0, 1)
    set_free(switches, TREE, agg0=0.0)  # it counts the flow by now; the others are as promised
    switches.give_back(first)
    assert switches.free()[0].tolist() == [3 * GB, 0, 0, 0]


def test_racks_links_and_nodes_own_are_limits_without_a_tree():
    switches, _, _ = parts(CORE)
    assert switches.free()[0].tolist() == [1 * GB] * 3
    set_free(switches, CORE, r1_down=0.25 * GB)
    assert switches.free()[0].tolist() == [1 * GB, 0.25 * GB, 1 * GB]
    assert mean_capacity(cluster(CORE).links.values()) == 2 * GB


# Earliest Start Time (7) to (10) -----------------------------------------------------------------
def test_the_server_that_can_start_first():
    """6 GB at 3 GB/s take 2 s within the rack, at 2 GB/s 3 s; its own server is free in 2.5 s."""
    switches, servers, earliest = parts(TREE)
    usable = servers.usable()
    busy(servers, 0, 2.5)
    assert earliest.of_one([0], 6 * GB, usable, 0.0, 0.0) == (1, 2.0)
    busy(servers, 1, 5.0)
    busy(servers, 2, 5.0)
    assert earliest.of_one([0], 6 * GB, usable, 0.0, 0.0) == (0, 2.5)
    busy(servers, 0, 2.0)
    assert earliest.of_one([0], 6 * GB, usable, 0.0, 0.0) == (3, 3.0)
    set_free(switches, TREE, agg0=0.0)
    assert earliest.of_one([0], 6 * GB, usable, 0.0, 0.0) == (0, 4.5)


def test_of_equal_servers_a_predecessor_s_own_goes_first():
    _, servers, earliest = parts(TREE)
    busy(servers, 4, 2.0)
    assert earliest.of_one([4], 6 * GB, servers.usable(), 0.0, 0.0) == (4, 2.0)  # as 3 and 5
    assert earliest.anywhere(servers.usable(), 0.0) == (0, 0.0)


def test_nothing_is_found_where_all_is_out_of_reach():
    switches, servers, earliest = parts(TREE)
    set_free(switches, TREE, root=0.0)
    far = Predecessors(np.array([0, 6]), np.zeros(2))
    sizes = np.array([GB, GB])
    assert earliest.of_several(far, sizes, servers.usable(), 0.0, switches.free()) is None
    whole = earliest.of_several(far, sizes, servers.usable(), 0.0, switches.capacities())
    assert whole == (0, 0.5)


@st.composite
def _problems(draw: Any) -> Any:
    topology = draw(st.sampled_from((TREE, CORE)))
    names = list(Network(topology).cross_rack)
    free = {name: draw(st.sampled_from((0.0, 0.25, 0.5, 1.0))) for name in names}
    count = len(topology.nodes())
    work = draw(st.lists(st.sampled_from((0.0, 1.0, 2.5, 7.0)), min_size=count, max_size=count))
    tasks = draw(
        st.lists(
            st.tuples(
                st.integers(0, count - 1),
                st.sampled_from((0.0, 1.0, 3.0)),
                st.sampled_from((0.0, 1 * GB, 4 * GB)),
            ),
            min_size=1,
            max_size=6,
        )
    )
    return topology, free, work, tasks


@settings(max_examples=150, deadline=None)
@given(_problems())
def test_as_a_look_at_every_server_finds_it(problem: Any):
    topology, free, work, tasks = problem
    switches, servers, earliest = parts(topology)
    capacities = {name: switches._capacities[at] for name, at in switches._at.items()}
    network = Network(topology)
    names = {number: name for name, number in network.number.items()}
    for name, share in free.items():
        set_free(switches, topology, **{name.replace(".", "_"): share * capacities[name]})
    for server, work_s in enumerate(work):
        busy(servers, server, work_s)

    def tran_s(src: int, dst: int, size_bytes: float) -> float:
        if src == dst or not size_bytes:
            return 0.0
        route = network.route(servers.names[src], servers.names[dst])
        least = min(
            free[names[link]] * capacities[names[link]]
            if names[link] in free
            else float(network.capacities[link])
            for link in route.links
        )
        return size_bytes / least if least else inf

    def start_s(server: int) -> float:
        arrive = [after + tran_s(src, server, size) for src, after, size in tasks]
        return max([*arrive, work[server]])

    own = {src for src, _, _ in tasks}
    best = min(range(len(work)), key=lambda m: (start_s(m), m not in own, m))
    wanted = None if start_s(best) == inf else (best, pytest.approx(start_s(best)))
    of = Predecessors(np.array([t[0] for t in tasks]), np.array([t[1] for t in tasks]))
    sizes = np.array([t[2] for t in tasks])
    assert earliest.of_several(of, sizes, servers.usable(), 0.0, switches.free()) == wanted
    if len(tasks) == 1 and not tasks[0][1]:
        assert earliest.of_one([tasks[0][0]], tasks[0][2], servers.usable(), 0.0, 0.0) == wanted


# t_AVL -------------------------------------------------------------------------------------------
def test_servers_of_several_slots_work_together():
    two = Topology(
        name="t", racks=RackShape(count=1, nodes=1, slots=2), links=Links(nic=GB, uplink=GB)
    )
    _, servers, _ = parts(two)

    def attempt(name: str) -> Any:
        return SimpleNamespace(id=name, node=SimpleNamespace(id="r0n0"))

    servers.attempt_launched(attempt("a"), 10.0)
    assert servers.available_s(0.0).tolist() == [0.0]
    servers.attempt_launched(attempt("b"), 4.0)
    assert servers.available_s(1.0).tolist() == [3.0]
    busy(servers, 0, 6.0)
    assert servers.available_s(1.0).tolist() == [(9 + 3 + 6) / 2]
    servers.attempt_ended(attempt("b"))
    assert servers.available_s(4.0).tolist() == [(6 + 6) / 2]


@pytest.mark.parametrize(
    ("arrives_s", "execution_s", "starts_s"),
    [
        pytest.param(0.0, 3.0, 0.0, id="it-ends-before-the-blocked-one-begins"),
        pytest.param(0.0, 12.0, 15.0, id="too-long-for-that"),
        pytest.param(8.0, 3.0, 15.0, id="its-data-comes-too-late-for-that"),
        pytest.param(10.0, 0.0, 15.0, id="at-the-same-time"),
        pytest.param(30.0, 3.0, 30.0, id="after-it"),
    ],
)
def test_a_blocked_task_holds_its_server_from_when_its_data_is_there(
    arrives_s: float, execution_s: float, starts_s: float
):
    _, servers, _ = parts(CORE)
    task: Any = SimpleNamespace(id="j0.r0", stage=SimpleNamespace(id="j0.r"), state="pending")
    blocked = QueuedTask(task=task, server=0, state="scheduled", starts_s=10.0, execution_s=5.0)
    servers.allocate(blocked)
    assert servers.starts_s(arrives_s, 0.0, execution_s)[0] == starts_s
    servers.make_ready(blocked)
    assert servers.starts_s(arrives_s, 0.0, execution_s)[0] == max(arrives_s, 5.0)
    servers.remove(blocked)
    assert servers.starts_s(arrives_s, 0.0, execution_s)[0] == arrives_s
