"""Shadow's duplicates at work: where and when they run, and which output counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import JobId
from railyard.cluster.messages import AttemptFailed, AttemptSucceeded, KillAttempt
from railyard.cluster.messaging.wire import Event
from railyard.resourcemanager.core.jobs import Stage
from railyard.resourcemanager.core.policies import figures_of
from tests.harness import TinyCluster, tiny_cluster

GB = 10**9
#: Fig. 6: four blocks in the first rack, one in each of the others.
FIG_6 = [["r0n0"], ["r0n1"], ["r0n2"], ["r0n3"], ["r1n0"], ["r2n0"]]


def fig_6(
    scheduler: str = "shadow",
    *factors: float,
    blocks: list[list[str]] | None = None,
    block_bytes: int = 100,
    slots: int = 1,
    share: float = 1.0,
    **options: float,
) -> TinyCluster:
    """Three racks of four nodes and maps of 10 s; ``factors`` stretch attempts as they start."""
    settings = {"shadow.duplicates_max": share, "speculation.on": False, **options}
    c = tiny_cluster(racks=3, nodes=4, slots=slots, scheduler=scheduler, options=settings)
    rest = iter(factors)
    c.stretch = lambda: next(rest, 1.0)
    c.store("in", blocks=blocks or FIG_6, block_bytes=block_bytes)
    return c


def maps(c: TinyCluster) -> Stage:
    return c.core.state.jobs[JobId("j0")].stages["m"]


def winners(c: TinyCluster) -> Counter[str]:
    return Counter(task.winner.node.rack for task in maps(c).tasks if task.winner)


def copies(c: TinyCluster) -> list[tuple[str, str]]:
    return [(each.attempt, each.node) for each in c.launched() if each.attempt[-2:] == ".1"]


def shadow_figures(c: TinyCluster) -> dict[str, float]:
    return figures_of(c.core.state.policies)[0]["shadow"]


ORIGINALS = (1.0,) * 6


def test_fig_6_duplicates_that_end_first_are_taken_outright():
    c = fig_6("shadow", *ORIGINALS, 0.5, 0.5)
    c.submit("j0", input="in", reduces=3, map_s=10, reduce_s=10)
    c.run(until_s=4.9)
    assert [node[:2] for _, node in copies(c)] == ["r1", "r2"]
    assert {name[:5] for name, _ in copies(c)} <= {"j0.m0", "j0.m1", "j0.m2", "j0.m3"}
    c.run(until_s=5.1)
    assert winners(c) == {"r1": 1, "r2": 1}
    assert len([each for _, each in c.commands if isinstance(each, KillAttempt)]) == 2
    c.run(until_s=10.1)
    assert winners(c) == {"r0": 2, "r1": 2, "r2": 2}
    run = c.run()
    assert run.ended == {"j0": ""}
    record = c.core.records[JobId("j0")]
    assert (record.copies, record.copies_chosen, record.killed) == (2, 2, 2)
    figures = shadow_figures(c)
    assert figures == {"duplicates": 2, "duplicates_chosen": 2, "replaced": 0, "taken_early": 2}


def test_a_job_that_is_submitted_without_copies_has_no_duplicates():
    c = fig_6("shadow", *ORIGINALS, 0.5, 0.5)
    c.submit("j0", input="in", reduces=3, map_s=10, reduce_s=10, may_copy=False)
    assert c.run().ended == {"j0": ""}
    assert copies(c) == []


def test_a_duplicate_beside_its_input_replaces_its_original_at_once():
    blocks = [[*nodes, "r1n1", "r2n1"] if nodes[0][:2] == "r0" else nodes for nodes in FIG_6]
    c = fig_6(blocks=blocks, slots=1)
    for node in ("r1n1", "r1n2", "r1n3", "r2n1", "r2n2", "r2n3"):
        c.occupy(node)  # so that the originals start in the first rack
    c.submit("j0", input="in", reduces=3, map_s=10, reduce_s=10)
    c.run(until_s=1.0)
    assert copies(c) == []  # no slot is free
    c.at(2.0, lambda: [c.vacate(node) for node in ("r1n1", "r2n2")])
    c.run(until_s=2.5)
    assert [node for _, node in copies(c)] == ["r1n1", "r2n2"]
    killed = [each.attempt for _, each in c.commands if isinstance(each, KillAttempt)]
    assert killed == [f"{name[:-2]}.0" for name, _ in copies(c)]
    assert c.run().ended == {"j0": ""}
    assert shadow_figures(c)["replaced"] == 2
    assert shadow_figures(c)["duplicates_chosen"] == 2


def late(partition_bytes: int, *, fail: bool = False) -> TinyCluster:
    """Duplicates take twice as long as the originals, and end, or fail, 10 s after T."""
    c = fig_6("shadow", *ORIGINALS, 2.0, 2.0, block_bytes=10 * GB)
    c.failure = lambda attempt, _: "boom" if fail and attempt.endswith(".1") else None
    c.submit("j0", input="in", reduces=3, map_s=10, reduce_s=1, partition_bytes=partition_bytes)
    return c


def test_at_t_late_duplicates_are_chosen_if_the_shuffle_gains_more():
    # 10 GB come over the uplink of 1 GB/s with .5 GB/s each, or over their own NICs: D / B = 20 s;
    # so a duplicate should end at 30 s.  A link of the first rack sends 2 of 3 parts of 4 outputs.
    c = late(partition_bytes=60 * GB)
    c.run(until_s=10.1)
    assert maps(c).running == 2
    assert winners(c) == {"r0": 2, "r1": 1, "r2": 1}
    c.run(until_s=20.1)
    assert winners(c) == {"r0": 2, "r1": 2, "r2": 2}
    assert c.run().ended == {"j0": ""}
    assert shadow_figures(c)["prediction_error"] == pytest.approx(0.5)  # it reads in no time here


def test_at_t_late_duplicates_are_ended_if_they_hold_the_job_up():
    c = late(partition_bytes=10)
    c.run(until_s=10.1)
    assert winners(c) == {"r0": 4, "r1": 1, "r2": 1}
    assert c.run().ended_s == {"j0": 11.0}
    record = c.core.records[JobId("j0")]
    assert (record.copies, record.copies_chosen) == (2, 0)


def test_without_selection_the_first_output_counts():
    c = fig_6("shadow:first-counts", *ORIGINALS, 2.0, 2.0, block_bytes=10 * GB)
    c.submit("j0", input="in", reduces=3, map_s=10, reduce_s=1, partition_bytes=60 * GB)
    assert c.run().ended_s == {"j0": 11.0}
    assert c.core.records[JobId("j0")].copies_chosen == 0


@pytest.mark.parametrize("when_s", [5.0, 15.0])
@pytest.mark.parametrize("which", ["original", "duplicate"])
def test_either_copy_may_be_lost_before_and_after_the_choice(when_s: float, which: str):
    c = late(partition_bytes=60 * GB)
    c.run(until_s=1.0)
    name, node = copies(c)[0]
    task = name[:-2]
    if which == "original":
        node = next(each.node for each in c.launched() if each.attempt == f"{task}.0")
    c.at(when_s, lambda: c.lose(node))
    run = c.run()
    assert run.ended == {"j0": ""}
    assert len({name for name, _, _ in run.placements if name.startswith("j0.m")}) == 6


def test_a_chosen_duplicate_that_fails_leaves_its_original():
    c = late(partition_bytes=60 * GB, fail=True)
    c.run(until_s=19.9)
    assert maps(c).running == 2
    c.run(until_s=20.1)
    assert winners(c) == {"r0": 4, "r1": 1, "r2": 1}
    assert c.run().ended == {"j0": ""}


def test_duplicates_come_in_the_last_wave_only():
    blocks = [["r0n0"], ["r0n1"]] * 4
    c = tiny_cluster(racks=2, nodes=2, scheduler="shadow", options={"shadow.duplicates_max": 1.0})
    c.store("in", blocks=blocks)
    c.submit("j0", input="in", reduces=1, map_s=4)
    c.run()
    times_s = {each.attempt: at_s for at_s, each in c.commands if hasattr(each, "task")}
    last_s = max(at_s for name, at_s in times_s.items() if name.endswith(".0") and ".m" in name)
    assert copies(c)
    assert all(times_s[name] >= last_s for name, _ in copies(c))


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (0.15, 1), (0.3, 2), (1.0, 2)])
def test_the_threshold_is_a_share_of_the_maps(share: float, count: int):
    c = fig_6(share=share)
    c.submit("j0", input="in", reduces=3, map_s=10)
    c.run()
    assert len(copies(c)) == count


def test_reduces_run_where_maps_are_the_rack_with_most_first():
    c = fig_6(blocks=[["r1n0"], ["r1n1"], ["r1n2"], ["r2n0"]], share=0.0)
    c.submit("j0", input="in", reduces=3, map_s=10)
    nodes = c.run().nodes_of("j0.r")
    assert Counter(node[:2] for node in nodes) == {"r1": 2, "r2": 1}


def test_reduces_do_not_wait_for_ever_for_their_rack():
    c = fig_6(blocks=[["r1n0"], ["r1n1"]], share=0.0)
    c.submit("j0", input="in", reduces=1, map_s=10)
    c.run(until_s=9.0)
    for node in range(4):
        c.occupy(f"r1n{node}")
    c.run(until_s=10.1)
    run = c.run()
    assert run.ended == {"j0": ""}
    assert run.nodes_of("j0.r")[0][:2] != "r1"


def test_slow_tasks_have_copies_but_not_those_that_are_duplicated():
    on = {"speculation.on": True, "speculation.after_s": 2.0, "speculation.cap": 1.0}
    c = fig_6("shadow", 1.0, 1.0, 9.0, 1.0, 1.0, 1.0, 20.0, 30.0, 5.0, **on)
    c.submit("j0", input="in", reduces=1, map_s=10)
    c.report_progress(every_s=0.5, until_s=200.0)
    c.run()
    launches = Counter(each.attempt.rsplit(".", 1)[0] for each in c.launched())
    assert launches["j0.m5"] == 2
    assert max(launches.values()) == 2
    assert figures_of(c.core.state.policies)[0]["speculation"]["copies"] == 1


def test_a_task_that_was_moved_has_a_copy_if_it_is_slow_there():
    blocks = [[*nodes, "r1n1"] if nodes[0][:2] == "r0" else nodes for nodes in FIG_6]
    on = {"speculation.on": True, "speculation.after_s": 2.0, "speculation.cap": 1.0}
    c = fig_6("shadow", *ORIGINALS, 30.0, blocks=blocks, share=0.1, **on)
    for node in ("r1n1", "r1n2", "r1n3"):
        c.occupy(node)
    c.submit("j0", input="in", reduces=3, map_s=10, reduce_s=10)
    c.at(2.0, lambda: c.vacate("r1n1"))
    c.report_progress(every_s=0.5, until_s=200.0)
    run = c.run()
    assert shadow_figures(c)["replaced"] == 1
    third = [each.attempt for each in c.launched() if each.attempt.endswith(".2")]
    assert [name[:4] for name in third] == ["j0.m"]  # moved, and copied there
    assert run.ended == {"j0": ""}
    assert run.ended_s["j0"] < 100  # the one that was moved would take 300 s


@pytest.mark.parametrize(
    ("scheduler", "option", "value", "said"),
    [
        ("shadow", "shadow.duplicates_max", 2, "shadow.duplicates_max = 2"),
        ("shadow", "shadow.selection", "best", "shadow.selection"),
        ("kmn", "kmn.extra", -0.1, "kmn.extra = -0.1: need a share of the maps"),
        ("even", "even.rack_wait_s", -1, "even.rack_wait_s = -1"),
    ],
)
def test_settings_are_checked(scheduler: str, option: str, value: object, said: str):
    with pytest.raises(UsageError, match=said):
        tiny_cluster(scheduler=scheduler, options={option: value})


# Duplicates of each kind, and whatever can be lost is lost at every event: the job ends well.
#
# One duplicate replaces its original at once, one ends before T, two end after it, and are chosen
# or not.  The core's laws are checked after every event: of each task one output counts, and none
# that is kept is fetched.


NODES = [f"r{rack}n{at}" for rack in range(3) for at in range(4)]
Hit = Callable[[TinyCluster], None]


def started(partition_bytes: int, hit: Hit | None = None, after: int = 0) -> TinyCluster:
    """A job with all kinds of duplicates; ``hit`` is called after so many events."""
    options = {"shadow.duplicates_max": 1.0, "speculation.on": False}
    c = tiny_cluster(racks=3, nodes=4, slots=2, scheduler="shadow", options=options, kill_s=0.5)
    factors = iter([1.0] * 10 + [1.0, 0.5, 2.0, 2.0])  # ten originals, then the duplicates
    c.stretch = lambda: next(factors, 1.0)
    blocks = [["r0n0", "r1n1"], *(["r0n0"], ["r0n1"], ["r0n2"], ["r0n3"]), ["r0n1"], ["r0n2"]]
    c.store("in", blocks=[*blocks, ["r0n3"], ["r1n0"], ["r2n0"]], block_bytes=10 * GB)
    for node in NODES[4:]:  # all of the first eight maps start in the first rack
        c.set_slots(node, 0)
    c.at(
        0.5, lambda: [c.set_slots(node, 2) for node in NODES[4:] if c.core.state.nodes[node].alive]
    )
    plain, seen = c.feed, 0

    def feed(event: Event) -> None:
        nonlocal seen
        plain(event)
        seen += 1
        if hit is not None and seen == after:
            hit(c)

    c.feed = feed
    c.submit("j0", input="in", reduces=3, map_s=10, reduce_s=3, partition_bytes=partition_bytes)
    return c


def losing(*nodes: str) -> Hit:
    def hit(c: TinyCluster) -> None:
        for node in nodes:
            c.lose(node)
        c.at(c.now_s + 4.0, lambda: [c.join(node) for node in nodes])

    return hit


def failing(which: int) -> Hit:
    """Of the attempts that compute."""

    def hit(c: TinyCluster) -> None:
        attempts = sorted(c._workers)
        if attempts:
            attempt = attempts[which % len(attempts)]
            del c._workers[attempt]
            c.feed(AttemptFailed(attempt=attempt, reason="boom"))

    return hit


def hits(events: int) -> Iterator[tuple[int, Hit]]:
    """At each event a rack, two or three nodes and an attempt, in turn: all would take 20 s."""
    for after in range(1, events + 1):
        rack = after % 3
        yield after, losing(*NODES[4 * rack : 4 * rack + 4])
        for at in range(after % 5, len(NODES), 5):
            yield after, losing(NODES[at])
        yield after, failing(after)


@pytest.mark.parametrize(("partition_bytes", "chosen"), [(60 * GB, 4), (10, 2)])
def test_at_every_event_nodes_racks_and_attempts_may_be_lost(partition_bytes: int, chosen: int):
    c = started(partition_bytes)
    assert c.run().ended == {"j0": ""}
    figures = figures_of(c.core.state.policies)[0]["shadow"]
    assert (figures["duplicates"], figures["duplicates_chosen"]) == (4, chosen)
    assert (figures["replaced"], figures["taken_early"]) == (1, 1)
    for after, hit in hits(len(c.events)):
        lossy = started(partition_bytes, hit, after)
        run = lossy.run()
        assert run.ended == {"j0": ""}, after
        record = lossy.core.records[JobId("j0")]
        assert record.shuffle_bytes == 10 * 3 * partition_bytes, after
        outputs = [each for _, each in lossy.events if isinstance(each, AttemptSucceeded)]
        assert len({each.attempt for each in outputs}) == len(outputs), after
