"""Tetrium's experiments: what is run, what it is held against, and one run."""

from dataclasses import replace

import pytest

from railyard.cluster.topology import load_topology
from railyard.experiments.figures import Figure, Setup, against
from railyard.experiments.measures import SLOWDOWN, SLOWED_DOWN
from railyard.experiments.papers.tetrium import PAPER
from railyard.experiments.reproduction import carry_out, values

JOBS = Setup(workload="tetrium-bigdata,jobs=2", topology="tetrium-8", scheduler="fair")


def _run(**times_s):
    return {"jobs": [{"name": name, "jct_s": time_s} for name, time_s in times_s.items()]}


@pytest.mark.parametrize("quick", [True, False])
def test_every_number_that_the_paper_has_is_in_some_figure(quick):
    published = {
        name: {line.published.most for line in make(quick).lines if line.published}
        for name, make in PAPER.figures.items()
    }
    assert published["fig5"] == {78, 55}
    assert published["fig6"] == {45, 16}
    assert {42, 26, 50, 35, 33, 47, 0} <= published["fig8"]
    assert published["fig9"] == {42, 38, 32, 29}
    assert published["reverse"] == {42, 45}
    assert {53, 40, 42, 25, 36, 38, 0} <= published["fig10"]
    assert {22, 37, 39, 16, 26, 34, 6, 18, 24} <= published["fig11"]


def test_figures_have_both_loads_and_say_how_busy_sites_are():
    for name in ("fig5", "fig8"):
        lines = PAPER.figures[name](True).lines
        cases = {line.case for line in lines if line.measure.title == "slots used"}
        assert {case.rpartition(", ")[2] for case in cases} == {"as read", "waves"}


def test_a_slowdown_is_of_times_alone():
    alone = replace(JOBS, workload="tetrium-bigdata,jobs=2,gap=9h")
    lines = against("fair", ["delay"], [SLOWDOWN], case="x", jobs=JOBS)
    figure = Figure(title="", where="", lines=(replace(lines[0], alone=alone),))
    assert set(figure.setups()) == {JOBS.under("fair"), JOBS.under("delay"), alone}
    found = {
        alone: [_run(a=10.0, b=20.0)],
        JOBS.under("fair"): [_run(a=40.0, b=40.0)],  # 4 and 2 times as long
        JOBS.under("delay"): [_run(a=20.0, b=20.0)],  # 2 times and once
    }
    [value] = values(figure, found)
    assert (value.own, value.base, value.ours.mean) == (1.5, 3.0, 50.0)


def test_jobs_that_take_longer_than_under_the_baseline():
    assert SLOWED_DOWN.of(_run(a=1.0, b=5.0), _run(a=2.0, b=4.0)) == 50.0


def test_skewed_sites_have_as_much_in_all_and_five_lose_some():
    total = load_topology("tetrium-50").slots
    figures = {name: PAPER.figures[name](True) for name in ("fig11", "fig12")}
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


def test_tetrium_runs_as_a_figure_has_it():
    [line, *_] = PAPER.figures["fig5"](True).lines
    setup = replace(line.own, workload="tetrium-bigdata,jobs=2,sites=8")
    [summary] = carry_out([setup], [1])[setup]
    assert [job["ok"] for job in summary["jobs"]] == [True, True]
