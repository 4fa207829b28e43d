"""Moves of inputs: a data policy wants a block elsewhere; afterwards tasks look for it there.

The block store carries a move out, and answers.  Attempts that read the block go on: the replica
that they read stays until they have it open, and else they read another.

Never here: which task runs where.
"""

from __future__ import annotations

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.data import InputBlock
from railyard.resourcemanager.core.state.jobs import Job, Stage
from railyard.resourcemanager.interface.commands import MoveBlock
from railyard.resourcemanager.interface.decisions import MoveInput
from railyard.resourcemanager.interface.events import InputMoved, InputNotMoved

#: {(path, offset in stored bytes): (stage, number) of the tasks that read the block there}
_Readers = dict[tuple[str, int], list[tuple[Stage, int]]]


class Moves:
    """Carries out what data policies propose, and renews the places of tasks' inputs."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._readers: dict[JobId, _Readers] = {}  #: of jobs that run; made when it is needed

    def move(self, proposal: MoveInput) -> None:
        """Have a block moved."""
        state = self._state
        block = state.stored.block(proposal.path, proposal.block)
        wrong = self._why_not(proposal, block)
        if wrong or block is None:
            what = f"proposed to move block {proposal.block} of {proposal.path} to {proposal.node}"
            raise state.policies.invalid("data", what, wrong, proposal.path, proposal.node)
        block.moving_to, block.moving_from = proposal.node, proposal.source
        state.emit(
            MoveBlock(
                path=proposal.path,
                block=proposal.block,
                node=proposal.node,
                source=proposal.source,
            )
        )

    def moved(self, event: InputMoved) -> None:
        """A block is where it was to go.  Raises ``PeerError`` if there is no such block."""
        block = self._ended(event.path, event.block)
        block.nodes = event.nodes
        for job in self._state.jobs.values():
            self._renew(job, event.path, block)
        self._state.policies.notify("input_moved", event.path, event.block)

    def not_moved(self, event: InputNotMoved) -> None:
        """A block is where it was.  Raises ``PeerError`` if there is no such block."""
        self._ended(event.path, event.block)
        self._state.policies.notify("input_not_moved", event.path, event.block)

    # ---------------------------------------------------------------------------------------------
    def _why_not(self, proposal: MoveInput, block: InputBlock | None) -> str:
        """Why the block can't be moved; "" if it can."""
        if block is None:
            known = len(self._state.data.get(proposal.path, ()))
            return f"{known} blocks of it are known"
        node = self._state.nodes.get(proposal.node)
        if node is None:
            return "there is no such node"
        if not node.alive:
            return node.why_not_free
        if block.moving_to is not None:
            return f"it is being moved to {block.moving_to}"
        if proposal.node in block.nodes:
            return "it is there already"
        if proposal.source is not None and proposal.source not in block.nodes:
            return f"it is not on {proposal.source}, from where it should go"
        return ""

    def _ended(self, path: str, number: int) -> InputBlock:
        """The block of a move that has ended."""
        block = self._state.stored.block(path, number)
        if block is None:
            raise PeerError(f"{path}: there is no block {number} that could have been moved")
        block.moving_to = block.moving_from = None
        return block

    def _renew(self, job: Job, path: str, block: InputBlock) -> None:
        """Let the tasks of a job that read a block look for it where it is now."""
        if job.id not in self._readers:
            self._forget_ended()
            self._readers[job.id] = _readers_of(job)
        for stage, index in self._readers[job.id].get((path, block.stored_offset), ()):
            place = msgspec.structs.replace(stage.pending.input(index), nodes=block.nodes)
            stage.pending.renew(index, place)
            if index in stage.pending:
                self._state.ask(job)

    def _forget_ended(self) -> None:
        for job in [job for job in self._readers if job not in self._state.jobs]:
            del self._readers[job]


def _readers_of(job: Job) -> _Readers:
    """The tasks of a job that read a single block, by that block.  O(tasks)."""
    readers: _Readers = {}
    for stage in job.maps:
        for index, task in enumerate(stage.plan.inputs):
            if len(task.splits) == 1:
                [split] = task.splits
                readers.setdefault((split.path, split.stored_offset), []).append((stage, index))
    return readers
