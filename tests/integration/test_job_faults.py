"""Jobs that go wrong by themselves: the report names the task and its stderr; others go on."""

from __future__ import annotations

import json
import textwrap
import time

import pytest

from tests.command_line import SMALL
from tests.fulldisk import small_disk
from tests.waiting import wait_for

JOBS = {
    "reducer raises": (
        """
        def map(line):
            yield line, 1

        def reduce(key, values):
            raise ArithmeticError("no sum today for " + key)
        """,
        [".r0", "ArithmeticError: no sum today for word", "broken.py"],
    ),
    "mapper runs out of memory": (
        """
        def map(line):
            yield line, len(bytearray(3_000_000_000))

        def reduce(key, values):
            yield key, sum(values)
        """,
        [".m0", "MemoryError"],
    ),
    "mapper is killed": (
        """
        import os, signal, sys

        def map(line):
            print("about to go", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
            yield line, 1

        def reduce(key, values):
            yield key, sum(values)
        """,
        [".m0", "signal 9", "about to go"],
    ),
    "mapper exits": (
        """
        import os

        def map(line):
            os._exit(7)
            yield line, 1

        def reduce(key, values):
            yield key, sum(values)
        """,
        [".m0", "exit 7"],
    ),
}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    file = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    file.write_text("word\n" * 100)
    return file


def test_failed_jobs_are_reported(cluster, tmp_path, corpus):
    for source, words in JOBS.values():
        (tmp_path / "broken.py").write_text(textwrap.dedent(source))
        done = cluster.run("run", "./broken.py", "--input", corpus, "--reduces", "1", cwd=tmp_path)
        assert done.returncode == 1, done.stderr
        for word in (*words, "failed 4 of 4 attempts"):
            assert word in done.stderr


def test_failed_job_leaves_its_summary_and_logs(railyard, tmp_path, corpus):
    source, words = JOBS["mapper is killed"]
    (tmp_path / "broken.py").write_text(textwrap.dedent(source))
    done = railyard.run(
        *("run", "./broken.py", "--input", corpus, "--topology", SMALL),
        *("--json", "t.json", "--out", "all"),
        cwd=tmp_path,
    )
    assert done.returncode == 1
    for word in (*words, "failed 4 of 4 attempts"):
        assert word in done.stderr
    assert railyard.nothing_left()
    summary = json.loads((tmp_path / "t.json").read_text())
    assert summary["verified"] is False
    assert summary["tasks"]["failed"] == 4
    assert [job["ok"] for job in summary["jobs"]] == [False]
    assert "about to go" in (tmp_path / "all" / "attempts" / "j1.m0.0" / "stderr").read_text()


def test_other_jobs_go_on(railyard, tmp_path, corpus):
    (tmp_path / "broken.py").write_text(textwrap.dedent(JOBS["mapper exits"][0]))
    railyard.ok("up", "--topology", SMALL)
    good = railyard.start("run", "terasort", "--size", "1GB")
    bad = railyard.run("run", "./broken.py", "--input", corpus, cwd=tmp_path)
    assert bad.returncode == 1
    said, errors = good.communicate(timeout=60)
    assert good.returncode == 0, errors
    assert "records in order" in said
    railyard.ok("down")


def test_code_that_is_no_python_is_a_wrong_command(railyard, tmp_path, corpus):
    (tmp_path / "broken.py").write_text("def map(line:\n")
    done = railyard.run("run", "./broken.py", "--input", corpus, cwd=tmp_path)
    assert done.returncode == 2
    assert "broken.py:1:" in done.stderr
    assert len(done.stderr.splitlines()) == 1


# A job while the disk is full for a moment: it takes longer, and is verified.


ONE_RACK = ("--topology", "unlimited-2x2")


def test_a_job_outlives_a_disk_that_is_full_for_a_moment(railyard, tmp_path):
    with small_disk(railyard.home, 2**25) as disk:
        railyard.ok("up", *ONE_RACK)
        log = railyard.current() / "jobs" / "events.jsonl"
        written_bytes = log.stat().st_size
        process = railyard.start("run", "wordcount", "--size", "4MB", "--json", tmp_path / "s.json")
        try:
            # a disk that is full when room is looked for is another matter: that is refused
            wait_for(lambda: log.stat().st_size > written_bytes, 30, "a job is there")
            for _ in range(3):  # while its input is made, while it runs, while it is checked
                disk.fill()
                time.sleep(0.7)
                disk.free()
                time.sleep(0.7)
            out, errors = process.communicate(timeout=90)
            assert process.returncode == 0, errors
            assert "as counted independently" in out
            assert json.loads((tmp_path / "s.json").read_text())["verified"] is True
        finally:
            process.kill()
            process.wait()
            railyard.ok("down")
