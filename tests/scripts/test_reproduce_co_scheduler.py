"""Co-scheduler's experiments: what is run, what it is held against, and one run."""

import pytest

from railyard.scripts.reproduce.papers.co_scheduler import PAPER, SHARE_ON_CIRCUITS
from railyard.scripts.reproduce.runs import carry_out

_TIMES = {"makespan", "JCT mean", "CCT mean"}


@pytest.fixture
def _trace(tmp_path, monkeypatch):
    """40 jobs in place of the public trace, 6 of them with few bytes to shuffle."""
    lines = [
        f"job{at}\t{at}\t1\t{10**9}\t{10**6 if at < 6 else at * 10**9}\t{10**8}" for at in range(40)
    ]
    file = tmp_path / "swim" / "FB-2009_samples_24_times_1hr_0.tsv"
    file.parent.mkdir()
    file.write_text("\n".join(lines))
    monkeypatch.setenv("RAILYARD_TRACES", str(tmp_path))


@pytest.mark.parametrize("quick", [True, False])
def test_every_number_that_the_paper_has_is_in_some_figure(quick):
    figures = {name: make(quick) for name, make in PAPER.figures.items()}
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
    assert {line.measure.title for line in figures["fig5a"].lines} == _TIMES


@pytest.mark.parametrize("name", PAPER.figures)
def test_a_figure_says_that_it_has_fewer_jobs(name):
    """A quick one all the more; the paper's 1,000 jobs in 90 minutes go without saying."""
    quick, full = PAPER.figures[name](True), PAPER.figures[name](False)
    assert any("jobs instead of 1000" in words for words in quick.scaled)
    whole = all("jobs=1000,window=5400s" in setup.workload for setup in full.setups())
    assert whole == (not full.scaled)


def test_all_go_with_sunflow_on_the_papers_topology():
    for make in PAPER.figures.values():
        for setup in make(False).setups():
            assert setup.topology == "co-scheduler-60x10"
            assert setup.flow_scheduler == "sunflow"


def test_the_share_on_circuits_is_of_what_shuffles_send_between_racks():
    jobs = [{"cross_rack_shuffle_bytes": 300}, {"cross_rack_shuffle_bytes": 100}]
    run = {"jobs": jobs, "bytes": {"ocs": 100, "cross_rack": 4000}}
    assert SHARE_ON_CIRCUITS.quantity(run) == 25.0
    nothing = {"jobs": [{"cross_rack_shuffle_bytes": 0}], "bytes": {"ocs": 0}}
    assert SHARE_ON_CIRCUITS.quantity(nothing) is None


@pytest.mark.usefixtures("_trace")
def test_co_schedulers_shuffles_ride_circuits():
    setups = PAPER.figures["wavelengths"](True).setups()
    [setup] = [each for each in setups if ("wavelengths", "4") in each.network]
    [summary] = carry_out([setup], [1])[setup]
    assert len(summary["jobs"]) == 40
    share = SHARE_ON_CIRCUITS.quantity(summary)
    assert share is not None
    assert 90 < share <= 100
