"""How long an attempt computes: as long as the code needs, or at the model's rate.

A task's duration is

    read (or fetch)  +  max(real compute, the model's bytes / rate)  +  write

Its compute begins with the order to launch the task, or with the arrival of its last fetch if it
fetches; waiting for other nodes' bytes in between does not count.  So what this machine needs to
start a process, to find a block and to read it from the own disk is no part of the model's time;
nor is what it needs to end one, see ``ENDING_S``.  An attempt that was launched without a slot, and
had all that it reads before it had one, begins to compute with the order to begin.
What it reads or fetches is ``bytes``, times the topology's scale; ``rate`` is compute.map_rate, or
compute.reduce_rate for a task that fetches; with compute.skew it differs from task to task,
with compute.stragglers from attempt to attempt.
With compute.mode = "real" there is no rate, and nothing to make up for the start of the process or
a wait for a permit: neither counts, nor does the time in which output is written as it is made.
"""

from __future__ import annotations

from railyard.cluster.messages.execution import TaskSpec
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.topology import Topology

#: An attempt that has nothing to write to the block store ends so many seconds early, and
#: its NodeManager reports that when it is due.  Attempts that start together end together, and 32
#: processes that end took two cores 0.2 to 0.4 s.  It is no more than a period of progress reports.
ENDING_S = 0.5


class ComputeClock:
    """Runs while the attempt computes; from ``start_s``, or from now on."""

    def __init__(self, start_s: float | None = None) -> None:
        self._waited_s = 0.0  #: since the start
        self._start_s = now_s() if start_s is None else start_s

    def restart(self, start_s: float | None = None) -> None:
        """Start again at zero, from ``start_s`` or from now on."""
        self._waited_s, self._start_s = 0.0, now_s() if start_s is None else start_s

    def leave_out(self, waited_s: float) -> None:
        """Do not count so many of the seconds until now as computing."""
        self._waited_s += waited_s

    @property
    def elapsed_s(self) -> float:
        """Seconds for which the attempt has computed."""
        return now_s() - self._start_s - self._waited_s


def paced_s(topology: Topology, task: TaskSpec, stored_bytes: int, straggle: float = 1.0) -> float:
    """The least seconds for computing over ``stored_bytes``; 0 if there is no configured rate.

    ``straggle`` is the attempt's own factor, see ``Compute.straggle``.
    """
    compute = topology.compute
    if compute.mode == "real":
        return 0.0
    rate = compute.reduce_rate if task.reads else compute.map_rate
    return stored_bytes * topology.scale / rate * compute.stretch(task.index) * straggle
