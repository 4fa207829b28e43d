"""The schedulers' published behaviour, on clusters small enough to follow by hand."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import railyard.resourcemanager.schedulers
from railyard.cluster.errors import UsageError
from railyard.cluster.ids import NodeId, rack_of
from railyard.resourcemanager.interface.events import StagePlan
from railyard.resourcemanager.schedulers import all_recipes, recipe_named
from railyard.resourcemanager.schedulers.fair import RECIPE as FAIR
from tests.harness import TinyCluster, tiny_cluster
from tests.resourcemanager.schedulers.test_corral import forecast


def held(c: TinyCluster) -> dict[str, int]:
    """Slots that each job holds now."""
    return {job.id: job.held for job in c.core.state.jobs.values()}


# Delay scheduling --------------------------------------------------------------------------------
def test_job_holds_out_for_its_data_then_settles_for_the_rack():
    c = tiny_cluster(racks=1, nodes=2, slots=1, scheduler="delay", node_wait_s=5.0)
    c.store("in", blocks={"b0": ["r0n0"]})
    c.occupy("r0n0")
    c.submit("j0", input="in")
    assert c.run(until_s=4.9).placements == []
    assert c.why_waiting("j0.m0") == "only a rack-local slot is free"
    assert c.explain("j0.m0", 4.9) == (
        "j0.m0 pending 4.9 s: order: 0 jobs ahead (holds 0 of 1 slots); "
        "tasks: only a rack-local slot is free, until 5.0 s"
    )
    assert c.run(until_s=5.0).placements == [("j0.m0", "r0n1", 5.0)]


def test_job_waits_both_waits_for_a_slot_in_another_rack():
    c = tiny_cluster(racks=2, nodes=1, scheduler="delay", node_wait_s=3.0, rack_wait_s=4.0)
    c.store("in", blocks=[["r0n0"]])
    c.occupy("r0n0")
    c.submit("j0", input="in")
    assert c.run().placements == [("j0.m0", "r1n0", 7.0)]


def test_a_node_local_slot_that_comes_free_is_taken_at_once():
    c = tiny_cluster(racks=1, nodes=2, slots=1, scheduler="delay", node_wait_s=5.0)
    c.store("in", blocks=[["r0n0"]])
    c.occupy("r0n0")
    c.submit("j0", input="in")
    c.at(2.0, lambda: c.vacate("r0n0"))
    assert c.run().placements == [("j0.m0", "r0n0", 2.0)]


def test_a_job_that_settled_for_the_rack_does_not_wait_again():
    c = tiny_cluster(racks=1, nodes=3, slots=1, scheduler="delay", node_wait_s=5.0)
    c.store("in", blocks=[["r0n0"], ["r0n0"], ["r0n0"]])
    c.occupy("r0n0")
    c.submit("j0", input="in", map_s=1)
    assert c.run().launches("j0.m") == [("j0.m0", 5.0), ("j0.m1", 5.0), ("j0.m2", 6.0)]


def test_a_job_without_input_does_not_wait():
    c = tiny_cluster(scheduler="delay")
    c.submit("j0", maps=2)
    assert [when for _, _, when in c.run().placements] == [0.0, 0.0]


def test_a_task_whose_input_is_on_no_node_does_not_wait():
    c = tiny_cluster(racks=2, nodes=1, scheduler="delay")
    c.store("in", blocks=[["r0n0"], []])
    c.occupy("r0n0")
    c.submit("j0", input="in")
    assert c.run(until_s=1.0).placements == [("j0.m1", "r1n0", 0.0)]


def test_a_stage_without_input_does_not_wait_behind_one_that_waits_for_its_data():
    c = tiny_cluster(racks=2, nodes=1, scheduler="delay")
    c.store("in", blocks=[["r0n0"]])
    c.occupy("r0n0")
    stages = [StagePlan(name="m", tasks=1, inputs=tuple(c._files["in"]))]
    stages.append(StagePlan(name="n", tasks=1))
    c.submit("j0", stages=stages, durations={"m": 1.0, "n": 1.0})
    assert c.run(until_s=1.0).placements == [("j0.n0", "r1n0", 0.0)]


def test_small_jobs_find_their_data_where_fair_alone_runs_them_anywhere():
    """The paper's point: on a busy cluster a short wait makes nearly all maps node-local."""
    assert share_of_local_maps("delay") >= 0.9
    assert share_of_local_maps("fair") <= 0.5


def share_of_local_maps(scheduler: str) -> float:
    c = tiny_cluster(racks=2, nodes=5, slots=2, scheduler=scheduler)
    c.submit("j99", maps=60, map_s=1.3)
    for job in range(20):
        c.store(f"in{job}", blocks=[[f"r{job % 2}n{job % 5}"], [f"r{job % 2}n{(job + 1) % 5}"]])
        c.at(0.2 * job, lambda job=job: c.submit(f"j{job}", input=f"in{job}", map_s=1))
    c.run()
    return sum(record.locality.local for record in c.core.records.values()) / 40


# Fair sharing ------------------------------------------------------------------------------------
def test_two_users_share_equally_however_many_jobs_each_has():
    c = tiny_cluster(racks=1, nodes=4, slots=3)
    for job in range(3):
        c.submit(f"j{job}", maps=50, map_s=1, user="ann")
    c.submit("j3", maps=50, map_s=1, user="bob")
    c.run(until_s=5.5)
    assert held(c) == {"j0": 2, "j1": 2, "j2": 2, "j3": 6}


def test_weights_of_pools_users_and_jobs():
    c = tiny_cluster(
        nodes=3,
        slots=4,
        options={"fair.weights.prod": 2.0, "fair.user_weights.bob": 3.0},
    )
    c.submit("j0", maps=99, queue="prod")
    c.submit("j1", maps=99, user="ann")
    c.submit("j2", maps=99, user="bob")
    c.run(until_s=7.5)
    assert held(c) == {"j0": 8, "j1": 1, "j2": 3}


def test_a_pool_gets_its_minimum_first():
    c = tiny_cluster(nodes=5, slots=2, options={"fair.min_slots.prod": 4})
    for job in range(4):
        c.submit(f"j{job}", maps=99, queue=f"pool{job}")
    c.submit("j4", maps=99, queue="prod")
    c.run(until_s=6.5)
    assert held(c)["j4"] == 4
    assert sum(held(c).values()) == 10


def test_a_minimum_counts_only_as_far_as_there_is_demand_for_it():
    """YARN compares held / min(minimum, demand): 2 of 3 for a, 1 of 4 for b, which goes first."""
    c = tiny_cluster(nodes=4, options={"fair.min_slots.a": 20, "fair.min_slots.b": 4})
    c.submit("j0", maps=2, map_s=9, queue="a")
    c.submit("j1", maps=1, map_s=9, queue="b")
    c.submit("j2", maps=1, map_s=1, queue="other")
    c.submit("j3", maps=1, queue="a")
    c.submit("j4", maps=3, queue="b")
    assert c.run(until_s=1.0).placements[4:] == [("j4.m0", "r0n3", 1.0)]


def test_a_job_that_comes_late_gets_the_next_slots():
    c = tiny_cluster(nodes=2, slots=1)
    c.submit("j0", maps=4, map_s=2)
    c.at(1.0, lambda: c.submit("j1", maps=1, map_s=2))
    assert [task for task, when in c.run().launches("j") if when == 2.0] == ["j1.m0", "j0.m2"]


def test_equal_jobs_are_served_in_the_order_of_their_coming():
    c = tiny_cluster(nodes=1)
    for job in range(11):
        c.submit(f"j{job}", maps=1)
    order = [task.split(".")[0] for task, _ in c.run().launches("j")]
    assert order == [f"j{job}" for job in range(11)]


# Capacity ----------------------------------------------------------------------------------------
QUEUES = {"capacity.guaranteed.prod": 0.75, "capacity.guaranteed.adhoc": 0.25}


def test_queues_get_their_guarantee():
    c = tiny_cluster(nodes=4, slots=2, scheduler="capacity", options=dict(QUEUES))
    c.submit("j0", maps=99, queue="adhoc")
    c.submit("j1", maps=99, queue="prod")
    c.run(until_s=5.5)
    assert held(c) == {"j0": 2, "j1": 6}


def test_a_queue_grows_into_what_others_leave_free_and_gives_it_back():
    c = tiny_cluster(nodes=4, slots=2, scheduler="capacity", options=dict(QUEUES))
    c.submit("j0", maps=99, queue="adhoc")
    c.run(until_s=2.5)
    assert held(c) == {"j0": 8}
    c.submit("j1", maps=12, queue="prod")
    c.run(until_s=3.5)
    assert held(c) == {"j0": 2, "j1": 6}
    c.run(until_s=6.5)
    assert held(c) == {"j0": 8}


def test_a_queue_does_not_grow_beyond_its_maximum():
    options = {**QUEUES, "capacity.maximum.adhoc": 0.5}
    c = tiny_cluster(nodes=4, slots=2, scheduler="capacity", options=options)
    c.submit("j0", maps=8, map_s=1, queue="adhoc")
    c.submit("j1", maps=2, map_s=1, queue="adhoc")
    c.run(until_s=0.5)
    assert held(c) == {"j0": 4, "j1": 0}
    assert c.why_waiting("j1.m0") == "queue adhoc is at its maximum: 4 slots"
    assert Counter(when for _, _, when in c.run().placements) == {0.0: 4, 1.0: 4, 2.0: 2}


def test_jobs_in_a_queue_are_served_first_come_first_served():
    c = tiny_cluster(nodes=2, scheduler="capacity")
    c.submit("j0", maps=3)
    c.submit("j1", maps=3)
    assert [task for task, _ in c.run().launches("j")] == [
        "j0.m0",
        "j0.m1",
        "j0.m2",
        "j1.m0",
        "j1.m1",
        "j1.m2",
    ]


def test_of_two_queues_that_use_nothing_the_larger_goes_first():
    c = tiny_cluster(nodes=1, scheduler="capacity", options=dict(QUEUES))
    c.submit("j9", maps=1, queue="adhoc")
    c.submit("j0", maps=1, queue="adhoc")
    c.submit("j1", maps=1, queue="prod")
    assert [task for task, _ in c.run().launches("j")] == ["j9.m0", "j1.m0", "j0.m0"]


def test_an_unknown_queue_is_refused():
    c = tiny_cluster(scheduler="capacity", options=dict(QUEUES))
    with pytest.raises(UsageError, match='unknown queue "prdo": did you mean "prod"'):
        c.submit("j0", queue="prdo")
    assert not c.core.records


# The list ----------------------------------------------------------------------------------------
class Point:
    """An entry point."""

    def __init__(self, name: str, found: object) -> None:
        self.name = name
        self.value = f"their_package:{name.upper()}"
        self._found = found

    def load(self) -> object:
        return self._found


def test_others_add_schedulers_by_entry_points():
    mine = replace(FAIR, name="mine")
    assert set(all_recipes([Point("mine", mine)])) == {*all_recipes([]), "mine"}


def test_a_scheduler_comes_with_variants():
    user = {"fair.user_weights.ann": 3.0}
    ann = FAIR.variant("ann", "a test", user)
    assert (ann.name, ann.order) == ("fair:ann", FAIR.order)
    assert set(all_recipes([Point("both", (ann, replace(FAIR, name="mine")))])) == {
        *all_recipes([]),
        "fair:ann",
        "mine",
    }
    c = tiny_cluster(nodes=4, scheduler=ann)
    for job, who in (("j0", "ann"), ("j1", "bob")):
        c.submit(job, maps=9, user=who)
    c.run(until_s=1.5)
    assert held(c) == {"j0": 3, "j1": 1}


@pytest.mark.parametrize(
    ("points", "error"),
    [
        pytest.param([Point("fair", FAIR)], '"fair" is there twice: in railyard and', id="taken"),
        pytest.param([Point("mine", 7)], '"mine" of their_package:MINE is a int', id="no recipe"),
    ],
)
def test_what_is_no_recipe_is_refused(points: list[Point], error: str):
    with pytest.raises(UsageError, match=error):
        all_recipes(points)


def test_an_unknown_scheduler_is_refused_with_the_nearest_name():
    with pytest.raises(UsageError, match='unknown scheduler "deley": did you mean "delay"'):
        recipe_named("deley")


@pytest.mark.parametrize(
    ("scheduler", "options", "error"),
    [
        pytest.param(
            "delay", {"delay.node_wait": 1}, 'did you mean "delay.node_wait_s"', id="name"
        ),
        pytest.param("delay", {"delay.node_wait_s": -1.0}, "need seconds >= 0", id="value"),
        pytest.param("delay", {"delay.node_wait_s": "soon"}, "delay.node_wait_s", id="type"),
        pytest.param("fair", {"delay.node_wait_s": 1}, "unknown scheduler option", id="not its"),
        pytest.param("fair", {"fair.weights.x": 0.0}, "fair.weights.x = 0.0", id="weight"),
        pytest.param("fair", {"shuffle.slowstart": 2.0}, "a share in", id="share"),
        pytest.param(
            "capacity",
            {"capacity.guaranteed.a": 0.7, "capacity.guaranteed.b": 0.7},
            "add up to at most 1",
            id="sum",
        ),
    ],
)
def test_wrong_options_are_refused(scheduler: str, options: dict, error: str):
    with pytest.raises(UsageError, match=error):
        tiny_cluster(scheduler=scheduler, options=options)


def test_recipes_tell_whether_forecasts_are_of_use_to_them():
    using = {name for name, recipe in all_recipes([]).items() if recipe.uses_forecasts}
    planning = {"corral", "corral-fair", "local-shuffle", "shufflewatcher", "co-scheduler"}
    planning |= {"heft", "iridium", "joint", "tetris", "tetrium"}
    assert {re.split("[:+]", name)[0] for name in using} == planning


def test_what_is_shared_is_used_by_several():
    room = Path(railyard.resourcemanager.schedulers.__file__).parent
    for shared in sorted((room / "shared").glob("[a-z]*.py")):
        users = {
            path.relative_to(room).parts[0]
            for path in room.rglob("*.py")
            if f"schedulers.shared.{shared.stem} import" in path.read_text(encoding="utf-8")
        }
        assert len(users - {"shared"}) > 1, f"{shared.name}: move it to {' '.join(users)}"


def test_a_scheduler_is_found_under_its_own_name_as_among_all():
    for name, recipe in all_recipes([]).items():
        assert (recipe.name, recipe_named(name)) == (name, recipe)


def test_a_run_loads_its_own_scheduler_only():
    program = (
        "import sys; from railyard.resourcemanager.schedulers import recipe_named;"
        "recipe_named('capacity');"
        "print([name for name in sys.modules if 'tetrium' in name or 'corral' in name])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_whoever_does_not_run_tetrium_loads_no_compiled_loops_and_no_solver():
    """They take half a second and 60 MB, which each command and daemon would pay."""
    program = (
        "import sys, railyard.resourcemanager.schedulers as s; s.all_recipes();"
        "print(sorted({'numba', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


# ShuffleWatcher: a job by itself, in the racks that make its bytes across racks least.


EVERYWHERE = [["r0n0"], ["r1n0"], ["r2n0"], ["r0n1"], ["r1n1"], ["r0n0"]]


def racks_used(c: TinyCluster, job: str = "j0") -> set[str]:
    return {rack_of(NodeId(node)) for node in c.run().nodes_of(job)}


def test_with_as_much_shuffle_as_input_one_rack_is_best():
    """Of 6 blocks 3 are in r0: 300 bytes there; 500 of input and half of 600 cross for r0 and r1.

    One rack: 300; two: 100 + 300; three: 0 + 400.
    """
    c = tiny_cluster(racks=3, scheduler="shufflewatcher")
    c.store("in", blocks=EVERYWHERE)
    c.submit("j0", input="in", reduces=2)
    assert racks_used(c) == {"r0"}


def test_with_little_shuffle_a_job_goes_where_its_input_is():
    c = tiny_cluster(racks=3, scheduler="shufflewatcher", sir=0.1)
    c.store("in", blocks=EVERYWHERE)
    c.submit("j0", input="in", reduces=2)
    assert racks_used(c) == {"r0", "r1", "r2"}


def test_a_job_without_reduces_goes_where_its_input_is():
    c = tiny_cluster(racks=3, scheduler="shufflewatcher")
    c.store("in", blocks=EVERYWHERE)
    c.submit("j0", input="in")
    assert racks_used(c) == {"r0", "r1", "r2"}


def test_replicas_count_where_they_are():
    """All is in r2 too: no byte needs to cross."""
    c = tiny_cluster(racks=3, scheduler="shufflewatcher")
    c.store("in", blocks=[[*nodes, "r2n1"] for nodes in EVERYWHERE])
    c.submit("j0", input="in", reduces=2)
    assert racks_used(c) == {"r2"}


def test_what_other_jobs_do_does_not_matter():
    """All on one rack, as Corral's authors saw, while others are idle."""
    c = tiny_cluster(racks=3, scheduler="shufflewatcher")
    c.store("in", blocks=[["r1n0"]] * 4)
    for number in range(4):
        c.submit(f"j{number}", input="in", reduces=1)
    run = c.run()
    assert {rack_of(NodeId(node)) for node in run.nodes_of("j")} == {"r1"}


def test_a_predicted_shuffle_is_taken_for_what_it_is():
    c = tiny_cluster(racks=3, scheduler="shufflewatcher", sir=0.0)
    c.store("in", blocks=EVERYWHERE)
    c.submit("j0", input="in", reduces=2, forecast=forecast())  # 400 MB of shuffle
    assert racks_used(c) == {"r0"}


def test_when_its_rack_is_lost_a_job_ends_elsewhere():
    c = tiny_cluster(racks=2, scheduler="shufflewatcher")
    c.store("in", blocks=[["r1n0", "r0n0"], ["r1n1", "r1n0"]] * 4)
    c.submit("j0", input="in", reduces=1)
    c.run(until_s=1.5)
    c.lose("r1n0")
    c.lose("r1n1")
    assert c.run().ended == {"j0": ""}


def test_settings_are_checked():
    with pytest.raises(UsageError, match=r"shufflewatcher.sir = -1.0: need a number >= 0"):
        tiny_cluster(scheduler="shufflewatcher", sir=-1.0)
