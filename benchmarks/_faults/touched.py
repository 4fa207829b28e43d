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

#: {class of events or commands: the field that has the name of what it is about, if it is about one
#: job; "": it is about none}
_ABOUT = {
    **dict.fromkeys((AttemptProgressed, AttemptReady, AttemptSucceeded), "attempt"),
    **dict.fromkeys((AttemptFailed, AttemptKilled), "attempt"),
    **dict.fromkeys((LaunchAttempt, BeginAttempt, KillAttempt), "attempt"),
    **dict.fromkeys((FlowFinished, FlowFailed, StartFlow, CancelFlow), "flow"),
    **dict.fromkeys((OpenCoflow, CloseCoflow), "coflow"),
    **dict.fromkeys((AttemptStarted, TimerFired, SetTimer), ""),
}


def touched_jobs(event: Event, commands: Sequence[Command]) -> set[JobId] | None:
    """The jobs that an event and its commands are about; None: any job may be touched."""
    jobs: set[JobId] = set()
    for each in (event, *commands):
        field = _ABOUT.get(type(each))
        if field is None:
            return None
        if field:
            jobs.add(job_of(getattr(each, field)))
    return jobs
