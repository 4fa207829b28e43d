"""What is known of a fetch under way, and of the shuffle of each stage that reads others.

Never here: what is fetched next; see ``shuffle.py``.
"""

from __future__ import annotations

import msgspec

from railyard.cluster.ids import CoflowId, FlowId, NodeId
from railyard.cluster.messages.execution import StartFlow
from railyard.resourcemanager.core.shuffling.merging import Bundle, Outputs, merging_of
from railyard.resourcemanager.core.shuffling.rows import FetchTable
from railyard.resourcemanager.core.state.jobs import Attempt, Node, Stage, Task
from railyard.resourcemanager.core.state.readers import FetchKey, Reader


class StageShuffle:
    """The shuffle of a reading stage: one coflow."""

    __slots__ = (
        "asked",
        "coflow",
        "ended_s",
        "fetching",
        "merging",
        "reads",
        "stage",
        "started_s",
        "table",
    )

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        #: {stage read: how many of its tasks' outputs}
        self.reads = {source.name: source.needed for source in stage.reads}
        self.merging = merging_of(stage, stage.job.submission.shuffle_flows)
        self.fetching = False  #: whether its attempts may fetch
        #: {node: what was fetched from there last}: many readers fetch the same at one time
        self.asked: dict[NodeId, Outputs] = {}
        self.coflow = CoflowId(stage.id)
        self.started_s: float | None = None  #: when its first flow between two nodes started
        self.ended_s: float | None = None  #: when its latest flow between two nodes ended
        self.table: FetchTable | None = None  #: its fetches, if they are rows


class Fetch(msgspec.Struct, eq=False):
    """A shuffle flow under way: outputs of one node, for one reader."""

    id: FlowId
    key: FetchKey
    reader: Attempt
    progress: Reader  #: the reader's own
    shuffle: StageShuffle
    node: Node  #: that sends
    outputs: Outputs
    size_bytes: int
    bundle: Bundle | None  #: of several nodes' outputs, if it is merged
    order: int = 0  #: how many fetches began before it
    weight: float = 1.0
    priority: tuple[float, ...] = ()

    @property
    def start_order(self) -> StartFlow:
        """The order that started it."""
        return StartFlow(
            flow=self.id,
            coflow=self.shuffle.coflow,
            src=self.node.id,
            dst=self.reader.node.id,
            size_bytes=self.size_bytes,
            reader=self.reader.id,
            outputs=self.outputs.ids,
            partition=self.reader.task.index,
            weight=self.weight,
            priority=self.priority,
        )


def is_to_fetch(stage: Stage, task: Task) -> bool:
    """Whether an attempt of a reading stage has yet to fetch ``task``'s output, each for itself.

    Whatever a pending task has reserved and fetched may be withdrawn.  O(slots the stage holds).
    """
    if stage.pending.count:
        return True
    return not all(attempt.killing or _has(attempt, task) for attempt in stage.live.values())


def _has(attempt: Attempt, task: Task) -> bool:
    return attempt.reader is not None and attempt.reader.has(task.stage.name, task.index)
