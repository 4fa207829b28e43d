"""The files that jobs read and write: where input goes and is moved to, what attempts write.

    OUT/_temporary/j3.r0.1/part-r-00000   what attempt 1 of reduce 0 wrote
    OUT/part-r-00000                      the task's output, once the job has succeeded
    OUT/_SUCCESS                          all of the job's output is there

An attempt that is not needed may outlive the commit, say one whose node was away.  The NameNode
begins no file of an attempt once ``_SUCCESS`` is there.

Never here: which task runs where.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Sequence

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import AttemptId, JobId, RackId, rack_id
from railyard.cluster.messaging.wire import Message, Refusal
from railyard.dfs.messages import Gather, MoveFiles, Status
from railyard.resourcemanager.core.cluster import ClusterState, InputBlock
from railyard.resourcemanager.core.jobs import Job, Stage
from railyard.resourcemanager.interface.commands import MoveBlock, PlaceData
from railyard.resourcemanager.interface.decisions import MoveInput
from railyard.resourcemanager.interface.events import (
    DataAnnounced,
    DataBlock,
    DataStored,
    InputMoved,
    InputNotMoved,
    JobCommitFailed,
    JobCommitted,
    JobSubmitted,
)

SUCCESS = "_SUCCESS"
TEMPORARY = "_temporary"


@functools.lru_cache(maxsize=2**14)
def part_name(stage: str, task: int) -> str:
    """The name of the file that a task of a stage writes, such as "part-r-00000".

    Without a stage it is as Hadoop's older interface names it, such as "part-00000".
    """
    return f"part-{stage}-{task:05d}" if stage else f"part-{task:05d}"


def attempt_file(submission: JobSubmitted, attempt: AttemptId, stage: str, task: int) -> str:
    """The file that an attempt of that task writes."""
    name = part_name("" if submission.plain_names else stage, task)
    return f"{submission.output_path}/{TEMPORARY}/{attempt}/{name}"


def success_file(folder: str) -> str:
    """The file that says that all of a job's output is in that folder."""
    return f"{folder}/{SUCCESS}"


def racks_for(submission: JobSubmitted, task: int) -> tuple[tuple[RackId, ...], ...]:
    """The racks for each replica of what a task of the last stage writes."""
    if not submission.first_racks:
        return submission.output_racks
    return ((submission.first_racks[task],), *submission.output_racks[1:])


def commit_of(folder: str, winners: Sequence[AttemptId]) -> MoveFiles:
    """The request to the NameNode that makes the winners' files a job's output."""
    temporary = f"{folder}/{TEMPORARY}"
    return MoveFiles(
        gathers=(Gather(source=temporary, folders=tuple(winners), target=folder),),
        markers=(success_file(folder),),
        remove=(temporary,),
    )


def commit_refused(
    job: JobId, refused: Refusal, success: Message | Refusal | None
) -> JobCommitted | JobCommitFailed:
    """What became of a commit that the NameNode has refused, by the status of ``SUCCESS``.

    It was done if that is there: a ResourceManager that died may have asked for it before.
    """
    if isinstance(success, Status) and success.status is not None:
        return JobCommitted(job=job)
    return JobCommitFailed(job=job, reason=refused.reason)


# Input -------------------------------------------------------------------------------------------
def place_data(state: ClusterState, data: DataAnnounced) -> None:
    """Command where the replicas of data should go that is about to be written.

    Raises ``PeerError`` for a negative size, ``InvalidDecision`` for racks that do not exist.
    """
    if data.size_bytes < 0:
        raise PeerError(f"{data.path}: size_bytes = {data.size_bytes}: need bytes >= 0")
    policies = state.policies
    if not state.uses_forecasts:
        data = msgspec.structs.replace(data, forecast=None)
    try:
        racks = tuple(tuple(each) for each in policies.data.replica_racks(data))
    except Exception as error:  # third parties' code
        raise policies.failed("data", f"placing {data.path}", error, data.path) from error
    known = {rack_id(number) for number in range(state.topology.racks.count)}
    for rack in (rack for each in racks for rack in each):
        if rack not in known:
            raise policies.invalid(
                "data", f"placed {data.path} in {rack}", "there is no such rack", data.path
            )
    state.emit(PlaceData(path=data.path, racks=racks))


def data_stored(state: ClusterState, event: DataStored) -> None:
    """Note where blocks of a file are; ``first`` = 0 replaces all that were known.

    Moves under way go on: the number of a block says which it is.  Raises ``PeerError`` if the
    blocks before these are not known.
    """
    before, first = state.data.get(event.path, []), event.first
    if first not in (0, len(before)):
        raise PeerError(f"{event.path}: first = {first}: need 0 or {len(before)}, the next block")
    blocks = [InputBlock(*msgspec.structs.astuple(block)) for block in event.blocks]
    for known, block in zip(before[first:], blocks, strict=False):
        block.moving_to, block.moving_from = known.moving_to, known.moving_from
    state.data[event.path] = before[:first] + blocks
    state.policies.notify("data_stored", event.path, event.jobs)


def is_stored(state: ClusterState, path: str, blocks: Sequence[DataBlock]) -> bool:
    """Whether these are the blocks of a file that are known, and where they are.  O(blocks)."""
    known = [
        DataBlock(each.stored_offset, each.size_bytes, each.nodes)
        for each in state.data.get(path, ())
    ]
    return known == list(blocks)


#: {(path, offset in stored bytes): (stage, number) of the tasks that read that block alone}
_Readers = defaultdict[tuple[str, int], list[tuple[Stage, int]]]


class Moves:
    """Moves of inputs: a data policy wants a block elsewhere; then tasks look for it there.

    The block store carries a move out, and answers.  Attempts that read the block go on: the
    replica that they read stays until they have it open, and else they read another.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._readers: dict[JobId, _Readers] = {}  #: of jobs that run; made when it is needed

    def move(self, proposal: MoveInput) -> None:
        state = self._state
        block = self._block(proposal.path, proposal.block)
        wrong = self._why_not(proposal, block)
        if wrong or block is None:
            what = f"proposed to move block {proposal.block} of {proposal.path} to {proposal.node}"
            raise state.policies.invalid("data", what, wrong, proposal.path, proposal.node)
        block.moving_to, block.moving_from = proposal.node, proposal.source
        path, number, node, source, _ = msgspec.structs.astuple(proposal)
        state.emit(MoveBlock(path=path, block=number, node=node, source=source))

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
        block = self._block(path, number)
        if block is None:
            raise PeerError(f"{path}: there is no block {number} that could have been moved")
        block.moving_to = block.moving_from = None
        return block

    def _block(self, path: str, number: int) -> InputBlock | None:
        blocks = self._state.data.get(path, [])
        return blocks[number] if 0 <= number < len(blocks) else None

    def _renew(self, job: Job, path: str, block: InputBlock) -> None:
        """Let the tasks of a job that read a block look for it where it is now."""
        if job.id not in self._readers:
            for ended in [other for other in self._readers if other not in self._state.jobs]:
                del self._readers[ended]
            readers = self._readers[job.id] = defaultdict(list)
            for stage in job.maps:
                for index, task in enumerate(stage.plan.inputs):
                    if len(task.splits) == 1:
                        [split] = task.splits
                        readers[split.path, split.stored_offset].append((stage, index))
        for stage, index in self._readers[job.id].get((path, block.stored_offset), ()):
            place = msgspec.structs.replace(stage.pending.input(index), nodes=block.nodes)
            stage.pending.renew(index, place)
            if index in stage.pending:
                self._state.make_due(job)
