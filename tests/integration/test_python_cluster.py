"""``railyard.Cluster``: jobs of one's own and others on real processes, from Python."""

import subprocess
import sys

import pytest

import railyard
from railyard.scripts.api.store import RailyardFileSystem
from tests.command_line import ROOT, SMALL


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
