"""``railyard explain`` on a run's folder: lines for people, JSON for programs, errors in a line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command_line import CommandLine


@pytest.fixture
def results(railyard: CommandLine, tmp_path: Path) -> Path:
    folder = tmp_path / "results"
    workload = ["--workload", "mix,jobs=5,window=5s", "--scheduler", "co-scheduler", "--seed", "2"]
    done = railyard.call("simulate", *workload, "--out", folder)
    assert done.returncode == 0, done.stderr
    return folder


def test_everything_can_be_explained_within_80_columns(railyard: CommandLine, results: Path):
    flow = next(
        json.loads(line)["flow"]
        for line in (results / "events.jsonl").read_text().splitlines()
        if '"flow-finished"' in line
    )
    stage = flow.split(".0:")[0].rstrip("0123456789")
    for what in ("j1", "j1.m0", "j1.m0.0", stage, flow, "r0-r1", "/mix/inputs"):
        done = railyard.call("explain", results, what)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].startswith(what)
        assert "co-scheduler" in lines[0] + lines[1]
        assert max(map(len, lines)) <= 80


def test_the_answer_names_policy_node_and_reason(railyard: CommandLine, results: Path):
    text = railyard.call("explain", results, "j1.m0").stdout
    assert "co-scheduler/tasks placed it: line 7" in " ".join(text.split())


def test_json_for_programs(railyard: CommandLine, results: Path, tmp_path: Path):
    printed = railyard.call("explain", results, "j1.m0", "--json", "-")
    e = json.loads(printed.stdout)
    assert (e["kind"], e["what"], e["scheduler"]) == ("task", "j1.m0", "co-scheduler")
    assert e["attempts"][0]["chosen"]["who"] == "co-scheduler/tasks"
    assert railyard.call("explain", results, "j1.m0", "--json", tmp_path / "e.json").returncode == 0
    assert json.loads((tmp_path / "e.json").read_text()) == e


def test_mistakes_end_in_one_line(railyard: CommandLine, results: Path, tmp_path: Path):
    for arguments, said in (
        ((results, "j99"), "j99: there is no such job"),
        ((results, "what"), "what: need a job (j3), a task (j3.m7)"),
        ((tmp_path / "none", "j1"), "cannot be read: No such file"),
        (("cluster", "j1"), "no cluster is up"),
    ):
        done = railyard.call("explain", *arguments)
        assert done.returncode == 2
        assert said in done.stderr
        assert len(done.stderr.splitlines()) == 1
