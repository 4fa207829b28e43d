"""A job whose map sends hostile frames to every daemon: as user code may, from within an attempt.

A line of its input is the number of a batch.  What became of each goes to the file ``outcomes``;
nothing else is asked of the job: it may well have broken itself.
"""

from __future__ import annotations

from pathlib import Path

from railyard.benchmarks.attacks._grounds.home import Broken
from railyard.benchmarks.attacks._hostile.sender import Sender
from railyard.cluster.topology import load_topology
from railyard.jobs.formats import Lines
from railyard.jobs.model import Job
from railyard.jobs.operators import Pairs


class HostileFrames(Job):
    """Sends batches of frames."""

    input = Lines()
    sockets: str
    topology: str
    outcomes: str
    seed: int = 1

    def setup(self) -> None:
        self._sender: Sender | None = None

    def map(self, record: str) -> Pairs:
        """Send the batch of that number."""
        if self._sender is None:
            self._sender = Sender(Path(self.sockets), load_topology(self.topology), self.seed)
        try:
            self._sender.batch(int(record))
            outcome = "held"
        except Broken as broken:
            outcome = str(broken)
        with open(self.outcomes, "a", encoding="utf-8") as file:
            file.write(f"{record} {outcome}\n")
        yield record, outcome
