"""docs/tutorials/write-a-flow-scheduler.md as a reader follows it: what it shows is run here."""

import pytest

from tests.command_line import SMALL
from tests.integration.tutorials import own_tests_pass

PAGE = "tutorials/write-a-flow-scheduler.md"


def test_the_flow_scheduler_is_listed_and_runs_jobs_in_both_clocks(railyard, package):
    lines = railyard.ok("schedulers").splitlines()
    [listed] = [line for line in lines if line.startswith("flow schedulers: ")]
    assert "smallest" in " ".join(listed.split()).split(", ")
    flows = ("--flow-scheduler", "smallest")
    said = railyard.ok("simulate", "--workload", "mix,jobs=3", *flows)
    assert "flows smallest" in said
    said = railyard.ok("run", "topwords", "--size", "100MB", "--topology", SMALL, *flows)
    assert "flows smallest" in said
    assert "as counted independently" in said


def test_its_own_test_passes(railyard, package):
    own_tests_pass(package, railyard.environment, 1)


@pytest.mark.parametrize(
    ("source", "what"),
    [
        pytest.param(
            "import no_such_thing\n",
            " (smallest:SmallestFirst) cannot be loaded: "
            "ModuleNotFoundError: No module named 'no_such_thing'",
            id="it cannot be imported",
        ),
        pytest.param(
            "SmallestFirst = 'fast'\n",
            " of smallest:SmallestFirst is 'fast', no subclass of FlowScheduler",
            id="it is something else",
        ),
        pytest.param(
            "from railyard.netemu.schedulers.fifo import Fifo as SmallestFirst\n",
            ' "fifo" is there twice: in railyard and smallest:SmallestFirst',
            id="its name is taken",
        ),
    ],
)
def test_a_package_that_cannot_be_used_is_reported_in_one_line(railyard, package, source, what):
    (package / "smallest.py").write_text(source)
    done = railyard.run("schedulers")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert what in done.stderr
