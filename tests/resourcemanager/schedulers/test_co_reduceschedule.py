"""Co-scheduler's reduce schedules: against the paper's loop, T(C), and every other choice."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations_with_replacement, permutations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from railyard.cluster.ids import AttemptId, NodeId, RackId, StageId
from railyard.oracles.lowerbound import lower_bound_s
from railyard.resourcemanager.schedulers.co_scheduler.reduceschedule import (
    UNKNOWN_S,
    Hybrid,
    Releases,
    ReleaseTimes,
    Schedule,
    best_schedule,
    cct_s,
    explore_schedule,
    placement,
    possible_schedules,
)

GB = 10**9


def circuits_of(rate: float, delta_s: float, elephant: float, racks: int = 60, **more) -> Hybrid:
    return Hybrid(
        racks=racks,
        slots=200,
        eps_bytes_per_s=rate / 10,
        ocs_bytes_per_s=rate,
        delta_s=delta_s,
        elephant_bytes=elephant,
        **more,
    )


CIRCUITS = circuits_of(12.5 * GB, 0.01, 1.125 * GB)
UNIT = circuits_of(1.0, 0.25, 1.0)

outputs = st.lists(st.integers(10, 200).map(lambda tenths: tenths / 10), min_size=1, max_size=5)


def traffic(sizes, tasks) -> np.ndarray:
    """C, map racks first, then reduce racks: none in common."""
    n = len(sizes)
    matrix = np.zeros((n + len(tasks),) * 2)
    matrix[:n, n:] = np.outer(sizes, tasks) / sum(tasks)
    return matrix


# How many on each rack ---------------------------------------------------------------------------
def test_the_terasort_of_10_gb():
    """5 GB on each of 2 racks, 10 reduces: R_red up to 4; 4 fails since 10 = 3 + 3 + 2 + 2 gives
    2 x 0.5 GB, which is no elephant."""
    found = possible_schedules([5 * GB, 5 * GB], 10, CIRCUITS)
    assert [schedule.tasks for schedule in found] == [(10,), (5, 5), (4, 3, 3)]
    assert found[1].cct_s == pytest.approx(5 / 12.5 + 2 * 0.01)  # 4 flows of 2.5 GB
    assert found[0].cct_s == pytest.approx(10 / 12.5 + 2 * 0.01)


def test_a_width_for_which_no_whole_numbers_exist_is_left_out():
    """SM_1 = 4.5 and N_R = 10: floor(4.5 / 1.125) = 4, but 4 x ceil(2.5) > 10."""
    assert placement([4.5 * GB], 10, 4, CIRCUITS) is None
    assert placement([4.5 * GB], 12, 4, CIRCUITS) == (3, 3, 3, 3)
    assert placement([1.125 * GB], 7, 1, CIRCUITS) == (7,)


def test_small_outputs_are_left_to_packets():
    with_small = possible_schedules([5 * GB, 0.2 * GB, 5 * GB], 10, CIRCUITS)
    assert with_small == possible_schedules([5 * GB, 5 * GB], 10, CIRCUITS)
    assert possible_schedules([1.1 * GB] * 9, 10, CIRCUITS) == []


def test_what_was_predicted_counts_as_far_as_the_output_bears_it():
    def widths(among):
        found = possible_schedules([5 * GB, 5 * GB], 10, CIRCUITS, among=among)
        return [len(schedule.tasks) for schedule in found]

    assert widths((2, 3, 4, 9)) == [2, 3]
    assert widths((8, 9)) == [1, 2, 3]


def papers_placement(sizes, reduces, width):
    """Section IV-E.2, step by step; None where the reduces do not suffice."""
    share = [size / reduces for size in sizes]
    racks = [0] * width
    left = reduces
    for rack in range(width):
        while min(share) * racks[rack] < UNIT.elephant_bytes - 1e-9:
            if not left:
                return None
            racks[rack] += 1
            left -= 1
    for _ in range(left):
        racks[racks.index(min(racks))] += 1
    return tuple(sorted(racks, reverse=True))


@given(sizes=outputs, reduces=st.integers(1, 30), width=st.integers(1, 6))
def test_the_even_split_is_what_the_papers_loop_gives(sizes, reduces, width):
    assert placement(sizes, reduces, width, UNIT) == papers_placement(sizes, reduces, width)


@given(sizes=outputs, reduces=st.integers(1, 12), width=st.integers(1, 5))
def test_no_other_placement_has_a_smaller_cct(sizes, reduces, width):
    found = placement(sizes, reduces, width, UNIT)
    splits = combinations_with_replacement(range(1, reduces + 1), width)
    fitting = [
        tasks
        for tasks in splits
        if sum(tasks) == reduces and min(sizes) * tasks[0] / reduces >= UNIT.elephant_bytes - 1e-9
    ]
    assert (found is None) == (not fitting)
    if found is not None:
        least_s = min(lower_bound_s(traffic(sizes, tasks), 1.0, 0.25) for tasks in fitting)
        assert cct_s(sizes, found, UNIT) == pytest.approx(least_s)


@given(sizes=outputs, reduces=st.integers(1, 40), wavelengths=st.integers(1, 4))
def test_cct_is_t_of_c(sizes, reduces, wavelengths):
    circuits = circuits_of(2.0, 0.1, 1.0, racks=8, wavelengths=wavelengths)
    for schedule in possible_schedules(sizes, reduces, circuits):
        bound_s = lower_bound_s(traffic(sizes, schedule.tasks), 2.0, 0.1, wavelengths)
        assert schedule.cct_s == pytest.approx(bound_s)  # eq. 2 and 15
        flows = traffic(sizes, schedule.tasks)
        assert flows[flows > 0].min() >= circuits.elephant_bytes - 1e-9


@pytest.mark.parametrize(
    ("maps", "reduces", "bound"),
    [
        pytest.param((3, 3, 3), (0, 2, 1), (12, 2), id="case 1, Job1"),
        pytest.param((5, 5, 5), (2, 0, 1), (20, 2), id="case 1, Job2"),
        pytest.param((3, 3, 3), (1, 1, 1), (6, 2), id="case 2, Job1"),
        pytest.param((5, 5, 5), (1, 1, 1), (10, 2), id="case 2, Job2"),
    ],
)
@pytest.mark.parametrize("delta_s", [0.0, 0.01, 0.5])
def test_fig_2(maps, reduces, bound, delta_s):
    """T(C) of both placements of Fig. 2 (a map sends 1 unit to each reduce).

    The placement tables are not in the text; these are what its numbers leave.
    """
    units, deltas = bound
    found_s = lower_bound_s(np.outer(maps, reduces), 1.0, delta_s)
    assert found_s == pytest.approx(units + deltas * delta_s)


def test_fig_2_the_even_placement_is_the_one_that_is_chosen():
    """Goal 2: of the jobs' three reduces one goes to each rack, as in case 2."""
    for each_map in (3.0, 5.0):
        sizes = [3 * each_map] * 3  # a map on each of 3 racks, for 3 reduces
        circuits = circuits_of(1.0, 0.01, 1.0, racks=3)
        found = possible_schedules(sizes, 3, circuits)
        idle = np.zeros((3, 3))
        choice = best_schedule(found, ReleaseTimes(idle))
        assert choice is not None
        assert choice.tasks == (1, 1, 1)
        assert sorted(choice.racks) == [0, 1, 2]


# Which racks -------------------------------------------------------------------------------------
@st.composite
def releases(draw) -> np.ndarray:
    racks, slots = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    time_s = st.integers(0, 9).map(float) | st.just(UNKNOWN_S) | st.just(np.inf)
    rows = [sorted(draw(st.lists(time_s, min_size=slots, max_size=slots))) for _ in range(racks)]
    return np.array(rows)


@given(release_s=releases(), data=st.data())
def test_no_other_racks_release_the_slots_earlier(release_s, data):
    racks, slots = release_s.shape
    drawn = data.draw(st.lists(st.integers(1, slots), min_size=1, max_size=racks))
    tasks = tuple(sorted(drawn, reverse=True))
    choice = explore_schedule(Schedule(tasks, 2.0), ReleaseTimes(release_s))
    every = [
        max(release_s[rack, count - 1] for rack, count in zip(chosen, tasks, strict=True))
        for chosen in permutations(range(racks), len(tasks))
    ]
    if choice is None:
        assert min(every) == np.inf
    else:
        assert choice.released_s == min(every)
        assert choice.done_s == choice.released_s + 2.0
        assert len(set(choice.racks)) == len(tasks)
        there = [release_s[r, d - 1] for r, d in zip(choice.racks, tasks, strict=True)]
        assert max(there) == choice.released_s


@given(release_s=releases(), sizes=outputs, reduces=st.integers(1, 8))
def test_the_best_schedule_is_the_best_of_all_racks_and_widths(release_s, sizes, reduces):
    found = possible_schedules(sizes, reduces, replace(UNIT, racks=len(release_s)))
    choice = best_schedule(found, ReleaseTimes(release_s))
    every = [
        schedule.cct_s + max(release_s[r, d - 1] for r, d in zip(at, schedule.tasks, strict=True))
        for schedule in found
        if max(schedule.tasks) <= release_s.shape[1]
        for at in permutations(range(len(release_s)), len(schedule.tasks))
    ]
    least_s = min(every, default=np.inf)
    assert (choice is None) == (least_s == np.inf)
    if choice is not None:
        assert choice.done_s == least_s


def test_racks_with_more_free_slots_go_first_among_equals():
    release_s = np.array([[0, 0, 7.0], [0, 0, 0], [0, 9, 9]])
    choice = explore_schedule(Schedule((1, 1), 0.0), ReleaseTimes(release_s))
    assert choice is not None
    assert choice.racks == (1, 0)


@given(release_s=releases(), wavelengths=st.integers(1, 4), data=st.data())
def test_stand_ins_are_other_racks_and_change_nothing_else(release_s, wavelengths, data):
    racks, slots = release_s.shape
    drawn = data.draw(st.lists(st.integers(1, slots), min_size=1, max_size=racks))
    schedule = Schedule(tuple(sorted(drawn, reverse=True)), 0.0)
    one, several = (
        explore_schedule(schedule, ReleaseTimes(release_s), w) for w in (1, wavelengths)
    )
    assume(one is not None)
    assert (one.racks, one.released_s) == (several.racks, several.released_s)
    assert not any(one.instead)
    every = [*several.racks, *(rack for others in several.instead for rack in others)]
    assert len(set(every)) == len(every)
    assert all(len(others) <= wavelengths - 1 for others in several.instead)
    for count, others in zip(several.tasks, several.instead, strict=True):
        assert all(np.isfinite(release_s[rack, count - 1]) for rack in others)


# When slots are free -----------------------------------------------------------------------------
R0, R1 = RackId("r0"), RackId("r1")
N0, N1 = NodeId("r0n0"), NodeId("r0n1")
MAPS, REDUCES = StageId("j0.m"), StageId("j0.r")


def two_racks() -> Releases:
    made = Releases([R0, R1])
    made.add_slots(R0, 2)
    made.add_slots(R1, 3)
    return made


def test_an_attempt_goes_on_as_fast_as_it_went():
    """Equation 12: 4 s for a quarter leave 12 s; a second later, 11."""
    slots = two_racks()
    slots.launched(AttemptId("a"), N0, MAPS, now_s=1.0)
    slots.progressed(AttemptId("a"), 0.25, now_s=5.0)
    assert slots.release_s(5.0)[0].tolist() == [0.0, 12.0, np.inf]
    assert slots.release_s(6.0).tolist() == [[0.0, 11.0, np.inf], [0.0, 0.0, 0.0]]
    assert slots.release_s(99.0)[0].tolist() == [0.0, 0.0, np.inf]
    slots.progressed(AttemptId("a"), 0.5, now_s=7.0)
    assert slots.release_s(7.0)[0, 1] == 6.0


def test_without_progress_the_estimate_of_its_stage_counts():
    slots = two_racks()
    slots.launched(AttemptId("a"), N0, MAPS, now_s=0.0)
    slots.launched(AttemptId("b"), N0, REDUCES, now_s=0.0)
    assert slots.release_s(1.0)[0].tolist() == [UNKNOWN_S, UNKNOWN_S, np.inf]
    assert not slots.expects(MAPS)
    slots.expect(MAPS, 4.0)
    slots.expect(MAPS, 6.0)
    slots.expect(StageId("j7.m"), 1.0)
    assert slots.expects(MAPS)
    assert slots.release_s(1.0)[0].tolist() == [5.0, UNKNOWN_S, np.inf]
    slots.ended(AttemptId("a"))
    assert slots.release_s(1.0)[0].tolist() == [0.0, UNKNOWN_S, np.inf]
    slots.forget(MAPS)
    slots.launched(AttemptId("c"), N0, StageId("j1.m"), now_s=1.0)
    assert slots.release_s(1.0)[0].tolist() == [UNKNOWN_S, UNKNOWN_S, np.inf]


def test_estimates_can_be_falsified():
    slots = two_racks()
    slots.launched(AttemptId("a"), N0, MAPS, now_s=0.0, error=1.5)
    slots.progressed(AttemptId("a"), 0.5, now_s=10.0)
    assert slots.release_s(10.0)[0, 1] == 15.0


def test_slots_come_and_go():
    slots = two_racks()
    slots.add_slots(R0, 3)
    assert slots.release_s(0.0)[0].tolist() == [0.0] * 5
    slots.add_slots(R0, -5)
    assert slots.release_s(0.0)[0].tolist() == [np.inf] * 5
    assert slots.slots(R1) == 3


@given(st.lists(st.tuples(st.sampled_from("lpe"), st.integers(0, 9)), max_size=60))
def test_the_table_agrees_with_a_plain_list(steps):
    slots, running, now_s = two_racks(), {}, 0.0
    for what, number in steps:
        now_s += 1.0
        name, rack = AttemptId(f"a{number}"), (R0, R1)[number % 2]
        full = sum(at == rack for at, *_ in running.values()) == slots.slots(rack)
        if what == "l" and name not in running and not full:
            slots.launched(name, NodeId(f"{rack}n0"), MAPS, now_s)
            running[name] = (rack, now_s, None)
        elif what == "p" and name in running:
            slots.progressed(name, 0.5, now_s)
            launched_s = running[name][1]
            running[name] = (rack, launched_s, launched_s + 2 * (now_s - launched_s))
        elif what == "e" and name in running:
            slots.ended(name)
            del running[name]
    for row, rack in enumerate((R0, R1)):
        left = [
            UNKNOWN_S if ends_s is None else max(0.0, ends_s - now_s)
            for at, _, ends_s in running.values()
            if at == rack
        ]
        count = slots.slots(rack)
        expected = sorted([0.0] * (count - len(left)) + left) + [np.inf] * (3 - count)
        assert slots.release_s(now_s)[row].tolist() == expected


def test_attempts_beyond_a_nodes_slots_free_none_when_they_end():
    """Of three on N0, which has one slot left, the first two to end free none; N1 has a slot."""
    slots = Releases([R0])
    slots.add_slots(R0, 3 + 1)
    for name, node, progress in (("a", N0, 0.5), ("b", N0, 0.2), ("c", N0, 0.1), ("d", N1, 0.25)):
        slots.launched(AttemptId(name), node, MAPS, now_s=0.0)
        slots.progressed(AttemptId(name), progress, now_s=1.0)
    assert slots.release_s(1.0)[0].tolist() == [1.0, 3.0, 4.0, 9.0]
    slots.add_slots(R0, -2)
    slots.set_beyond(N0, 2)
    assert slots.release_s(1.0)[0, :3].tolist() == [3.0, 9.0, np.inf]
    assert slots.release_s(1.0)[:, 0].tolist() == [3.0]
    slots.ended(AttemptId("d"))
    assert slots.release_s(1.0)[0, :3].tolist() == [0.0, 9.0, np.inf]


@given(
    st.lists(st.tuples(st.sampled_from("lpes"), st.integers(0, 9), st.integers(0, 4)), max_size=60)
)
def test_the_table_agrees_with_nodes_of_which_the_slots_change(steps):
    """Each node by itself: of its attempts, the last ``slots`` to end free a slot."""
    slots, count = Releases([R0]), {N0: 2, N1: 3}
    slots.add_slots(R0, 5)
    ends: dict[NodeId, dict[AttemptId, float]] = {N0: {}, N1: {}}
    launched, now_s = {}, 0.0
    for what, number, more in steps:
        now_s += 1.0
        name, node = AttemptId(f"a{number}"), (N0, N1)[number % 2]
        if what == "l" and name not in ends[node] and len(ends[node]) < count[node]:
            slots.launched(name, node, MAPS, now_s)
            ends[node][name], launched[name] = UNKNOWN_S, now_s
        elif what == "p" and name in ends[node]:
            slots.progressed(name, 0.5, now_s)
            ends[node][name] = launched[name] + 2 * (now_s - launched[name])
        elif what == "e" and name in ends[node]:
            slots.ended(name)
            del ends[node][name]
            slots.set_beyond(node, len(ends[node]) - count[node])
        elif what == "s":
            slots.add_slots(R0, more - count[node])
            count[node] = more
            slots.set_beyond(node, len(ends[node]) - more)
    left = []
    for node, running in ends.items():
        known = sorted(
            UNKNOWN_S if at_s == UNKNOWN_S else max(0.0, at_s - now_s) for at_s in running.values()
        )
        left += known[max(0, len(known) - count[node]) :]
        left += [0.0] * (count[node] - len(known))
    found = slots.release_s(now_s)[0].tolist()
    assert found[: len(left)] == sorted(left)
    assert all(np.isinf(found[len(left) :]))
