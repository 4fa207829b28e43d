"""What Co-scheduler's decisions cost: guidelines, choosing racks, and slot offers.

At the paper's scale: 60 racks of 10 nodes of 20 slots, all of them held, and 1,000 jobs in the
system, half of them shuffle-heavy.  CPU time of this process; one decision after the other, as a
core makes them.  Shadow's, for 10,000 maps on 60 racks.  What proposals cost a scheduler that makes
none.  And Joint's two algorithms, on 336 servers.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from railyard.benchmarks._common.duplicating import shadow_decisions
from railyard.benchmarks._common.jointdecisions import joint_decisions
from railyard.benchmarks._common.proposing import idle_proposals, shadow_idle
from railyard.benchmarks._common.rows import Row, bench_row
from railyard.cluster.ids import AttemptId, JobId, NodeId
from railyard.cluster.messages import AttemptProgressed, AttemptSucceeded, LaunchAttempt, NodeJoined
from railyard.cluster.topology import Topology, load_topology
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.interface.decisions import Place
from railyard.resourcemanager.interface.events import JobSubmitted, StagePlan, TaskInput
from railyard.resourcemanager.schedulers import recipe_named
from railyard.resourcemanager.schedulers.co_scheduler.guidelines import (
    ShuffleForecast,
    data_guideline,
    recurring_guideline,
    replica_racks,
)
from railyard.resourcemanager.schedulers.co_scheduler.reduceschedule import (
    Hybrid,
    ReleaseTimes,
    best_schedule,
    explore_schedule,
    possible_schedules,
)
from railyard.resourcemanager.schedulers.co_scheduler.scheduler import CoScheduler

GUIDELINE_S_BOUND = 1e-3
EXPLORE_S_BOUND = 2e-3
OFFER_S_BOUND = 50e-6

JOBS, USERS = 1000, 20
_BLOCK_BYTES = 256_000_000
_GB = 10**9


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` repeats less."""
    times = 200 if quick else 2000
    topology = load_topology("co-scheduler-60x10")
    core = loaded_core("co-scheduler", topology)
    rows = [*_guidelines(topology, times), *_choices(core, topology, times)]
    fair = loaded_core("fair", topology)
    offer, event = "slot offer, mean; reference: fair", "map that ends, whole core; reference: fair"
    rows.append(_row(offer, _offer_s(core, times), OFFER_S_BOUND, _offer_s(fair, times)))
    rows.append(_row(event, _event_s(core, times), None, _event_s(fair, times)))
    rows += [*shadow_decisions(times // 20), shadow_idle(6 if quick else 20)]
    return rows + idle_proposals(2 if quick else 6) + joint_decisions(quick)


# The pure parts ----------------------------------------------------------------------------------
def _guidelines(topology: Topology, times: int) -> list[Row]:
    hybrid = Hybrid.of(topology)
    racks = [rack.id for rack in topology.rack_list()]
    dice = random.Random(1)

    def non_recurring() -> None:
        found = data_guideline(300 * _GB, hybrid)
        assert found is not None
        replica_racks(racks, found.map_racks, 3, dice)

    def recurring() -> None:
        job = ShuffleForecast(maps=3472, map_s=5, reduces=169, reduce_s=9, shuffle_bytes=300 * _GB)
        assert recurring_guideline(job, hybrid, 1.1) is not None

    return [
        _row("guideline, non-recurring job, and racks", _mean_s(non_recurring, times), 1e-3),
        _row("guideline, recurring job (eq. 8)", _mean_s(recurring, times), GUIDELINE_S_BOUND),
    ]


def _choices(core: Core, topology: Topology, times: int) -> list[Row]:
    hybrid = Hybrid.of(topology)
    outputs = [70 * _GB + rack for rack in range(20)]  # so that all widths up to 60 are possible
    tasks = core.state.policies.tasks
    assert isinstance(tasks, CoScheduler)
    releases = tasks.guidelines.releases
    schedules = possible_schedules(outputs, 2000, hybrid)
    assert len(schedules) == 60
    release_s = releases.release_s(core.state.now_s)
    middle = schedules[29]

    def explore() -> None:
        explore_schedule(middle, ReleaseTimes(release_s))

    def choose() -> None:
        found = possible_schedules(outputs, 2000, hybrid)
        best_schedule(found, ReleaseTimes(releases.release_s(core.state.now_s)))

    return [
        _row(
            "ExploreSchedule, R_red = 30",
            _mean_s(explore, times),
            EXPLORE_S_BOUND,
        ),
        _row(
            f"release times of {len(core.state.attempts)} attempts",
            _mean_s(lambda: releases.release_s(core.state.now_s), times // 10),
            EXPLORE_S_BOUND,
        ),
        _row("all of a job's choice: 60 schedules, the best", _mean_s(choose, times // 10), None),
    ]


# Slots -------------------------------------------------------------------------------------------
def loaded_core(scheduler: str, topology: Topology) -> Core:
    """All slots held, and 1,000 jobs of 20 users that want more."""
    core, dice = Core(topology, recipe_named(scheduler)), random.Random(1)
    for node in topology.nodes():
        core.handle(NodeJoined(node=node.id, rack=node.rack, slots=node.slots), 0.0)
    running = []
    for number in range(JOBS):
        commands = core.handle(_job(number, topology, dice), 0.001 * number)
        running += [order.attempt for order in commands if isinstance(order, LaunchAttempt)]
    for attempt in running:
        event = AttemptProgressed(attempt=attempt, progress=dice.uniform(0.05, 0.9))
        core.handle(event, 5.0)
    assert core.state.free == 0
    return core


def _job(number: int, topology: Topology, dice: random.Random) -> JobSubmitted:
    """Every second job has 4 to 80 blocks, three replicas on three pairs of racks; others one."""
    heavy = number % 2 == 0
    racks = [rack.id for rack in topology.rack_list()]
    chosen = dice.sample(racks, 6)
    blocks = dice.randint(5, 80) if heavy else 1
    inputs = tuple(
        TaskInput(
            input_bytes=_BLOCK_BYTES,
            nodes=tuple(
                NodeId(f"{chosen[2 * replica + at % 2]}n{dice.randrange(10)}")
                for replica in range(3)
            ),
        )
        for at in range(blocks)
    )
    return JobSubmitted(
        job=JobId(f"j{number}"),
        name=f"job {number}",
        user=f"u{number % USERS}",
        queue="default",
        stages=(
            StagePlan(name="m", tasks=blocks, inputs=inputs),
            StagePlan(name="r", reads=("m",), tasks=max(1, blocks // 4)),
        ),
    )


def _offer_s(core: Core, times: int) -> float:
    """CPU seconds of the policies for one slot, until a job takes it or none wants it."""
    policies, dice = core.state.policies, random.Random(2)
    nodes = list(core.state.nodes.values())

    def offer() -> None:
        node = dice.choice(nodes)
        for job in policies.order.candidates(node, None):
            if isinstance(policies.tasks.offer(job, node, core.state.now_s), Place):
                return

    return _mean_s(offer, times)


def _event_s(core: Core, times: int) -> float:
    """CPU seconds of the core for one map that ends, the launch of the next one included."""
    running = [attempt for attempt in core.state.attempts if ".m" in attempt]
    random.Random(3).shuffle(running)
    events = [
        AttemptSucceeded(attempt=attempt, partition_bytes=_parts(core, attempt))
        for attempt in running[:times]
    ]
    begun_s = time.process_time()
    for event in events:
        core.handle(event, core.state.now_s + 0.001)
    return (time.process_time() - begun_s) / len(events)


def _parts(core: Core, attempt: AttemptId) -> tuple[int, ...]:
    reduces = core.state.attempts[attempt].task.stage.readers[0].size
    return (_BLOCK_BYTES // reduces,) * reduces


def _mean_s(action: Callable[[], object], times: int) -> float:
    action()
    begun_s = time.process_time()
    for _ in range(times):
        action()
    return (time.process_time() - begun_s) / times


def _row(name: str, value_s: float, bound_s: float | None, reference_s: float | None = None) -> Row:
    reference_us = None if reference_s is None else reference_s * 1e6
    bound_us = None if bound_s is None else bound_s * 1e6
    return bench_row(name, value_s * 1e6, "us", reference=reference_us, bound=bound_us)
