"""How far the attempts of reading stages are: what each has fetched, and what is under way.

Never here: what is fetched next; see ``shuffle.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.ids import FlowId, NodeId

if TYPE_CHECKING:
    from resourcemanager.merging import Bundle
    from resourcemanager.state import Attempt, Node, Stage, Task


class Fetch:
    """A shuffle flow under way: outputs of one node, for one reader."""

    __slots__ = ("bundle", "id", "node", "outputs", "reader", "size_bytes")

    def __init__(
        self,
        flow: FlowId,
        reader: Attempt,
        node: Node,
        outputs: tuple[Attempt, ...],
        size: int,
        bundle: Bundle | None = None,
    ) -> None:
        self.id = flow
        self.reader = reader
        self.node = node
        self.outputs = outputs
        self.size_bytes = size
        self.bundle = bundle  #: of several nodes' outputs, if it is merged

    @property
    def key(self) -> NodeId | FlowId:
        """Of those that a reader has: one at a time from each node, unless they are merged."""
        return self.node.id if self.bundle is None else self.id


class Reader:
    """How far a reduce attempt's fetching is."""

    __slots__ = (
        "fetched",
        "fetches",
        "missing",
        "position",
        "repeats",
        "seen",
        "sequence",
        "tries",
    )

    def __init__(self, stage: Stage) -> None:
        #: {stage read: the tasks whose output is here, as bits}
        self.fetched = dict.fromkeys(stage.plan.reads, 0)
        self.missing = stage.inputs  #: the others
        #: those under way, by ``Fetch.key``
        self.fetches: dict[NodeId | FlowId, Fetch] = {}
        #: for each stage read: {node: how many entries of its ``outputs[node]`` were asked for}
        self.seen: list[dict[NodeId, int]] = [{} for _ in stage.reads]
        self.position = 0  #: how much of what is ``ready`` was asked for, if fetches are merged
        self.repeats = False  #: and whether some of that is to be asked for again
        self.tries: dict[NodeId, int] = {}  #: fetches that broke off since the last that did not
        self.sequence = 0  #: fetches started

    def has(self, task: Task) -> bool:
        """Whether the output of a task that it reads is here."""
        return bool(self.fetched[task.stage.name] >> task.index & 1)

    def take(self, stage: str, outputs: int) -> None:
        """Output of these tasks, given as bits, is here now."""
        here = self.fetched[stage]
        self.missing -= (outputs & ~here).bit_count()
        self.fetched[stage] = here | outputs

    def ask_again(self, node: NodeId) -> None:
        """Forget what was asked for from a node."""
        for seen in self.seen:
            seen.pop(node, None)
