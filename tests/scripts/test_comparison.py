"""Figures of several runs: means, rows, own figures, and whether the clocks agree."""

import json
import math

import pytest

from railyard.scripts.comparing.agreement import agreements
from railyard.scripts.comparing.asjson import as_json
from railyard.scripts.comparing.estimates import estimate
from railyard.scripts.comparing.rows import (
    Contender,
    Twins,
    label_rows,
    own_figures,
    rows_of,
    shown_metrics,
)
from railyard.scripts.comparing.table import show

FAIR, DELAY = (Contender(name, "maxmin", "wall") for name in ("fair", "delay"))
VIRTUAL = Contender("fair", "maxmin", "virtual")


def summary(seed=1, jct=10.0, cct=2.0, cross=1000, node=5, ocs=0):
    times = {"p50": jct, "p95": jct, "p99": jct, "max": jct}
    return {
        "seed": seed,
        "verified": True,
        "makespan_s": 2 * jct,
        "jct_s": {"mean": jct, **times},
        "cct_s": {"mean": cct, **times, "p95": cct},
        "bytes": {"cross_rack": cross, "ocs": ocs},
        "locality": {"node": node, "rack": 0, "remote": 5},
        "slot_utilization": 0.5,
        "compute_utilization": 0.4,
        "network_utilization": 0.25,
        "shuffle_skew": {"mean": 1.5},
    }


def test_confidence_interval_of_student():
    # t(0.975, 2 degrees of freedom) = 4.303; standard error 1 / sqrt(3)
    found = estimate([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert estimate([7.0]).half_width is None


def test_what_nobody_has_is_no_figure():
    lacking = summary(cct=None)
    rows = rows_of({FAIR: [lacking], DELAY: [lacking, lacking]})
    assert rows[0].cells["cct_s.mean"] is None


def test_circuits_have_a_column_where_some_flow_used_one():
    def titles(*ocs):
        runs = [[summary(ocs=size)] for size in ocs]
        rows = rows_of(dict(zip((FAIR, DELAY), runs, strict=True)))
        return [metric.title for metric in shown_metrics(rows)], rows

    assert "by circuit" not in titles(0, 0)[0]
    shown, rows = titles(0, 250)
    assert "by circuit" in shown
    assert [row.cells["by_circuit"].mean for row in rows] == [0, 0.25]


def twins(first, *others):
    return Twins(first=summary(jct=first), others=[summary(jct=jct) for jct in others])


def agreed(rows):
    return {one.metric.title: one for one in agreements(rows, label_rows(rows))}


def test_both_clocks_stand_side_by_side():
    runs = {FAIR: [summary(jct=10.5)], VIRTUAL: [summary(jct=9.0), summary(2, jct=99.0)]}
    found = agreed(rows_of(runs, {FAIR: [twins(10.0)]}))
    assert found["JCT mean"].difference == pytest.approx(0.05)
    assert found["JCT mean"].shown() == ("10.50 s", "10.00 s", "+5.0%", "", "9.00 s")
    assert found["CCT mean"].difference == 0
    assert not found["CCT mean"].beyond_chance, "as nobody knows what chance makes"
    assert agreed(rows_of({FAIR: [summary()], VIRTUAL: [summary()]})) == {}


def test_what_chance_makes_is_of_means_over_seeds():
    # the first further twins of both seeds: (8 + 8) / 2; the third: (12 + 14) / 2
    both = [twins(9.0, 8, 9, 12), twins(9.0, 8, 11, 14)]
    real = {FAIR: [summary(jct=13.0), summary(2, jct=13.5)]}
    rows = rows_of({**real, VIRTUAL: [summary(jct=9.0), summary(2, jct=9.0)]}, {FAIR: both})
    found = agreed(rows)
    assert found["JCT mean"].by_chance == (8.0, 13.0)
    assert found["JCT mean"].shown()[3] == "8.00 s to 13.00 s"
    assert not found["JCT mean"].beyond_chance, "three draws say little about the next"
    assert found["CCT mean"].by_chance == (2.0, 2.0)
    assert as_json(rows)[0]["by_chance"]["makespan_s"] == (16.0, 26.0)
    assert as_json(rows)[1]["by_chance"] == {}, "simulated runs have no twins"


@pytest.mark.parametrize(("jct", "beyond"), [(10.6, False), (10.75, False), (12.0, True)])
def test_beyond_chance_is_outside_of_all_draws_and_of_where_the_next_would_be(jct, beyond):
    draws = [10 + 0.05 * number for number in range(-9, 11)]  # 9.55 to 10.5, sd 0.3
    rows = rows_of({FAIR: [summary(jct=jct)], VIRTUAL: [summary()]}, {FAIR: [twins(10, *draws)]})
    assert agreed(rows)["JCT mean"].beyond_chance is beyond
    [real, _] = as_json(rows)
    told = {one["metric"]: one for one in real["agreement"]}
    assert told["jct_s.mean"]["beyond_chance"] is beyond
    assert told["jct_s.mean"]["simulated_from_seed"] == 10.0


def test_a_figure_that_a_simulation_lacks_has_no_range():
    lacking = Twins(first=summary(), others=[summary(cct=None)])
    rows = rows_of({FAIR: [summary()], VIRTUAL: [summary()]}, {FAIR: [lacking]})
    assert agreed(rows)["CCT mean"].by_chance is None


def test_flow_schedulers_are_reported_where_they_differ():
    varys = Contender("fair", "varys", "wall")
    rows = rows_of({FAIR: [summary()], varys: [summary()]})
    assert list(label_rows(rows).values()) == ["fair + maxmin", "fair + varys"]


def test_pairs_stand_side_by_side(railyard, tmp_path):
    said = railyard.ok(
        *("compare", "terasort,size=1GB", "--clock", "virtual", "--topology", "flat-4x4"),
        *("--seeds", "1"),
        *("--schedulers", "fair, delay + sjf,delay", "--out", tmp_path / "out"),
        *("--json", tmp_path / "c.json"),
    )
    for label in ("fair + maxmin", "delay + sjf", "delay + maxmin"):
        assert label in said
        assert label in (tmp_path / "out" / "index.html").read_text()
    made = {path.name for path in (tmp_path / "out").iterdir() if path.is_dir()}
    assert made == {
        "fair-maxmin-virtual-1",
        "delay-sjf-virtual-1",
        "delay-maxmin-virtual-1",
        "plots",
    }
    rows = json.loads((tmp_path / "c.json").read_text())
    assert [(row["scheduler"], row["flow_scheduler"]) for row in rows] == [
        ("fair", "maxmin"),
        ("delay", "sjf"),
        ("delay", "maxmin"),
    ]
    for row in rows:
        [run] = row["runs"]
        assert (run["scheduler"], run["flow_scheduler"]) == (
            row["scheduler"],
            row["flow_scheduler"],
        )


def test_json_has_every_run():
    [_, delay] = as_json(rows_of({FAIR: [summary()], DELAY: [summary(jct=5.0)]}))
    assert (delay["scheduler"], delay["clock"], delay["seeds"]) == ("delay", "wall", [1])
    assert delay["figures"]["jct_s.mean"] == {"mean": 5.0, "ci95_half_width": None, "ratio": 0.5}
    assert delay["trusted"] == [True]
    assert len(delay["runs"]) == 1


def test_own_figures_are_those_that_every_seed_has():
    first = summary(1) | {"figures": {"delay": {"waits": 2.0}, "mine": {"x": 1.0}}}
    second = summary(2) | {"figures": {"delay": {"waits": 4.0}}}
    rows = rows_of({FAIR: [summary(), summary(2)], DELAY: [first, second]})
    [found] = own_figures(rows)
    assert (found.contender, found.policy, found.name) == (DELAY, "delay", "waits")
    assert found.shown() == ("3", "± 12.7")  # Student's t: 12.706 x sqrt(2) / sqrt(2)
    [fair, delay] = as_json(rows)
    assert fair["own_figures"] == {}
    assert delay["own_figures"]["delay.waits"]["mean"] == 3.0
    assert delay["figures"]["shuffle_skew.mean"]["mean"] == 1.5


def test_own_figures_stand_below_the_table(capsys):
    own = {"figures": {"delay": {"waits": 12345.0, "waited_s": 0.25}}}
    show(rows_of({FAIR: [summary()], DELAY: [summary() | own], VIRTUAL: [summary()]}), "jobs")
    said = capsys.readouterr().out
    for words in ("own figures", "delay, emulated", "waits", "12,345", "waited", "250 ms"):
        assert words in said
    show(rows_of({FAIR: [summary()]}), "jobs")
    assert "own figures" not in capsys.readouterr().out


@pytest.mark.parametrize("width", [46, 60])
def test_a_narrow_terminal_has_fewer_columns_with_whole_numbers(width, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    longer = Contender("co-scheduler:dp+ocas", "maxmin", "wall")
    show(rows_of({FAIR: [summary(), summary(2)], longer: [summary(jct=12345.0), summary(2)]}), "j")
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= width
    assert "left out: " in said
    assert "so does --json" in " ".join(said.split())
    makespans_min = ["0.33", "206"]  # of 2 x 10 s, and (2 x 12345 s + 20 s) / 2
    assert all(number in said.split() for number in makespans_min)
