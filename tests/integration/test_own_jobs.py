"""Jobs of one's own on a real cluster: modules, inputs, counters, logs, kill, status."""

from __future__ import annotations

import json
import subprocess
import sys
from textwrap import dedent

import pytest

import railyard
from railyard.api.store import RailyardFileSystem
from railyard.cluster.topology import load_topology
from railyard.jobs.workloads.mixes import Defaults
from railyard.resourcemanager.schedulers import all_recipes
from railyard.runs.config import cluster_config, pairs_of
from railyard.runs.simulation import VirtualRun, run_virtually
from railyard.runs.workloads import measured_jobs
from tests.command_line import ROOT, SMALL
from tests.integration.test_whole_jobs import JOIN
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


# ``railyard.Cluster``: jobs of one's own and others on real processes, from Python.


class LongWords(railyard.Job):
    """Counts words of at least so many letters."""

    min_letters: int = 8

    def map(self, line: str):
        for word in line.split():
            if len(word) >= self.min_letters:
                yield word.lower(), 1

    def reduce(self, word, counts):
        yield word, sum(counts)


class Broken(railyard.Job):
    """Fails in each task."""

    def map(self, line: str):
        raise ValueError(f"cannot read {line}")


@pytest.fixture
def home(railyard, monkeypatch):
    monkeypatch.setenv("RAILYARD_HOME", str(railyard.home))
    return railyard


def test_files_and_jobs_on_a_cluster(home, tmp_path, capfd):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("Elephants never forget\nelephants are LARGE\n")
    with railyard.Cluster(SMALL, scheduler="delay", durability="fast") as cluster:
        assert cluster.put(corpus, "/corpus") == corpus.stat().st_size
        assert cluster.files() == ["/corpus"]
        run = cluster.run(LongWords(min_letters=6), inputs="dfs:/corpus", out=tmp_path / "run")
        assert (run.ok, run.clock, run.scheduler) == (True, "wall", "delay")
        assert run.output is not None
        assert sorted(cluster.read(run.output).splitlines()) == [b"elephants\t2", b"forget\t1"]
        assert len(run.timeline().figure().axes) > 1
        cluster.get(run.output, tmp_path / "words")
        assert (tmp_path / "words" / "_SUCCESS").is_file()

        jobs = [cluster.submit(job, size="500MB") for job in ("terasort", "wordcount")]
        assert cluster.status().jobs[0].job == "j1"
        both = cluster.wait()
        assert [(each.workload, each.verified) for each in both[-2:]] == [
            ("terasort", True),
            ("wordcount", True),
        ]
        assert all(job.done for job in jobs)

        with pytest.raises(railyard.RailyardError, match="cannot read Elephants"):
            cluster.run(Broken, inputs=corpus)
        with pytest.raises(railyard.UsageError, match="no such file"):
            cluster.put(tmp_path / "nothing", "/nothing")
        with pytest.raises(railyard.UsageError, match="exists already"):
            cluster.put(corpus, "/corpus")
        with pytest.raises(railyard.UsageError, match="runs already"):
            cluster.start()
        under_way = cluster.submit("terasort", size="2GB")
    with pytest.raises(railyard.RailyardError):
        under_way.wait()  # it was killed with its cluster
    with pytest.raises(railyard.UsageError, match="does not run"):
        cluster.status()
    assert capfd.readouterr() == ("", "")
    assert home.nothing_left()


def test_pandas_pyarrow_and_dask_use_the_store_by_url(home):
    with railyard.Cluster(SMALL, durability="fast") as cluster:
        where = cluster.url.removeprefix("http://")
        assert cluster.webhdfs_url == f"http://{where}/webhdfs/v1"
        script = ROOT / "tests" / "gateway" / "by_url.py"
        # in a process of its own, where what these packages warn of is no error
        urls = [f"{cluster.store_url}/x", f"webhdfs://ann@{where}/y"]
        done = subprocess.run([sys.executable, script, *urls], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines() == [
            "all round trips RailyardFileSystem",
            "all round trips WebHDFS",
        ]
        assert cluster.read("/x/trips.csv").startswith(b"city,km\nOslo,0\n")
    with pytest.raises(railyard.UsageError, match="c-gone: no such cluster"):
        RailyardFileSystem("c-gone")
    with pytest.raises(railyard.UsageError, match="no cluster is up: railyard up"):
        RailyardFileSystem()


def test_wrong_clusters_are_refused_before_they_start(home):
    with pytest.raises(railyard.UsageError, match='did you mean "delay"'):
        railyard.Cluster(scheduler="deley")
    with pytest.raises(railyard.UsageError, match='http = 70000: need "auto", "none" or a port'):
        railyard.Cluster(http=70000)
    with pytest.raises(railyard.UsageError, match="no cluster is up"):
        railyard.Cluster.current()
    assert home.nothing_left()


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
    [pair] = pairs_of([scheduler])
    config = cluster_config(TOPOLOGY, pair=pair, options=(), seed=1)
    [job] = run_virtually(VirtualRun(config=config, workload=workload))["jobs"]
    assert job["ok"], job
    assert (job["maps"], job["input_bytes"]) == (4, workload.jobs[0].input_bytes)
