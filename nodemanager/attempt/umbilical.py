"""An attempt's link to its NodeManager, and how long the attempt computes.

Orders come in over the link, progress and the outcome go out.  It is also how the attempt gets its
permits to compute (``nodemanager.permits``): it has one from its start until it waits for the first
time.  An attempt that was launched without a slot learns here that it has one.

A task's duration is

    read (or fetch)  +  max(real compute, the model's bytes / rate)  +  write

Its compute begins with the order to launch the task, or with the arrival of its last fetch if it
fetches; waiting for other nodes' bytes in between does not count.  So what this machine needs to
start a process, to find a block and to read it from the own disk is no part of the model's time;
nor is what it needs to end one, see ``ENDING_S``.  An attempt that was launched without a slot, and
had all that it reads before it had one, begins to compute with the order to begin.
With compute.mode = "real" there is no rate, and nothing to make up for the start of the process or
a wait for a permit: neither counts, nor does the time in which output is written as it is made.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from railyard.cluster.ids import rack_of
from railyard.cluster.messages import (
    AskToCompute,
    AttemptDue,
    AttemptFailed,
    AttemptProgressed,
    AttemptReady,
    AttemptSucceeded,
    AttemptWaits,
    BeginAttempt,
    LaunchAttempt,
    TaskSpec,
    UmbilicalHello,
)
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done
from railyard.cluster.topology import Topology

#: An attempt that has nothing to write to the block store ends so many seconds early, and
#: its NodeManager reports that when it is due.  Attempts that start together end together, and 32
#: processes that end took two cores 0.2 to 0.4 s.  It is no more than a period of progress reports.
ENDING_S = 0.5


class ComputeClock:
    """Runs while the attempt computes; from ``start_s``, or from now on."""

    def __init__(self, start_s: float | None = None) -> None:
        self.restart(start_s)

    def restart(self, start_s: float | None = None) -> None:
        """Start again at zero, from ``start_s`` or from now on."""
        self._waited_s = 0.0  #: since the start
        self._start_s = now_s() if start_s is None else start_s

    def leave_out(self, waited_s: float) -> None:
        """Do not count so many of the seconds until now as computing."""
        self._waited_s += waited_s

    @property
    def elapsed_s(self) -> float:
        return now_s() - self._start_s - self._waited_s


def paced_s(topology: Topology, task: TaskSpec, stored_bytes: int, straggle: float = 1.0) -> float:
    """The least seconds for computing over ``stored_bytes``; 0 if there is no configured rate."""
    compute = topology.compute
    if compute.mode == "real":
        return 0.0
    rate = compute.reduce_rate if task.reads else compute.map_rate
    return stored_bytes * topology.scale / rate * compute.stretch(task.index) * straggle


#: Progress is reported about this often.
REPORT_PERIOD_S = 0.5


class Umbilical:
    """Ends the process when the NodeManager has ended."""

    def __init__(self, transport: Transport, order: LaunchAttempt) -> None:
        self.link: Link = transport.link(
            f"nodemanager-{rack_of(order.node)}",
            on_lost=lambda: os._exit(1),
            patience_s=None,  # this process ends with its NodeManager anyway
        )
        self._attempt = order.attempt
        #: when its NodeManager got the order to begin, on this machine's clock; None: not yet
        self.begun_s = order.received_s if order.begins else None
        self.share: Callable[[], float] = lambda: 0.0  #: the progress to report, 0 to 1
        self._reported_s = now_s()
        self._transport, self._reactor = transport, transport.reactor
        self._may_compute = True
        self.link.on(BeginAttempt, lambda begin, _: self._begin(begin))
        self.link.send(UmbilicalHello(attempt=order.attempt, pid=os.getpid()))
        if order.begins:
            self._report_on()

    def report(self) -> None:
        """Report progress, unless that was done a moment ago."""
        now = now_s()
        if now - self._reported_s >= REPORT_PERIOD_S / 2:
            self._reported_s = now
            share = min(max(0.0, self.share()), 1.0)  # user code may return anything
            self.link.send(AttemptProgressed(attempt=self._attempt, progress=share))

    def wait_for_slot(self, has_all: Callable[[], bool]) -> bool:
        """Return once the attempt has a slot: whether it ``has_all`` before, which it reports."""
        self._reactor.run_until(lambda: self.begun_s is not None or has_all())
        if self.begun_s is not None:
            return False
        self.link.send(AttemptReady(attempt=self._attempt))
        self._reactor.run_until(lambda: self.begun_s is not None)
        return True

    def end_at(self, when_s: float) -> None:
        """Have the attempt's success reported no earlier than at ``when_s``."""
        self.link.send(AttemptDue(attempt=self._attempt, at_s=when_s))

    def wait(self) -> None:
        """Let others compute, as this process will wait; nothing happens if it has done so."""
        if self._may_compute:
            self._may_compute = False
            self.link.send(AttemptWaits(attempt=self._attempt))

    def compute(self) -> None:
        """Return once this process may compute: at once if it has not waited."""

        def answered(*_: object) -> None:
            self._may_compute = True

        if not self._may_compute:
            self.link.request(AskToCompute(attempt=self._attempt), Done, answered)
            self._reactor.run_until(lambda: self._may_compute)

    def claim(self, outcome: AttemptSucceeded | AttemptFailed) -> None:
        """Report the outcome; returns once that has arrived, so that this process may end."""
        self.link.call(outcome, Done)

    def _begin(self, begin: BeginAttempt) -> None:
        if self.begun_s is None:
            self.begun_s = begin.received_s
            self._report_on()

    def _report_on(self) -> None:
        """Report progress from now on: without a slot there is none, and nothing that can hang."""

        def report() -> None:
            self._transport.leave_replaced()
            self.report()

        # Fires while the attempt waits for something; while it computes, it calls ``report``.
        self._reactor.call_every(REPORT_PERIOD_S, report)
