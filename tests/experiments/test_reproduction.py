"""``railyard reproduce``: numbers of made-up runs, what is run, and one tiny experiment."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.experiments.figures import (
    BETTER,
    WORSE,
    Coarser,
    Figure,
    Setup,
    in_range,
    lines,
    measures_of,
    named,
    of_jobs,
    plain,
    span_s,
)
from railyard.experiments.papers import PAPERS, Paper, paper
from railyard.experiments.reproduction import (
    as_json,
    carry_out,
    command,
    published_words,
    save_runs,
    show,
    values,
)
from railyard.gateway.page.theme import LIGHT
from railyard.jobs.workloads.catalog import workload
from railyard.report.pictures import draw_published, themed
from railyard.resourcemanager.schedulers import recipe_named
from railyard.runs.figures import TIME
from railyard.simulator.behaviour import Behaviour
from tests.workloads import check_workload

MEASURES = measures_of()
MAKESPAN, JCT_MEAN = MEASURES["less makespan"], MEASURES["less JCT mean"]
OPEN = Setup(workload="corral-w3,jobs=2,grain=64", topology="flat-4x4", scheduler="fair")
JOBS = OPEN.under("fair")


def summary(makespan_s=100.0, cross_rack=10, jobs=()):
    jobs = [{"name": name, "ok": True, **job} for name, job in dict(jobs).items()]
    return {"makespan_s": makespan_s, "bytes": {"cross_rack": cross_rack}, "jobs": jobs}


def figure(*of) -> Figure:
    return Figure(title="a figure", where="Fig. 1", lines=of, base="fair")


def against_fair(*measures, case="x", jobs=JOBS, under="delay", known=None):
    return lines(case, jobs, {under: dict.fromkeys(measures, known)}, base="fair")


# Numbers -----------------------------------------------------------------------------------------
def test_a_reduction_is_of_equal_seeds():
    compared = against_fair(MAKESPAN)
    found = {
        JOBS: [summary(100.0), summary(200.0)],
        JOBS.under("delay"): [summary(80.0), summary(100.0)],
    }
    [value] = values(figure(*compared), found)
    assert value.ours.mean == pytest.approx((20 + 50) / 2)
    assert value.ours.half_width == pytest.approx(12.706 * 15, rel=1e-3)  # Student's t, 1 degree
    assert (value.own, value.base) == (90.0, 150.0)


@pytest.mark.parametrize(
    ("published", "off"),
    [
        pytest.param((10, 33), 0.0, id="within"),
        pytest.param((30, 56), -10.0, id="less"),
        pytest.param(15, 5.0, id="more"),
        pytest.param(BETTER, 0.0, id="better"),
        pytest.param(WORSE, 20.0, id="not worse"),
        pytest.param(None, None, id="nothing published"),
    ],
)
def test_how_far_from_the_paper(published, off):
    made = figure(*against_fair(MAKESPAN, known=published))
    [value] = values(made, {JOBS: [summary()], JOBS.under("delay"): [summary(80.0)]})
    assert value.ours.half_width is None
    assert value.off_by == (None if off is None else pytest.approx(off))
    json.dumps(as_json(made, [value]), allow_nan=False)


def test_nothing_is_no_baseline():
    found = {JOBS: [summary(cross_rack=0)], JOBS.under("delay"): [summary()]}
    [value] = values(figure(*against_fair(MEASURES["less cross-rack bytes"])), found)
    assert value.ours is None


def test_quantities_of_some_jobs():
    run = summary(
        jobs={
            "a-0": {"jct_s": 1.0, "submitted_s": 4.0, "finished_s": 5.0, "reduce_s": None},
            "a-1": {"jct_s": 3.0, "submitted_s": 6.0, "finished_s": 9.0, "reduce_s": 2.0},
            "b-0": {"jct_s": 8.0, "submitted_s": 0.0, "finished_s": 8.0, "reduce_s": 4.0},
        }
    )
    assert of_jobs("jct_s", "mean", named("a-"))(run) == 2.0
    assert of_jobs("jct_s", "p50")(run) == 3.0
    assert of_jobs("jct_s", "max", named("b-"))(run) == 8.0
    assert of_jobs("jct_s", "p90", named("c-"))(run) is None
    assert span_s(named("a-"))(run) == 5.0
    assert of_jobs("reduce_s", "mean")(run) == 3.0
    assert plain("longest", of_jobs("jct_s", "max"), TIME).of(run, None) == 8.0
    assert JCT_MEAN.of(run, run) == 0.0


def test_jobs_are_chosen_by_tasks_and_bytes():
    small, large = (
        {"maps": maps, "reduces": 2, "shuffle_bytes": 10 * maps, "input_bytes": 20}
        for maps in (4, 40)
    )
    for by, most in (("tasks", 10), ("shuffle", 50), ("shuffle / input", 4)):
        assert in_range(by, 0, most)(small)
        assert not in_range(by, 0, most)(large)
        assert in_range(by, most, math.inf)(large)
    assert not in_range("tasks", 0, 10, grain=2)(small), "12, before two of them were one"


def test_the_table_tells_ours_the_papers_and_what_is_smaller(capsys):
    compared = against_fair(MAKESPAN, case="W1", known=(30, 56))
    made = replace(figure(*compared), scaled=("2 jobs instead of 200",))
    found = {JOBS: [summary()] * 2, JOBS.under("delay"): [summary(80.0)] * 2}
    show(made, values(made, found), seeds=range(4, 6))
    told_text = capsys.readouterr().out
    lines_shown = [line.split() for line in told_text.splitlines()]
    assert ["case", "scheduler", "%", "%", "%", "s", "s", "runs"] in lines_shown
    assert ["less", "makespan"] in lines_shown
    for words in (
        "20.0 ± 0.0",
        "30 to 56",
        "-10.0",
        "2 jobs instead of 200",
        "seeds 4-5",
        "64 tasks in 1",
    ):
        assert words in told_text
    assert published_words(BETTER, "%") == "> 0 %"
    assert published_words(WORSE, "%") == "< 0 %"


def test_the_picture_has_ours_beside_the_papers():
    known = {"range": (30, 56), "way": WORSE, "none": None}
    compared = [
        each for case, one in known.items() for each in against_fair(MAKESPAN, case=case, known=one)
    ]
    found = {JOBS: [summary()] * 2, JOBS.under("delay"): [summary(80.0), summary(70.0)]}
    with themed(LIGHT):
        [axes] = draw_published("Fig. 1", values(figure(*compared), found), LIGHT).axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [
        "range  delay",
        "way  delay",
        "none  delay",
    ]
    drawn = [(line.get_label(), line.get_marker(), list(line.get_xdata())) for line in axes.lines]
    assert [each for each in drawn if each[0] == "paper"] == [
        ("paper", "|", [30, 56]),
        ("paper", "<", [0.0]),
    ]
    assert [list(xs) for _, marker, xs in drawn if marker == "o"] == [[25.0]] * 3
    assert axes.get_title(loc="left") == "less makespan, %"


def test_whether_runs_are_exact_is_reported():
    exact = Setup(workload="corral-w3,jobs=2", topology="flat-4x4", scheduler="fair")
    rounded = replace(exact, behaviour=Behaviour(together_s=0.1))
    assert [setup.coarse for setup in (exact, JOBS, rounded)] == [
        "",
        "64 tasks in 1",
        "blocks or ends merged",
    ]


def test_seeds_for_choosing_are_apart_from_those_that_are_reported():
    made = Paper(title="a paper", seeds=7, quick_seeds=2, first_seed=4)
    assert list(made.seeds_of(quick=False)) == [*range(4, 11)]
    assert list(made.seeds_of(quick=True)) == [4, 5]


# Runs --------------------------------------------------------------------------------------------
def test_contenders_are_schedulers_with_flow_schedulers():
    both = JOBS.under("corral + varys")
    assert (both.scheduler, both.flow_scheduler) == ("corral", "varys")
    assert both.under("delay").flow_scheduler == "varys", "as it says itself"
    assert both.under("fair + maxmin") == JOBS
    assert OPEN.flow_scheduler is None
    assert JOBS.flow_scheduler == OPEN.pair.flow_scheduler == recipe_named("fair").flow_scheduler
    assert command(OPEN, 1) == command(JOBS, 1)
    with pytest.raises(UsageError, match='unknown flow scheduler "vary": did you mean "varys"'):
        JOBS.under("corral + vary")


def test_a_setup_may_have_faults(tmp_path):
    faulty = replace(JOBS, faults="slow:r0n0*9@380s+9999s", behaviour=Behaviour(variance=0.1))
    assert faulty != JOBS
    found = carry_out({JOBS: [1], faulty: [1]})
    assert found[faulty][0]["jct_s"]["max"] > 1.2 * found[JOBS][0]["jct_s"]["max"]
    save_runs(found, tmp_path / "runs")
    plain, disturbed = (
        json.loads(file.read_text())["command"] for file in sorted((tmp_path / "runs").iterdir())
    )
    assert "--faults" not in plain
    assert (
        "--behaviour variance=0.1 --faults 'slow:r0n0*9@380s+9999s' --exact --seed 1" in disturbed
    )
    for wrong, words in (("slow:r9n9*5@0s+9s", "r9n9"), ("slw:r0n0*5@0s+9s", "--faults slw")):
        with pytest.raises(UsageError, match=words):
            carry_out({JOBS: [1], replace(faulty, faults=wrong): [1]})


def test_a_setup_that_figures_share_is_one():
    measures = (MAKESPAN, JCT_MEAN)
    compared = lines("x", JOBS, dict.fromkeys(("delay", "capacity"), measures), base="fair")
    assert [setup.scheduler for setup in figure(*compared).setups()] == [
        "delay",
        "fair",
        "capacity",
    ]


def test_the_command_that_repeats_a_run_has_its_own_settings_only():
    options = (("corral.imbalance", "0"), ("delay.node_wait_s", "1"))
    setup = replace(JOBS, scheduler_options=options, network=(("background", "0.5"),))
    assert "--set" not in command(setup, 3)
    assert "--set delay.node_wait_s=1 --exact --seed 3" in command(setup.under("delay"), 3)
    assert "--network background=0.5" in command(setup, 3)


def test_other_settings_are_those_of_all_runs_and_are_reported():
    setup = replace(JOBS, scheduler_options=(("corral.imbalance", "1"), ("delay.node_wait_s", "1")))
    made = figure(*against_fair(MAKESPAN, jobs=setup, under="corral"))
    changed = made.with_settings((("corral.imbalance", "0"),))
    [line] = changed.lines
    for own in (line.own, line.base):
        assert own.scheduler_options == (("corral.imbalance", "0"), ("delay.node_wait_s", "1"))
    assert changed.scaled == (*made.scaled, "settings: corral.imbalance=0")
    assert made.with_settings(()) == made


@pytest.mark.parametrize("name", PAPERS)
@pytest.mark.parametrize("quick", [True, False])
def test_every_figure_of_every_paper_can_be_run(name: str, quick: bool):
    made = paper(name).figures(quick).values()
    setups = dict.fromkeys(setup for each in made for setup in each.setups())
    for setup in setups:
        load_topology(setup.topology, setup.network)
        assert command(setup, 1)
    for text in {setup.workload for setup in setups if ":" not in setup.workload}:
        check_workload(workload(text, 1).jobs)


def test_wrong_names_are_reported():
    with pytest.raises(UsageError, match='unknown paper "coral": did you mean "corral"'):
        paper("coral")
    with pytest.raises(UsageError, match="unknown workload"):
        carry_out({replace(JOBS, workload="corral-w9"): [1]})


def test_some_cases_of_a_figure():
    made = figure(*against_fair(MAKESPAN, case="W1"), *against_fair(MAKESPAN, case="W3"))
    assert made.only(()) == made
    assert made.only(["W3", "W9"]).lines == made.lines[1:]


def test_an_unknown_case_runs_nothing(railyard):
    done = railyard.call("reproduce", "corral", "fig6", "--quick", "--case", "W4")
    assert done.returncode == 2
    assert 'unknown case "W4"' in done.stderr
    assert "There are: W1, W1 against local-shuffle, W1 against shufflewatcher, W2, " in done.stderr


def test_a_tiny_experiment(tmp_path):
    """Two jobs on sixteen slots, under two schedulers, two seeds: real runs in virtual time."""
    made = figure(*against_fair(MAKESPAN, JCT_MEAN, case="W3"))
    found = carry_out({setup: [1, 2] for setup in made.setups()})
    assert {setup.scheduler: [run["seed"] for run in runs] for setup, runs in found.items()} == {
        "delay": [1, 2],
        "fair": [1, 2],
    }
    makespan, _ = values(made, found)
    assert makespan.ours is not None
    assert math.isfinite(makespan.ours.mean)
    save_runs(found, tmp_path / "runs")
    [first, *others] = sorted((tmp_path / "runs").iterdir())
    assert len(others) == 3
    assert json.loads(first.read_text())["command"].startswith("railyard simulate")


# Smaller -----------------------------------------------------------------------------------------
def test_a_coarser_topology_does_as_much_in_a_second():
    coarse = Coarser(topology="corral-7x30", tasks=16, machines=6)
    fine = load_topology("corral-7x30")
    made = load_topology("corral-7x30", coarse.network())
    for topology in (fine, made):
        rack = topology.rack_list()[0]
        assert topology.racks.nodes * topology.racks.slots * topology.compute.map_rate == 4.8e9
        assert rack.uplink_bytes_per_s == fine.rack_list()[0].uplink_bytes_per_s
        assert topology.racks.nodes * topology.links.nic == 30 * fine.links.nic
    assert made.storage.block == 16 * fine.storage.block
    with pytest.raises(UsageError, match="what divides 30"):
        Coarser(topology="corral-7x30", machines=4)
    with pytest.raises(UsageError, match=r"reduce_slots = 3: need 0 where tasks are merged"):
        Coarser(topology="shadow-4x13", tasks=3)


def test_coarser_jobs_have_the_same_bytes():
    fine, coarse = (workload(f"corral-tpch,grain={grain}", 1) for grain in (1, 8))
    check_workload(coarse.jobs)
    for one, other in zip(fine.jobs, coarse.jobs, strict=True):
        assert (one.input_bytes, one.shuffle_bytes) == (other.input_bytes, other.shuffle_bytes)
        assert one.tasks / 8 <= other.tasks <= one.tasks / 8 + len(one.stages) * 8


def test_coarse_runs_are_much_like_fine_ones():
    setup = Setup(workload="corral-w3,jobs=4", topology="corral-7x30", scheduler="capacity")
    makespans = []
    for tasks, machines in ((4, 6), (8, 6)):
        coarse = Coarser(topology="corral-7x30", tasks=tasks, machines=machines)
        jobs = replace(setup, workload=f"{setup.workload},grain={tasks},arrivals=batch")
        [run] = carry_out({replace(jobs, network=coarse.network()): [1]}).popitem()[1]
        makespans.append(run["makespan_s"])
    assert makespans[0] == pytest.approx(makespans[1], rel=0.2)
