"""Another package's scheduler on both clocks: its own figures, and its flow scheduler."""

import json

import pytest

from tests.command_line import SMALL
from tests.integration.tutorials import schedulers

MODULE = """
from railyard import Recipe
from railyard.resourcemanager.interface.defaults import ClosestTasks
from railyard.resourcemanager.schedulers.fair import FairOrder


class Counting(ClosestTasks):
    section = ""

    def __init__(self, config, cluster):
        super().__init__(config, cluster)
        self.launched = 0

    def attempt_launched(self, attempt):
        self.launched += 1

    def figures(self):
        return {"launched": self.launched}


class Broken(Counting):
    def figures(self):
        return {"mean": self.launched / 0}


RECIPES = tuple(
    Recipe(name=name, source="a test", order=FairOrder, tasks=tasks, flow_scheduler="sjf")
    for name, tasks in (("counting", Counting), ("broken", Broken))
)
"""


@pytest.fixture(name="package", autouse=True)
def installed(tmp_path, railyard):
    """Both schedulers, as another package has them."""
    folder = tmp_path / "package"
    schedulers(folder, "counting", MODULE, all="counting:RECIPES")
    railyard.environment["PYTHONPATH"] = str(folder)


def test_figures_and_flow_scheduler_on_both_clocks(railyard, tmp_path):
    assert "goes with the flow scheduler sjf" in railyard.ok("schedulers")
    railyard.ok(
        *("compare", "terasort,size=300MB", "--schedulers", "counting, counting + maxmin"),
        *("--topology", SMALL, "--seeds", "1", "--json", tmp_path / "c.json"),
    )
    rows = json.loads((tmp_path / "c.json").read_text())
    assert [(row["flow_scheduler"], row["clock"]) for row in rows] == [
        ("sjf", "wall"),
        ("maxmin", "wall"),
        ("sjf", "virtual"),
        ("maxmin", "virtual"),
    ]
    for row in rows:
        [run] = row["runs"]
        launched = run["figures"]["Counting"]["launched"]
        if row["clock"] == "virtual":
            assert launched == run["tasks"]["launched"]
        else:  # with the jobs that made the input and checked the output
            assert launched > run["tasks"]["launched"]
        assert row["own_figures"]["Counting.launched"]["mean"] == launched


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(("run", "topwords", "--size", "1GB", "--scheduler", "broken"), id="run"),
        pytest.param(
            ("simulate", "--workload", "terasort", "--size", "1GB", "--scheduler", "broken + fifo"),
            id="simulate",
        ),
    ],
)
def test_broken_figures_cost_no_results(railyard, tmp_path, words):
    file = tmp_path / "s.json"
    done = railyard.run(*words, "--topology", SMALL, "--json", file)
    assert done.returncode == 70
    said = "broken/Broken.figures failed"
    assert done.stderr.splitlines()[-1].startswith(f"railyard: {said}")
    assert "ZeroDivisionError: division by zero" in done.stderr
    assert "job time" in done.stdout
    summary = json.loads(file.read_text())
    assert summary["figures"] == {}
    assert summary["figures_error"].startswith(said)
    assert all(job["ok"] for job in summary["jobs"])
    assert summary["flow_scheduler"] == ("sjf" if words[0] == "run" else "fifo")
    assert railyard.nothing_left()
