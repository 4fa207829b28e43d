"""What a comparison says: nothing that chance explains, good and bad alike, everywhere the same."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.scripts.comparing.asjson import as_json
from railyard.scripts.comparing.estimates import change
from railyard.scripts.comparing.rows import Contender, Twins, rows_of
from railyard.scripts.comparing.statements import Verdict, statements
from railyard.scripts.comparing.table import show
from railyard.scripts.results.trust import TooBusy, require_trusted
from tests.scripts.test_comparison import DELAY, FAIR, VIRTUAL, summary

DELAY_VIRTUAL = Contender("delay", "maxmin", "virtual")
BUSY = {"fidelity": {"grant_lag_ms_p99": 43.0, "cpu_saturated": 0.71}, "scheduler": "delay"}


def runs(*jcts, **more):
    return [summary(seed, jct=jct, **more) for seed, jct in enumerate(jcts, start=1)]


def said(own, base, twins=()):
    """{metric: statement} of delay against fair."""
    rows = rows_of({FAIR: base, DELAY: own}, dict(twins))
    return statements(rows).of(DELAY)


# The interval -------------------------------------------------------------------------------------
def test_a_change_is_the_geometric_mean_of_ratios_of_equal_seeds():
    # ratios 0.5 and 0.125: logarithms -0.6931 and -2.0794, mean that of 0.25, sd 0.9803;
    # t(0.9875, 1 degree of freedom) = 25.452; half width 25.452 x 0.9803 / sqrt(2) = 17.643
    found = change([5.0, 2.5], [10.0, 20.0])
    assert (found.kind, found.mean) == ("ratio", pytest.approx(0.25))
    assert math.log(found.high) == pytest.approx(math.log(0.25) + 17.643, rel=1e-3)
    assert math.log(found.low) == pytest.approx(math.log(0.25) - 17.643, rel=1e-3)
    assert not found.is_sure


def test_intervals_of_several_hold_together():
    own, base = [5.0, 6.0, 7.0], [10.0, 11.0, 12.0]
    alone, of_twelve = change(own, base), change(own, base, intervals=12)
    # t(1 - 0.025/2, 2) = 6.205; t(1 - 0.025/24, 2) = 21.88
    widths = [math.log(one.high / one.low) for one in (alone, of_twelve)]
    assert widths[1] / widths[0] == pytest.approx(21.88 / 6.205, rel=1e-2)


def test_where_nothing_was_moved_there_is_a_difference_and_no_ratio():
    found = change([5.0, 0.0, 4.0], [0.0, 0.0, 0.0])
    assert (found.kind, found.mean) == ("difference", 3.0)
    assert found.low < 0 < found.high
    assert not found.is_sure


VALUES = st.lists(st.floats(0.01, 1e6), min_size=2, max_size=6)


@given(VALUES, st.data())
def test_who_is_first_only_turns_a_change_around(own, data):
    base = data.draw(st.lists(st.floats(0.01, 1e6), min_size=len(own), max_size=len(own)))
    there, back = change(own, base, intervals=6), change(base, own, intervals=6)
    assert there.is_sure == back.is_sure
    assert math.log(there.mean) == pytest.approx(-math.log(back.mean), abs=1e-9)


# Verdicts -----------------------------------------------------------------------------------------
def test_good_and_bad_are_said_alike():
    base = runs(10.0, 11.0, 12.0, 13.0, 14.0)
    own = [
        one | {"jct_s": one["jct_s"] | {"mean": one["jct_s"]["mean"] * 0.5, "p95": 2 * base_p95}}
        for one in base
        for base_p95 in [one["jct_s"]["p95"] * (1 + 0.01 * one["seed"])]
    ]
    found = said(own, base)
    assert found["jct_s.mean"].verdict is Verdict.BETTER
    assert found["jct_s.p95"].verdict is Verdict.WORSE
    assert found["makespan_s"].verdict is Verdict.SAME
    assert found["jct_s.mean"].words == (
        "mean job completion time is 0.50 times (0.50 to 0.50) that of fair: 6.00 s against 12.00 s"
    )
    assert found["jct_s.p95"].words.startswith("p95 of job completion times is 2.06 times (1.9")
    assert found["makespan_s"].words == "makespan is that of fair with every seed: 24.00 s"


def test_what_varies_as_much_as_it_differs_may_be_chance():
    base = runs(11.0, 12.0, 13.0)
    own = runs(11.0 * 0.8, 12.0 * 1.2, 13.0 * 0.8)
    found = said(own, base)["jct_s.mean"]
    assert found.verdict is Verdict.CHANCE
    assert found.words.endswith("; may be chance")


def test_the_more_is_compared_the_surer_each_must_be():
    base = runs(10.0, 11.0, 12.0, 10.5, 11.5)
    own = [summary(one["seed"], jct=one["jct_s"]["mean"] * ratio)
           for one, ratio in zip(base, (0.75, 0.84, 0.8, 0.78, 0.82), strict=True)]  # fmt: skip
    assert said(own, base)["jct_s.mean"].verdict is Verdict.BETTER
    others = {Contender(f"s{n}", "maxmin", "wall"): base for n in range(40)}
    many = statements(rows_of({FAIR: base, DELAY: own, **others}))
    assert many.intervals == 41 * 6
    assert many.of(DELAY)["jct_s.mean"].verdict is Verdict.CHANCE


def test_one_seed_makes_no_difference_and_tells_what_chance_makes():
    base, own = runs(11.7), runs(24.3)
    alone = said(own, base)["jct_s.mean"]
    assert alone.verdict is Verdict.ONE_SEED
    assert alone.words.endswith("; one seed, of which chance makes nobody knows what")
    drawn = {DELAY: (11.7, 23.9), FAIR: (10.9, 12.1)}
    twins = {
        who: [Twins(first=summary(), others=[summary(jct=jct) for jct in jcts])]
        for who, jcts in drawn.items()
    }
    found = said(own, base, twins)["jct_s.mean"]
    assert found.verdict is Verdict.ONE_SEED
    assert found.words == (
        "mean job completion time is 2.08 times that of fair: 24.30 s against 11.70 s; one seed, "
        "of which chance makes 11.70 s to 23.90 s against 10.90 s to 12.10 s"
    )


@pytest.mark.parametrize("who", [FAIR, DELAY])
def test_what_a_busy_machine_measured_is_no_difference(who):
    found = {FAIR: runs(10.0, 11.0, 12.0), DELAY: runs(5.0, 5.5, 6.0)}
    found[who][1] |= BUSY
    one = statements(rows_of(found)).of(DELAY)["jct_s.mean"]
    assert one.verdict is Verdict.UNTRUSTED
    assert one.words.endswith("; not to be trusted: the machine was too busy")


def test_failed_jobs_are_no_difference_either():
    own = runs(5.0, 5.5, 6.0)
    own[2] |= {"jobs": [{"ok": False}]}
    assert said(own, runs(10.0, 11.0, 12.0))["jct_s.mean"].verdict is Verdict.UNTRUSTED


def test_a_busy_run_can_be_refused():
    require_trusted(runs(1.0, 2.0))
    with pytest.raises(TooBusy, match="delay with seed 2: grants at most 43"):
        require_trusted([summary(1), summary(2) | BUSY])


# The same everywhere ------------------------------------------------------------------------------
def shown(rows, capsys, monkeypatch, columns=80):
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    monkeypatch.setenv("NO_COLOR", "1")
    show(rows, "jobs")
    said = capsys.readouterr().out
    for letters in ("\x1b[1m", "\x1b[2m", "\x1b[0m"):
        said = said.replace(letters, "")
    return said


def test_terminal_and_json_say_the_same(capsys, monkeypatch):
    rows = rows_of({FAIR: runs(10.0, 11.0, 12.0), DELAY: runs(5.1, 5.5, 5.9)})
    every = statements(rows).every
    [_, told] = json.loads(json.dumps(as_json(rows)))
    assert [one["words"] for one in told["statements"]] == [one.words for one in every]
    assert [one["verdict"] for one in told["statements"]] == [one.verdict.value for one in every]
    lines = shown(rows, capsys, monkeypatch).splitlines()
    for one in every:
        [line] = [line for line in lines if one.interval() in line and one.metric.title in line]
        assert line.rstrip().endswith(one.verdict.value)


def test_a_busy_run_is_marked_wherever_its_numbers_stand(capsys, monkeypatch):
    busy = [summary(jct=5.0) | BUSY]
    twins = [Twins(first=summary(), others=[summary(jct=9.0), summary(jct=9.1)])]
    busy[0] |= {"figures": {"delay": {"waits": 1.0}}}
    found = {FAIR: [summary()], DELAY: busy, VIRTUAL: [summary()], DELAY_VIRTUAL: [summary()]}
    rows = rows_of(found, {DELAY: twins})
    told = as_json(rows)
    assert [row["trusted"] for row in told] == [[True], [False], [True], [True]]
    assert not any(one["trusted"] for one in told[1]["agreement"])
    said = shown(rows, capsys, monkeypatch)
    assert "\ndelay !" in said
    assert "delay, emulated !" in said
    assert "! delay: not to be trusted: the machine was too busy" in said
    assert "! delay, JCT mean: not to be trusted: the machine was too busy" in said
    assert "beyond chance" not in said


@pytest.mark.parametrize("contenders", [2, 5, 21])
def test_numbers_are_whole_at_80_columns(contenders, capsys, monkeypatch):
    names = ["fair", "shufflewatcher", *(f"co-scheduler-{n}" for n in range(contenders - 2))]
    found = {
        Contender(name, "sunflow" if n % 2 else "maxmin", "virtual"): [
            summary(seed, jct=1e5 / (8 + n + seed), cct=None if n == 1 else 0.01, cross=10**14)
            for seed in (1, 2, 3)
        ]
        for n, name in enumerate(names)
    }  # fmt: skip
    rows = rows_of(found)
    said = shown(rows, capsys, monkeypatch)
    assert all(len(line) <= 80 for line in said.splitlines()), said
    assert "…" not in said
    for row in rows:
        minutes = row.cells["makespan_s"].mean / 60
        assert f"{minutes:.1f}" in said or f"{minutes:,.0f}" in said
    for one in statements(rows).every:
        assert one.amount() in said
    listed = "against fair + maxmin" in said
    assert listed == (contenders <= 6)
