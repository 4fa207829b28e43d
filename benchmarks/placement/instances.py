"""A whole scheduling instance of Tetrium: which of many waiting jobs get the slots that are free.

50 sites of 10 slots, half of them freed in one batch; all jobs are in their last stage, so that the
time of each is computed.  The paper (Fig. 7): about 950 ms for 50 jobs, 8 s for 400.
"""

from __future__ import annotations

import random
import time

from railyard.benchmarks._common.rows import Row
from railyard.benchmarks._common.yardstick import by_yardstick, cpu_row
from railyard.cluster.ids import AttemptId, JobId
from railyard.cluster.messages import AttemptSucceeded, LaunchAttempt, NodeJoined
from railyard.cluster.topology import Topology, load_topology
from railyard.resourcemanager.core.core import Core
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.events import JobSubmitted, StagePlan, TaskInput, TimerFired
from railyard.resourcemanager.schedulers import recipe_named

#: {jobs: (CPU s of the paper's, most CPU s: see ``_common.yardstick``)}
SIZES: dict[int, tuple[float | None, float | None]] = {
    50: (0.95, None),
    400: (8.0, 0.1),
    4000: (None, 1.0),
}
_SLOTS = 10
_TASKS = 20
_BLOCK_BYTES = 100_000_000


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` leaves out the largest."""
    sizes = [jobs for jobs in SIZES if not (quick and jobs > 400)]
    return by_yardstick(lambda: [_row(jobs) for jobs in sizes])


def _row(jobs: int) -> Row:
    paper_s, bound_s = SIZES[jobs]
    turns = sorted(_instance_s(jobs, seed) for seed in range(3))
    taken_s, launched = turns[1]
    paper = "" if paper_s is None else f"; the paper: {paper_s:g} s"
    return cpu_row(
        f"a scheduling instance, {jobs} jobs: CPU",
        taken_s,
        bound_s,
        note=f"{launched} tasks launched{paper}",
    )


def _instance_s(jobs: int, seed: int) -> tuple[float, int]:
    """CPU seconds of the core for an instance, and how many tasks it launched."""
    dice, topology = random.Random(seed), load_topology("tetrium-50")
    core = Core(topology, recipe_named("tetrium"), {}, seed)
    for node in topology.nodes():
        core.handle(NodeJoined(node=node.id, rack=node.rack, slots=_SLOTS), 0.0)
    filling = core.handle(_job("filling", topology, dice, 50 * _SLOTS), 0.0)
    running = [order.attempt for order in filling if isinstance(order, LaunchAttempt)]
    for number in range(jobs):
        core.handle(_job(f"j{number}", topology, dice, _TASKS), 1.0)
    due_s = 0.0
    for attempt in running[::2]:
        for command in core.handle(_success(attempt), 10.0):
            due_s = command.at_s if isinstance(command, SetTimer) else due_s
    begun_s = time.process_time()
    commands = core.handle(TimerFired(timer="policies"), due_s)
    taken_s = time.process_time() - begun_s
    return taken_s, sum(isinstance(command, LaunchAttempt) for command in commands)


def _job(name: str, topology: Topology, dice: random.Random, tasks: int) -> JobSubmitted:
    """Maps of 100 MB, most of them at a few sites."""
    nodes = [node.id for node in topology.nodes()]
    at = dice.choices(nodes, [1 / rank for rank in range(1, len(nodes) + 1)], k=tasks)
    dice.shuffle(nodes)
    inputs = tuple(TaskInput(input_bytes=_BLOCK_BYTES, nodes=(node,)) for node in at)
    return JobSubmitted(
        job=JobId(name),
        name=name,
        user="user",
        queue="default",
        stages=(StagePlan(name="m", tasks=tasks, inputs=inputs),),
        output_path=f"/out/{name}",
    )


def _success(attempt: AttemptId) -> AttemptSucceeded:
    return AttemptSucceeded(attempt=attempt, read_s=0.0, computed_s=2.0)
