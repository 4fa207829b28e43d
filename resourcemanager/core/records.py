"""The numbers that are recorded of each job while it runs; reports are made of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId
from railyard.cluster.messaging.wire import COUNTER_MAX, AttemptId, NodeId, RackId, TaskId, Text

#: How many failed attempts of a job are kept with their stderr.
FAILURES_KEPT = 20


class TaskFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A failed attempt."""

    task: TaskId
    attempt: AttemptId
    node: NodeId
    reason: Text
    stderr: Text  #: the end of what the attempt wrote to its standard error


#: Most counters of a job: its code may make up their names.
COUNTERS_MAX = 1000
COUNTED_TOO_FAR = "their sum passes what 64 bits hold, -2^63 to 2^63 - 1"


class ByDistance(msgspec.Struct):
    """Bytes or attempts by distance: within a node, within a rack, further."""

    local: int = 0
    rack: int = 0
    remote: int = 0

    def __add__(self, other: ByDistance) -> ByDistance:
        return ByDistance(
            self.local + other.local, self.rack + other.rack, self.remote + other.remote
        )


class JobRecord(msgspec.Struct, kw_only=True):
    """The numbers of a job.  ``_bytes`` are the model's, times are of the core's clock."""

    id: JobId
    name: str
    user: str
    queue: str
    tags: tuple[str, ...] = ()
    submitted_s: float
    maps: int  #: tasks that read no other stage
    reduces: int  #: tasks that do
    maps_done: int = 0  #: of its maps, once it has ended
    reduces_done: int = 0  #: likewise
    finished_s: float | None = None
    ok: bool | None = None  #: None while it runs
    reason: str = ""
    stopped: bool = False  #: it ended because somebody killed it
    failures: list[TaskFailure] = []
    input_bytes: int = 0
    shuffle_bytes: int = 0  #: output of tasks, once for each stage that reads it
    shuffled_bytes: int = 0  #: fetched so far
    output_bytes: int = 0
    read: ByDistance = msgspec.field(default_factory=ByDistance)  #: bytes from the block store
    fetched_in_node_bytes: int = 0  #: by shuffle flows within a node
    fetched_in_rack_bytes: int = 0  #: by those between nodes of a rack
    #: {rack: bytes by shuffle flows that left it, that came to it}; of those between racks
    sent_bytes: Counter[RackId] = msgspec.field(default_factory=Counter)
    received_bytes: Counter[RackId] = msgspec.field(default_factory=Counter)
    locality: ByDistance = msgspec.field(default_factory=ByDistance)  #: map attempts launched
    launched: int = 0
    reduces_launched: int = 0  #: of these, attempts that read other stages
    succeeded: int = 0
    failed: int = 0
    killed: int = 0
    copies: int = 0
    copies_chosen: int = 0
    slot_s: float = 0.0  #: seconds for which its attempts held slots, added up
    #: seconds for which its attempts that succeeded computed, whether their output counts or not
    computed_s: float = 0.0
    reduced: int = 0  #: attempts that read other stages and succeeded
    reduce_s: float = 0.0  #: seconds from launch to end of these, added up
    cct_s: list[float] = []  #: of each of its coflows
    #: {counter: count} over its tasks, each counted once
    counters: Counter[str] = msgspec.field(default_factory=Counter)
    #: the jobs that it sums up, see ``one_after_another``; none = it is a job of one step
    steps: tuple[JobId, ...] = ()

    @property
    def jct_s(self) -> float | None:
        """Seconds from submission to end; None while it runs."""
        return None if self.finished_s is None else self.finished_s - self.submitted_s

    @property
    def shuffle_skew(self) -> float | None:
        """Bytes of its shuffles on the busiest link of a rack over those on the least busy one.

        Source: Wu et al., Shadow, IEEE Transactions on Big Data 2019, Definition 1 and equation 10,
        of what was really fetched.  A rack has an uplink and a downlink; only links in use count,
        as in Fig. 5.  None if nothing was fetched from another rack.
        """
        by_link = (*self.sent_bytes.values(), *self.received_bytes.values())
        used = [count for count in by_link if count]
        return max(used) / min(used) if used else None

    @property
    def fetched(self) -> ByDistance:
        """Bytes by shuffle flows, by distance."""
        further = self.received_bytes.total()
        return ByDistance(self.fetched_in_node_bytes, self.fetched_in_rack_bytes, further)


#: The numbers of a job that are the sums of its steps'.
_ADDED_UP = [
    each.name
    for each in msgspec.structs.fields(JobRecord)
    if each.type in (int, float) and each.name != "submitted_s"
]


def counted_too_far(counted: Mapping[str, int], more: Mapping[str, int]) -> str | None:
    """The first counter that would pass what 64 bits hold if these were added up; None if none."""
    sums = {name: counted.get(name, 0) + count for name, count in more.items()}
    return next((name for name in sums if not -COUNTER_MAX - 1 <= sums[name] <= COUNTER_MAX), None)


def one_after_another(steps: Sequence[JobRecord]) -> JobRecord:
    """The numbers of a job whose steps, at least one, were jobs of their own, each after the last.

    It has the first one's name, was submitted with that and ended with the last.  Raises
    ``PeerError`` if a counter passes what 64 bits hold.
    """
    first, last = steps[0], steps[-1]
    if first is last:
        return first
    total = msgspec.structs.replace(
        first,
        finished_s=last.finished_s,
        ok=None if last.ok is None else all(step.ok for step in steps),
        reason=last.reason,
        stopped=last.stopped,
        failures=[failure for step in steps for failure in step.failures][-FAILURES_KEPT:],
        cct_s=[cct_s for step in steps for cct_s in step.cct_s],
        steps=tuple([step.id for step in steps]),
        read=sum((step.read for step in steps), ByDistance()),
        locality=sum((step.locality for step in steps), ByDistance()),
        sent_bytes=sum((step.sent_bytes for step in steps), Counter()),
        received_bytes=sum((step.received_bytes for step in steps), Counter()),
        counters=Counter(),
        **{name: sum(getattr(step, name) for step in steps) for name in _ADDED_UP},
    )
    for step in steps:
        if (name := counted_too_far(total.counters, step.counters)) is not None:
            raise PeerError(f"counter {name} of {first.id} to {last.id}: {COUNTED_TOO_FAR}")
        total.counters.update(step.counters)
    return total
