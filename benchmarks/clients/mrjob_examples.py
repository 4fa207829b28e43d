"""mrjob's own examples with ``-r hadoop``, under two schedulers: output as of ``-r inline``.

They come with mrjob (PyPI) and run as they are, on hybrid-8x4; their input is the poems that come
with them.  Left out, since they need Java classes or Spark: mr_jar_step_example, mr_nick_nack,
mr_nick_nack_input_format and mr_spark*; mr_boom only fails; mr_phone_to_url needs web archives.
A row is an example: how many lines differ, of how many.  Where a line is JSON, neither the order of
an object's keys counts nor a number's tenth digit: both follow the order of a key's values, which
no runner promises (mr_text_classifier has both).
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from railyard.benchmarks._common.rows import Row, bench_row

SCHEDULERS = ("fair", "co-scheduler")
TOPOLOGY = "hybrid-8x4"
_COMMANDS = Path(__file__).resolve().parents[2] / "scripts" / "hadoop-commands"
_PATHS = re.compile(rb'"[^"]*/')  #: the folders of an input's name
_TIMEOUT_S = 900


@dataclass(frozen=True)
class Example:
    """One of the programs, and with which options it runs."""

    name: str
    options: tuple[str, ...] = ()
    input: str = "corpus"  #: one file of all poems many times, or "poems": a file for each
    reference: str = "inline"  #: mrjob's runner to compare with; commands need "local"
    quick: bool = False


EXAMPLES = (
    Example("mr_word_freq_count", quick=True),
    Example("mr_most_used_word"),
    Example("mr_next_word_stats", quick=True),
    Example("mr_text_classifier", input="poems"),
    Example("mr_words_containing_u_freq_count", reference="local"),
    Example("mr_grep", ("-e", "love"), reference="local"),
    Example("mr_wc"),
    Example("mr_count_lines_right"),
    Example("mr_count_lines_by_file", input="poems"),
    Example("mr_log_sampler", ("--sample-size", "1000000")),  # all lines, in any order
)


def run(quick: bool = False) -> list[Row]:
    """Run the examples under each scheduler; ``quick`` runs two of them."""
    chosen = [example for example in EXAMPLES if example.quick or not quick]
    with tempfile.TemporaryDirectory(prefix="ry-") as folder:
        place = _Place(Path(folder))
        expected = {example: place.output(example, example.reference) for example in chosen}
        rows = []
        for scheduler in SCHEDULERS:
            with place.cluster(scheduler):
                rows += [_row(place, each, scheduler, expected[each]) for each in chosen]
    return rows


def _row(place: _Place, example: Example, scheduler: str, expected: Counter[bytes]) -> Row:
    begun_s = time.monotonic()
    made = place.output(example, "hadoop")
    differ = (made - expected) + (expected - made)
    lines = sum(expected.values())
    return bench_row(
        f"{example.name} under {scheduler}: lines that differ from -r {example.reference}",
        differ.total(),
        "lines",
        reference=lines,
        bound=0,
        ok=not differ and lines > 0,
        note=f"{time.monotonic() - begun_s:.0f} s",
    )


def _canonical(line: bytes) -> bytes:
    """A line of JSON values between tabs, with keys in order and numbers of nine digits."""
    try:
        values = [json.loads(part, parse_float=_rounded) for part in line.split(b"\t")]
    except ValueError:
        return line  # it is text
    return b"\t".join(json.dumps(value, sort_keys=True).encode() for value in values)


def _rounded(number: str) -> float:
    return float(f"{float(number):.9g}")


class _Place:
    """A folder with the input, and a home of its own."""

    def __init__(self, folder: Path) -> None:
        import mrjob.examples  # a package of the tests alone

        self._folder = folder
        (folder / "mrjob.conf").write_text("runners: {}\n")
        found = Path(mrjob.examples.__file__).parent / "docs-to-classify"
        self._poems = sorted(found.glob("*.txt"))
        text = b"".join(poem.read_bytes() + b"\n" for poem in self._poems)
        (folder / "corpus").write_bytes(text * (600_000 // len(text)))  # some blocks
        self._environment = os.environ | {
            "RAILYARD_HOME": str(folder / "home"),
            "HADOOP_HOME": str(_COMMANDS),
            "PATH": f"{_COMMANDS}{os.pathsep}{os.environ['PATH']}",
        }

    @contextmanager
    def cluster(self, scheduler: str) -> Iterator[None]:
        """A cluster that is up for the length of the block."""
        self._railyard("up", "--topology", TOPOLOGY, "--scheduler", scheduler)
        try:
            yield
        finally:
            self._railyard("down")

    def output(self, example: Example, runner: str) -> Counter[bytes]:
        """The lines that an example writes; names of input files without their folders."""
        files = self._poems if example.input == "poems" else [self._folder / "corpus"]
        done = self._call(
            *("-m", f"mrjob.examples.{example.name}", "-r", runner),
            *("-c", str(self._folder / "mrjob.conf"), *example.options, *map(str, files)),
        )
        return Counter(_canonical(_PATHS.sub(b'"', line)) for line in done.splitlines())

    def _railyard(self, *words: str) -> None:
        self._call("-m", "railyard.cli.main", *words)

    def _call(self, *words: str) -> bytes:
        done = subprocess.run(
            [sys.executable, *words],
            env=self._environment,
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT_S,
        )
        if done.returncode:
            said = done.stderr.decode(errors="replace").strip()[-2000:]
            raise RuntimeError(f"{' '.join(map(str, words))}: exit {done.returncode}: {said}")
        return done.stdout
