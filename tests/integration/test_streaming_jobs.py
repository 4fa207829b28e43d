"""``hadoop jar`` and unmodified mrjob on a cluster: programs of any kind as jobs of ours."""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections import Counter

import psutil
import pytest
import requests

from tests.command_line import SMALL, command_line
from tests.hadoop import Hadoop
from tests.waiting import wait_for

TEXT = b"".join(b"w%d w%d a\n" % (at % 11, at % 5) for at in range(3000))
WANT = Counter(TEXT.split())
#: A job with two steps, the first of which gets its values sorted.
TWO_STEPS = '''
from mrjob.job import MRJob
from mrjob.step import MRStep


class Ranked(MRJob):
    """The first and the last line where a word stands, then the words by that."""

    SORT_VALUES = True

    def steps(self):
        return [
            MRStep(mapper=self.places, reducer=self.ends),
            MRStep(mapper=self.turned, reducer=self.words),
        ]

    def places(self, _, line):
        number, text = line.split(" ", 1)
        self.increment_counter("places", "lines")
        for word in text.split():
            yield word, int(number)

    def ends(self, word, numbers):
        numbers = list(numbers)
        assert numbers == sorted(numbers), numbers
        yield word, [numbers[0], numbers[-1]]

    def turned(self, word, ends):
        yield ends, word

    def words(self, ends, words):
        yield ends, sorted(words)


if __name__ == "__main__":
    Ranked.run()
'''


@pytest.fixture(scope="module")
def railyard():
    yield from command_line()


@pytest.fixture(scope="module")
def hadoop(railyard):
    railyard.ok("up", "--topology", SMALL)
    yield Hadoop(railyard)
    railyard.ok("down")
    assert railyard.nothing_left()


def test_programs_count_words(hadoop, tmp_path):
    """Of a folder, with a packed file and hidden ones; and there are files beside the programs."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.txt").write_bytes(TEXT)
    (tmp_path / "in" / "b.txt.gz").write_bytes(gzip.compress(TEXT))
    (tmp_path / "in" / "empty").write_bytes(b"")
    (tmp_path / "in" / "_hidden").write_bytes(b"hidden\n")
    (tmp_path / "map.sh").write_text(
        "#!/bin/sh\necho reporter:counter:mine,$greeting,1 >&2\n"
        "[ $mapreduce_task_ismap = true ] || exit 1\nexec tr ' ' '\\n'\n"
    )
    hadoop.ok("hadoop", "fs", "-put", tmp_path / "in", "/words")
    (tmp_path / "count.sh").write_text("uniq -c | awk '{ print $2 \"\\t\" $1 }'\n")
    hadoop.ok("hadoop", "fs", "-put", tmp_path / "count.sh", "/count.sh")
    words = ["-D", "mapred.reduce.tasks=2", "-files", f"{tmp_path}/map.sh,hdfs:///count.sh#same"]
    words += ["-input", "/words", "-output", "/counted", "-cmdenv", "greeting=hello"]
    words += ["-mapper", "map.sh", "-reducer", "sh 'same'"]
    _, log = hadoop.ok("hadoop", "jar", "any.jar", *words)
    assert re.search(r"INFO mapreduce\.Job: Running job: job_\d+_\d{4}\n", log)
    assert "INFO mapreduce.Job:  map 100% reduce 100%\n" in log
    lines = 2 * len(TEXT.splitlines())
    assert f"\t\tMap input records={lines}\n" in log
    assert f"\t\tReduce input records={2 * sum(WANT.values())}\n" in log
    assert "\tmine\n\t\thello=3\n" in log
    out, _ = hadoop.ok("hadoop", "fs", "-cat", "/counted/part-0000[01]")
    pairs = [line.split(b"\t") for line in out.splitlines()]
    assert {word: int(count) for word, count in pairs} == {w: 2 * n for w, n in WANT.items()}
    hadoop.ok("hadoop", "fs", "-test", "-e", "/counted/_SUCCESS")
    status, _, log = hadoop.run("hadoop", "jar", "any.jar", *words)
    assert status == 1
    assert "Output directory /counted already exists" in log
    assert "Traceback" not in log


def test_a_map_for_each_two_lines_without_a_reduce(hadoop):
    hadoop.put(b"one\ntwo\nthree\nfour\nfive\n", "/five")
    words = ["-D", "mapreduce.input.lineinputformat.linespermap=2", "-input", "/five"]
    words += ["-inputformat", "org.apache.hadoop.mapred.lib.NLineInputFormat"]
    words += ["-output", "/by-two", "-mapper", "cat", "-reducer", "NONE"]
    hadoop.ok("yarn", "jar", "any.jar", *words)
    out, _ = hadoop.ok("hadoop", "fs", "-cat", "/by-two/part-00001")
    assert out == b"8\tthree\n14\tfour\n"


def test_settings_reach_the_job_and_its_output(hadoop):
    """The number of maps, its name and queue, folders within folders, replicas of its output."""
    for folder in ("/deep", "/deep/er"):
        hadoop.ok("hadoop", "fs", "-mkdir", "-p", folder)
        hadoop.put(b"123456789\n" * 50, f"{folder}/in")
    words = ["-D", "mapred.map.tasks=8", "-D", "mapred.input.dir.recursive=true"]
    words += ["-D", "dfs.replication=1", "-D", "mapred.job.queue.name=q", "-D", "mapred.job.name=n"]
    words += ["-input", "/deep", "-output", "/deep-out", "-mapper", "cat", "-reducer", "NONE"]
    _, log = hadoop.ok("hadoop", "jar", "any.jar", *words)
    assert "\t\tLaunched map tasks=8\n" in log
    assert "\t\tMap input records=100\n" in log
    out, _ = hadoop.ok("hadoop", "fs", "-stat", "%r %n", "/deep-out/part-*")
    assert out.splitlines() == [b"1 part-%05d" % number for number in range(8)]
    assert sorted(hadoop.get("/deep-out/part-*").splitlines()) == [b"123456789"] * 100
    apps = requests.get(f"{hadoop.url}/ws/v1/cluster/apps").json()["apps"]["app"]
    assert [app["queue"] for app in apps if app["name"] == "n"] == ["q"]


def test_a_mapper_that_fails_is_tried_again_and_shown(hadoop):
    hadoop.ok("hadoop", "fs", "-mkdir", "-p", "/f")
    hadoop.put(b"x\n", "/f/in")
    words = ["-D", "mapreduce.map.maxattempts=2", "-input", "/f/in", "-output", "/f/out"]
    status, _, log = hadoop.run(
        "hadoop", "jar", "x.jar", *words, "-mapper", "sh -c 'echo it broke >&2; exit 7'"
    )
    assert status == 1
    failed = re.findall(r"Task Id : attempt_\d+_\d{4}_m_000000_(\d), Status : FAILED\n(.*)\n", log)
    assert [number for number, _ in failed] == ["0", "1"]
    assert "subprocess failed with code 7" in failed[0][1]
    assert "\nit broke\n" in log
    assert log.endswith("Streaming Command Failed!\n")
    status, _, log = hadoop.run(
        "hadoop", "jar", "x.jar", *words[2:], "-mapper", "cat", "-input", "/no"
    )
    assert (status, "Input path does not exist: /no" in log) == (1, True)


def test_a_job_is_killed_with_its_programs(hadoop, tmp_path):
    """``hadoop jar`` says so, and none of its processes is left."""
    hadoop.ok("hadoop", "fs", "-touchz", "/nothing")
    sleep = f"cd {tmp_path}; sleep 86399 & echo $! > new; mv new pid; wait"
    words = ["-input", "/nothing", "-output", "/killed", "-mapper", f"sh -c '{sleep}'"]
    job = hadoop.start("hadoop", "jar", "x.jar", *words)
    wait_for((tmp_path / "pid").exists, why="the mapper runs")
    sleeping = psutil.Process(int((tmp_path / "pid").read_text()))
    hadoop.kill_gateway()  # the command goes on once there is a new one
    listed, _ = hadoop.ok("hadoop", "job", "-list")
    [name] = re.findall(rb"job_\d+_\d{4}", listed)
    out, _ = hadoop.ok("mapred", "job", "-kill", name)
    assert out == b"Killed job %b\n" % name
    _, errors = job.communicate(timeout=60)
    assert job.returncode == 1
    assert "failed with state KILLED" in errors.decode()
    wait_for(lambda: not sleeping.is_running(), why="its programs are killed")
    out, _ = hadoop.ok("hadoop", "job", "-status", name)
    assert b"Job state: KILLED\nreason for failure: killed over HTTP\n" in out
    assert hadoop.run("hadoop", "job", "-kill", name)[0] == 1


def mrjob(hadoop, tmp_path, *words):
    """What an mrjob program writes, {key: value}, and what it says."""
    (tmp_path / "mrjob.conf").write_text("runners: {}\n")
    options = ["-r", "hadoop", "-c", tmp_path / "mrjob.conf", tmp_path / "text"]
    out, log = hadoop.ok(sys.executable, *words, *options)
    pairs = [line.split(b"\t") for line in out.splitlines()]
    return {str(json.loads(key)): json.loads(value) for key, value in pairs}, log


def test_mrjob_counts_words(hadoop, tmp_path):
    (tmp_path / "text").write_bytes(TEXT)
    made, log = mrjob(hadoop, tmp_path, "-m", "mrjob.examples.mr_word_freq_count")
    assert made == {word.decode(): count for word, count in WANT.items()}
    assert f"Map input records={len(TEXT.splitlines())}" in log


def test_mrjob_has_values_sorted_in_two_steps(hadoop, tmp_path):
    """The program itself checks that they are."""
    lines = [f"{at} {line.decode()}" for at, line in enumerate(TEXT.splitlines()[:200], 1000)]
    (tmp_path / "text").write_text("\n".join(lines))
    (tmp_path / "ranked.py").write_text(TWO_STEPS)
    here = ["--no-bootstrap-mrjob", "--python-bin", sys.executable]  # it starts much sooner
    made, log = mrjob(hadoop, tmp_path, tmp_path / "ranked.py", *here)
    places: dict[str, list[int]] = {}
    for at, line in enumerate(TEXT.splitlines()[:200], 1000):
        for word in line.decode().split():
            places.setdefault(word, []).append(at)
    want: dict[str, list[str]] = {}
    for word, found in sorted(places.items()):
        want.setdefault(str([found[0], found[-1]]), []).append(word)
    assert made == want
    assert "lines=200" in log
