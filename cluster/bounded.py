"""Types of what messages carry: every number finite and bounded, every text and collection short.

Whatever arrives is checked against them before any of our code sees it: a value out of its bounds
is refused by name.  Not a number (NaN) is within no bounds.  Values that are made within a process
are not checked, and cost nothing.

Message modules take the names of things (``NodeId`` and so on) from here, not from ``cluster.ids``:
they are the same types, of limited length.
"""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from railyard.cluster import ids

#: The most that one figure of bytes may be: an exbibyte.
BYTES_MAX = 2**60
#: The most tasks that a stage may have, and so the most partitions, outputs and winners.
TASKS_MAX = 2**20
#: The most entries of a collection whose number follows from nothing else.
ENTRIES_MAX = 2**20
#: No time is further away: three centuries, which a float still counts in microseconds.
SECONDS_MAX = 1e10

# Numbers -----------------------------------------------------------------------------------------
StoredBytes = Annotated[int, Meta(ge=0, le=BYTES_MAX)]  #: real bytes, and offsets of such
ModelBytes = Annotated[int, Meta(ge=0, le=BYTES_MAX)]  #: bytes of the model
Count = Annotated[int, Meta(ge=0, le=2**53)]  #: how many of something
Tasks = Annotated[int, Meta(ge=0, le=TASKS_MAX)]  #: how many tasks, or which
Slots = Annotated[int, Meta(ge=0, le=2**16)]
Replicas = Annotated[int, Meta(ge=0, le=2**16)]
Number = Annotated[int, Meta(ge=0, le=2**63 - 1)]  #: of a block, or of a file being written
Signed = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]  #: what users count
Pid = Annotated[int, Meta(ge=0, le=2**31 - 1)]
WaitStatus = Annotated[int, Meta(ge=0, le=2**16 - 1)]  #: as of ``os.waitpid``
Checksum = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Seconds = Annotated[float, Meta(ge=0, le=SECONDS_MAX)]  #: a duration, or a time of some clock
Share = Annotated[float, Meta(ge=0, le=1)]
#: A flow's part of a link's bandwidth among others, or a job's among its user's.  Sums and ratios
#: of such weights and of any sizes stay far from what floats cannot hold.
Weight = Annotated[float, Meta(ge=1e-6, le=1e6)]
Rank = Annotated[float, Meta(ge=-1e18, le=1e18)]
#: Flow schedulers that go by priority serve the smaller first, compared item by item; none first.
Priority = Annotated[tuple[Rank, ...], Meta(max_length=8)]
BytesPerS = Annotated[float, Meta(ge=0, le=1e18)]
#: Where no limit may be told as well, as inf.
BytesPerSOrInf = Annotated[float, Meta(ge=0)]
BytesOrInf = Annotated[float, Meta(ge=0)]
#: A time, or inf where there is none.
SecondsOrInf = Annotated[float, Meta(ge=0)]

# Texts -------------------------------------------------------------------------------------------
Name = Annotated[str, Meta(max_length=255)]
Path = Annotated[str, Meta(max_length=2**14)]  #: ``dfs.paths`` says what is too long
#: Why something is so, in words; ``cluster.shown.shortened`` cuts what is told in it.
TEXT_LETTERS_MAX = 16_384
Text = Annotated[str, Meta(max_length=TEXT_LETTERS_MAX)]
#: What is put together of several reasons is cut to this first.
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
#: For ``Annotated[tuple[...], OF_TASKS]`` and the like: how many entries there may be.
OF_TASKS = Meta(max_length=TASKS_MAX)
ENTRIES = Meta(max_length=ENTRIES_MAX)
#: What grows with the topology or with a person's patience: racks, nodes, stages, replicas, paths.
FEW = Meta(max_length=2**14)
#: For the first replica, the second, ...: racks for it.
ReplicaRacks = Annotated[tuple[Annotated[tuple[RackId, ...], FEW], ...], FEW]


def finite_s(seconds: float, what: str) -> float:
    """``seconds``, if that is a time which a clock can reach; ``ValueError`` otherwise."""
    if -SECONDS_MAX <= seconds <= SECONDS_MAX:  # which NaN is not
        return seconds
    raise ValueError(f"{what} = {seconds!r}: need seconds, finite and at most {SECONDS_MAX:g}")
