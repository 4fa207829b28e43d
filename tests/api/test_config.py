"""Schedulers with flow schedulers, as they are typed."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.resourcemanager import schedulers
from railyard.resourcemanager.schedulers import all_recipes, recipe_named
from railyard.runs import config
from railyard.runs.config import (
    Pair,
    cluster_config,
    grain_of,
    pairs_of,
    topology_for,
    typed_pair,
    warn_of_idle_priorities,
)
from railyard.runs.requests import RunRequest


@pytest.fixture(name="toy")
def a_recipe_that_goes_with_sjf(monkeypatch) -> str:
    """Schedulers that go with another flow scheduler than maxmin, and one with none that is."""
    fair = recipe_named("fair")
    added = {
        "toy": replace(fair, name="toy", flow_scheduler="sjf"),
        "toy:lost": replace(fair, name="toy:lost", flow_scheduler="sjff"),
    }
    every = {**all_recipes(), **added}
    listed = replace(schedulers._ALL, own=lambda: every)
    monkeypatch.setattr(schedulers, "_ALL", listed)
    monkeypatch.setattr(config, "all_recipes", listed.all)
    return "toy"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("delay", ("delay", None)),
        ("delay + sjf", ("delay", "sjf")),
        ("  delay  +  aalo+weighted ", ("delay", "aalo+weighted")),
        ("co-scheduler:dp+ocas", ("co-scheduler:dp+ocas", None)),
        ("co-scheduler:dp+ocas + sunflow", ("co-scheduler:dp+ocas", "sunflow")),
    ],
)
def test_what_is_typed(text: str, expected: tuple[str, str | None]):
    assert typed_pair(text) == expected


def test_the_flow_scheduler_is_the_pairs_the_options_or_the_recipes(toy: str):
    assert pairs_of(["fair"]) == [Pair("fair", "maxmin")]
    assert pairs_of([toy]) == [Pair("toy", "sjf")]
    assert pairs_of([toy], ["varys"]) == [Pair("toy", "varys")]
    assert pairs_of(["toy + fifo"]) == [Pair("toy", "fifo")]
    assert [str(pair) for pair in pairs_of(["toy", "delay + sjf", "fair"])] == [
        "toy + sjf",
        "delay + sjf",
        "fair + maxmin",
    ]
    assert pairs_of(["toy", "delay + sjf"], ["maxmin", "varys"]) == [
        Pair("toy", "maxmin"),
        Pair("toy", "varys"),
        Pair("delay", "sjf"),
    ]


def test_a_pair_that_comes_twice_is_refused(toy: str):
    assert pairs_of(["fair", "toy + sjf"]) == [Pair("fair", "maxmin"), Pair("toy", "sjf")]
    for again in ("fair", "fair + maxmin", "toy"):
        with pytest.raises(UsageError, match="is given twice: need it once"):
            pairs_of(["fair", "toy + sjf", again])


def test_a_variant_goes_with_what_its_scheduler_goes_with():
    mine = replace(recipe_named("fair"), name="mine", flow_scheduler="sjf")
    assert mine.variant("less", "a test", {}).flow_scheduler == "sjf"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("deley", 'unknown scheduler "deley": did you mean "delay"?'),
        ("deley + sjf", 'unknown scheduler "deley": did you mean "delay"?'),
        ("delay + sfj", 'unknown flow scheduler "sfj": did you mean "sjf"?'),
        ("delay + sjf + maxmin", 'unknown flow scheduler "sjf + maxmin"'),
        ("delay+sjf", 'delay+sjf: need spaces around the plus: "delay + sjf"'),
        ("delay+ sjf", 'delay+ sjf: need spaces around the plus: "delay + sjf"'),
        ("delay+aalo+weighted", 'need spaces around the plus: "delay + aalo+weighted"'),
        ("sjf", 'sjf: is a flow scheduler: need a scheduler before it, such as "fair + sjf"'),
        ("sjf + delay", "sjf: is a flow scheduler: need a scheduler before it"),
        ("delay +", 'need "SCHEDULER" or "SCHEDULER + FLOW SCHEDULER"'),
        ("delay + ", 'need "SCHEDULER" or "SCHEDULER + FLOW SCHEDULER"'),
        (" + sjf", 'need "SCHEDULER" or "SCHEDULER + FLOW SCHEDULER"'),
        ("", 'need "SCHEDULER" or "SCHEDULER + FLOW SCHEDULER"'),
        ("toy:lost", "toy:lost: goes with flow scheduler sjff, which is missing: need another"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(toy: str, text: str, words: str):
    with pytest.raises(UsageError) as raised:
        pairs_of([text])
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_flow_schedulers_for_one_are_one_too_many():
    with pytest.raises(UsageError, match=r'--flow-scheduler fifo: "delay . sjf" has one'):
        pairs_of(["delay + sjf"], ["fifo"])
    assert pairs_of(["delay + sjf", "fair"], ["fifo"])[1] == Pair("fair", "fifo")


# Settings that a topology has for the schedulers on it.


SHADOWS = load_topology("shadow-4x13")


def options_of(scheduler: str, *options: tuple[str, float]) -> dict[str, object]:
    config = cluster_config(SHADOWS, pair=Pair(scheduler, "maxmin"), options=options)
    return dict(config.scheduler_options)


def test_each_scheduler_has_those_of_the_cluster_that_it_knows():
    assert options_of("delay") == SHADOWS.settings
    assert options_of("fair") == {
        name: value for name, value in SHADOWS.settings.items() if name != "delay.node_wait_s"
    }


def test_what_is_asked_for_and_what_a_scheduler_sets_itself_goes_first():
    assert options_of("delay", ("shuffle.slowstart", 0.5))["shuffle.slowstart"] == 0.5
    assert "shuffle.slowstart" not in options_of("shadow")


def test_a_setting_that_no_scheduler_has_is_refused():
    wrong = msgspec.structs.replace(SHADOWS, settings={"shuffle.slow_start": 0.8})
    with pytest.raises(UsageError, match=r"shuffle\.slowstart"):
        cluster_config(wrong, pair=Pair("fair", "maxmin"))


# A scheduler that gives flows priorities, with a flow scheduler that has none: said once.


def test_priorities_that_count_for_nothing_are_told(capsys):
    warn_of_idle_priorities(
        [Pair("joint", "maxmin"), Pair("joint", "afap"), Pair("fair", "maxmin")]
    )
    assert capsys.readouterr().err == (
        "joint + maxmin: flows have priorities, maxmin none: they count for nothing; "
        "--flow-scheduler afap serves by them\n"
    )


# A workload's "grain" merges tasks, and slots and machines of the topology with them.


JOBS = "corral-w1,jobs=2,grain=12"


def test_a_rack_does_as_much_in_a_second(capsys):
    fine = load_topology("corral-7x30")
    made = topology_for(JOBS, "corral-7x30", (("background", "0.667"),))
    for topology in (fine, made):
        racks = topology.racks
        assert racks.nodes * racks.slots * topology.compute.map_rate == 240 * 20e6
        assert racks.nodes * topology.links.nic == 30 * fine.links.nic
    assert (made.racks.nodes, made.racks.slots) == (10, 2)
    assert made.storage.block == 12 * fine.storage.block
    assert made.links.background == 0.667
    assert "12 tasks are one; 10 machines a rack with 2 slots each" in capsys.readouterr().err


@pytest.mark.parametrize(
    "network",
    [
        pytest.param((("racks.slots", "4"),), id="slots"),
        pytest.param((("nic", "40Gbps"),), id="NICs, by their short name"),
        pytest.param((("compute.map_rate", "240MB/s"),), id="rate"),
    ],
)
def test_whoever_says_how_coarse_it_is_gets_that(network, capsys):
    assert topology_for(JOBS, "corral-7x30", network) == load_topology("corral-7x30", network)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("jobs", "name"),
    [(JOBS, "corral-50x40"), (JOBS, "tetrium-50"), ("corral-w1,grain=3", "shadow-4x13")],
)
def test_what_cannot_be_merged_is_kept_and_said(jobs, name, capsys):
    assert topology_for(jobs, name, ()) == load_topology(name)
    assert "kept as is" in capsys.readouterr().err


def test_without_grain_nothing_changes(capsys):
    assert topology_for("corral-w1", "corral-7x30", ()) == load_topology("corral-7x30")
    assert capsys.readouterr().err == ""
    assert [grain_of(text) for text in ("mix,jobs=2", "swim:a.tsv,grain=3")] == [1, 3]


def test_a_request_to_simulate_has_the_coarse_topology():
    request = RunRequest(words=(JOBS,), topology="corral-7x30")
    assert request.place == topology_for(JOBS, "corral-7x30", ())
