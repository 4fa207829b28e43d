"""What policies see: the core's state, read-only.

In plain MapReduce a "map" is a task of the stage that reads the block store and a "reduce" a task
of the stage that reads the maps.  In a DAG of stages, a map is any task that reads no other stage
and a reduce any that does; a stage in the middle consists of reduces that others read.

The type checker refuses a policy that changes what it sees.  All ``_bytes`` are the model's, all
``_s`` are seconds of the core's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Literal, Protocol

from railyard.cluster.ids import AttemptId, JobId, NodeId, RackId, StageId, TaskId
from railyard.cluster.topology import Topology
from railyard.netemu.model.network import LinkState
from railyard.resourcemanager.interface.events import TaskInput
from railyard.resourcemanager.interface.forecast import Forecast

#: How close a slot is to the input of a task; "anywhere": the task has no input to be close to.
Level = Literal["node-local", "rack-local", "remote", "anywhere"]


class SlotView(Protocol):
    """A node, seen as the place of free slots."""

    @property
    def id(self) -> NodeId:
        """The node's name, such as "r0n1"."""

    @property
    def rack(self) -> RackId:
        """The node's rack, such as "r0"."""

    @property
    def alive(self) -> bool:
        """Whether it has joined and was not lost since."""

    @property
    def draining(self) -> bool:
        """Whether it is, or is being, drained: it has no slots, and nothing may be reserved."""

    @property
    def slots(self) -> int:
        """Number of its slots, held or free; it may change while the node is alive."""

    @property
    def held(self) -> int:
        """Number of attempts that hold its slots: more than ``slots`` if these became fewer."""

    @property
    def free(self) -> int:
        """Number of its slots that nobody holds; 0 once the node is lost."""

    def is_full(self, *, reduces: bool) -> bool:
        """Whether its slots for reduces, or those for maps, are held; not if any takes either."""

    @property
    def reserved(self) -> Mapping[AttemptId, AttemptView]:
        """Reservations on it, in the order in which they were made."""


class AttemptView(Protocol):
    """One run of a task."""

    @property
    def id(self) -> AttemptId:
        """Its name, such as "j3.m7.0"."""

    @property
    def task(self) -> TaskView:
        """The task that it runs."""

    @property
    def node(self) -> SlotView:
        """The node with the slot that it holds, held or is to have."""

    @property
    def holds_slot(self) -> bool:
        """Whether it holds a slot; if not, it is a reservation or has ended."""

    @property
    def ready(self) -> bool:
        """Of a reservation: whether all that it reads is at its node."""

    @property
    def launched_s(self) -> float:
        """When it took its slot; of a reservation, when that was made."""

    @property
    def ended_s(self) -> float | None:
        """When it ended; None before."""

    @property
    def progress(self) -> float:
        """The done share that it reported last, 0 to 1."""

    @property
    def killing(self) -> str:
        """Why it was asked to end; "" if it was not."""

    @property
    def partition_bytes(self) -> tuple[int, ...]:
        """Bytes of shuffle output for each reader, once it has succeeded."""

    @property
    def shuffle_bytes(self) -> int:
        """Bytes of shuffle output for all readers together, once it has succeeded."""

    @property
    def read_s(self) -> float:
        """For how long it read or fetched from other nodes; 0 until it has succeeded.

        Waiting for tasks that are not done yet does not count.
        """

    @property
    def computed_s(self) -> float:
        """For how long it computed over what it had read; 0 until it has succeeded."""


class TaskView(Protocol):
    """A piece of a stage."""

    @property
    def id(self) -> TaskId:
        """Its name, such as "j3.m7"."""

    @property
    def index(self) -> int:
        """Its number in its stage, from 0."""

    @property
    def stage(self) -> StageView:
        """The stage that it belongs to."""

    @property
    def state(self) -> str:
        """One of "pending", "running", "kept", "done", and "left": not needed any more."""

    @property
    def input(self) -> TaskInput:
        """What it reads from the block store: bytes, and the nodes that hold them."""

    @property
    def failures(self) -> int:
        """Number of its attempts that have failed."""

    @property
    def pending_since_s(self) -> float:
        """When it became pending last."""

    @property
    def live(self) -> Sequence[AttemptView]:
        """Its attempts that hold a slot."""

    @property
    def reserved(self) -> AttemptView | None:
        """Its reservation, while it is pending: an attempt that reads, and has no slot yet."""

    @property
    def kept(self) -> Sequence[AttemptView]:
        """Its attempts that succeeded and have their output kept, as they ended."""

    @property
    def winner(self) -> AttemptView | None:
        """The attempt that succeeded and has its output counted; None before."""


class FetchView(Protocol):
    """A flow that brings the outputs of one node's tasks to an attempt that reads them."""

    @property
    def reader(self) -> AttemptView:
        """The attempt that fetches, with or without a slot."""

    @property
    def node(self) -> SlotView:
        """The node that sends."""

    @property
    def size_bytes(self) -> int:
        """Bytes of it all."""


class PendingView(Protocol):
    """The numbers of a stage's pending tasks, found by the place of their input."""

    @property
    def count(self) -> int:
        """How many tasks are pending."""

    def __contains__(self, index: int) -> bool: ...
    def __iter__(self) -> Iterator[int]: ...
    def first(self) -> int | None:
        """The lowest number; None if no task is pending."""

    def in_rack(self, rack: RackId) -> int | None:
        """The lowest number of a task with input in a rack; None if there is none."""

    def racks(self) -> Iterable[RackId]:
        """The racks with input of a pending task, in no order."""

    def closest(self, node: NodeId, rack: RackId) -> tuple[int | None, Level]:
        """The number of the task with its input nearest to ``node``, and how near that is."""


class StageView(Protocol):
    """Equal tasks of a job."""

    @property
    def id(self) -> StageId:
        """The stage's name with its job's, such as "j3.m"."""

    @property
    def name(self) -> str:
        """Its name in its job, such as "m"."""

    @property
    def job(self) -> JobView:
        """The job that it belongs to."""

    @property
    def reads(self) -> Sequence[StageView]:
        """The stages from which its tasks fetch."""

    @property
    def readers(self) -> Sequence[StageView]:
        """The stages that fetch its tasks' output."""

    @property
    def tasks(self) -> Sequence[TaskView]:
        """Its tasks, by their numbers."""

    @property
    def size(self) -> int:
        """Number of its tasks."""

    @property
    def needed(self) -> int:
        """How many of them have to be done."""

    @property
    def complete(self) -> bool:
        """Whether as many are done as are needed."""

    @property
    def pending(self) -> PendingView:
        """Its tasks that have to run: nothing of theirs runs, is kept or done, or not needed."""

    @property
    def open(self) -> bool:
        """Whether its tasks may ask for slots."""

    @property
    def may_copy(self) -> bool:
        """Whether its tasks may have copies; not if their job is submitted without."""

    @property
    def running(self) -> int:
        """Number of tasks with live attempts and no winner."""

    @property
    def done(self) -> int:
        """Number of tasks with a winner."""

    @property
    def held(self) -> int:
        """Number of slots that its attempts hold."""

    @property
    def progress(self) -> float:
        """Its done share, 0 to 1, with the progress of running attempts."""

    @property
    def outputs(self) -> Mapping[NodeId, Sequence[AttemptView]]:
        """{node: the attempts that left their shuffle output there}."""

    def next_reduce(self) -> TaskView | None:
        """Its first pending task, if it reads stages and may have another slot."""


class JobView(Protocol):
    """A submitted job that has not ended."""

    @property
    def id(self) -> JobId:
        """Its number with a "j", such as "j3", in the order of submission."""

    @property
    def name(self) -> str:
        """The name that it was submitted under; jobs may share one."""

    @property
    def user(self) -> str:
        """Who submitted it."""

    @property
    def queue(self) -> str:
        """Its queue or pool, for schedulers that have them."""

    @property
    def weight(self) -> float:
        """Its share against other jobs of the same user, above 0."""

    @property
    def submitted_s(self) -> float:
        """When it was submitted."""

    @property
    def held(self) -> int:
        """Number of slots that its attempts hold."""

    @property
    def avoid(self) -> Mapping[NodeId, None]:
        """Nodes on which its attempts failed too often, so that it is not offered their slots."""

    @property
    def wake_s(self) -> float | None:
        """When it is asked again at the latest, as it answered ``Wait``; None = at no set time."""

    @property
    def forecast(self) -> Forecast | None:
        """Its predicted sizes and times; None for an ad hoc job."""

    @property
    def stages(self) -> Mapping[str, StageView]:
        """{name: stage}, sources before their readers."""

    def next_rerun(self) -> TaskView | None:
        """A task that failed, or lost its output, and that readers may wait for."""

    def next_pending_reduce(self) -> TaskView | None:
        """The first pending reduce of a stage that may have another slot."""

    def closest_pending_map(self, slot: SlotView) -> tuple[TaskView | None, Level]:
        """The pending map with its input nearest to the slot, and how near that is."""


class BlockView(Protocol):
    """A block of a file that jobs read."""

    @property
    def stored_offset(self) -> int:
        """Stored bytes before it in the file; splits name theirs likewise."""

    @property
    def size_bytes(self) -> int:
        """Its size."""

    @property
    def nodes(self) -> tuple[NodeId, ...]:
        """Nodes with a replica, sorted, as last heard; one may be lost since."""

    @property
    def moving_to(self) -> NodeId | None:
        """The node that it is being moved to; None if it is not."""


class ClusterView(Protocol):
    """The topology, the nodes that have joined, and the jobs that run."""

    @property
    def topology(self) -> Topology:
        """Racks, nodes, links and optical switch as configured."""

    @property
    def random(self) -> Random:
        """The only source of chance: seeded when the core is made."""

    @property
    def now_s(self) -> float:
        """The time of the event that is being handled."""

    @property
    def slots(self) -> int:
        """Number of slots of the nodes that are alive."""

    @property
    def free(self) -> int:
        """Number of those slots that nobody holds."""

    @property
    def held(self) -> int:
        """Number of attempts that hold slots."""

    @property
    def nodes(self) -> Mapping[NodeId, SlotView]:
        """{name: node}, of every node that ever joined."""

    @property
    def jobs(self) -> Mapping[JobId, JobView]:
        """{id: job}, of jobs that have not ended, in the order of submission."""

    @property
    def data(self) -> Mapping[str, Sequence[BlockView]]:
        """{path: its blocks in order}, of files that jobs read, once they are stored.

        Empty unless a policy says that it uses data (``Policy.uses_data``).
        """

    @property
    def links(self) -> Mapping[str, LinkState]:
        """{name: capacity and free bandwidth} of the racks' links or switches and optical ports.

        As the topology states them, without flows; then as they are observed, see
        ``recipe.LinksConfig``.  Empty unless a policy of the scheduler uses the network.
        """

    def free_nodes(self) -> Iterable[SlotView]:
        """Nodes with free slots, in the order in which they will be offered."""
