"""Two clusters at once share the machine: no more attempts compute than one of them could have."""

from __future__ import annotations

import json
from textwrap import dedent

from railyard.nodemanager.permits import permits_of_machine
from tests.command_line import SMALL

#: Its map waits until both jobs run.  Then each reduce computes without a pause, and notes from
#: when to when, and as which process.
COMPUTES = """
    import json, os, time
    from pathlib import Path
    from railyard import Job
    class Computes(Job):
        notes: str
        def map(self, line):
            (Path(self.notes) / str(os.getpid())).touch()
            while len(list(Path(self.notes).parent.glob("*/*"))) < 2:
                time.sleep(0.02)
            for key in range(10):
                yield key, line
        def partition(self, key, partitions):
            return key % partitions
        def reduce(self, key, lines):
            begun_s, until_s = time.monotonic(), time.process_time() + 0.15
            while time.process_time() < until_s:
                sum(range(1000))
            note = [begun_s, time.monotonic(), os.getpid()]
            (Path(self.notes) / f"{key}.json").write_text(json.dumps(note))
            yield key, 1
"""
REDUCES = 10  # with the map on 12 slots: each cluster could run all of its own at once


def most_at_once(notes):
    """The most of these intervals, (begin, end, process), that overlap."""
    changes = sorted(change for begin, end, _ in notes for change in ((begin, 1), (end, -1)))
    at_once, most = 0, 0
    for _, change in changes:
        at_once += change
        most = max(most, at_once)
    return most


def test_two_clusters_share_the_permits_to_compute(railyard, tmp_path):
    (tmp_path / "computes.py").write_text(dedent(COMPUTES))
    (tmp_path / "in").write_text("a line\n")
    folders = [tmp_path / "notes" / name for name in ("first", "second")]
    runs = []
    for folder in folders:
        folder.mkdir(parents=True)
        runs.append(
            railyard.start(
                *("run", tmp_path / "computes.py", "--input", tmp_path / "in"),
                *("--topology", SMALL, "--reduces", str(REDUCES), "--param", f"notes={folder}"),
            )
        )
    for run in runs:
        said = run.communicate(timeout=110)
        assert run.returncode == 0, said
    notes = [[json.loads(note.read_text()) for note in folder.glob("*.json")] for folder in folders]
    together = notes[0] + notes[1]
    assert len({pid for _, _, pid in together}) == 2 * REDUCES, "a process each"
    spans = [(min(b for b, _, _ in one), max(e for _, e, _ in one)) for one in notes]
    assert max(begin for begin, _ in spans) < min(end for _, end in spans), "not at the same time"
    assert most_at_once(together) <= permits_of_machine()
    assert railyard.nothing_left()
