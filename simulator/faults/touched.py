"""Which jobs an event can have changed, so that checks after it may leave out the others.

Whatever this misses is found by a check of everything, a few events later.
"""

from __future__ import annotations

from collections.abc import Sequence

from railyard.cluster.ids import JobId, job_of
from railyard.cluster.messages.execution import (
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    BeginAttempt,
    CancelFlow,
    FlowFailed,
    FlowFinished,
    KillAttempt,
    LaunchAttempt,
    StartFlow,
)
from railyard.cluster.messaging.wire import Command, Event
from railyard.resourcemanager.interface.commands import CloseCoflow, OpenCoflow, SetTimer
from railyard.resourcemanager.interface.events import TimerFired

_OF_ATTEMPTS = (
    AttemptProgressed,
    AttemptReady,
    AttemptSucceeded,
    AttemptFailed,
    AttemptKilled,
    LaunchAttempt,
    BeginAttempt,
    KillAttempt,
)
_OF_FLOWS = (FlowFinished, FlowFailed, StartFlow, CancelFlow)
_OF_COFLOWS = (OpenCoflow, CloseCoflow)
_OF_NONE = (AttemptStarted, TimerFired, SetTimer)


def touched_jobs(event: Event, commands: Sequence[Command]) -> set[JobId] | None:
    """The jobs that an event and its commands are about; None: any job may be touched."""
    jobs: set[JobId] = set()
    for each in (event, *commands):
        if isinstance(each, _OF_ATTEMPTS):
            jobs.add(job_of(each.attempt))
        elif isinstance(each, _OF_FLOWS):
            jobs.add(job_of(each.flow))
        elif isinstance(each, _OF_COFLOWS):
            jobs.add(job_of(each.coflow))
        elif not isinstance(each, _OF_NONE):
            return None
    return jobs
