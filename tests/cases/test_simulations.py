"""Simulations: those that can't go on end, and say what waits for what."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.command_line import ROOT

TERASORT = ("--workload", "terasort,size=1GB", "--topology", "flat-4x4")
FAULT = ("--faults", "link:r1.up*0@0s")


@pytest.mark.parametrize("more", [(), ("--behaviour", "progress_s=0")], ids=["", "silent"])
def test_case_41_a_simulation_that_cannot_end_says_what_waits_for_which_link(railyard, more):
    done = railyard.call("simulate", *TERASORT, *FAULT, *more)
    assert done.returncode == 1
    [line] = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert "terasort: since 5.000 s nothing can change any more: j1.r0.0 fetches 125 MB" in line
    assert "over r1.up" in line
    assert "Traceback" not in done.stderr


def test_case_41_several_runs_end_too(railyard):
    among = ("--scheduler", "fair", "--scheduler", "corral", "--seeds", "2")
    done = railyard.call("simulate", *TERASORT, *FAULT, *among)
    assert done.returncode == 1
    for name in ("fair", "corral"):
        said = f"! {name}: not to be trusted: terasort failed: since "
        assert said in done.stdout
    assert "over r1.up" in done.stdout


def test_case_41_a_fault_with_an_end_is_waited_for(railyard):
    done = railyard.call("simulate", *TERASORT, "--faults", "link:r1.up*0@0s+5000s")
    assert done.returncode == 0
    assert "1 h 23 min" in done.stdout


def unequal_children() -> dict[str, Any]:
    """A parent that writes 1 MB for one child and 999 MB for the other."""
    tasks = [
        {"id": "p", "name": "p", "children": ["a", "b"], "outputFiles": ["small", "large"]},
        {"id": "a", "name": "a", "parents": ["p"], "inputFiles": ["small"]},
        {"id": "b", "name": "b", "parents": ["p"], "inputFiles": ["large"]},
    ]
    lists = {"parents": [], "children": [], "inputFiles": [], "outputFiles": []}
    files = [{"id": "small", "sizeInBytes": 10**6}, {"id": "large", "sizeInBytes": 999 * 10**6}]
    times = [{"id": task["id"], "runtimeInSeconds": 1.0} for task in tasks]
    return {
        "name": "unequal",
        "schemaVersion": "1.5",
        "workflow": {
            "specification": {"tasks": [lists | task for task in tasks], "files": files},
            "execution": {"makespanInSeconds": 10.0, "tasks": times},
        },
    }


def test_case_45_children_of_one_parent_fetch_the_mean_and_that_is_said(railyard, tmp_path):
    path = tmp_path / "w.json"
    path.write_text(json.dumps(unequal_children()))
    shown = railyard.call("workloads", "show", f"wfcommons:{path}")
    assert shown.returncode == 0, shown.stderr
    [line] = [line for line in shown.stdout.splitlines() if "fetched by another child" in line]
    assert line.split()[-1] == "50%"
    said = (ROOT / "docs" / "workloads.md").read_text(encoding="utf-8")
    assert "each child fetches the mean" in said
