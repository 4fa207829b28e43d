"""Makes an experiment smaller: fewer jobs, coarser tasks, fewer machines; and says so.

Times stay the same, and so does what limits them: a rack's slots x rate, its link to the core and
the bytes of jobs.  ``tasks`` tasks become one, that many times larger, on a slot that much faster;
``machines`` machines become one with their slots and NICs.
"""

from __future__ import annotations

from dataclasses import dataclass

from railyard.cluster.errors import require
from railyard.cluster.topology import Topology, load_topology
from railyard.scripts.simulating.grain import coarse_network
from railyard.scripts.terminal.options import TextPairs


@dataclass(frozen=True, kw_only=True)
class Coarser:
    """A topology with fewer and larger machines and slots.

    Raises ``UsageError`` if that leaves parts of machines or slots.
    """

    topology: str
    tasks: int = 1  #: how many become one; of the workload: its option "grain"
    machines: int = 1  #: how many become one, in each rack
    rate: float | None = None  #: of a slot before that, bytes/s; None = the topology's

    def __post_init__(self) -> None:
        racks = self._topology().racks
        wanted, what = racks.nodes / self.machines, f"{self.topology}: machines"
        require(wanted.is_integer(), what, self.machines, f"what divides {racks.nodes}")
        slots = racks.slots * self.machines / self.tasks
        what = f"{self.topology}: tasks"
        require(slots.is_integer(), what, self.tasks, f"what divides {racks.slots * self.machines}")

    def network(self) -> TextPairs:
        """The settings of the topology to change."""
        return coarse_network(self._topology(), self.tasks, self.machines, self.rate)

    def words(self) -> tuple[str, ...]:
        """How it differs from the paper's, a phrase for each difference."""
        racks, words = self._topology().racks, []
        if self.tasks > 1:
            words.append(
                f"every {self.tasks} tasks are one, that much larger, on slots that much faster"
            )
        if self.machines > 1:
            words.append(
                f"{racks.nodes // self.machines} machines a rack instead of {racks.nodes}, "
                "with the same slots and NICs in all"
            )
        return tuple(words)

    def _topology(self) -> Topology:
        return load_topology(self.topology)


def fewer_jobs(ours: int, papers: int) -> tuple[str, ...]:
    """The phrase for a number of jobs that differs from the paper's."""
    return () if ours == papers else (f"{ours} jobs instead of {papers}",)
