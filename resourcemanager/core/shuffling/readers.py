"""How far the attempts of reading stages are: what each has fetched, and what is under way.

Never here: what is fetched next; see ``shuffle.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from railyard.cluster.ids import FlowId, NodeId

if TYPE_CHECKING:
    from railyard.resourcemanager.core.shuffling.merging import Bundle, Outputs
    from railyard.resourcemanager.core.state import Attempt, Node, Stage, Task


class Fetch(msgspec.Struct, eq=False):
    """A shuffle flow under way: outputs of one node, for one reader."""

    id: FlowId
    #: among those of its reader: one at a time from each node, unless they are merged
    key: NodeId | FlowId
    reader: Attempt
    progress: Reader  #: the reader's own
    node: Node
    outputs: Outputs
    size_bytes: int
    bundle: Bundle | None  #: of several nodes' outputs, if it is merged


class Reader(msgspec.Struct, eq=False):
    """How far a reduce attempt's fetching is."""

    _missing: int
    #: for each stage read: {node: how many entries of its ``outputs[node]`` were asked for};
    #: nothing if fetches are merged
    seen: list[dict[NodeId, int]]
    _fetched: dict[str, int]
    #: what is here and not in these yet: they are seldom asked for
    _arrived: list[Mapping[str, int]] = []
    #: those under way, by ``Fetch.key``
    fetches: dict[NodeId | FlowId, Fetch] = {}
    position: int = 0  #: how much of what is ``ready`` was asked for, if fetches are merged
    repeats: bool = False  #: and whether some of that is to be asked for again
    tries: dict[NodeId, int] = {}  #: fetches that broke off since the last that did not
    sequence: int = 0  #: fetches started

    @property
    def fetched(self) -> Mapping[str, int]:
        """For each stage read, the tasks whose output is here, as bits."""
        if self._arrived:
            self._sort_in()
        return self._fetched

    @property
    def missing(self) -> int:
        """How many tasks' output is not here yet."""
        if self._arrived:
            self._sort_in()
        return self._missing

    def has(self, task: Task) -> bool:
        """Whether the output of a task that it reads is here."""
        return bool(self.fetched[task.stage.name] >> task.index & 1)

    def take(self, outputs: Mapping[str, int]) -> None:
        """Output of these tasks, as bits for each stage, is here now; nobody may change them."""
        self._arrived.append(outputs)

    def ask_again(self, node: NodeId) -> None:
        """Forget what was asked for from a node."""
        for seen in self.seen:
            seen.pop(node, None)

    def _sort_in(self) -> None:
        for outputs in self._arrived:
            for stage, tasks in outputs.items():
                before = self._fetched[stage]
                self._fetched[stage] = here = before | tasks
                self._missing -= here.bit_count() - before.bit_count()
        self._arrived.clear()


def new_reader(stage: Stage) -> Reader:
    """That of an attempt of a stage, which has nothing yet."""
    seen: list[dict[NodeId, int]] = [] if stage.merging else [{} for _ in stage.reads]
    return Reader(stage.inputs, seen, dict.fromkeys(stage.plan.reads, 0))
