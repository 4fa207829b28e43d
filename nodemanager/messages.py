"""What the processes around one NodeManager tell one another.

NodeManager --ForkJobHelper--> clean helper            (the job helper's socket travels along)
            --LoadJob, LaunchAttempt, KillAttempt--> job helper
reading attempt --ReadOutputs--> shuffle service of the source's rack
"""

from __future__ import annotations

import msgspec

from cluster.ids import AttemptId, FlowId, JobId, NodeId
from cluster.wire import Command, Event, Message


# NodeManager and clean helper --------------------------------------------------------------------
class ForkJobHelper(Command, frozen=True, kw_only=True):
    """Fork a helper for a job; its end of a socket pair comes with this message."""

    helper: int  #: its number, chosen by the NodeManager
    job: JobId


class KillJobHelper(Command, frozen=True, kw_only=True):
    """Kill a job's helper, and with it the attempts that it forked."""

    helper: int


class JobHelperEnded(Event, frozen=True, kw_only=True):
    """A job's helper is gone, or never was; so are the attempts that it forked."""

    helper: int
    how: str  #: "exit 1", "signal 9 (SIGKILL)", "no process for it: ..."


# NodeManager and job helper ----------------------------------------------------------------------
class JobLoaded(Event, frozen=True):
    """The job's module is imported: attempts can be forked."""


class JobBroken(Event, frozen=True, kw_only=True):
    """The job's module cannot be imported."""

    reason: str
    stderr: str


class AttemptForked(Event, frozen=True, kw_only=True):
    """An attempt's process was started."""

    attempt: AttemptId
    pid: int


class AttemptNotForked(Event, frozen=True, kw_only=True):
    """The system gave no process for an attempt."""

    attempt: AttemptId
    reason: str


class AttemptExited(Event, frozen=True, kw_only=True):
    """An attempt's process is gone."""

    attempt: AttemptId
    status: int  #: as of ``os.waitpid``


# Reading attempt and shuffle service -------------------------------------------------------------
class ReadOutputs(Message, frozen=True, kw_only=True):
    """Send one partition of these map outputs, as one stream of chunks named after the flow."""

    flow: FlowId
    src: NodeId
    outputs: tuple[AttemptId, ...]
    partition: int


class OutputPart(msgspec.Struct, frozen=True):
    """One partition of one map output, as its index has it."""

    stored_bytes: int
    checksum: int  #: CRC-32C


class OutputsFound(Message, frozen=True, kw_only=True):
    """The answer: what will be sent, in the order of the request; or which outputs can't be."""

    parts: tuple[OutputPart, ...] = ()
    lost: tuple[AttemptId, ...] = ()  #: if there is any, nothing is sent
    reason: str = ""
