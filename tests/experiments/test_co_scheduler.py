"""Co-scheduler's experiments: what is run, what it is held against, and one run."""

from dataclasses import replace

import pytest

from railyard.cluster.topology import load_topology
from railyard.experiments.papers.co_scheduler import (
    PAPER,
    circuits_used,
    core_used,
    exact,
    share_on_circuits,
)
from railyard.experiments.reproduction import carry_out
from railyard.runs.workloads import simulators_workload

_TIMES = {"makespan", "JCT mean", "CCT mean"}
_EXACT = ("fig5a", "fig5b", "fig6", "load", "printed")


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


def test_the_main_table_is_of_every_task_and_flow_and_others_say_that_they_are_not():
    for name, make in PAPER.figures.items():
        figure = make(False)
        coarse = {bool(setup.coarse) for setup in figure.setups()}
        assert coarse == {name not in _EXACT} or name == "coarsening", name
        says = any("tasks are one" in words for words in figure.scaled)
        assert says == (name not in _EXACT and name != "coarsening"), name
        assert {setup.coarse for setup in make(True).setups()} == {
            setup.coarse for setup in figure.setups()
        }


def test_all_go_with_sunflow_on_the_papers_topology():
    for make in PAPER.figures.values():
        for setup in make(False).setups():
            assert setup.topology == "co-scheduler-60x10"
            assert setup.flow_scheduler == "sunflow"


def test_the_share_on_circuits_is_of_what_shuffles_send_between_racks():
    rows = [{"cross_rack_shuffle_bytes": 300}, {"cross_rack_shuffle_bytes": 100}]
    run = {"jobs": rows, "bytes": {"ocs": 100, "cross_rack": 4000}}
    assert share_on_circuits(run) == 25.0
    nothing = {"jobs": [{"cross_rack_shuffle_bytes": 0}], "bytes": {"ocs": 0}}
    assert share_on_circuits(nothing) is None


def test_the_use_of_the_core_is_of_60_links_and_that_of_circuits_of_60_ports():
    topology = "co-scheduler-60x10"
    run = {"topology": topology, "makespan_s": 100.0, "bytes": {"eps": 750e9, "ocs": 7500e9}}
    assert core_used(run) == pytest.approx(10.0)
    assert circuits_used(run) == pytest.approx(10.0)
    assert core_used(run | {"topology": f"{topology},racks.count=15"}) == pytest.approx(40.0)


@pytest.mark.usefixtures("_trace")
def test_as_printed_jobs_that_do_not_shuffle_come_too_within_90_minutes():
    topology = load_topology("co-scheduler-60x10")
    [printed] = {setup.workload for setup in PAPER.figures["printed"](False).setups()}
    made = simulators_workload(printed, topology, 1)
    assert any(job.shuffle_bytes == 0 for job in made.jobs)
    assert 5000 < made.jobs[-1].submit_s <= 5400
    reading = simulators_workload(exact(False).workload, topology, 1)
    assert all(job.shuffle_bytes and job.submit_s == 0 for job in reading.jobs)


@pytest.mark.usefixtures("_trace")
def test_co_schedulers_shuffles_go_by_circuits():
    setups = PAPER.figures["wavelengths"](False).setups()
    [setup] = [each for each in setups if ("wavelengths", "4") in each.network]
    few = replace(setup, workload=f"{setup.workload},shuffle_min=1GB,jobs=8")
    [summary] = carry_out([few], [1])[few]
    assert len(summary["jobs"]) == 8
    share = share_on_circuits(summary)
    assert share is not None
    assert 90 < share <= 100
