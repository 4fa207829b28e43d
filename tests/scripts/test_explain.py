"""``railyard explain`` on a run's folder: lines for people, JSON for programs, errors in a line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command_line import CommandLine


def test_everything_can_be_explained_for_people_and_programs(railyard: CommandLine, tmp_path: Path):
    results = tmp_path / "results"
    workload = ["--workload", "mix,jobs=5,window=5s", "--scheduler", "co-scheduler", "--seed", "2"]
    done = railyard.call("simulate", *workload, "--out", results)
    assert done.returncode == 0, done.stderr
    flow = next(
        json.loads(line)["flow"]
        for line in (results / "events.jsonl").read_text().splitlines()
        if '"flow-finished"' in line
    )
    stage = flow.split(".0:")[0].rstrip("0123456789")
    said = {}
    for what in ("j1", "j1.m0", "j1.m0.0", stage, flow, "r0-r1", "/mix/inputs"):
        done = railyard.call("explain", results, what)
        assert done.returncode == 0, done.stderr
        lines = done.stdout.splitlines()
        assert lines[0].startswith(what)
        assert "co-scheduler" in lines[0] + lines[1]
        assert max(map(len, lines)) <= 80
        said[what] = " ".join(done.stdout.split())
    assert "co-scheduler/tasks placed it: line 7: its job is not shuffle-heavy" in said["j1.m0"]
    e = json.loads(railyard.call("explain", results, "j1.m0", "--json", "-").stdout)
    assert (e["kind"], e["what"], e["scheduler"]) == ("task", "j1.m0", "co-scheduler")
    assert e["attempts"][0]["chosen"]["who"] == "co-scheduler/tasks"
    file = tmp_path / "e.json"
    assert railyard.call("explain", results, "j1.m0", "--json", file).returncode == 0
    assert json.loads(file.read_text()) == e
    _require_one_line(railyard, (results, "j99"), "j99: there is no such job")
    _require_one_line(railyard, (results, "what"), "what: need a job (j3), a task (j3.m7)")


def test_what_is_no_run_is_refused(railyard: CommandLine, tmp_path: Path):
    _require_one_line(railyard, (tmp_path / "none", "j1"), "cannot be read: No such file")
    _require_one_line(railyard, ("cluster", "j1"), "no cluster is up")


def _require_one_line(railyard: CommandLine, arguments: tuple[str | Path, ...], said: str) -> None:
    done = railyard.call("explain", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_pairs_of_racks_go_by_circuit_if_they_are_elephants(railyard: CommandLine, tmp_path: Path):
    size = ["--workload", "terasort", "--size", "40GB", "--scheduler", "co-scheduler"]
    done = railyard.call("simulate", *size, "--seed", "1", "--out", tmp_path / "results")
    assert done.returncode == 0, done.stderr
    rows = map(json.loads, (tmp_path / "results" / "network.jsonl").read_text().splitlines())
    circuits = [row for row in rows if row.get("type") == "circuit"]
    assert circuits
    e = json.loads(railyard.call("explain", tmp_path / "results", "j1.r", "--json", "-").stdout)
    by_circuit = {(pair["src"], pair["dst"]) for pair in e["pairs"] if pair["circuits"]}
    assert by_circuit == {(row["src"], row["dst"]) for row in circuits}
    for pair in e["pairs"]:  # T_e of hybrid-8x4
        assert (pair["most_left_bytes"] >= 1_125_000_000) == bool(pair["circuits"])
    src, dst = sorted(by_circuit)[0]
    said = railyard.call("explain", tmp_path / "results", f"{src}-{dst}").stdout
    [row] = [row for row in circuits if (row["src"], row["dst"]) == (src, dst)]
    assert f"{row['begin_s']:.3f} - {row['end_s']:.3f} s" in said
    assert f"by circuit; it carried from {row['lit_s']:.3f} s" in " ".join(said.split())
