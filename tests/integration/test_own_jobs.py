"""Jobs of one's own on a real cluster: modules, inputs, counters, logs, kill, status."""

from __future__ import annotations

import json
from textwrap import dedent

from tests.command_line import SMALL
from tests.waiting import wait_for

COUNT = """
    from railyard import Job
    import words
    class Count(Job):
        def map(self, line):
            print("a line of", words.LANGUAGE)
            for word in words.of(line):
                self.count("words")
                yield word, 1
        def reduce(self, word, counts):
            import words  # in the attempt
            yield words.shown(word), sum(counts)
"""
WORDS = """
    LANGUAGE = "English"
    def of(line):
        return line.split()
    def shown(word):
        return word.upper()
"""
SLEEPS = """
    import time
    def map(line):
        time.sleep(60)
        yield line, 1
"""
JOBS = """
    [[job]]
    job = "./count.py"
    input = ["texts/a.txt", "texts/b.txt"]
    [[job]]
    job = "./count.py"
    input = ["dfs:/stored", "dfs:/more/[b-z].*"]
    user = "ann"
"""


def test_jobs_of_ones_own(railyard, tmp_path):
    files = {"count.py": COUNT, "words.py": WORDS, "sleeps.py": SLEEPS, "jobs.toml": JOBS}
    for name, text in files.items():
        (tmp_path / name).write_text(dedent(text))
    (tmp_path / "texts").mkdir()
    for name in "ab":
        (tmp_path / "texts" / f"{name}.txt").write_text("to be\nor not\n" * 5)
    railyard.ok("up", "--topology", SMALL)
    railyard.ok("fs", "put", "texts/a.txt", "/stored/a.txt", cwd=tmp_path)
    railyard.ok("fs", "put", "texts/b.txt", "/more/b.txt", cwd=tmp_path)

    done = railyard.run("run", "jobs.toml", "--json", "both.json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "counters   count-1: words 40" in done.stdout
    several = ("--workload", "./count.py", "--input", "dfs:/stored,/more")
    assert "3 attempts" in railyard.ok("simulate", *several, cwd=tmp_path)
    first, second = json.loads((tmp_path / "both.json").read_text())["jobs"]
    assert first["counters"]["words"] == 40
    assert (second["counters"]["words"], second["counters"]["r.keys_in"]) == (40, 4)

    railyard.ok("run", "./count.py", "--input", "texts", "--get", "out", cwd=tmp_path)
    parts = [part.read_text() for part in sorted((tmp_path / "out").glob("part-*"))]
    assert sorted("".join(parts).splitlines()) == ["BE\t10", "NOT\t10", "OR\t10", "TO\t10"]
    listed = railyard.ok("logs")
    assert "j3: 2 attempts wrote 360 B (j3.m0.0, j3.m1.0)" in listed
    assert "nodemanager-r0 has written nothing" in railyard.run("logs", "nodemanager-r0").stderr
    assert railyard.ok("logs", "j3.m0") == "a line of English\n" * 10
    assert railyard.ok("logs", "j3").count("==> j3.m") == 2
    unknown = railyard.run("logs", "j9")
    assert (unknown.returncode, unknown.stdout) == (2, "")
    assert "j9: nothing is known of it" in unknown.stderr

    waits = railyard.start("run", tmp_path / "sleeps.py", "--input", tmp_path / "texts" / "a.txt")

    def jobs():
        return json.loads(railyard.ok("status", "--json", "-"))["jobs"]

    wait_for(lambda: jobs()[-1]["state"] == "running", 60, "the job runs")
    assert "sleeps" in railyard.run("kill", "slepes").stderr
    assert railyard.ok("kill", "sleeps") == "j4 is killed\n"
    _, said = waits.communicate(timeout=60)
    assert waits.returncode == 1
    assert "killed by railyard kill" in said
    again = railyard.run("kill", "j4")
    assert (again.returncode, "has ended already" in again.stderr) == (2, True)
    status = railyard.ok("status", "--json")
    assert [job["state"] for job in json.loads(status)["jobs"]] == ["succeeded"] * 3 + ["failed"]
    assert all(daemon["answers"] for daemon in json.loads(status)["daemons"])
    railyard.ok("down")
    assert railyard.nothing_left()
