"""Explanations equal what the policies' rules say: questions about recorded runs, worked out here.

Each expected answer comes from the rule and the run's placements, not from the policy's own text
alone: who held how many slots, who waited for how long, which racks a plan or a count gives.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from railyard.cluster.ids import NodeId, RackId, rack_of
from railyard.cluster.messages import AttemptSucceeded
from railyard.cluster.topologyfile import Ocs
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.schedulers.shadow.scheduler import duplicates, link_loads
from railyard.resourcemanager.schedulers.tetris import alignment, demand_at
from tests.harness import TinyCluster
from tests.resourcemanager.explained import Recorded
from tests.resourcemanager.schedulers.test_corral import plan_file
from tests.resourcemanager.schedulers.test_heft import TIMES
from tests.resourcemanager.schedulers.test_heft import submit as submit_diamond
from tests.resourcemanager.schedulers.test_joint import JOIN, predicted
from tests.resourcemanager.schedulers.test_joint import TABLE as JOIN_READS
from tests.resourcemanager.schedulers.test_joint import TIMES as JOIN_TIMES

MB = 10**6
NODES = ("r0n0", "r1n0", "r2n0")


def held_at(c: TinyCluster, job: str, at_s: float) -> int:
    """Slots that a job held right before the launches of a time, from its events alone."""
    ended = [
        event.attempt
        for when_s, event in c.events
        if isinstance(event, AttemptSucceeded) and when_s <= at_s
    ]
    launched = [task for task, when_s in c.run().launches(job) if when_s < at_s]
    return len(launched) - sum(name.startswith(f"{job}.") for name in ended)


# Order: whose turn it was ------------------------------------------------------------------------
def test_fair_the_job_that_holds_fewest_slots_goes_first(tmp_path: Path):
    run = Recorded(tmp_path, "fair", nodes=1, slots=4)
    run.c.submit("j0", maps=8, map_s=2, user="u")
    run.c.at(1.0, lambda: run.c.submit("j1", maps=2, map_s=2, user="u"))
    run.c.run()
    e = run.task("j1.m0")
    assert (e.waits[0].from_s, e.waits[0].to_s) == (1.0, 2.0)
    assert e.waits[0].why == "no slot is free"
    assert run.chosen("j1.m0").order == "0 jobs ahead (holds 0 of 4 slots)"
    # the first freed slot is j1's: j0 still holds 3
    assert held_at(run.c, "j1", 2.0) == 0
    assert e.turns.slots == {}


def test_capacity_a_queue_at_its_maximum_waits(tmp_path: Path):
    options = {
        "capacity.guaranteed.default": 0.75,
        "capacity.guaranteed.small": 0.25,
        "capacity.maximum.small": 0.5,
    }
    run = Recorded(tmp_path, "capacity", options, nodes=2, slots=2)
    run.c.submit("j0", maps=4, map_s=10, queue="small")
    run.c.run()
    slots = 4
    e = run.task("j0.m2")
    [wait] = e.waits
    assert (wait.who, wait.cause, wait.to_s) == ("capacity/order", "order", 10.0)
    assert wait.why == f"queue small is at its maximum: {int(0.5 * slots)} slots"


def test_tetrium_with_a_fair_order_says_the_fair_order(tmp_path: Path):
    run = Recorded(tmp_path, "tetrium+fair-order", racks=3, nodes=1, slots=2)
    store(run.c, "in", "r0n0")
    run.c.submit("j0", input="in", map_s=2.0)
    run.c.run()
    assert run.chosen("j0.m0").order == "0 jobs ahead (holds 0 of 6 slots)"


# Waits: delay scheduling and the like ------------------------------------------------------------
@pytest.mark.parametrize("scheduler", ["delay", "capacity"])
def test_delay_settles_for_the_rack_then_for_anything(scheduler: str, tmp_path: Path):
    options = {"delay.node_wait_s": 2.0, "delay.rack_wait_s": 3.0}
    run = Recorded(tmp_path, scheduler, options, racks=2, nodes=2)
    run.c.store("in", blocks=[["r0n0"]])
    for node in ("r0n0", "r0n1"):
        run.c.occupy(node)
    run.c.submit("j0", input="in")
    run.c.run()
    waited_s = 2.0 + 3.0  # W1 + W2
    e = run.task("j0.m0")
    assert [(wait.why, wait.to_s) for wait in e.waits] == [("only a remote slot is free", waited_s)]
    assert e.answers[0].until_s == waited_s
    assert run.chosen("j0.m0").why == f"remote after {waited_s:g} s"
    assert run.attempt("j0.m0").node in ("r1n0", "r1n1")


def test_in_place_waits_for_its_site_for_good(tmp_path: Path):
    run = Recorded(tmp_path, "in-place", racks=3, nodes=1, slots=2)
    run.c.store("in", blocks=[["r0n0"]] * 6)
    run.c.submit("j0", input="in", map_s=20.0)
    run.c.run()
    for index in range(6):
        start_s = 20.0 * (index // 2)  # two slots at the site of all input
        e = run.task(f"j0.m{index}")
        assert e.attempts[0].slot_s == start_s
        assert sum(wait.to_s - wait.from_s for wait in e.waits) == start_s
        assert {wait.why for wait in e.waits} <= {"only slots at other sites are free"}
        assert run.chosen(f"j0.m{index}").why == "node-local"


def test_in_place_with_delay_leaves_its_site_after_both_waits(tmp_path: Path):
    run = Recorded(tmp_path, "in-place:delay", racks=3, nodes=1, slots=2)
    run.c.store("in", blocks=[["r0n0"]] * 6)
    run.c.submit("j0", input="in", map_s=20.0)
    run.c.run()
    whys = run.stage("j0.m").whys
    assert whys["remote after 10 s"] == 1  # then the job has settled, and the others follow at once
    assert whys["node-local"] == 2
    assert run.stage("j0.m").racks == {"r0": 2, "r1": 2, "r2": 2}


def test_the_shuffle_policy_holds_reduces_until_its_share_of_maps_is_done(tmp_path: Path):
    run = Recorded(tmp_path, "fair", {"shuffle.slowstart": 0.5}, nodes=2)
    run.c.submit("j0", maps=6, reduces=1, map_s=2)
    run.c.run()
    e = run.task("j0.r0")
    assert (e.waits[0].who, e.waits[0].why) == (
        "fair/shuffle",
        "slow start: 0 of 6 tasks of m done, needs 3",
    )
    assert e.waits[0].why_last == "slow start: 2 of 6 tasks of m done, needs 3"
    assert e.waits[0].to_s == 4.0  # two slots: the third map ends with the second wave


def test_a_lost_output_runs_again_before_anything_else(tmp_path: Path):
    run = Recorded(tmp_path, "fair", racks=2, nodes=1, slots=2, flow_s=50.0)
    run.c.submit("j0", maps=3, reduces=1, map_s=1)
    run.c.at(2.0, lambda: run.c.lose("r0n0"))
    run.c.run(until_s=2.0)
    again = [e for at in range(3) if len((e := run.task(f"j0.m{at}")).attempts) > 1]
    assert again
    for e in again:
        assert e.attempts[1].chosen is not None
        assert e.attempts[1].chosen.why == "it runs again, and readers may wait for it"
        assert e.attempts[0].node == "r0n0"


# Racks: Corral, ShuffleWatcher, Even, Shadow -----------------------------------------------------
@pytest.mark.parametrize("scheduler", ["corral", "local-shuffle"])
def test_corral_names_the_racks_of_the_plan_and_the_place_in_it(scheduler: str, tmp_path: Path):
    plan = {"j0": "r0 r2", "j1": "r0 r2", "j2": "r1"}
    options = {"corral.plan": plan_file(tmp_path, 3, plan)}
    run = Recorded(tmp_path, scheduler, options, racks=3)
    for job in plan:
        run.c.submit(job, maps=8, reduces=2, map_s=2)
    run.c.run()
    for job, racks in plan.items():
        stage = run.stage(f"{job}.m")
        assert set(stage.racks) == set(racks.split())
        assert stage.planned == [f"its job keeps to {racks}"]
        assert run.chosen(f"{job}.r0").why == "reduces go before maps"
    ahead = sum(plan[other] == plan["j1"] for other in ("j0",))
    [_, order] = run.task("j1.m0").turns.order[-1]
    assert order.startswith(f"{ahead} planned jobs before it")
    assert order.endswith("on r0 r2")


def test_corral_lets_a_job_run_anywhere_once_most_of_its_racks_is_lost(tmp_path: Path):
    run = Recorded(
        tmp_path, "corral", {"corral.plan": plan_file(tmp_path, 3, {"j0": "r1"})}, racks=3
    )
    run.c.submit("j0", maps=4, map_s=10)
    run.c.at(5.0, lambda: [run.c.lose(node) for node in ("r1n0", "r1n1")])
    run.c.run()
    stories = run.task("j0.m0").attempts
    assert stories[0].node in ("r1n0", "r1n1")
    assert stories[0].outcome.startswith("lost with r1n")
    plans = [story.chosen.planned for story in stories if story.chosen]
    assert plans == ["its job keeps to r1", "its job may run anywhere"]


def test_shufflewatcher_names_the_racks_with_the_fewest_bytes_between_racks(tmp_path: Path):
    blocks = ["r0n0", "r1n0", "r2n0", "r0n1", "r1n1", "r0n0"]
    run = Recorded(tmp_path, "shufflewatcher", racks=3)
    run.c.store("in", blocks=[[node] for node in blocks])
    run.c.submit("j0", input="in", reduces=2)
    run.c.run()
    racks = ("r0", "r1", "r2")
    size = 100 * len(blocks)  # and as much shuffle, by shufflewatcher.sir

    def between(some: tuple[str, ...]) -> float:
        away = 100 * sum(rack_of(NodeId(node)) not in some for node in blocks)
        return away + size * (len(some) - 1) / len(some)

    best = min((s for n in (1, 2, 3) for s in combinations(racks, n)), key=between)
    assert run.chosen("j0.m0").planned == f"its job keeps to {' '.join(best)}"
    assert set(run.stage("j0.m").racks) == set(best)


def test_even_deals_maps_to_racks_alike_and_gives_up_after_its_wait(tmp_path: Path):
    run = Recorded(tmp_path, "even", {"even.rack_wait_s": 3.0}, racks=2, nodes=1, slots=3)
    run.c.store("in", blocks=[["r0n0"]] * 4)
    run.c.set_slots("r1n0", 1)
    run.c.submit("j0", input="in", map_s=10)
    run.c.run()
    # two for each rack; the second of r1 finds its only slot taken, and waits for 3 s
    assert run.stage("j0.m").whys == {
        "it is the turn of its rack": 3,
        "no slot where it was its turn until 3 s": 1,
    }
    e = run.task("j0.m3")
    [wait] = e.waits
    assert (wait.why, wait.to_s, e.attempts[0].node) == (
        "its maps are for other racks",
        3.0,
        "r0n0",
    )
    assert e.answers[-1].planned == "tasks yet to start in racks: r1 1"


def test_shadow_duplicates_go_from_the_rack_with_most_maps_to_that_with_fewest(tmp_path: Path):
    blocks = [["r0n0"], ["r0n1"], ["r0n2"], ["r0n3"], ["r1n0"], ["r2n0"]]  # Fig. 6
    options = {"shadow.duplicates_max": 1.0, "speculation.on": False}
    run = Recorded(tmp_path, "shadow", options, racks=3, nodes=4)
    factors = iter((1.0,) * 6 + (0.5, 0.5))
    run.c.stretch = lambda: next(factors, 1.0)
    run.c.store("in", blocks=blocks)
    run.c.submit("j0", input="in", reduces=3, map_s=10, reduce_s=10)
    run.c.run()
    maps = [4, 1, 1]
    expected = Counter(
        f"a duplicate for r{light}, of a map in r{heavy}"
        for heavy, light in duplicates(maps, len(blocks))
    )
    stage = run.stage("j0.m")
    assert Counter({why: n for why, n in stage.whys.items() if "duplicate" in why}) == expected
    assert stage.copies == sum(expected.values()) == 2
    moved = [e for at in range(4) if len((e := run.task(f"j0.m{at}")).attempts) == 2]
    for e in moved:
        original, duplicate = e.attempts
        assert duplicate.chosen is not None
        assert (duplicate.chosen.who, duplicate.chosen.how) == ("shadow/copies", "copied")
        assert duplicate.taken == "its output was chosen"  # it ended first, before T
        assert original.outcome.startswith("was asked to end")
    # three reduces round robin over the racks, by descending number of their maps
    assert run.stage("j0.r").whys == {"it is the turn of its rack": 3}


def test_kmn_takes_k_outputs_with_the_least_skew(tmp_path: Path):
    nodes = ["r0n0", "r0n1", "r0n2", "r0n3", "r0n4", "r1n0", "r1n1", "r2n0", "r2n1"]
    run = Recorded(tmp_path, "kmn", {"kmn.extra": 0.5}, racks=3, nodes=6)
    run.c.store("in", blocks=[[node] for node in nodes])
    stages = [
        StagePlan(name="m", tasks=9, inputs=tuple(run.c._files["in"]), needed=6),
        StagePlan(name="r", reads=("m",), tasks=3),
    ]
    run.c.submit("j0", stages=stages, map_s=10, reduce_s=10)
    run.c.run()
    stories = [run.attempt(f"j0.m{index}") for index in range(9)]
    taken = [story for story in stories if story.taken]
    assert {story.taken for story in taken} == {"one of the K with the least skew"}

    def skew(some: tuple[str, ...]) -> float:
        racks = Counter(rack_of(NodeId(node)) for node in some)
        return link_loads([racks[rack] for rack in ("r0", "r1", "r2")], [1, 1, 1]).skew

    least = min(map(skew, combinations([story.node for story in stories], 6)))
    assert len(taken) == 6
    assert skew(tuple(story.node for story in taken)) == pytest.approx(least)
    dropped = {story.outcome for story in stories if not story.taken}
    assert dropped == {"did its task; its output does not count: others were first, or were chosen"}


# Sites: Tetrium, Iridium, Centralized, Tetris ----------------------------------------------------
def store(c: TinyCluster, name: str, *at: str, blocks: int = 12) -> None:
    c.store(name, blocks=[[at[n % len(at)]] for n in range(blocks)], block_bytes=100 * MB)


@pytest.mark.parametrize("rho", [0.0, 1.0])
def test_tetrium_places_maps_by_its_linear_program(rho: float, tmp_path: Path):
    run = Recorded(tmp_path, "tetrium", {"tetrium.rho": rho}, racks=3, nodes=1, slots=2)
    run.c.flow_s = 0.1
    store(run.c, "in", "r0n0")
    run.c.submit("j0", input="in", map_s=2.0)
    run.c.run()
    # no bytes may leave the site, or as many as help: 2 s a map against 100 ms on the links
    share = {0.0: {"r0": 12}, 1.0: {"r0": 4, "r1": 4, "r2": 4}}[rho]
    planned = ", ".join(f"{site} {count}" for site, count in share.items())
    assert run.chosen("j0.m0").planned == f"tasks planned at sites: {planned}"
    assert run.chosen("j0.m0").why == "its plan has a task for this site now"
    assert run.stage("j0.m").racks == share


def test_iridium_places_reduces_by_its_linear_program(tmp_path: Path):
    run = Recorded(tmp_path, "iridium", racks=3, nodes=1, slots=2)
    run.c.flow_s = 0.1
    places = ["r0n0"] * 4 + ["r1n0"] * 1 + ["r2n0"] * 1
    run.c.store("in", blocks=[[place] for place in places], block_bytes=100 * MB)
    run.c.submit("j0", input="in", reduces=6, map_s=2.0, partition_bytes=10 * MB, reduce_s=5.0)
    run.c.run()
    held = (4.0, 1.0, 1.0)  # of the shuffle at each site; all links are alike

    def busiest(reduces: tuple[int, ...]) -> float:
        shares = [count / 6 for count in reduces]
        up = [here * (1 - share) for here, share in zip(held, shares, strict=True)]
        down = [(6.0 - here) * share for here, share in zip(held, shares, strict=True)]
        return max(up + down)

    best = min(busiest((a, b, 6 - a - b)) for a in range(7) for b in range(7 - a))
    expected = run.stage("j0.r").racks
    assert busiest(tuple(expected.get(RackId(f"r{site}"), 0) for site in range(3))) == best
    planned = ", ".join(f"{site} {count}" for site, count in expected.items())
    assert run.chosen("j0.r0").planned == f"reduces yet to start at sites: {planned}"
    assert run.chosen("j0.r0").why == "its plan has a reduce for this site"


def test_tetris_says_how_its_task_aligns(tmp_path: Path):
    run = Recorded(tmp_path, "tetris", {"tetris.work_weight": 0.0}, racks=3, nodes=1, slots=2)
    run.c.store("in", blocks=[[node] for node in NODES], block_bytes=100 * MB)
    run.c.submit("j0", input="in", map_s=2.0)
    run.c.run()
    policy = run.c.core.state.policies.tasks
    up, down = np.full(3, 1e9), np.full(3, 1e9)
    computed_s = 100 * MB / run.c.topology.compute.map_rate
    demand = demand_at(0, np.array([100.0 * MB, 0.0, 0.0]), up, down, computed_s)
    expected = alignment(demand, 2 / 2, 1e9, 1e9, 0.1)
    assert type(policy).__name__ == "Tetris"
    assert run.chosen("j0.m0").why == f"alignment {expected:.3g}"
    assert run.attempt("j0.m0").node == "r0n0"


def test_centralized_waits_for_the_blocks_that_are_to_come_to_its_site(tmp_path: Path):
    run = Recorded(tmp_path, "centralized", racks=3, nodes=1, slots=2)
    run.c.set_slots("r1n0", 4)
    run.c.store("in", [["r0n0"], ["r1n0"], ["r2n0"]] * 3)
    run.c.submit("j0", input="in", map_s=2.0)
    run.c.run()
    elsewhere = 6  # of nine blocks three are at the site with the most slots
    e = run.task("j0.m0")
    assert (e.waits[0].who, e.waits[0].why) == (
        "centralized/tasks",
        f"{elsewhere} blocks of its input are yet to come to r1",
    )
    assert e.waits[-1].to_s == 1.0  # a move takes a second
    assert run.chosen("j0.m0").planned == "the central site is r1"


# Queues of servers: HEFT, Joint ------------------------------------------------------------------
def test_heft_names_the_server_and_when_the_task_should_start(tmp_path: Path):
    """As in the worked example of ``test_heft``: c has its data on r0n1 a second after a."""
    run = Recorded(tmp_path, "heft", nodes=2, flow_s=1.0)
    submit_diamond(run.c)
    run.c.run()
    chosen = run.chosen("j0.c0")
    assert chosen.why == "scheduled, first in the queue of r0n1"
    a_s, edge_s = TIMES["a"], 1.0
    starts = f"should start at {a_s + edge_s:.3f} s"
    assert chosen.planned == f"scheduled in the queue of r0n1, {starts}"
    e = run.task("j0.c0")
    assert (e.attempts[0].node, e.plans) == ("r0n1", [(0.0, chosen.planned)])


@pytest.mark.parametrize(("scheduler", "known_s"), [("joint", 1.0), ("joint:no-aeap", 5.0)])
def test_joint_reserves_a_server_once_predecessors_are_known(
    scheduler: str, known_s: float, tmp_path: Path
):
    run = Recorded(tmp_path, scheduler, nodes=3, flow_s=0.5)
    run.c.submit(
        "j0", stages=JOIN, durations=JOIN_TIMES, forecast=predicted(JOIN_TIMES, JOIN_READS)
    )
    run.c.run()
    story = run.attempt("j0.c0")
    chosen = run.chosen("j0.c0")
    assert story.reserved is not None
    assert (story.at_s, story.reserved.how, chosen.how) == (known_s, "reserved", "placed")
    assert story.reserved.why == "it is in the queue of this server, and its data can be sent"
    b_ends_s, flow_s = JOIN_TIMES["b"], 0.5
    assert story.slot_s == b_ends_s + flow_s  # when all that it reads is there
    assert chosen.planned.startswith("scheduled in the queue of " + story.node)
    if scheduler == "joint":  # a's output is there by 1.5 s, b's is ready at 5 s
        [idle] = story.idle
        assert (idle.from_s, idle.to_s) == (known_s + flow_s, b_ends_s)
        assert idle.why.startswith("nothing was ready before j0.b0.0 ended on")


# Co-scheduler ------------------------------------------------------------------------------------
def test_co_scheduler_holds_out_for_the_racks_of_its_guideline(tmp_path: Path):
    """R_map of 2000 bytes and T_e = 1000 is one rack: where the input is, which has no slot."""
    options = {"co-scheduler.only_if_faster": False, "co-scheduler.hold_out_s": 7.0}
    ocs = Ocs(port_bytes_per_s=1e9, elephant_bytes=1000)
    run = Recorded(tmp_path, "co-scheduler", options, racks=2, nodes=1, ocs=ocs)
    run.c.store("in", blocks=[["r0n0"], ["r0n0"]], block_bytes=1000)
    run.c.occupy("r0n0")
    run.c.submit("j0", input="in", reduces=1, partition_bytes=1000)
    run.c.run()
    e = run.task("j0.m0")
    [wait] = e.waits
    assert (wait.who, wait.why, wait.to_s) == (
        "co-scheduler/tasks",
        "r1 is off its guideline",
        7.0,
    )
    assert e.answers[0].planned == "its maps on at most 1 rack; so far on none"
    assert run.chosen("j0.m0").why == "line 9: any rack, remote"  # any map, off the guideline


def test_co_scheduler_maps_of_a_light_job_go_anywhere(tmp_path: Path):
    ocs = Ocs(port_bytes_per_s=1e9, elephant_bytes=10**9)
    run = Recorded(tmp_path, "co-scheduler", racks=2, nodes=1, ocs=ocs)
    run.c.store("in", blocks=[["r0n0"], ["r1n0"]])
    run.c.submit("j0", input="in", reduces=1)  # 200 bytes are no elephant
    run.c.run()
    assert run.stage("j0.m").whys == {"line 7: its job is not shuffle-heavy, node-local": 2}
    assert run.chosen("j0.r0").why == "line 6: its job is not shuffle-heavy"
    assert run.chosen("j0.m0").planned == "no guideline for its maps: any rack"


@pytest.mark.parametrize(
    ("scheduler", "line", "planned"),
    [
        (
            "co-scheduler",
            "line 5: the rack is in its guideline",
            "its maps on at most 1 rack; so far on none",
        ),
        (
            "co-scheduler:dp+ocas",
            "line 5: the rack is in its guideline",
            "its maps on at most 1 rack; so far on none",
        ),
        ("co-scheduler:ocas", "line 9: any rack", "no guideline for its maps: any rack"),
    ],
)
def test_the_ablations_of_co_scheduler(scheduler: str, line: str, planned: str, tmp_path: Path):
    ocs = Ocs(port_bytes_per_s=1e9, elephant_bytes=1000)
    run = Recorded(tmp_path, scheduler, racks=2, nodes=1, ocs=ocs)
    run.c.store("in", blocks=[["r0n0"]], block_bytes=2000)
    run.c.submit("j0", input="in", reduces=1, partition_bytes=2000)
    run.c.run()
    chosen = run.chosen("j0.m0")
    assert (chosen.why, chosen.planned) == (f"{line}, node-local", planned)
