"""The messages among a NodeManager, its helpers and attempts.

NodeManager --ForkJobHelper--> clean helper            (the job helper's socket travels along)
            --LoadJob, LaunchAttempt, KillAttempt--> job helper
reading attempt --ReadOutputs--> shuffle service of the source's rack
"""

from __future__ import annotations

import msgspec

from railyard.cluster.messaging import wire


# NodeManager and clean helper --------------------------------------------------------------------
class ForkJobHelper(wire.Command, frozen=True, kw_only=True):
    """Fork a helper for a job; its end of a socket pair comes with this message."""

    helper: wire.Count  #: its number, chosen by the NodeManager
    job: wire.JobId


class KillJobHelper(wire.Command, frozen=True, kw_only=True):
    """Kill a job's helper, and with it the attempts that it forked."""

    helper: wire.Count


class JobHelperForked(wire.Event, frozen=True, kw_only=True):
    """A job's helper was started."""

    helper: wire.Count
    pid: wire.Pid


class JobHelperEnded(wire.Event, frozen=True, kw_only=True):
    """A job's helper has ended, or never was; so are the attempts that it forked."""

    helper: wire.Count
    how: wire.Text  #: "exit 1", "signal 9 (SIGKILL)", "no process for it: ..."


# NodeManager and job helper ----------------------------------------------------------------------
class JobLoaded(wire.Event, frozen=True):
    """The job's module is imported: attempts can be forked."""


class JobBroken(wire.Event, frozen=True, kw_only=True):
    """The job's module cannot be imported."""

    reason: wire.Text
    stderr: wire.Text


class AttemptTooLarge(wire.Event, frozen=True, kw_only=True):
    """An attempt is being killed: with what it started it uses more memory than it may."""

    attempt: wire.AttemptId
    reason: wire.Text


class AttemptExited(wire.Event, frozen=True, kw_only=True):
    """An attempt's process has ended."""

    attempt: wire.AttemptId
    status: wire.WaitStatus  #: as of ``os.waitpid``


# Reading attempt and shuffle service -------------------------------------------------------------
class ReadOutputs(wire.LongMessage, frozen=True, kw_only=True):
    """Send one partition of these map outputs, as one stream of chunks named after the flow."""

    flow: wire.FlowId
    src: wire.NodeId
    outputs: wire.Entries[wire.AttemptId]
    partition: wire.Tasks


class OutputPart(msgspec.Struct, frozen=True):
    """One partition of one map output, as its index has it."""

    stored_bytes: wire.StoredBytes
    checksum: wire.Checksum  #: CRC-32C


class OutputsFound(wire.LongMessage, frozen=True, kw_only=True):
    """The answer: what will be sent, in the order of the request; or which outputs can't be."""

    parts: wire.Entries[OutputPart] = ()
    lost: wire.Entries[wire.AttemptId] = ()  #: if there is any, nothing is sent
    reason: wire.Text = ""
