"""The messages among a NodeManager, its helpers and attempts.

NodeManager --ForkJobHelper--> clean helper            (the job helper's socket travels along)
            --LoadJob, LaunchAttempt, KillAttempt--> job helper
reading attempt --ReadOutputs--> shuffle service of the source's rack
"""

from __future__ import annotations

import msgspec

from railyard.cluster.messaging.wire import (
    AttemptId,
    Checksum,
    Command,
    Count,
    Entries,
    Event,
    FlowId,
    JobId,
    LongMessage,
    NodeId,
    Pid,
    StoredBytes,
    Tasks,
    Text,
    WaitStatus,
)


# NodeManager and clean helper --------------------------------------------------------------------
class ForkJobHelper(Command, frozen=True, kw_only=True):
    """Fork a helper for a job; its end of a socket pair comes with this message."""

    helper: Count  #: its number, chosen by the NodeManager
    job: JobId


class KillJobHelper(Command, frozen=True, kw_only=True):
    """Kill a job's helper, and with it the attempts that it forked."""

    helper: Count


class JobHelperForked(Event, frozen=True, kw_only=True):
    """A job's helper was started."""

    helper: Count
    pid: Pid


class JobHelperEnded(Event, frozen=True, kw_only=True):
    """A job's helper has ended, or never was; so are the attempts that it forked."""

    helper: Count
    how: Text  #: "exit 1", "signal 9 (SIGKILL)", "no process for it: ..."


# NodeManager and job helper ----------------------------------------------------------------------
class JobLoaded(Event, frozen=True):
    """The job's module is imported: attempts can be forked."""


class JobBroken(Event, frozen=True, kw_only=True):
    """The job's module cannot be imported."""

    reason: Text
    stderr: Text


class AttemptForked(Event, frozen=True, kw_only=True):
    """An attempt's process was started."""

    attempt: AttemptId
    pid: Pid


class AttemptNotForked(Event, frozen=True, kw_only=True):
    """The system gave no process for an attempt."""

    attempt: AttemptId
    reason: Text


class AttemptTooLarge(Event, frozen=True, kw_only=True):
    """An attempt is being killed: with what it started it uses more memory than it may."""

    attempt: AttemptId
    reason: Text


class AttemptExited(Event, frozen=True, kw_only=True):
    """An attempt's process has ended."""

    attempt: AttemptId
    status: WaitStatus  #: as of ``os.waitpid``


# Reading attempt and shuffle service -------------------------------------------------------------
class ReadOutputs(LongMessage, frozen=True, kw_only=True):
    """Send one partition of these map outputs, as one stream of chunks named after the flow."""

    flow: FlowId
    src: NodeId
    outputs: Entries[AttemptId]
    partition: Tasks


class OutputPart(msgspec.Struct, frozen=True):
    """One partition of one map output, as its index has it."""

    stored_bytes: StoredBytes
    checksum: Checksum  #: CRC-32C


class OutputsFound(LongMessage, frozen=True, kw_only=True):
    """The answer: what will be sent, in the order of the request; or which outputs can't be."""

    parts: Entries[OutputPart] = ()
    lost: Entries[AttemptId] = ()  #: if there is any, nothing is sent
    reason: Text = ""
