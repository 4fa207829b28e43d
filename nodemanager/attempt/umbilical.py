"""An attempt's link to its NodeManager: orders come in, progress and the outcome go out.

It is also how the attempt gets its permits to compute (``nodemanager.permits``): it has one from
its start until it waits for the first time.  And an attempt that was launched without a slot hears
here that it has one.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from railyard.cluster.ids import rack_of
from railyard.cluster.messages.execution import (
    AskToCompute,
    AttemptDue,
    AttemptFailed,
    AttemptProgressed,
    AttemptReady,
    AttemptSucceeded,
    AttemptWaits,
    BeginAttempt,
    LaunchAttempt,
    UmbilicalHello,
)
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Done

#: Progress is reported about this often.
REPORT_PERIOD_S = 0.5


class Umbilical:
    """Ends the process when the NodeManager is gone."""

    def __init__(self, transport: Transport, order: LaunchAttempt) -> None:
        self.link: Link = transport.link(
            f"nodemanager-{rack_of(order.node)}",
            on_lost=lambda: os._exit(1),
            patience_s=None,  # this process ends with its NodeManager anyway
        )
        self._attempt = order.attempt
        #: when its NodeManager heard that it has a slot, on this machine's clock; None: it has none
        self.begun_s = order.received_s if order.begins else None
        self._share: Callable[[], float] = lambda: 0.0
        self._reported_s = now_s()
        self._transport, self._reactor = transport, transport.reactor
        self._may_compute = True
        self.link.on(BeginAttempt, lambda begin, _: self._begin(begin))
        self.link.send(UmbilicalHello(attempt=order.attempt, pid=os.getpid()))
        if order.begins:
            self._report_on()

    def report_from(self, share: Callable[[], float]) -> None:
        """Report the progress that ``share`` says from now on, 0 to 1."""
        self._share = share

    def report(self) -> None:
        """Report progress, unless that was done a moment ago."""
        now = now_s()
        if now - self._reported_s >= REPORT_PERIOD_S / 2:
            self._reported_s = now
            share = min(max(0.0, self._share()), 1.0)  # user code may return anything
            self.link.send(AttemptProgressed(attempt=self._attempt, progress=share))

    def wait_for_slot(self, has_all: Callable[[], bool]) -> bool:
        """Return once the attempt has a slot: whether it ``has_all`` before, which it reports."""
        reactor = self._reactor
        reactor.run_until(lambda: self.begun_s is not None or has_all())
        if self.begun_s is not None:
            return False
        self.link.send(AttemptReady(attempt=self._attempt))
        reactor.run_until(lambda: self.begun_s is not None)
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
        # Fires while the attempt waits for something; while it computes, it calls ``report``.
        self._reactor.call_every(REPORT_PERIOD_S, self._look_and_report)

    def _look_and_report(self) -> None:
        self._transport.leave_replaced()
        self.report()
