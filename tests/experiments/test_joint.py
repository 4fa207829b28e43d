"""Joint's experiments: what is run, and the published numbers beside it."""

from __future__ import annotations

from railyard.experiments.measures import JCT_MEAN
from railyard.experiments.papers.joint import PAPER


def test_all_methods_run_the_same_jobs_and_have_their_published_means():
    figure = PAPER.figures["table4"](False)
    lines = [line for line in figure.lines if line.published is not None]
    assert len(lines) == 7 * 5
    assert all(line.measure.title == JCT_MEAN.title for line in lines)
    of_joint = [line.published.least for line in lines if line.subject == "joint + afap"]
    assert of_joint == [74, 48, 40, 34, 29, 25, 20]
    tripled = next(line for line in lines if line.case == "x 3")
    assert dict(tripled.own.network) == {
        "tree.tor": "9Gbps",
        "tree.aggregation": "6Gbps",
        "tree.root": "6Gbps",
    }


def test_table_4_is_there_by_each_reading_of_the_edges():
    read = {}
    for name in ("table4", "table4-jobs", "table4-all"):
        figure = PAPER.figures[name](True)
        [workload] = {setup.workload for setup in figure.setups()}
        read[name] = workload.rpartition("=")[2]
        used = {line.measure.title for line in figure.lines if line.published is None}
        assert used == {"slots used", "root used", "aggregation used"}
    assert read == {"table4": "trace", "table4-jobs": "jobs", "table4-all": "all"}


def test_runs_of_the_paper_s_own_set_up_are_shared_by_figures():
    setups = [set(PAPER.figures[name](False).setups()) for name in ("fig9", "fig10")]
    assert setups[0] == setups[1]
    for name in ("table3", "table4", "table5"):
        assert setups[0] <= set(PAPER.figures[name](False).setups())


def test_heft_fetches_both_ways_and_delay_starts_reduces_both_ways():
    lines = PAPER.figures["parts"](True).lines
    options = {line.subject: dict(line.own.scheduler_options) for line in lines}
    assert options["heft + sjf, prefetch"]["heft.prefetch"] == "true"
    assert options["joint:no-aeap"] == {"shuffle.slowstart": "1"}, "as all: delay reads it"
    assert options["delay + sjf, reduces as in Hadoop"] == {"shuffle.slowstart": "0.05"}
