"""Shadow's experiments: what they are held against, and one run."""

from dataclasses import replace

import pytest

from railyard.experiments.papers.shadow import PAPER, figure_11
from railyard.experiments.reproduction import carry_out, values


@pytest.mark.parametrize("quick", [True, False])
def test_every_number_that_the_paper_has_is_in_some_figure(quick):
    published = {
        name: {line.published.most for line in make(quick).lines if line.published}
        for name, make in PAPER.figures.items()
    }
    assert {26, 16.8} <= published["fig10"]
    assert {24, 36} <= published["fig11"]
    assert published["fig12"] == {16.4}
    assert 10 in published["fig14"]
    assert 7 in published["fig15"]
    assert {15, 100, 18.9} <= published["fig16"]
    assert published["fig17"] == {13, 100}
    assert {49.8, 36.6} <= published["fig20"]
    assert published["fig23"] == {2.01, 1.01, 45, 18}


def test_all_run_the_same_jobs_with_the_same_settings():
    for make in PAPER.figures.values():
        for line in make(True).lines:
            if line.base is not None:
                assert line.base.workload == line.own.workload
                assert line.base.scheduler_options == line.own.scheduler_options
                assert line.base.network == line.own.network


def test_throughput_is_compared_once_a_fifth_of_the_jobs_has_ended():
    (line,) = [each for each in figure_11(True).lines if each.measure.title.startswith("more jobs")]
    own = {"jobs": [{"finished_s": at_s} for at_s in (1, 10, 20, 30, 35)]}
    base = {"jobs": [{"finished_s": at_s} for at_s in (9, 10, 30, 40, 50)]}
    assert line.measure.of(own, base) == pytest.approx(66.7, abs=0.1)  # at 35 s, 5 of 3


def test_what_heartbeats_skew_shadow_makes_even_and_is_faster():
    figure = PAPER.figures["fig23"](True)
    lines = tuple(line for line in figure.lines if line.measure.title != "shuffle time")
    found = carry_out([run for line in lines for run in (line.own, line.base) if run], [2])
    before, after, less_time, less_skew = values(replace(figure, lines=lines), found)
    assert before.own > 1.5
    assert after.own < 1.05
    assert less_time.ours.mean > 5
    assert less_skew.ours.mean > 30
