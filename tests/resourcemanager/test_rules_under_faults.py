"""What holds for one scheduler holds for all: faults by seed, then they stop and all jobs end."""

from __future__ import annotations

import random
import re

import pytest

from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages import AttemptFailed, FlowFailed, StartFlow
from railyard.cluster.topologyfile import Ocs
from railyard.oracles.faults import toys
from railyard.resourcemanager.interface.commands import MoveBlock
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.interface.recipe import option_names
from railyard.resourcemanager.schedulers import all_recipes, recipe_named
from tests.harness import TinyCluster, tiny_cluster

FAULTS_END_S = 40.0
DAG = (
    StagePlan(name="a", tasks=4),
    StagePlan(name="b", reads=("a",), tasks=3),
    StagePlan(name="c", reads=("b",), tasks=2),
)


def random_scenario(scheduler: str, seed: int, ocs: Ocs | None = None) -> TinyCluster:
    """A cluster with jobs, and faults until ``FAULTS_END_S``: all by the seed."""
    recipe = toys.RECIPE if scheduler == toys.RECIPE.name else recipe_named(scheduler)
    dice, known = random.Random(seed), option_names(recipe)
    options = {
        "shuffle.slowstart": [0.0, 0.05, 0.5, 1.0],
        "shuffle.patience_s": [0.0, 1.0, 5.0],
        "heft.prefetch": [False, True],
        "heft.ties": ["first", "random"],
    }
    c = tiny_cluster(
        racks=dice.randint(1, 3),
        nodes=dice.randint(2, 3),
        slots=dice.randint(1, 2),
        scheduler=recipe,
        seed=seed,
        flow_s=dice.choice([0.0, 0.3, 2.0]),
        kill_s=dice.choice([0.0, 0.5]),
        ocs=ocs,
        options={name: dice.choice(of) for name, of in options.items() if name in known},
    )
    c.stretch = lambda: dice.uniform(0.5, 2.0)
    add_jobs(c, dice)
    add_faults(c, dice)
    add_restarts(c, random.Random(f"restarts {seed}"))
    add_drains(c, random.Random(f"drains {seed}"))
    return c


def add_jobs(c: TinyCluster, dice: random.Random) -> None:
    nodes = [node.id for node in c.topology.nodes()]
    for number in range(dice.randint(2, 6)):
        job, when = f"j{number}", dice.uniform(0, 15)
        common = {"user": dice.choice("ab"), "max_attempts": 1000}
        if dice.random() < 0.3:
            durations = {"a": 1.0, "b": 2.0, "c": 1.5}
            wanted = {"stages": DAG, "durations": durations, **common}
        else:
            replicas = min(2, len(nodes))
            c.store(job, blocks=[dice.sample(nodes, replicas) for _ in range(dice.randint(1, 12))])
            reduces = dice.randint(0, 4)
            wanted = {"input": job, "reduces": reduces, "map_s": dice.uniform(0.1, 4), **common}
        c.at(when, lambda job=job, wanted=wanted: c.submit(job, **wanted))


def add_faults(c: TinyCluster, dice: random.Random) -> None:
    def failure(attempt: str, node: str) -> str | None:
        return "boom" if c.now_s < FAULTS_END_S and dice.random() < 0.1 else None

    def flow_failure(flow: StartFlow) -> FlowFailed | None:
        if c.now_s >= FAULTS_END_S or dice.random() > 0.15:
            return None
        lost = flow.outputs[: dice.randint(0, 1)]
        return FlowFailed(flow=flow.flow, reason="broke off", lost=lost)

    def move_failure(move: MoveBlock) -> str | None:
        lost = not c.core.state.nodes[NodeId(move.node)].alive
        return "no luck" if lost or (c.now_s < FAULTS_END_S and dice.random() < 0.2) else None

    c.failure, c.flow_failure, c.move_failure = failure, flow_failure, move_failure
    for node in [node.id for node in c.topology.nodes()]:
        at_s = dice.uniform(0, FAULTS_END_S)
        for _ in range(dice.randint(0, 2)):
            c.at(at_s, lambda node=node: c.lose(node))
            at_s += dice.uniform(0.1, 10)
            c.at(at_s, lambda node=node: c.join(node))
            at_s += dice.uniform(0.1, 10)
        for _ in range(dice.randint(0, 3)):
            slots = dice.randint(0, 2 * c.topology.racks.slots)
            c.at(dice.uniform(0, FAULTS_END_S), lambda n=node, slots=slots: set_slots(c, n, slots))
        c.at(FAULTS_END_S, lambda node=node: set_slots(c, node, c.topology.racks.slots))
    for _ in range(dice.randint(0, 3)):
        c.at(dice.uniform(0, FAULTS_END_S), lambda: fail_reservation(c))
    if dice.random() < 0.3:
        c.at(dice.uniform(5, 20), lambda: kill_if_running(c, "j1"))


def add_restarts(c: TinyCluster, dice: random.Random) -> None:
    """NodeManagers die and are back at once, without some of their output."""

    def restart(node: str) -> None:
        if c.core.state.nodes[NodeId(node)].alive:
            c.restart(node, [output for output in c.outputs_on(node) if dice.random() < 0.3])

    for node in [node.id for node in c.topology.nodes()]:
        for _ in range(dice.randint(0, 2)):
            c.at(dice.uniform(0, FAULTS_END_S), lambda node=node: restart(node))


def add_drains(c: TinyCluster, dice: random.Random) -> None:
    """Nodes are drained for a while, but for the first."""

    def drain(node: str, *, kill: bool) -> None:
        if c.core.state.nodes[NodeId(node)].alive:
            c.drain(node, kill=kill)

    def activate(node: str) -> None:
        if c.core.state.nodes[NodeId(node)].draining:
            c.activate(node)

    for node in [node.id for node in c.topology.nodes()][1:]:
        if dice.random() < 0.4:
            at_s, kill = dice.uniform(0, FAULTS_END_S - 10), dice.random() < 0.5
            c.at(at_s, lambda node=node, kill=kill: drain(node, kill=kill))
            c.at(at_s + dice.uniform(0, 9), lambda node=node: activate(node))


def set_slots(c: TinyCluster, node: str, slots: int) -> None:
    known = c.core.state.nodes[NodeId(node)]
    if known.alive and not known.draining:
        c.set_slots(node, slots)


def fail_reservation(c: TinyCluster) -> None:
    for attempt in list(c.core.state.reserved)[:1]:
        c.feed(AttemptFailed(attempt=attempt, reason="broke while it fetched"))


def kill_if_running(c: TinyCluster, job: str) -> None:
    known = c.core.state.jobs.get(JobId(job))
    if known is not None and known.state == "running":
        c.kill(job)


def seeds_of(scheduler: str) -> range:
    """A variant has most of its code in common with its scheduler: fewer will do."""
    return range(10 if re.search("[:+]", scheduler) else 40)


@pytest.mark.parametrize(
    ("scheduler", "seed"),
    [
        (scheduler, seed)
        for scheduler in [*sorted(all_recipes()), toys.RECIPE.name]
        for seed in seeds_of(scheduler)
    ],
)
def test_rules_hold_under_faults(scheduler: str, seed: int):
    c = random_scenario(scheduler, seed)
    run = c.run(until_s=2000.0)  # the invariants are checked after every event
    again = f"again with: random_scenario({scheduler!r}, {seed})"
    assert run.unfinished == [], again
    assert all(reason in ("", "killed by its user") for reason in run.ended.values()), again
    assert c.core.state.free == c.core.state.slots, again
    assert not c.core.state.draining, again
    assert not c.core.shuffle.fetches, again


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("scheduler", sorted(all_recipes()))
def test_no_job_waits_for_ever_for_nodes_that_are_lost_for_good(scheduler: str, seed: int):
    dice = random.Random(seed)
    c = tiny_cluster(racks=3, nodes=2, slots=dice.randint(1, 2), scheduler=scheduler, seed=seed)
    add_jobs(c, dice)
    nodes = [node.id for node in c.topology.nodes()]
    lost = [nodes, nodes[:2], nodes[:4], dice.sample(nodes, 5), dice.sample(nodes, 3)][seed % 5]
    for node in lost:
        c.at(dice.uniform(0, 20), lambda node=node: c.lose(node))
    run = c.run(until_s=2000.0)
    again = f"again with seed {seed}"
    assert run.unfinished == [], again
    reasons = {reason for reason in run.ended.values() if reason}
    if lost == nodes:
        assert all("no node has been alive for 60 s" in reason for reason in reasons), again
    else:
        assert not reasons, again


@pytest.mark.parametrize("scheduler", [*sorted(all_recipes()), toys.RECIPE.name])
def test_the_rules_do_not_hang_on_how_ties_fall(scheduler: str):
    """Simultaneous events in another order: other placements perhaps, the same rules."""
    for shuffled in range(10):
        c = random_scenario(scheduler, seed=7)
        c.break_ties(random.Random(shuffled))
        assert c.run(until_s=2000.0).unfinished == [], f"ties by seed {shuffled}"
