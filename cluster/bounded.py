"""Types of message fields: every number is finite and bounded, every text and collection limited.

Messages are checked against them as they are decoded: a value out of bounds, NaN included, is
refused with the name of its field.  Values made within a process are not checked and cost nothing.

Message modules import ids (``NodeId`` and so on) from here, not from ``cluster.ids``: the types are
the same, but limited in length.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from railyard.cluster import ids

#: Maximum of one number of bytes: an exbibyte.
BYTES_MAX = 2**60
#: Maximum number of tasks of a stage, and so of its partitions, outputs and winners.
TASKS_MAX = 2**20
#: Maximum number of entries of a collection that has no limit of its own.
ENTRIES_MAX = 2**20
#: Maximum of a time in seconds: three centuries, which a float still resolves to microseconds.
SECONDS_MAX = 1e10

# Numbers -----------------------------------------------------------------------------------------
StoredBytes = Annotated[int, Meta(ge=0, le=BYTES_MAX)]  #: real bytes, and offsets in them
ModelBytes = Annotated[int, Meta(ge=0, le=BYTES_MAX)]  #: bytes of the model
Count = Annotated[int, Meta(ge=0, le=2**53)]  #: a number of things
Tasks = Annotated[int, Meta(ge=0, le=TASKS_MAX)]  #: a number of tasks, or a task's index
Slots = Annotated[int, Meta(ge=0, le=2**16)]
Replicas = Annotated[int, Meta(ge=0, le=2**16)]
Permission = Annotated[int, Meta(ge=0, le=0o1777)]  #: the bits of chmod
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]  #: number of a block, or of an open file
#: Maximum of a counter; the least is ``-COUNTER_MAX - 1``.
COUNTER_MAX = 2**63 - 1
Signed = Annotated[int, Meta(ge=-COUNTER_MAX - 1, le=COUNTER_MAX)]  #: value of a user's counter
Pid = Annotated[int, Meta(ge=0, le=2**31 - 1)]
WaitStatus = Annotated[int, Meta(ge=0, le=2**16 - 1)]  #: from ``os.waitpid``
Checksum = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]  #: a duration, or a time on some clock
Share = Annotated[float, Meta(ge=0, le=1)]
#: Weight of a flow at a link, or of a job among its user's jobs.  Sums of weights, and ratios of
#: any size to a weight, stay far below a float's limits.
Weight = Annotated[float, Meta(ge=1e-6, le=1e6)]
Rank = Annotated[float, Meta(ge=-1e18, le=1e18)]
#: Flow schedulers with priorities serve the smallest first, compared item by item; () comes last.
Priority = Annotated[tuple[Rank, ...], Meta(max_length=8)]
BYTES_PER_S_MAX = 1e18
BytesPerS = Annotated[float, Meta(ge=0, le=BYTES_PER_S_MAX)]
#: A rate; inf = unlimited.
BytesPerSOrInf = Annotated[float, Meta(ge=0)]
BytesOrInf = Annotated[float, Meta(ge=0)]
#: A time; inf = never.
SecondsOrInf = Annotated[float, Meta(ge=0)]

# Texts -------------------------------------------------------------------------------------------
#: Letters of a name: of a job, a queue, a counter with its group.
NAME_LETTERS_MAX = 255
Name = Annotated[str, Meta(max_length=NAME_LETTERS_MAX)]
Path = Annotated[str, Meta(max_length=2**14)]  #: ``dfs.paths`` has a lower limit
#: A reason in words; ``cluster.shown.shortened`` cuts longer ones.
TEXT_LETTERS_MAX = 16_384
Text = Annotated[str, Meta(max_length=TEXT_LETTERS_MAX)]
#: Each part of a text made from several reasons is cut to this first.
REASON_LETTERS_MAX = 2000

# Names of things ---------------------------------------------------------------------------------
_ID = Meta(max_length=255)
RackId = Annotated[ids.RackId, _ID]
NodeId = Annotated[ids.NodeId, _ID]
JobId = Annotated[ids.JobId, _ID]
TaskId = Annotated[ids.TaskId, _ID]
AttemptId = Annotated[ids.AttemptId, _ID]
FlowId = Annotated[ids.FlowId, _ID]
CoflowId = Annotated[ids.CoflowId, _ID]

# Collections -------------------------------------------------------------------------------------
#: Limits on the number of entries, as in ``Annotated[tuple[...], OF_TASKS]``.
OF_TASKS = Meta(max_length=TASKS_MAX)
ENTRIES = Meta(max_length=ENTRIES_MAX)
#: For collections that grow with the topology or are typed by hand: racks, nodes, stages, paths.
FEW = Meta(max_length=2**14)
#: For each replica, the first to the last: its racks.
ReplicaRacks = Annotated[tuple[Annotated[tuple[RackId, ...], FEW], ...], FEW]


def finite_s(seconds: float, what: str) -> float:
    """Return ``seconds`` if finite and within +-``SECONDS_MAX``; otherwise raise ``ValueError``."""
    if -SECONDS_MAX <= seconds <= SECONDS_MAX:  # False for NaN
        return seconds
    raise ValueError(f"{what} = {seconds!r}: need seconds, finite and at most {SECONDS_MAX:g}")
