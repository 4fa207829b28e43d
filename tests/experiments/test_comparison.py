"""Figures of several runs: means, rows, own figures, and whether the clocks agree."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from railyard.cluster.config import ClusterConfig
from railyard.experiments.comparison import last_node, placed_as_in
from railyard.experiments.contenders import (
    Contender,
    Twins,
    change,
    estimate,
    metrics_of,
    own_figures,
    rows_of,
)
from railyard.experiments.statements import Verdict, agreements, as_json, show, statements
from railyard.jobs.workloads.model import InputFile, WorkloadJob, WorkStage
from railyard.resourcemanager.driving.eventlog import EventLog
from railyard.runs.figures import TooBusy, require_trusted
from tests.harness import TinyCluster, tiny_cluster
from tests.workloads import job_of, workload

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
        return [metric.title for metric in metrics_of(rows)], rows

    assert "by circuit" not in titles(0, 0)[0]
    shown, rows = titles(0, 250)
    assert "by circuit" in shown
    assert [row.cells["by_circuit"].mean for row in rows] == [0, 0.25]


def twins(first, *others):
    return Twins(first=summary(jct=first), others=[summary(jct=jct) for jct in others])


def agreed(rows):
    return {one.metric.title: one for one in agreements(rows)}


def test_both_clocks_stand_side_by_side():
    runs = {FAIR: [summary(jct=10.5)], VIRTUAL: [summary(jct=9.0), summary(2, jct=99.0)]}
    found = agreed(rows_of(runs, {FAIR: [twins(10.0)]}))
    assert found["JCT mean"].difference == pytest.approx(0.05)
    assert found["JCT mean"].cells() == ("10.50 s", "10.00 s", "+5.0%", "", "9.00 s")
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
    assert found["JCT mean"].cells()[3] == "8.00 s to 13.00 s"
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
    assert [row.label for row in rows] == ["fair + maxmin", "fair + varys"]


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
    assert (found.row.contender, found.policy, found.name) == (DELAY, "delay", "waits")
    assert found.cells() == ("3", "± 12.7")  # Student's t: 12.706 x sqrt(2) / sqrt(2)
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


# What a comparison says: nothing that chance explains, good and bad alike, everywhere the same.


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


# How often a comparison calls chance a difference, and how often it finds what is one.
#
# Summaries are drawn here; ``railyard bench comparison`` does the same with simulated schedulers.


PAIRS = 200


def drawn(dice, seed, jobs_s, times=1.0, straggle=0.0):
    """A run of jobs of this length: all of its times vary together by 4 %, each alone by 2 %."""
    common = dice.gauss(0, 0.04) + (math.log(2) if dice.random() < straggle else 0.0)

    def varied(value):
        return value * times * math.exp(common + dice.gauss(0, 0.02))

    run = summary(
        seed, jct=varied(jobs_s), cct=varied(jobs_s / 5), cross=round(varied(1e9) / times)
    )
    run["jct_s"]["p95"], run["cct_s"]["p95"] = varied(2 * jobs_s), varied(jobs_s / 2)
    return run | {"makespan_s": varied(5 * jobs_s)}


def verdicts(number, contenders, seeds, times=1.0, straggle=0.0):
    """What is said of so many contenders, of which the last one's times are ``times`` as long."""
    dice = random.Random(f"{number} {seeds} {times}")
    lengths = [dice.uniform(5, 50) for _ in range(seeds)]
    runs = {
        Contender(f"s{n}", "maxmin", "virtual"): [
            drawn(dice, seed, jobs_s, times if n == contenders - 1 else 1.0, straggle)
            for seed, jobs_s in enumerate(lengths)
        ]
        for n in range(contenders)
    }
    return {one.verdict for one in statements(rows_of(runs)).every}


@pytest.mark.parametrize(
    ("contenders", "seeds", "straggle"),
    [(2, 3, 0.0), (2, 5, 0.0), (2, 10, 0.1), (4, 5, 0.0)],
)
def test_of_identical_schedulers_at_most_one_in_twenty_is_called_different(
    contenders, seeds, straggle
):
    found = [verdicts(number, contenders, seeds, straggle=straggle) for number in range(PAIRS)]
    different = sum(not each.isdisjoint({Verdict.BETTER, Verdict.WORSE}) for each in found)
    assert different <= 0.05 * PAIRS


def test_with_ten_seeds_a_difference_of_a_tenth_is_found():
    found = [verdicts(number, 2, 10, times=1.1) for number in range(PAIRS)]
    assert sum(Verdict.WORSE in each for each in found) >= 0.9 * PAIRS
    assert sum(Verdict.BETTER in each for each in found) <= 0.01 * PAIRS


# A simulation of an emulated run: the same blocks, and offers that begin at the same node.


BLOCKS = {"b0": ["r0n0", "r1n1"], "b1": ["r1n0", "r0n1"]}


def job(name: str, blocks: int = 2) -> WorkloadJob:
    file = InputFile(path=f"/{name}", size_bytes=100 * blocks, block_bytes=100)
    stage = WorkStage(name="m", files=(file.path,), tasks=blocks, output_bytes=0)
    return job_of(stage, name=name, files=(file,))


@pytest.fixture
def run() -> TinyCluster:
    """A job that generates something, then two over a file."""
    c = tiny_cluster(racks=2, nodes=2)
    c.store("in", blocks=BLOCKS)
    c.submit("j0", maps=3)
    c.run()
    c.submit("j1", input="in")
    c.run()
    c.submit("j2", input="in")
    c.run()
    return c


@pytest.fixture
def events(run: TinyCluster, tmp_path: Path) -> Path:
    path = tmp_path / "events.jsonl"
    log = EventLog(path, ClusterConfig(topology=run.topology, scheduler="fair"))
    for (at_s, event), commands in zip(run.events, run.led_to, strict=True):
        log.write(at_s, event, commands)
    log.close()
    return path


def test_blocks_are_where_the_run_had_them(events: Path):
    placed = placed_as_in(workload(job("j2"), job("j7"), job("j1", blocks=3)), events)
    files = {one.name: one.files[0].nodes for one in placed.jobs}
    assert files["j2"] == (("r0n0", "r1n1"), ("r1n0", "r0n1"))
    assert files["j7"] == files["j1"] == ()  # it did not run there, or not with so many


def test_the_node_that_had_its_turn_last_before_the_first_of_the_jobs(
    run: TinyCluster, events: Path
):
    nodes = run.run().nodes_of("j0.")
    assert len(nodes) == 3
    assert last_node(workload(job("j1"), job("j2")), events) == nodes[-1]
    nodes += run.run().nodes_of("j1.")
    assert last_node(workload(job("j2")), events) == nodes[-1]
    assert last_node(workload(job("j0"), job("j2")), events) is None


def test_offers_go_on_after_the_node_that_is_turned_to():
    """Each rack's first nodes come before any rack's second ones."""
    turns = ["r0n0", "r1n0", "r0n1", "r1n1"]
    for number, node in enumerate(turns):
        c = tiny_cluster(racks=2, nodes=2)
        c.core.state.start_offers_after(node)
        c.submit("j0", maps=4)
        assert c.run().nodes_of("j0.") == turns[number + 1 :] + turns[: number + 1]
