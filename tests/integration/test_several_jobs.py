"""Several jobs at once on one cluster: all verified, all in one summary; nothing is left behind."""

import json
from collections import Counter
from pathlib import Path

from railyard.cluster.ids import rack_of
from tests.command_line import SMALL, interrupt
from tests.waiting import wait_for


def test_jobs_run_together_and_share_their_inputs(railyard, tmp_path):
    said = railyard.ok(
        *("run", "terasort,size=500MB,times=2,user=ann", "wordcount,size=400MB,submit=300ms"),
        *("--topology", SMALL, "--out", tmp_path / "all"),
    )
    assert said.count("verified") == 3
    summary = json.loads((tmp_path / "all" / "summary.json").read_text())
    assert summary["verified"] is True
    jobs = {job["name"]: job for job in summary["jobs"]}
    assert list(jobs) == ["terasort-1", "terasort-2", "wordcount"]
    assert all(job["ok"] for job in jobs.values())
    assert jobs["wordcount"]["input_bytes"] == 400 * 10**6
    together = max(job["submitted_s"] for job in jobs.values())
    assert together < min(job["finished_s"] for job in jobs.values())
    assert jobs["wordcount"]["submitted_s"] - jobs["terasort-1"]["submitted_s"] > 0.2
    events = (tmp_path / "all" / "events.jsonl").read_text().splitlines()
    submitted = [row for row in map(json.loads, events) if row["type"] == "job-submitted"]
    names = Counter(row["name"] for row in submitted)
    assert names["teragen"] == names["terachecksum"] == 1
    assert {row["user"] for row in submitted if row["name"] == "terasort-2"} == {"ann"}
    assert railyard.nothing_left()


def test_skewed_inputs_lie_on_real_disks_as_in_the_simulator(railyard, tmp_path):
    place = tmp_path / "alone.toml"
    place.write_text(SMALL.read_text().replace("[storage]", "[storage]\nreplication = 1"))
    word = "terasort,size=3GB,skew=2"
    asked = ("--topology", place, "--seed", 3)
    railyard.ok("run", word, *asked, "--out", tmp_path / "wall")
    railyard.ok("simulate", "--workload", word, *asked, "--out", tmp_path / "virtual")
    wall, virtual = (_racks_read(tmp_path / clock) for clock in ("wall", "virtual"))
    assert wall == virtual
    counts = [count for _, count in Counter(wall).most_common()]
    assert len(wall) == 12
    assert counts == [9, 2, 1], "3 GB are 12 blocks: 73 %, 18 % and 8 %"
    assert railyard.nothing_left()


def _racks_read(results: Path) -> list[str]:
    """The rack of each block that the terasort in a run reads, in their order."""
    events = map(json.loads, (results / "events.jsonl").read_text().splitlines())
    [job] = [e for e in events if e["type"] == "job-submitted" and e["name"] == "terasort"]
    maps = job["stages"][0]["inputs"]
    return [rack_of(task["nodes"][0]) for task in maps]


def test_an_interrupt_ends_all_jobs(railyard):
    railyard.ok("up", "--topology", SMALL)
    words = ("terasort,size=1GB,times=3", "wordcount,size=2GB,submit=1h")
    running = railyard.start("run", *words)
    wait_for(lambda: "terasort-3" in railyard.ok("status"), 60, "the jobs run")
    status, said = interrupt(running)
    assert status == 130, said
    left = railyard.ok("status")
    railyard.ok("down")
    assert left.count("interrupted by its user") + left.count("failed") >= 3, left
    assert railyard.nothing_left()


def test_a_refused_job_is_reported_and_ends_the_others(railyard):
    words = ("terasort,size=500MB", "wordcount,size=500MB,queue=none")
    done = railyard.run("run", *words, "--topology", SMALL, "--scheduler", "capacity")
    assert done.returncode == 1
    assert 'unknown queue "none"' in done.stderr
    assert railyard.nothing_left()
