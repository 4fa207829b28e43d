"""Schedulers with flow schedulers, as they are typed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from railyard.cluster.errors import UsageError
from railyard.resourcemanager import schedulers
from railyard.resourcemanager.schedulers import all_recipes, recipe_named
from railyard.scripts.clusters import pairs
from railyard.scripts.clusters.pairs import Pair, pair_of, pairs_of, typed_pair


@pytest.fixture(name="toy")
def a_recipe_that_goes_with_sjf(monkeypatch) -> str:
    """Schedulers that go with another flow scheduler than maxmin, and one with none that is."""
    fair = recipe_named("fair")
    added = {
        "toy": replace(fair, name="toy", flow_scheduler="sjf"),
        "toy:lost": replace(fair, name="toy:lost", flow_scheduler="sjff"),
    }
    every = {**all_recipes(), **added}
    for module in (schedulers, pairs):
        monkeypatch.setattr(module, "all_recipes", lambda: every)
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
    assert pair_of("fair") == Pair("fair", "maxmin")
    assert pair_of(toy) == Pair("toy", "sjf")
    assert pair_of(toy, "varys") == Pair("toy", "varys")
    assert pair_of("toy + fifo") == Pair("toy", "fifo")
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
        pair_of(text)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_two_flow_schedulers_for_one_are_one_too_many():
    with pytest.raises(UsageError, match=r'--flow-scheduler fifo: "delay . sjf" has one'):
        pairs_of(["delay + sjf"], ["fifo"])
    assert pairs_of(["delay + sjf", "fair"], ["fifo"])[1] == Pair("fair", "fifo")
