"""What the core knows: nodes, jobs, stages, tasks, attempts.

Every field states its shape and the laws that it obeys, which ``tests/oracles/invariants.py``
checks.  Policies see these objects through the read-only protocols of ``views.py``.

Never here: decisions.  Only the core's own parts (``offers``, ``attempts``, ``shuffle``,
``joblife``) change anything here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from railyard.cluster.ids import AttemptId, NodeId, RackId, StageId, TaskId, stage_id, task_id
from railyard.cluster.messages import AttemptSucceeded
from railyard.resourcemanager.core.lifecycles import ATTEMPT, JOB, TASK
from railyard.resourcemanager.core.pending import PendingTasks
from railyard.resourcemanager.core.records import JobRecord
from railyard.resourcemanager.interface.decisions import Pass, Wait
from railyard.resourcemanager.interface.events import JobSubmitted, StagePlan, TaskInput
from railyard.resourcemanager.interface.forecast import Forecast
from railyard.resourcemanager.interface.views import Level, SlotView

#: A node's position in the round of offers: its place among its rack's nodes, as they joined, then
#: the length and the text of its rack's name.
Position = tuple[int, int, str]


class Node(msgspec.Struct, eq=False):
    """A machine with slots.  ``free == max(0, slots - len(attempts))`` while it is alive.

    It has more attempts than slots where its slots have become fewer.
    """

    id: NodeId
    rack: RackId
    slots: int
    position: Position
    free: int = 0  #: slots that nobody holds; 0 once it is not alive
    reduce_slots: int = 0  #: slots for reduces, the others for maps; 0 = any takes either
    alive: bool = True
    lost_because: str = ""
    draining: bool = False  #: it has no slots, and is to have none until it is activated
    attempts: dict[AttemptId, Attempt] = {}  #: those that hold a slot, being killed or not
    reserved: dict[AttemptId, Attempt] = {}  #: reservations, as they were made
    kept_for: list[Job] = []  #: jobs that gave up a reduce's slot here for another task
    #: tasks that get a copy in the next slots that are free: who holds these was asked to end
    promised: list[Task] = []

    def __post_init__(self) -> None:
        self.free = self.slots

    @property
    def why_not_free(self) -> str:
        """Why nothing can be launched here; "" if there is a free slot."""
        if not self.alive:
            return f"{self.id} is lost ({self.lost_because})"
        if self.free:
            return ""
        if self.draining:
            return f"{self.id} is drained"
        held = " ".join(sorted(self.attempts))
        return f"{self.id} has no free slot ({len(self.attempts)} of {self.slots}: {held})"

    @property
    def held(self) -> int:
        return len(self.attempts)

    def is_full(self, *, reduces: bool) -> bool:
        """Whether its slots for reduces, or those for maps, are held; not if any takes either."""
        if not 0 < self.reduce_slots < self.slots:
            return False
        held = sum(bool(each.task.stage.reads) for each in self.attempts.values())
        if reduces:
            return held >= self.reduce_slots
        return len(self.attempts) - held >= self.slots - self.reduce_slots


class Attempt(msgspec.Struct, eq=False):
    """One run of a task.  It holds a slot of its node from launch until its end is known.

    A reservation has no slot and reads what its task needs, until it is given one or withdrawn.
    """

    id: AttemptId
    task: Task
    node: Node
    level: Level
    launched_s: float
    reader: int | None = None  #: its number in the shuffle of its stage, if that reads others
    ended_s: float | None = None
    progress: float = 0.0
    state: str = "running"  #: see ``lifecycles.ATTEMPT``
    killing: str = ""  #: why it was asked to end; "" = it was not
    ready: bool = False  #: all that it reads was at its node while it had no slot
    copy: bool = False  #: launched beside another attempt of its task
    partition_bytes: tuple[int, ...] = ()  #: its shuffle output, once it has succeeded
    shuffle_bytes: int = 0  #: the sum of these
    read_s: float = 0.0  #: as in ``AttemptSucceeded``, once it has
    computed_s: float = 0.0  #: likewise
    success: AttemptSucceeded | None = None  #: what it reported, as long as its output is kept

    def move(self, event: str) -> None:
        self.state = ATTEMPT.after(self.state, event, self.id)

    @property
    def holds_slot(self) -> bool:
        return self.state in ("running", "ending")

    @property
    def output_lost(self) -> bool:
        return self.state == "output lost"


class Task(msgspec.Struct, eq=False):
    """A piece of a stage.

    While its job runs: left if it is not needed, done if it has a ``winner``, otherwise running if
    it has ``live`` attempts, kept if it has ``kept`` outputs, pending if it has neither.  Only a
    pending task may have a reservation.
    """

    stage: Stage
    index: int
    pending_since_s: float
    state: str = "pending"  #: see ``lifecycles.TASK``
    live: tuple[Attempt, ...] = ()
    reserved: Attempt | None = None  #: its reservation
    kept: tuple[Attempt, ...] = ()  #: attempts with output to be taken, as they ended
    winner: Attempt | None = None  #: the attempt that succeeded
    counted: bool = False  #: whether it is one of those that its stage needs: it was done once
    launches: int = 0
    failures: int = 0

    @property
    def id(self) -> TaskId:
        """Such as "j3.m7"."""
        return task_id(self.stage.id, self.index)

    @property
    def input(self) -> TaskInput:
        """Its input from the block store, with the nodes that hold it."""
        return self.stage.pending.input(self.index)

    def move(self, event: str) -> None:
        """Change its state, as the table says, and its stage's counts with it."""
        before, stage = self.state, self.stage
        self.state = after = TASK.after(before, event, self.id)
        if before == after:
            return
        if before == "pending":
            stage.pending.remove(self.index)
        else:  # the other states are called as the stage's counts are
            setattr(stage, before, getattr(stage, before) - 1)
        if after == "pending":
            stage.pending.add(self.index)
        else:
            setattr(stage, after, getattr(stage, after) + 1)

    def leave(self) -> None:
        self.move("not needed")
        self.drop_kept()
        self.stage.reruns.pop(self.index, None)

    def drop_kept(self) -> None:
        """Nobody takes what is kept: those attempts count as killed."""
        for attempt in self.kept:
            attempt.move("not taken")
            attempt.success = None
        self.stage.job.record.killed += len(self.kept)
        self.kept = ()


class Stage:
    """Equal tasks of a job.  ``pending.count + running + kept + done + left == size``.

    As soon as ``needed`` tasks have been done, the others are left.  If the output of one is lost,
    it is done again, not another: some may have read it already, and all shall read the same.
    """

    def __init__(self, job: Job, plan: StagePlan, reads: tuple[Stage, ...], now_s: float) -> None:
        self.id: StageId = stage_id(job.id, plan.name)
        self.job = job
        self.plan = plan
        self.name = plan.name
        self.reads = reads
        self.readers: list[Stage] = []
        self.partitions = 0  #: of each task's output: one for each task of a stage that reads it
        #: outputs that each of its tasks fetches
        self.inputs: int = sum(source.needed for source in reads)
        self.size: int = plan.tasks  #: how many tasks it has
        self.needed: int = plan.needed or plan.tasks  #: how many of them have to be done
        #: failures of one of them that end the job
        self.max_attempts: int = plan.max_attempts or job.submission.max_attempts
        self.may_copy: bool = plan.may_copy  #: whether a task may have two attempts at once
        self.tasks = [Task(self, index, now_s) for index in range(plan.tasks)]
        self.pending = PendingTasks(plan.tasks, plan.inputs)
        self.running = 0  #: tasks with live attempts and no winner
        self.kept = 0  #: tasks with kept outputs only
        self.done = 0  #: tasks with a winner
        self.counted = 0  #: tasks that have been done at any time; at most ``needed``
        self.left = 0  #: the others, once there are ``needed`` of these
        self.live: dict[AttemptId, Attempt] = {}  #: its attempts that hold a slot
        self.reserved: dict[AttemptId, Attempt] = {}  #: its reservations, as they were made
        self.progress_sum = 0.0  #: progress of its live attempts, added up
        self.open = not reads  #: whether its tasks may ask for slots
        #: if it reads others: how many slots its attempts may hold
        self.limit: float = 0
        #: pending tasks that ran before, of a stage that others read: these may wait already
        self.reruns: dict[int, Task] = {}
        #: {node: attempts with output there, in the order in which they ended}
        self.outputs: dict[NodeId, list[Attempt]] = {}
        self.unreadable: dict[int, Task] = {}  #: done tasks with lost output that is not needed now

    @property
    def progress(self) -> float:
        """The share of its work that is done, 0 to 1, running attempts' own progress included."""
        return min(1.0, (self.done + self.kept + self.progress_sum) / self.needed)

    @property
    def at_work(self) -> Iterable[Attempt]:
        """Its attempts that have not ended: those that hold a slot, and reservations."""
        live = self.live.values()
        return [*live, *self.reserved.values()] if self.reserved else live

    @property
    def complete(self) -> bool:
        """Whether as many of its tasks are done as are needed."""
        return self.done == self.needed

    @property
    def held(self) -> int:
        return len(self.live)

    def leave_all(self) -> None:
        """None of its tasks is needed that is not done.  O(tasks), if there is any."""
        if self.done + self.left < self.size:
            for task in self.tasks:
                if task.state not in ("done", "left"):
                    task.leave()

    def next_reduce(self) -> Task | None:
        """Its first pending task, if it reads stages and the shuffle policy lets it have a slot.

        None if it would only wait: what it reads has pending tasks and not one slot.
        """
        if not self.reads or not self.open or len(self.live) >= self.limit:
            return None
        return None if any(map(stuck, self.reads)) else self.first_pending()

    def first_pending(self) -> Task | None:
        index = self.pending.first()
        return None if index is None else self.tasks[index]


class Job:
    """A submitted job, with its stages, and with its forecast if policies may see one."""

    def __init__(self, submission: JobSubmitted, now_s: float, forecast: Forecast | None) -> None:
        self.id = submission.job
        self.name = submission.name
        self.user = submission.user
        self.queue = submission.queue
        self.weight = submission.weight
        self.submission = submission
        self.forecast = forecast
        self.submitted_s = now_s
        self.state = "running"  #: see ``lifecycles.JOB``
        self.stages: dict[str, Stage] = {}  #: sources before their readers
        for plan in submission.stages:
            reads = tuple(self.stages[name] for name in plan.reads)
            stage = self.stages[plan.name] = Stage(self, plan, reads, now_s)
            for source in reads:
                source.readers.append(stage)
                source.partitions = source.readers[0].size
        self.maps = tuple(stage for stage in self.stages.values() if not stage.reads)
        self.reduces = tuple(stage for stage in self.stages.values() if stage.reads)
        self.held = 0  #: slots that its attempts hold
        self.wanting = False  #: whether it has pending tasks in open stages
        self.blame: dict[NodeId, int] = {}  #: failures of its attempts on each node
        #: living nodes with so many that it is not offered their slots; at most a third of all
        self.avoid: dict[NodeId, None] = {}
        self.answer: Wait | Pass | None = None  #: why the tasks policy last left a slot free
        self.wake_s: float | None = None  #: when it wants to be asked again
        self.record = JobRecord(
            id=self.id,
            name=self.name,
            user=self.user,
            queue=self.queue,
            tags=submission.tags,
            submitted_s=now_s,
            maps=sum(stage.size for stage in self.maps),
            reduces=sum(stage.size for stage in self.reduces),
            input_bytes=sum(task.input_bytes for plan in submission.stages for task in plan.inputs),
        )

    def move(self, event: str) -> None:
        self.state = JOB.after(self.state, event, self.id)

    def task(self, task: TaskId) -> Task | None:
        name = task.split(".", 1)[1]
        letters = name.rstrip("0123456789")
        stage = self.stages.get(letters)
        index = int(name[len(letters) :] or -1)
        return stage.tasks[index] if stage is not None and 0 <= index < stage.size else None

    # What policies ask ---------------------------------------------------------------------------
    def next_rerun(self) -> Task | None:
        """A task that failed or lost its output, and that readers may wait for.

        None of a stage that would only wait: what it reads has pending tasks and not one slot.
        """
        for stage in self.stages.values():
            if stage.reruns and stage.open and not any(map(stuck, stage.reads)):
                return stage.tasks[min(stage.reruns)]
        return None

    def next_pending_reduce(self) -> Task | None:
        """The first pending reduce of a stage that the shuffle policy lets have another slot."""
        for stage in self.reduces:
            if stage.open and stage.pending.count and (task := stage.next_reduce()) is not None:
                return task
        return None

    def closest_pending_map(self, slot: SlotView) -> tuple[Task | None, Level]:
        """The pending map with its input nearest to the slot, and how near that is."""
        best: tuple[Task | None, Level] = (None, "anywhere")
        if slot.is_full(reduces=False):
            return best
        for stage in self.maps:
            index, level = stage.pending.closest(slot.id, slot.rack)
            if index is not None and (best[0] is None or _NEARNESS[level] < _NEARNESS[best[1]]):
                best = stage.tasks[index], level
        return best

    # What the core asks --------------------------------------------------------------------------
    def first_pending(self) -> Task | None:
        """The first pending task of its first stage with any."""
        pending = (stage.first_pending() for stage in self.stages.values())
        return next(filter(None, pending), None)

    @property
    def nearness(self) -> Callable[[SlotView], Level]:
        """A function that says how near to a slot ``closest_pending_map`` is."""
        if len(self.maps) == 1:
            return self.maps[0].pending.nearness
        return lambda slot: self.closest_pending_map(slot)[1]

    def dissolve(self) -> None:
        """Clear all references among its stages, tasks and attempts: nobody will ask about them.

        So it is freed by reference counts, without garbage collection.
        """
        for stage in self.stages.values():
            for task in stage.tasks:
                task.winner = None
            for things in (stage.tasks, stage.readers, stage.outputs, stage.unreadable):
                things.clear()
        self.stages.clear()
        self.maps = self.reduces = ()

    def has_ready_tasks(self) -> bool:
        """Whether it has pending tasks in stages that may ask for slots."""
        return self.state == "running" and any(
            stage.open and stage.pending.count for stage in self.stages.values()
        )

    def starved(self) -> bool:
        """Whether its reduces hold slots, waiting for tasks none of which has a slot."""
        return any(stage.live and any(map(stuck, stage.reads)) for stage in self.reduces)


def stuck(stage: Stage) -> bool:
    """Whether it has pending tasks and not one slot."""
    return stage.pending.count > 0 and not stage.live


#: A task that is as well off anywhere goes before one for which there may be a better slot.
_NEARNESS: dict[Level, int] = {"node-local": 0, "rack-local": 1, "anywhere": 2, "remote": 3}
