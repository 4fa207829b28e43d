"""``railyard chaos``: its plan of faults, what shows a recovery, and a run with three faults."""

from __future__ import annotations

import itertools
import json
import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railyard.benchmarks.attacks.corruption import DAMAGES
from railyard.benchmarks.recovery.kills import covered_s
from railyard.benchmarks.recovery.soak import growth_of, growth_row, plan_soak
from railyard.chaos.plan import (
    kinds_named,
    nodes_to_lose,
    plan_faults,
    possible_kinds,
    replica_to_damage,
)
from railyard.chaos.runs import wasted_s
from railyard.chaos.targets import Journal, replicated
from railyard.cli.commands.bench import benchmark_names, parts_of
from railyard.cli.exitstatus import Status
from railyard.cluster.config import DEATHS_MAX, WITHIN_S
from railyard.cluster.errors import UsageError
from railyard.cluster.faults import DEADLY, DESTROYING, KILLS, KINDS
from railyard.cluster.runfolder import RunFolder
from railyard.cluster.topology import load_topology
from railyard.netemu.model.network import Network
from railyard.resourcemanager.process.messages import AttemptReport
from tests.command_line import SMALL, interrupt
from tests.waiting import wait_for

TOPOLOGY = load_topology(str(SMALL))
#: Longer than any fault that lasts.
LASTS_S_MAX = 6.0

kinds = st.lists(st.sampled_from(sorted(KINDS)), min_size=1, unique=True)
plans = st.builds(
    lambda seed, kinds, count, every_s: (
        kinds,
        count,
        every_s,
        plan_faults(seed, TOPOLOGY, kinds, count, every_s),
    ),
    st.integers(0, 2**32),
    kinds,
    st.integers(1, 60),
    st.floats(0.05, 20),
)
NODES = [node.id for node in TOPOLOGY.nodes()]
blocks = st.dictionaries(
    st.integers(0, 40).map(lambda number: f"b{number}"),
    st.lists(st.sampled_from(NODES), min_size=1, max_size=4, unique=True),
)
draws = st.floats(0, 1, exclude_max=True)


# The plan ----------------------------------------------------------------------------------------
@settings(max_examples=40)
@given(plans)
def test_a_plan_has_so_many_faults_of_the_kinds_asked_for_in_order(planned):
    kinds, count, every_s, plan = planned
    assert len(plan) == count
    assert {fault.kind for fault in plan} <= set(kinds)
    times_s = [fault.at_s for fault in plan]
    assert times_s == sorted(times_s)
    deadly = {*KILLS, "lose-node"}
    if not deadly & set(kinds):
        gaps_s = [later - earlier for earlier, later in itertools.pairwise([0.0, *times_s])]
        assert max(gaps_s) <= 2 * every_s + LASTS_S_MAX
    of_each = [sum(fault.kind == kind for fault in plan) for kind in kinds]
    assert max(of_each) - min(of_each) <= 1


@settings(max_examples=40)
@given(st.integers(0, 2**32), kinds, st.integers(1, 30))
def test_the_same_seed_makes_the_same_plan(seed, kinds, count):
    first, second = (plan_faults(seed, TOPOLOGY, kinds, count, 1.0) for _ in range(2))
    assert first == second


def test_another_seed_makes_another_plan():
    every = {plan_faults(seed, TOPOLOGY, tuple(KINDS), 20, 1.0) for seed in range(20)}
    assert len(every) == 20


@settings(max_examples=40)
@given(plans)
def test_targets_are_there_and_no_daemon_dies_more_often_than_it_is_restarted(planned):
    daemons = {f"{kind}-r{rack}" for kind in ("nodemanager", "datanode") for rack in range(3)}
    daemons |= {"resourcemanager", "namenode", "network", "gateway"}
    links = set(Network(TOPOLOGY).cross_rack)
    deaths_s = {}
    for fault in planned[-1]:
        if fault.kind in ("cut", "slow"):
            assert fault.target in links
        elif fault.kind in ("kill-attempt", "kill-jobhelper", "corrupt"):
            assert fault.target == ""
        else:
            assert fault.target in daemons
        if fault.kind in KILLS or fault.kind == "lose-node":
            deaths_s.setdefault(fault.target, []).append(fault.at_s)
    deaths_s.pop("", None)
    for times_s in deaths_s.values():
        for at_s in times_s:
            assert sum(at_s - WITHIN_S < other <= at_s for other in times_s) < DEATHS_MAX - 1


@settings(max_examples=40)
@given(plans)
def test_nothing_happens_to_what_has_a_fault_that_lasts(planned):
    until_s = {}
    for fault in planned[-1]:
        if fault.target:
            assert fault.at_s >= until_s.get(fault.target, 0.0)
            until_s[fault.target] = fault.at_s + fault.lasts_s


@settings(max_examples=60)
@given(blocks, st.sets(st.integers(0, 40).map(lambda number: f"b{number}")), draws)
def test_the_last_replica_is_never_damaged(replicas, spared, draw):
    chosen = replica_to_damage(replicas, spared, draw)
    if chosen is None:
        assert all(len(held) < 2 for name, held in replicas.items() if name not in spared)
    else:
        name, node = chosen
        assert node in replicas[name]
        assert len(replicas[name]) > 1
        assert name not in spared


@settings(max_examples=60)
@given(blocks, st.sets(st.integers(0, 40).map(lambda number: f"b{number}")))
def test_a_node_is_lost_only_where_each_of_its_blocks_is_elsewhere(replicas, spared):
    for node in nodes_to_lose(replicas, spared, NODES):
        for name, held in replicas.items():
            assert node not in held or (set(held) - {node} and name not in spared)


def test_the_only_replica_is_not_destroyed():
    assert set(possible_kinds(TOPOLOGY)) == set(KINDS)
    single = load_topology(str(SMALL), [("storage.replication", "1")])
    assert set(KINDS) - set(possible_kinds(single)) == set(DESTROYING)


def test_words_for_kinds():
    assert kinds_named("all", tuple(KINDS)) == tuple(KINDS)
    assert kinds_named("stop, kill", ("kill-attempt", "stop")) == ("stop", "kill-attempt")
    with pytest.raises(UsageError, match="kind of fault"):
        kinds_named("kil", tuple(KINDS))
    with pytest.raises(UsageError, match="--kinds kill-namenode: cannot be here"):
        kinds_named("kill-namenode", ("stop",))


# Recovery ----------------------------------------------------------------------------------------
@pytest.fixture
def folder(tmp_path):
    for node in ("r0n0", "r1n0", "r2n0"):
        (tmp_path / "nodes" / node / "blocks").mkdir(parents=True)
    (tmp_path / "jobs").mkdir()
    return RunFolder(tmp_path)


def test_a_block_has_recovered_once_it_has_its_sound_replicas_or_is_removed(folder, monkeypatch):
    monkeypatch.setattr("railyard.chaos.targets._CHECK_AGAIN_S", 0.0)
    files = [folder.node(node) / "blocks" / "b7" for node in ("r0n0", "r1n0", "r2n0")]
    for file in files[:2]:
        file.write_bytes(b"sound" * 100)
    seen = []
    watch = replicated(folder, {"b7": (2, files[0].read_bytes())}, set(), lambda: seen.append(1))
    assert next(watch, "recovered")
    for damage in DAMAGES.values():
        for file in files[:2]:
            file.write_bytes(b"sound" * 100)
        sound = {"b7": (2, files[0].read_bytes())}
        watch = replicated(folder, sound, set(), lambda: seen.append(1))
        damage(random.Random(3), files[1:2])
        if files[1].exists() and files[1].read_bytes() == b"sound" * 100:
            continue  # swapped with itself, or cut at its end
        assert not next(watch, "recovered")
        files[2].write_bytes(b"sound" * 100)
        assert next(watch, "recovered")
        files[2].unlink()
    assert seen
    watch = replicated(folder, {"b7": (3, None)}, set())
    assert not next(watch, "recovered")
    for file in files:
        file.unlink(missing_ok=True)
    assert next(watch, "recovered")


def test_a_task_is_over_by_the_journal(folder):
    journal = Journal(folder)
    assert not journal.has_ended("j1", "j1.m0")
    with folder.events.open("a") as file:
        file.write('{"type": "attempt-succeeded", "attempt": "j1.m0.1"}\n{"type": "job-co')
    assert journal.has_ended("j1", "j1.m0")
    assert not journal.has_ended("j1", "j1.m1")
    with folder.events.open("a") as file:
        file.write('mmitted", "job": "j1"}\n')
    assert journal.has_ended("j1", "j1.m1")


# The command -------------------------------------------------------------------------------------
def test_three_faults_of_a_job(railyard, tmp_path):
    words = ("chaos", "wordcount", "--size", "500MB", "--topology", SMALL, "--seed", "3")
    faults = (
        "--kills",
        "3",
        "--every",
        "0.5",
        "--kinds",
        "kill-resourcemanager,kill-attempt,corrupt",
    )
    railyard.environment["COLUMNS"] = "80"
    done = railyard.run(*words, *faults, "--json", tmp_path / "chaos.json")
    assert done.returncode == Status.OK, done.stdout + done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert len(re.findall(r"^ +\d+\.\d s  .* s$", done.stdout, re.MULTILINE)) == 3
    assert "outputs: byte for byte those of the run without faults" in done.stdout
    report = json.loads((tmp_path / "chaos.json").read_text())
    assert all(fault["recovered_after_s"] is not None for fault in report["faults"])
    assert all(run["same_output"] for run in report["runs"])
    assert report["files"]["acknowledged"] > 0 == len(report["files"]["lost"])
    assert railyard.nothing_left()


def test_an_interrupt_leaves_nothing(railyard):
    words = ("chaos", "wordcount", "--size", "100MB", "--topology", SMALL, "--kinds", "stop")
    process = railyard.start(*words)
    for line in process.stdout:
        if "SIGSTOP" in line:
            break
    status, _ = interrupt(process)
    assert status == 130
    wait_for(railyard.nothing_left, why="all is gone")


# The rule by which a soak is flat, and that what measures recoveries can be asked for.


TIMES_S = [2.0 * number for number in range(900)]  # half an hour


def noisy(value_of, seed=1):
    dice = random.Random(seed)
    return [value_of(time_s) + dice.gauss(0, 0.5) for time_s in TIMES_S]


def test_a_line_that_rises_is_not_flat_and_its_slope_is_found():
    found = growth_of(TIMES_S, noisy(lambda time_s: 40 + 12 * time_s / 3600))
    assert found.low_per_hour < 12 < found.high_per_hour
    assert found.high_per_hour - found.low_per_hour < 5
    assert found.lasted_s == pytest.approx(600, abs=4)
    assert not found.is_below(9)
    assert found.is_below(16)


def test_what_rose_only_at_first_is_flat():
    assert growth_of(TIMES_S, noisy(lambda time_s: min(40 + time_s / 60, 55))).is_below(4)


def test_noise_alone_is_flat_unless_it_hides_what_is_asked_for():
    for seed in range(50):
        assert growth_of(TIMES_S, noisy(lambda _: 40, seed)).is_below(4)
    dice = random.Random(1)
    assert not growth_of(TIMES_S, noisy(lambda _: dice.gauss(40, 20))).is_below(4)


def test_constant_descriptors_are_flat():
    assert growth_of(TIMES_S, [31.0] * len(TIMES_S)).is_below(0)


def test_too_few_samples_are_refused():
    with pytest.raises(ValueError, match="need 20"):
        growth_of(TIMES_S[:30], [1.0] * 30)


@pytest.mark.parametrize(
    ("spans", "covered"),
    [
        ([], 0.0),
        ([(0.0, 20.0)], 5.0),
        ([(11.0, 12.0), (11.5, 13.0)], 2.0),  # what both cover counts once
        ([(13.0, 14.0), (9.0, 11.0), (30.0, 31.0)], 2.0),
        ([(10.0, 14.0), (11.0, 12.0)], 4.0),
    ],
)
def test_time_in_which_something_recovered(spans, covered):
    assert covered_s(spans, 10.0, 15.0) == pytest.approx(covered)


def test_only_the_last_success_of_a_task_is_work_that_counts():
    def attempt(number, state, launched_s, ended_s):
        return AttemptReport(
            attempt=f"j1.m0.{number}", node="r0n0", state=state, level="remote", copy=False,
            launched_s=launched_s, ended_s=ended_s,
        )  # fmt: skip

    died = attempt(0, "failed", 1.0, 3.0)
    output_lost = attempt(1, "output lost", 3.0, 7.0)
    counts = attempt(2, "succeeded", 8.0, 9.0)
    assert wasted_s([died, output_lost, counts]) == 6.0
    assert wasted_s([counts]) == 0.0
    assert wasted_s([died]) == 2.0


def test_the_end_of_a_soak_has_no_kills_of_daemons():
    place = load_topology("flat-4x4")
    kinds = possible_kinds(place)
    plan = plan_soak(3, place, kinds, minutes=30)
    assert len(plan) == 360
    assert [fault.at_s for fault in plan] == sorted(fault.at_s for fault in plan)
    late = {fault.kind for fault in plan if fault.at_s > plan[-1].at_s * 2 / 3}
    assert late == set(kinds) - set(DEADLY) | {"kill-jobhelper", "kill-attempt"}
    assert {fault.kind for fault in plan} == set(kinds)


def test_what_grows_is_broken_but_for_what_the_supervisors_children_change():
    grown = growth_of(TIMES_S, noisy(lambda time_s: 40 + 12 * time_s / 3600))
    assert growth_row("namenode", "unshared memory", grown)["ok"] is False
    assert growth_row("supervisor", "resident memory", grown)["ok"] is False
    assert growth_row("supervisor", "unshared memory", grown)["ok"] is None


def test_it_can_be_asked_for():
    assert "recovery" in benchmark_names()
    assert parts_of("recovery") == ["recovery.kills", "recovery.soak"]
