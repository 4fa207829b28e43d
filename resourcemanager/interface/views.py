"""What policies see: the core's state, read-only.

In plain MapReduce a "map" is a task of the stage that reads the block store and a "reduce" one of
the stage that reads the maps.  In a DAG of stages, a map is any task that reads no other stage
and a reduce any that does; a stage in the middle is made of reduces that others read.

The type checker refuses a policy that changes what it sees.  All ``_bytes`` are the model's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Literal, Protocol

from railyard.cluster.ids import AttemptId, JobId, NodeId, RackId, StageId, TaskId
from railyard.cluster.topology import Topology
from railyard.resourcemanager.interface.events import TaskInput
from railyard.resourcemanager.interface.forecast import Forecast

#: How close a slot is to the input of a task; "anywhere": the task has no input to be close to.
Level = Literal["node-local", "rack-local", "remote", "anywhere"]


class SlotView(Protocol):
    """A node, seen as the place of free slots."""

    @property
    def id(self) -> NodeId: ...
    @property
    def rack(self) -> RackId: ...
    @property
    def slots(self) -> int: ...
    @property
    def free(self) -> int:
        """How many of its slots nobody holds; 0 once it is lost."""


class AttemptView(Protocol):
    """One run of a task."""

    @property
    def id(self) -> AttemptId: ...
    @property
    def task(self) -> TaskView: ...
    @property
    def node(self) -> SlotView: ...
    @property
    def launched_s(self) -> float: ...
    @property
    def ended_s(self) -> float | None: ...
    @property
    def progress(self) -> float:
        """Its done share, 0 to 1, as it last told."""

    @property
    def killing(self) -> str:
        """Why it was asked to end; "" if it was not."""

    @property
    def partition_bytes(self) -> tuple[int, ...]:
        """Its shuffle output for each partition, once it has succeeded."""

    @property
    def shuffle_bytes(self) -> int:
        """All of its shuffle output, once it has succeeded."""


class TaskView(Protocol):
    """A piece of a stage."""

    @property
    def id(self) -> TaskId: ...
    @property
    def index(self) -> int: ...
    @property
    def stage(self) -> StageView: ...
    @property
    def state(self) -> str:
        """Where it is: "pending", "running" or "done"."""

    @property
    def input(self) -> TaskInput:
        """What it reads from the block store: bytes, and the nodes that hold them."""

    @property
    def failures(self) -> int: ...
    @property
    def pending_since_s(self) -> float: ...
    @property
    def live(self) -> Sequence[AttemptView]:
        """Its attempts that hold a slot."""

    @property
    def winner(self) -> AttemptView | None:
        """The attempt whose output counts."""


class PendingView(Protocol):
    """The pending tasks of a stage: their numbers, found by place."""

    @property
    def count(self) -> int: ...
    def __contains__(self, index: int) -> bool: ...
    def __iter__(self) -> Iterator[int]: ...
    def first(self) -> int | None:
        """The lowest of them."""

    def in_rack(self, rack: RackId) -> int | None:
        """The lowest of those whose input is in a rack."""

    def closest(self, node: NodeId, rack: RackId) -> tuple[int | None, Level]:
        """The one whose input is nearest to ``node``, and how near that is."""


class StageView(Protocol):
    """Equal tasks of a job."""

    @property
    def id(self) -> StageId: ...
    @property
    def name(self) -> str: ...
    @property
    def job(self) -> JobView: ...
    @property
    def reads(self) -> Sequence[StageView]:
        """The stages whose output its tasks fetch."""

    @property
    def readers(self) -> Sequence[StageView]: ...
    @property
    def tasks(self) -> Sequence[TaskView]: ...
    @property
    def size(self) -> int:
        """How many tasks it has."""

    @property
    def pending(self) -> PendingView: ...
    @property
    def open(self) -> bool:
        """Whether its tasks may ask for slots."""

    @property
    def running(self) -> int: ...
    @property
    def done(self) -> int: ...
    @property
    def held(self) -> int:
        """Slots that its attempts hold."""

    @property
    def progress(self) -> float:
        """Its done share, 0 to 1, running attempts' own progress included."""

    @property
    def outputs(self) -> Mapping[NodeId, Sequence[AttemptView]]:
        """Attempts whose shuffle output lies on each node."""

    def next_reduce(self) -> TaskView | None:
        """Its first pending task, if it reads stages and may have another slot."""


class JobView(Protocol):
    """What somebody submitted."""

    @property
    def id(self) -> JobId: ...
    @property
    def name(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def weight(self) -> float: ...
    @property
    def submitted_s(self) -> float: ...
    @property
    def held(self) -> int:
        """Slots that it holds."""

    @property
    def avoid(self) -> Mapping[NodeId, None]:
        """Nodes on which its attempts failed too often, so that it is not offered their slots."""

    @property
    def wake_s(self) -> float | None:
        """When it is asked again at the latest, as it answered ``Wait``; None = at no set time."""

    @property
    def forecast(self) -> Forecast | None:
        """What was predicted of it; None if nothing is known."""

    @property
    def stages(self) -> Mapping[str, StageView]:
        """By name, sources before their readers."""

    def next_rerun(self) -> TaskView | None:
        """A task that failed, or whose output was lost, and that readers may wait for."""

    def next_pending_reduce(self) -> TaskView | None:
        """The first pending reduce of a stage that the shuffle policy lets have another slot."""

    def closest_pending_map(self, slot: SlotView) -> tuple[TaskView | None, Level]:
        """The pending map whose input is nearest to the slot, and how near that is."""


class ClusterView(Protocol):
    """All of it."""

    @property
    def topology(self) -> Topology: ...
    @property
    def random(self) -> Random:
        """The only dice: seeded at birth."""

    @property
    def now_s(self) -> float: ...
    @property
    def slots(self) -> int:
        """Slots of the nodes that are alive."""

    @property
    def free(self) -> int:
        """Those that nobody holds."""

    @property
    def nodes(self) -> Mapping[NodeId, SlotView]: ...
    @property
    def jobs(self) -> Mapping[JobId, JobView]:
        """Those that have not ended, in the order in which they were submitted."""

    def free_nodes(self) -> Iterable[SlotView]:
        """Nodes with free slots, in the order in which they will be offered."""
