"""How long an attempt's work takes: as long as it takes, or as long as the model says.

A task's duration is

    read (or fetch)  +  max(real compute, the model's bytes / rate)  +  write

Its compute begins with the order to launch the task, so that what this machine needs to start a
process is no part of the model's time, or with the arrival of its last fetch if it fetches; reading
from the block store in between does not count.  What it reads or fetches is ``bytes``, times the
topology's scale; ``rate`` is compute.map_rate, or compute.reduce_rate for a task that fetches.
With compute.mode = "real" there is no rate.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cluster.messages.execution import TaskSpec
from cluster.reactor import now_s
from cluster.topology import Topology


class ComputeClock:
    """Runs while the attempt computes; from ``start_s``, or from now on."""

    def __init__(self, start_s: float | None = None) -> None:
        self._waited_s = 0.0  #: since the start
        self._start_s = now_s() if start_s is None else start_s

    def restart(self) -> None:
        """Begin at zero again."""
        self._waited_s, self._start_s = 0.0, now_s()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stand still while the attempt reads, fetches or writes."""
        begin_s = now_s()
        try:
            yield
        finally:
            self._waited_s += now_s() - begin_s

    @property
    def elapsed_s(self) -> float:
        """How long the attempt has computed."""
        return now_s() - self._start_s - self._waited_s


def paced_s(topology: Topology, task: TaskSpec, stored_bytes: int) -> float:
    """The least that computing over ``stored_bytes`` takes; 0 if it is as fast as it is."""
    compute = topology.compute
    if compute.mode == "real":
        return 0.0
    rate = compute.reduce_rate if task.reads else compute.map_rate
    return stored_bytes * topology.scale / rate
