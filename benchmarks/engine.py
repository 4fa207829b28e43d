"""How fast jobs run when no link and no pacing holds them up: real processes, 200 MB, two cores.

TeraSort and WordCount on ``unlimited-2x2``, next to other programs on the same files in the same
run.  Ours is the job's own time (``jct_s`` of the summary: submission to committed output in the
block store, two replicas); the others' is that of the whole process.

* The records are those of the sort benchmark in its printable form (``gensort -a``): 100 bytes
  that end in CR LF, so that ``sort`` sees each as a line.  It compares whole lines, we compare
  keys.
* Ours keeps its output as the others do: in the system's memory, ``--durability fast``.  What
  ``safe`` costs stands beside it.
* Spark and mrjob are run where they are installed (``_common.peers``).
"""

from __future__ import annotations

import functools
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from railyard.benchmarks._common import peers
from railyard.benchmarks._common.rows import Row, bench_row
from railyard.jobs.samples.tasks import random_text
from railyard.jobs.samples.terasort import RECORD_BYTES, generate

SIZE_BYTES = 200_000_000
TOPOLOGY = "unlimited-2x2"
SORT_RATIO_BOUND = 2.0  # aim: 1.5
COUNT_RATIO_BOUND = 1.25
#: "By a wide margin": we take at most this share of Spark's time.
SPARK_RATIO_BOUND = 0.5

_ROOT = Path(__file__).resolve().parent.parent


class BenchmarkFailed(RuntimeError):
    """A program that is measured ended with an error; its end of stderr is in the text."""


def run(quick: bool = False) -> list[Row]:
    """Measure; ``quick`` runs everything once, without Spark and mrjob, rather than three times."""
    turns = 1 if quick else 3
    with TemporaryDirectory(prefix="railyard-engine-") as name:
        folder = Path(name)
        records, text = folder / "records", folder / "text"
        _write_records(records)
        _write_text(text)
        sort_s, safe_s, gnu_s = _in_turns(
            turns,
            _our_job("terasort", records),
            _our_job("terasort", records, "safe"),
            _gnu_sort(records),
        )
        count_s, counter_s = _in_turns(turns, _our_job("wordcount", text), _counter(text))
        rows = [
            _row("TeraSort, against GNU sort", sort_s, gnu_s, SORT_RATIO_BOUND),
            _row("WordCount, against two-process Counter", count_s, counter_s, COUNT_RATIO_BOUND),
            _row("TeraSort, durability safe against fast", safe_s, sort_s, None, "up to the disk"),
        ]
        others = [
            ("TeraSort, against Spark", sort_s, "pyspark", SPARK_RATIO_BOUND, "sort", records),
            ("WordCount, against Spark", count_s, "pyspark", SPARK_RATIO_BOUND, "count", text),
            ("TeraSort, against mrjob", sort_s, "mrjob", None, "sort", records),
            ("WordCount, against mrjob", count_s, "mrjob", None, "count", text),
        ]
        for title, ours_s, peer, bound, what, source in others:
            missing = "left out by --quick" if quick else _missing(peer)
            if missing:
                rows.append(_row(title, ours_s, None, bound, missing))
            else:
                command = _PEER_COMMANDS[peer](what, source, folder / "peer")
                rows.append(_row(title, ours_s, _timed(command, folder / "peer"), bound))
    return rows


def _row(
    name: str, value_s: float, reference_s: float | None, bound: float | None, note: str = ""
) -> Row:
    title = f"{name}, {SIZE_BYTES // 10**6} MB"
    return bench_row(title, value_s, "s", reference=reference_s, ratio_bound=bound, note=note)


def _in_turns(turns: int, *measures: Callable[[], float]) -> list[float]:
    """The median of each measure, taken in turns, so that a slow minute is slow for all."""
    taken: list[list[float]] = [[] for _ in measures]
    for _ in range(turns):
        for measure, seconds in zip(measures, taken, strict=True):
            seconds.append(measure())
    return [statistics.median(seconds) for seconds in taken]


# What is measured --------------------------------------------------------------------------------
def _our_job(job: str, source: Path, durability: str = "fast") -> Callable[[], float]:
    """The time of a job of ours, through the public command, which also verifies its output."""

    def measure() -> float:
        summary_file = source.with_suffix(".json")
        command = [
            sys.executable,
            "-m",
            "railyard.cli.main",
            "run",
            job,
            "--input",
            str(source),
        ]
        command += ["--topology", TOPOLOGY, "--durability", durability]
        command += ["--json", str(summary_file)]
        _run(command)
        summary = json.loads(summary_file.read_text(encoding="utf-8"))
        if not summary["verified"]:
            raise BenchmarkFailed(f"{job}: the output was not verified")
        (jct_s,) = [row["jct_s"] for row in summary["jobs"] if row["name"] == job]
        return float(jct_s)

    return measure


def _gnu_sort(records: Path) -> Callable[[], float]:
    output = records.with_suffix(".sorted")
    command = ["sort", "-S", "1G", "--parallel=2", "-o", str(output), str(records)]
    return functools.partial(_timed, command, output, LC_ALL="C")


def _counter(text: Path) -> Callable[[], float]:
    output = text.with_suffix(".counts")
    command = [sys.executable, str(peers.FOLDER / "counter.py"), str(text), str(output)]
    return functools.partial(_timed, command, output)


def _spark_command(what: str, source: Path, output: Path) -> list[str]:
    return [peers.peer_python(), str(peers.FOLDER / "spark.py"), what, str(source), str(output)]


def _mrjob_command(what: str, source: Path, output: Path) -> list[str]:
    script = peers.FOLDER / f"mrjob_{what}.py"
    options = ["-r", "local", "--no-conf", "--num-cores=2", "--output-dir", str(output)]
    return [peers.peer_python(), str(script), *options, "--no-cat-output", str(source)]


_PEER_COMMANDS = {"pyspark": _spark_command, "mrjob": _mrjob_command}


def _missing(module: str) -> str:
    """Why a peer can't be run; nothing if it can."""
    if lacks := peers.missing(module):
        return lacks
    if module == "pyspark" and shutil.which("java") is None:
        return "no java for pyspark: left out"
    return ""


def _timed(command: list[str], output: Path, **environment: str) -> float:
    """Seconds that a command takes as a whole; its output is removed."""
    begun_s = time.monotonic()
    _run(command, **environment)
    taken_s = time.monotonic() - begun_s
    if output.is_dir():
        shutil.rmtree(output)
    else:
        output.unlink()
    return taken_s


def _run(command: list[str], **environment: str) -> None:
    python = peers.peer_python()
    settings = {"PYTHONPATH": str(_ROOT), "PYSPARK_PYTHON": python, **environment}
    done = subprocess.run(
        command, cwd=_ROOT, env=os.environ | settings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        said = done.stderr.strip()[-2000:]
        raise BenchmarkFailed(f"{' '.join(command)}: exit status {done.returncode}\n{said}")


# What they work on -------------------------------------------------------------------------------
def _write_records(path: Path) -> None:
    rows_at_once = 100_000
    with open(path, "wb") as file:
        for row in range(0, SIZE_BYTES // RECORD_BYTES, rows_at_once):
            file.write(generate(row, rows_at_once, ascii_only=True).data)


def _write_text(path: Path) -> None:
    with open(path, "wb") as file:
        file.writelines(random_text(SIZE_BYTES, (1,)))
