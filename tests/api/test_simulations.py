"""A job of one's own under every scheduler, in virtual time."""

from __future__ import annotations

import sys

import pytest

from railyard.cluster.errors import UsageError
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.mixes import Defaults
from railyard.resourcemanager.schedulers import all_recipes
from railyard.runs.config import cluster_config, pair_of
from railyard.runs.requests import parse_on
from railyard.runs.simulation import VirtualRun, run_virtually
from railyard.runs.sweep import sweep
from railyard.runs.workloads import measured_jobs
from tests.integration.test_whole_jobs import JOIN

TOPOLOGY = load_topology("hybrid-8x4")


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "join.py").write_text(JOIN)
    (folder / "orders").mkdir()
    for part in range(3):
        rows = [f"o{part}{at},{at % 50},{at}\n" for at in range(300)]
        (folder / "orders" / f"{part}.csv").write_text("".join(rows))
    (folder / "customers").write_text("".join(f"{at},name{at}\n" for at in range(60)))
    inputs = (f"orders={folder}/orders/*.csv", f"customers={folder}/customers")
    defaults = Defaults(size_bytes=1, inputs=inputs)
    return measured_jobs([f"{folder}/join.py"], defaults, TOPOLOGY, 1)


@pytest.mark.parametrize("scheduler", sorted(all_recipes()))
def test_a_join_of_ones_own_ends_under_every_scheduler(workload, scheduler):
    config = cluster_config(TOPOLOGY, pair=pair_of(scheduler, None), options=(), seed=1)
    [job] = run_virtually(VirtualRun(config=config, workload=workload))["jobs"]
    assert job["ok"], job
    assert (job["maps"], job["input_bytes"]) == (4, workload.jobs[0].input_bytes)


# Many runs at once: in order, wherever they are; errors and wrong places are reported.


def double(number):
    if number == 13:
        raise UsageError("13: need another number")
    return 2 * number


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_the_order_of_the_runs(workers, capsys):
    assert sweep(double, range(12), workers=workers) == [2 * n for n in range(12)]
    assert capsys.readouterr().err.splitlines()[-1] == "simulated 12 of 12 runs"


def test_a_single_run_needs_no_progress(capsys):
    assert sweep(double, [4]) == [8]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_run_raises_comes_through(workers):
    with pytest.raises(UsageError, match="13: need another"):
        sweep(double, [1, 13, 2], workers=workers)


WRONG = {
    "kind": ("dusk:x", 'unknown place for --on "dusk": did you mean "dask"?'),
    "no address": ("dask", "--on dask: need an address, as in dask:tcp://"),
}


@pytest.mark.parametrize(("on", "words"), WRONG.values(), ids=WRONG)
def test_wrong_places(on, words):
    with pytest.raises(UsageError) as refused:
        parse_on(on)
    assert words in str(refused.value)


@pytest.mark.parametrize(("on", "library"), [("dask:tcp://x:1", "distributed"), ("ray:x", "ray")])
def test_a_library_that_is_missing_is_named_in_one_line(on, library, monkeypatch):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=r"needs (Dask|Ray): pip install"):
        sweep(double, [1, 2], on=parse_on(on))
