"""The papers' experiments: what is run, what it is held against, and one run of each."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any

import msgspec
import pytest

from railyard.cluster.topology import load_topology
from railyard.experiments.figures import (
    Figure,
    Published,
    Setup,
    circuits_used,
    core_used,
    lines,
    measures_of,
    share_on_circuits,
)
from railyard.experiments.papers import PAPERS, Block, Change, FigureTable, Paper, SetUp, paper
from railyard.experiments.reproduction import carry_out, values
from railyard.runs.config import grain_of
from railyard.runs.workloads import simulators_workload

MEASURES = measures_of()
CO_SCHEDULER, CORRAL, JOINT = paper("co-scheduler"), paper("corral"), paper("joint")
SHADOW, TETRIUM = paper("shadow"), paper("tetrium")
JOBS = Setup(workload="tetrium-bigdata,jobs=2", topology="tetrium-8", scheduler="fair")


# Tables ------------------------------------------------------------------------------------------
def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)
    else:
        yield str(value)


@pytest.mark.parametrize("name", PAPERS)
def test_what_a_table_names_is_used_in_it(name: str):
    table = msgspec.to_builtins(paper(name))
    strings = set(_strings(table))
    assert set(table["setup"]) | set(table["group"]) <= strings
    assert set(table["rows"]["reasons"]) <= strings
    text = "\n".join(strings)
    unused = [
        value for value in {**table["values"], **table["quick"]} if f"{{{value}}}" not in text
    ]
    assert unused == []


@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("name", PAPERS)
def test_figures_say_how_coarse_their_runs_are(name: str, quick: bool):
    for figure in paper(name).figures(quick).values():
        text, setups = "\n".join(figure.scaled), figure.setups()
        tasks = {int(number) for number in re.findall(r"every (\d+) tasks are one", text)}
        assert not tasks or tasks == {grain_of(setup.workload) for setup in setups}
        machines = set(re.findall(r"^(\d+) machines a rack", text, re.MULTILINE))
        assert not machines or machines == {dict(setup.network)["racks.nodes"] for setup in setups}


@pytest.mark.parametrize(
    ("block", "words"),
    [
        (Block(of=["fair"], measures=["less makespam"]), "less makespam"),
        (Block(of=["fair"], measures=["less {makespan}"]), "makespan"),
        (Block(setup="job", of=["fair"], measures=["less makespan"]), "job"),
        (Block(only="quik", of=["fair"], measures=["less makespan"]), "quik"),
        (Block(use="both"), "both"),
        (Block(case="x", of=["fair"]), 'case "x" has no contenders or no measures'),
    ],
)
def test_what_a_table_does_not_have_is_refused_with_the_figure(block: Block, words: str):
    made = Paper(
        title="a paper",
        setup={"jobs": SetUp(workload="corral-w3", topology="flat-4x4")},
        figure={"fig1": FigureTable("", "", [Block(setup="jobs", lines=[block])])},
    )
    with pytest.raises(LookupError, match=words) as caught:
        made.figures(quick=True)
    assert caught.value.__notes__ == ["in figure fig1 of a paper"]


def test_what_holds_around_a_block_holds_in_it_unless_it_says_else():
    inner = [
        Block(),
        Block(case="{case}, slow", of=["delay"], own=Change(network={"links.nic": ""})),
    ]
    made = Paper(
        title="a paper",
        quick={"tasks": 4},
        values={"tasks": 1},
        setup={
            "jobs": SetUp(
                workload="corral-w3",
                options={"grain": "{tasks}"},
                topology="flat-4x4",
            )
        },
        figure={
            "fig1": FigureTable(
                title="",
                where="",
                lines=[
                    Block(
                        each=[
                            ["case", "only", "gain"],
                            ["x", "quick", "10 to 33"],
                            ["y", "whole", 4],
                        ],
                        setup="jobs",
                        base="fair",
                        of=["corral"],
                        own=Change(
                            network={"links.nic": "1Gbps"}, settings={"delay.node_wait_s": 1}
                        ),
                        measures={"less makespan": "{gain}"},
                        lines=inner,
                    )
                ],
            )
        },
    )
    one, other = made.figures(quick=True)["fig1"].lines
    assert (one.case, one.subject, other.case, other.subject) == ("x", "corral", "x, slow", "delay")
    assert one.published == other.published == Published(10, 33)
    assert one.base == other.base
    assert one.base is not None
    assert (one.base.workload, one.base.network) == ("corral-w3,grain=4", ())
    assert (one.own.network, other.own.network) == ((("links.nic", "1Gbps"),), ())
    assert other.own.scheduler_options == (("delay.node_wait_s", "1"),)
    assert [line.case for line in made.figures(quick=False)["fig1"].lines] == ["y", "y, slow"]


# Corral ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("quick", [True, False])
def test_every_number_of_corrals_paper_is_in_some_figure(quick: bool):
    found = {
        name: {
            (line.published.least, line.published.most)
            for line in figure.lines
            if line.published and math.isfinite(line.published.most - line.published.least)
        }
        for name, figure in CORRAL.figures(quick).items()
    }
    assert found["fig6"] == {(10, 33)}
    assert found["fig7"] == {(20, 90), (0, 20), (40, 40)}
    assert found["fig8"] == {(30, 56), (26, 36), (0, 0)}
    assert found["fig9"] == {(30, 36)}
    assert found["fig10"] == {(18.5, 18.5), (21, 21)}
    assert found["fig11"] == {(33, 33), (27, 27), (20, 20), (37, 37), (28, 28)}
    assert found["fig12"] == {(10, 33), (26, 36), (50, 100), (60, 100)}
    assert found["fig13"] == {(25, 35), (40, 40), (25, 40)}
    assert found["fig14"] == {(46, 46), (45, 45)}


@pytest.mark.parametrize("quick", [True, False])
def test_late_jobs_are_as_late_for_w1s_gaps_as_in_the_paper(quick: bool):
    """4 min are 6.67 gaps (section 6.5)."""
    figure = CORRAL.figures(quick)["fig13"]
    late = [setup.workload for setup in figure.setups() if "late_by" in setup.workload]
    assert late
    for name, text in (text.split(",", 1) for text in late):
        given = dict(pair.split("=") for pair in text.split(","))
        jobs, window, late_by = (given[key].rstrip("s") for key in ("jobs", "window", "late_by"))
        assert name == "corral-w1"
        assert float(late_by) / (float(window) / int(jobs)) == pytest.approx(240 / 36, rel=0.01)


@pytest.mark.parametrize("quick", [True, False])
def test_simulated_jobs_come_at_the_papers_rate(quick: bool):
    """200 jobs over 15 min (section 6.6)."""
    for setup in CORRAL.figures(quick)["fig14"].setups():
        given = dict(pair.split("=") for pair in setup.workload.split(",")[1:])
        assert float(given["window"].rstrip("s")) / int(given["jobs"]) == 4.5


# Co-scheduler ------------------------------------------------------------------------------------
@pytest.fixture
def _trace(tmp_path, monkeypatch):
    """1,040 jobs in place of the public trace, 1,000 of them shuffle, most of these a few bytes."""
    lines = [
        f"job{at}\t{at}\t1\t{10**9}\t{0 if at < 40 else 10**6 if at < 1030 else at * 10**7}\t9"
        for at in range(1040)
    ]
    file = tmp_path / "swim" / "FB-2009_samples_24_times_1hr_0.tsv"
    file.parent.mkdir()
    file.write_text("\n".join(lines))
    monkeypatch.setenv("RAILYARD_TRACES", str(tmp_path))


@pytest.mark.parametrize("quick", [True, False])
def test_every_number_of_co_schedulers_paper_is_in_some_figure(quick):
    figures = CO_SCHEDULER.figures(quick)
    exact = {
        name: {
            line.published.least
            for line in figure.lines
            if line.published and line.published.least == line.published.most != 0
        }
        for name, figure in figures.items()
    }
    assert exact["fig5a"] == {43, 44, 56, 61, 63, 79}
    assert exact["fig5b"] == {2.2, 33.0, 95.2}
    assert exact["fig7"] == {16, 21, 25}
    assert exact["fig10"] == {18, 21, 43, 51}
    titles = {line.measure.title for line in figures["fig5a"].lines}
    assert titles == {"makespan", "JCT mean", "CCT mean"}


@pytest.mark.parametrize("quick", [True, False])
def test_all_go_with_sunflow_on_the_papers_topology_with_every_task_and_flow(quick):
    for figure in CO_SCHEDULER.figures(quick).values():
        for setup in figure.setups():
            assert setup.topology == "co-scheduler-60x10"
            assert setup.flow_scheduler == "sunflow"
            assert setup.coarse == ""


def test_corral_has_the_settings_of_its_own_paper_in_one_reading_only():
    figures = CO_SCHEDULER.figures(True)
    named = [(name, line) for name, figure in figures.items() for line in figure.lines]
    changed = {
        (name, line.case.partition(",")[0], line.own.scheduler_options)
        for name, line in named
        if line.base is not None and line.base.scheduler_options
    }
    assert changed == {("readings", "late reduces and a plan for the makespan", ())}


def test_the_share_on_circuits_is_of_what_shuffles_send_between_racks():
    rows = [{"cross_rack_shuffle_bytes": 300}, {"cross_rack_shuffle_bytes": 100}]
    run = {"jobs": rows, "bytes": {"ocs": 100, "cross_rack": 4000}}
    assert share_on_circuits(run) == 25.0
    nothing = {"jobs": [{"cross_rack_shuffle_bytes": 0}], "bytes": {"ocs": 0}}
    assert share_on_circuits(nothing) is None
    assert MEASURES["by circuit"].of(run, None) == 2.5, "of all bytes"


def test_the_use_of_the_core_is_of_60_links_and_that_of_circuits_of_60_ports():
    topology = "co-scheduler-60x10"
    run = {"topology": topology, "makespan_s": 100.0, "bytes": {"eps": 750e9, "ocs": 7500e9}}
    assert core_used(run) == pytest.approx(10.0)
    assert circuits_used(run) == pytest.approx(10.0)
    assert core_used(run | {"topology": f"{topology},racks.count=15"}) == pytest.approx(40.0)


@pytest.mark.usefixtures("_trace")
def test_as_printed_jobs_that_do_not_shuffle_come_too_within_90_minutes():
    topology = load_topology("co-scheduler-60x10")
    [printed] = {setup.workload for setup in CO_SCHEDULER.figures(False)["printed"].setups()}
    made = simulators_workload(printed, topology, 1)
    assert any(job.shuffle_bytes == 0 for job in made.jobs)
    assert 5000 < made.jobs[-1].submit_s <= 5400
    [exact] = {setup.workload for setup in CO_SCHEDULER.figures(False)["fig5b"].setups()}
    reading = simulators_workload(exact, topology, 1)
    assert all(job.shuffle_bytes and job.submit_s == 0 for job in reading.jobs)


@pytest.mark.usefixtures("_trace")
def test_co_schedulers_shuffles_go_by_circuits():
    setups = CO_SCHEDULER.figures(False)["fig5b"].setups()
    [setup] = [each for each in setups if each.scheduler == "co-scheduler"]
    few = replace(setup, workload=f"{setup.workload},shuffle_min=1GB,jobs=2,times=4")
    [summary] = carry_out({few: [1]})[few]
    assert len(summary["jobs"]) == 2
    share = share_on_circuits(summary)
    assert share is not None
    assert 90 < share <= 100


# Joint -------------------------------------------------------------------------------------------
def test_joints_rivals_run_the_same_jobs_and_have_their_published_means():
    lines = JOINT.figures(False)["table4"].lines
    means = [line for line in lines if line.base is None]
    assert len(means) == 7 * 5
    assert all(line.measure.words == "JCT mean" for line in means)
    of_joint = [line.published.least for line in means if line.subject == "joint + afap"]
    assert of_joint == [74, 48, 40, 34, 29, 25, 20]
    tripled = next(line for line in lines if line.case == "x 3")
    assert dict(tripled.own.network) == {
        "tree.tor": "9Gbps",
        "tree.aggregation": "6Gbps",
        "tree.root": "6Gbps",
    }


@pytest.mark.parametrize("quick", [True, False])
def test_all_of_joints_tables_are_there_with_all_methods(quick):
    figures = JOINT.figures(quick)
    for name, cases in (("table3", 8), ("table4", 7), ("table5", 7)):
        means = [line for line in figures[name].lines if line.base is None]
        assert len({line.own for line in means}) == len(means) == 5 * cases
        assert all(line.published is not None for line in figures[name].lines)
    gains = {
        line.base.under("heft + sjf") == line.base
        for line in figures["fig9"].lines
        if line.base and line.published == Published(55, 55)
    }
    assert gains == {True}, "the abstract's 55 %"


def test_joints_servers_grow_for_each_method_against_itself():
    case = "336 instead of 240 servers"
    lines = JOINT.figures(False)["table5"].only([case]).lines
    assert len(lines) == 4
    for line in lines:
        assert line.base is not None
        assert line.own.pair == line.base.pair
        assert line.own.network == (("racks.nodes", "21"),)
        assert line.base.network == (("racks.nodes", "15"),)


def test_other_readings_of_joint_change_one_thing_each():
    lines = JOINT.figures(True)["readings"].lines
    whole = JOINT.figures(False)["readings"].lines
    assert [line.own for line in lines] == [line.own for line in whole], "slow, so always small"
    usual = "joint,jobs=30,gap=15s"
    read = {line.case: line.own.workload.removeprefix(usual) for line in lines if not line.base}
    assert read == {
        "as in Table 4": "",
        "maps read as much as they output": ",reads=1",
        "edges=all": ",edges=all",
        "edges=jobs": ",edges=jobs",
        "600 s a job": ",work=600s,median=35",
        "600 s a job whose maps read": ",work=600s,median=35,reads=1",
        "HEFT's ties at random": "",
    }
    drawn = [line for line in lines if line.case == "HEFT's ties at random"]
    assert all(("heft.ties", "random") in line.own.scheduler_options for line in drawn)


def test_runs_of_the_paper_s_own_set_up_are_shared_by_figures():
    setups = [set(JOINT.figures(False)[name].setups()) for name in ("fig9", "fig10")]
    assert setups[0] == setups[1]
    for name in ("table3", "table4", "table5"):
        assert setups[0] <= set(JOINT.figures(False)[name].setups())


def test_heft_fetches_both_ways_and_delay_starts_reduces_both_ways():
    lines = JOINT.figures(True)["parts"].lines
    options = {line.subject: dict(line.own.scheduler_options) for line in lines}
    assert options["heft + sjf, prefetch"]["heft.prefetch"] == "true"
    assert options["joint:no-aeap"] == {"shuffle.slowstart": "1"}, "as all: delay reads it"
    assert options["delay + sjf, reduces as in Hadoop"] == {"shuffle.slowstart": "0.05"}


# Shadow ------------------------------------------------------------------------------------------
@pytest.mark.parametrize("quick", [True, False])
def test_every_number_of_shadows_paper_is_in_some_figure(quick):
    published = {
        name: {line.published.most for line in figure.lines if line.published}
        for name, figure in SHADOW.figures(quick).items()
    }
    assert published["fig1"] == {100}
    assert {26, 16.8} <= published["fig10"]
    assert {24, 36} <= published["fig11"]
    assert published["fig12"] == {16.4, inf}
    assert published["fig14"] == {20, 10}
    assert published["fig15"] == {20, inf, 7}
    assert published["fig16"] == {15, 100}
    assert published["fig17"] == {13, 100}
    assert {49.8, 36.6} <= published["fig20"]
    assert published["fig23"] == {2.01, 1.01, 45, 18}


def test_shadows_rivals_run_the_same_jobs_with_the_same_settings():
    for figure in SHADOW.figures(True).values():
        for line in figure.lines:
            if line.base is not None:
                assert line.base.workload == line.own.workload
                assert line.base.scheduler_options == line.own.scheduler_options
                assert line.base.network == line.own.network


def test_up_to_is_the_best_of_the_jobs():
    best, mean = (MEASURES[f"less job time, {over}"] for over in ("at best", "mean of each"))
    own, base = (
        {"jobs": [{"name": name, "jct_s": time_s} for name, time_s in times_s.items()]}
        for times_s in ({"a": 9.0, "b": 6.0}, {"a": 10.0, "b": 10.0})
    )
    assert (best.of(own, base), mean.of(own, base)) == pytest.approx((40.0, 25.0))


def test_how_long_shuffles_take_is_of_mean_times():
    jobs = [{"name": "a", "cct_s": 1.0, "jct_s": 4.0}, {"name": "b", "cct_s": 5.0, "jct_s": 6.0}]
    share = MEASURES["shuffle, of the job time"]
    assert share.of({"jobs": jobs}, None) == pytest.approx(60.0)


def test_throughput_is_compared_once_a_fifth_of_the_jobs_has_ended():
    (line,) = [
        each
        for each in SHADOW.figures(True)["fig11"].lines
        if each.measure.title.startswith("more jobs")
    ]
    own = {"jobs": [{"finished_s": at_s} for at_s in (1, 10, 20, 30, 35)]}
    base = {"jobs": [{"finished_s": at_s} for at_s in (9, 10, 30, 40, 50)]}
    assert line.measure.of(own, base) == pytest.approx(66.7, abs=0.1)  # at 35 s, 5 of 3


def test_what_heartbeats_skew_shadow_makes_even_and_is_faster():
    figure = SHADOW.figures(True)["fig23"]
    found = carry_out({run: [2] for line in figure.lines for run in (line.own, line.base) if run})
    before, less_shuffle, less_time, after = values(figure, found)
    assert before.own > 1.5
    assert after.own < 1.05
    assert less_shuffle.ours.mean > 15
    assert less_time.ours.mean > 5


# Tetrium -----------------------------------------------------------------------------------------
def _run(**times_s):
    return {"jobs": [{"name": name, "jct_s": time_s} for name, time_s in times_s.items()]}


@pytest.mark.parametrize("quick", [True, False])
def test_every_number_of_tetriums_paper_is_in_some_figure(quick):
    published = {
        name: {line.published.most for line in figure.lines if line.published}
        for name, figure in TETRIUM.figures(quick).items()
    }
    assert published["fig5"] == {78, 55, inf}
    assert published["fig6"] == {45, 16, inf}
    assert {42, 26, 50, 35, 33, 47, 0} <= published["fig8"]
    assert published["fig9"] == {42, 38, 32, 29}
    assert published["reverse"] == {42, 45}
    assert {53, 40, 42, 25, 36, 38, 0, 100} <= published["fig10"]
    assert {22, 37, 39, 16, 26, 34, 6, 18, 24} <= published["fig11"]


def test_tetriums_figures_have_both_loads_and_say_how_busy_sites_are():
    for name in ("fig5", "fig8"):
        lines = TETRIUM.figures(False)[name].lines
        cases = {line.case for line in lines if line.measure.title == "slots used"}
        assert {case.rpartition(", ")[2] for case in cases} == {"as read", "waves"}


def test_a_slowdown_is_of_times_alone():
    alone = replace(JOBS, workload="tetrium-bigdata,jobs=2,gap=9h")
    compared = lines("x", JOBS, {"delay": (MEASURES["less slowdown"],)}, base="fair", alone=alone)
    figure = Figure(title="", where="", lines=tuple(compared))
    assert set(figure.setups()) == {JOBS.under("fair"), JOBS.under("delay"), alone}
    found = {
        alone: [_run(a=10.0, b=20.0)],
        JOBS.under("fair"): [_run(a=40.0, b=40.0)],  # 4 and 2 times as long
        JOBS.under("delay"): [_run(a=20.0, b=20.0)],  # 2 times and once
    }
    [value] = values(figure, found)
    assert (value.own, value.base, value.ours.mean) == (1.5, 3.0, 50.0)


def test_jobs_that_take_longer_than_under_the_baseline():
    slowed_down = MEASURES["jobs slowed down"]
    assert slowed_down.of(_run(a=1.0, b=5.0), _run(a=2.0, b=4.0)) == 50.0


def test_skewed_sites_have_as_much_in_all_and_five_lose_some():
    total = load_topology("tetrium-50").slots
    figures = TETRIUM.figures(True)
    [even, *_, skewed] = [
        sum(int(value) for key, value in line.own.network if key.endswith("slots"))
        for line in figures["fig12"].lines
        if line.case.startswith("(e) slots")
    ]
    assert even == 50 * round(total / 500 / 50)
    assert even <= skewed < even + 50, "each has at least one"
    [faults] = {line.own.faults for line in figures["fig11"].lines if "-30 %" in line.case}
    assert faults.count("slots:") == 5
    assert faults.count("*0.7@80s") == 15


def test_links_apart_are_the_same_links_at_other_sites():
    lines = TETRIUM.figures(True)["fig8"].lines
    [apart, *_] = [line for line in lines if line.case == "waves, links apart"]
    racks = load_topology("tetrium-50").rack_list()
    settings = dict(apart.own.network)
    assert apart.base is not None
    assert settings == dict(apart.base.network)
    for way in ("uplink", "downlink"):
        usual = [getattr(rack, f"{way}_bytes_per_s") for rack in racks]
        dealt = [float(settings[f"rack.{rack.id}.{way}"].removesuffix("B/s")) for rack in racks]
        assert dealt != usual
        assert sorted(dealt) == sorted(usual)


def test_tetrium_runs_as_a_figure_has_it():
    [line, *_] = TETRIUM.figures(True)["fig5"].lines
    setup = replace(line.own, workload="tetrium-bigdata,jobs=2,sites=8")
    [summary] = carry_out({setup: [1]})[setup]
    assert [job["ok"] for job in summary["jobs"]] == [True, True]
