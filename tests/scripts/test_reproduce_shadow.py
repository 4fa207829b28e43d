"""Shadow's experiments: what they are held against, and one run."""

from dataclasses import replace

import pytest

from railyard.scripts.reproduce.papers.shadow import PAPER
from railyard.scripts.reproduce.runs import carry_out
from railyard.scripts.reproduce.values import values


@pytest.mark.parametrize("quick", [True, False])
def test_every_number_that_the_paper_has_is_in_some_figure(quick):
    published = {
        name: {line.published.most for line in make(quick).lines if line.published}
        for name, make in PAPER.figures.items()
    }
    assert published["fig10"] == {26}
    assert published["fig12"] == {16.4}
    assert 7 in published["fig15"]
    assert published["fig16"] == {15, 100, 18.9}
    assert published["fig17"] == {13, 100}
    assert published["fig20"] == {49.8, 36.6}
    assert published["fig23"] == {2.01, 1.01, 45, 18}


def test_all_run_the_same_jobs_with_the_same_settings():
    for make in PAPER.figures.values():
        for line in make(True).lines:
            if line.base is not None:
                assert line.base.workload == line.own.workload
                assert line.base.scheduler_options == line.own.scheduler_options
                assert line.base.network == line.own.network


def test_twice_as_many_blocks_in_one_rack_load_a_link_twice_as_much():
    figure = PAPER.figures["fig23"](True)
    (line,) = [
        each
        for each in figure.lines
        if (each.case, each.subject, each.measure.title) == ("one replica", "delay", "skew")
    ]
    found = carry_out([line.own], [1])
    (value,) = values(replace(figure, lines=(line,)), found)
    assert value.own == pytest.approx(2.0, abs=0.2)
