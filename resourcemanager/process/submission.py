"""How a submission becomes the core's event: its input is looked up, a split for each block.

The NameNode's answers come through the reactor; whoever submitted the job is answered last.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import count, pairwise

import msgspec

from railyard.cluster.errors import PeerError, UsageError, printable
from railyard.cluster.ids import JobId, NodeId
from railyard.cluster.messages import Split
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.wire import Refusal
from railyard.dfs.messages import BlocksLocated, FileBlocks, GetStatus, LocateBlocks, Status
from railyard.jobs.model import StageSpec, check_input_names, check_stages
from railyard.resourcemanager.interface.events import JobSubmitted, StagePlan, TaskInput
from railyard.resourcemanager.interface.forecast import fits
from railyard.resourcemanager.process.messages import SubmitJob

log = logging.getLogger(__name__)

OnReady = Callable[[tuple[StagePlan, ...], list[FileBlocks]], None]
OnRefused = Callable[[str], None]


@dataclass(eq=False)
class Submission:
    """One job on its way in.  Ends once, in ``on_ready`` or ``on_refused``."""

    _job: SubmitJob
    _scale: int
    _on_ready: OnReady  #: gets its stages, and all files that they read
    _on_refused: OnRefused
    _files: dict[str, tuple[FileBlocks, ...]] = field(default_factory=dict)
    _waiting: int = 0
    _over: bool = False
    on_end: Callable[[], object] = lambda: None  #: called once it is over

    def begin(self, namenode: LastingLink) -> None:
        """Check what can be checked, then ask the NameNode for the rest."""
        job = self._job
        try:
            check_stages(job.stages)
            _check_input(job)
        except UsageError as error:
            self._refuse(str(error))
            return
        self._waiting = len(job.input_paths) + bool(job.output_path)
        for path in job.input_paths:
            namenode.insist(LocateBlocks(path=path), BlocksLocated, partial(self._located, path))
        if job.output_path:
            namenode.insist(GetStatus(path=job.output_path), Status, self._looked)
        if not self._waiting:
            self._ready()

    def _located(self, path: str, answer: BlocksLocated | Refusal, _: object) -> None:
        if not isinstance(answer, BlocksLocated):
            self._refuse(f"input {path}: {answer.reason}")
            return
        shown = input_files(answer)
        if self._job.unsplit is None and not any(file.stored_length for file in shown):
            self._refuse(f"input {path}: is empty: need at least one byte")
            return
        try:
            _check_cuts(self._job, shown)
        except UsageError as error:
            self._refuse(str(error))
            return
        self._files[path] = shown
        self._answered()

    def moved(self, path: str, number: int, nodes: tuple[NodeId, ...]) -> None:
        """A block is elsewhere than the NameNode may have said before."""
        for source, files in self._files.items():
            self._files[source] = tuple(
                _with_nodes(file, number, nodes) if file.path == path else file for file in files
            )

    def _looked(self, answer: Status | Refusal, _: object) -> None:
        path = self._job.output_path
        if not isinstance(answer, Status):
            self._refuse(f"output {path}: {answer.reason}")
        elif answer.status is not None:
            self._refuse(f"output {path}: exists already: need a new path, or remove it first")
        else:
            self._answered()

    def _answered(self) -> None:
        self._waiting -= 1
        if not self._waiting and not self._over:
            self._ready()

    def _ready(self) -> None:
        self._end()
        inputs = {path: self._inputs(path) for path in self._files}
        stages = tuple(_plan(stage, self._job, inputs) for stage in self._job.stages)
        self._on_ready(stages, [file for files in self._files.values() for file in files])

    def _inputs(self, path: str) -> list[TaskInput]:
        """The input of a task for each block of a file, or of the files of a folder."""
        endings = self._job.unsplit
        inputs = []
        for file in self._files[path]:
            if endings is not None and (file.path.endswith(endings) or not file.blocks):
                nodes = file.blocks[0].nodes if file.blocks else ()
                inputs.append(self._input(file.path, 0, file.stored_length, nodes))
            elif cuts := self._job.cuts.get(file.path):
                inputs += self._cut(file, cuts)
            else:
                for block in file.blocks:
                    range_ = block.stored_offset, block.stored_length
                    inputs.append(self._input(file.path, *range_, block.nodes))
        return inputs

    def _cut(self, file: FileBlocks, begins: tuple[int, ...]) -> list[TaskInput]:
        """Ranges that begin there; each is at the nodes of the block in which it begins."""
        ends = (*begins[1:], file.stored_length)
        blocks = iter(file.blocks)
        block = next(blocks)
        inputs = []
        for begin, end in zip(begins, ends, strict=True):
            while begin >= block.stored_offset + block.stored_length:
                block = next(blocks)
            inputs.append(self._input(file.path, begin, end - begin, block.nodes))
        return inputs

    def _input(self, path: str, offset: int, length: int, nodes: tuple[NodeId, ...]) -> TaskInput:
        split = Split(path=path, stored_offset=offset, stored_length=length)
        return TaskInput(splits=(split,), input_bytes=length * self._scale, nodes=nodes)

    def _refuse(self, reason: str) -> None:
        if not self._over:
            self._end()
            self._on_refused(reason)

    def _end(self) -> None:
        self._over = True
        self.on_end()


def submitted(job: JobId, wanted: SubmitJob, stages: tuple[StagePlan, ...]) -> JobSubmitted:
    """The core's event; a forecast of other stages than the job has is left aside."""
    forecast = wanted.forecast
    if forecast is not None and not fits(forecast, {stage.name: stage.reads for stage in stages}):
        known, has = (", ".join(each.name for each in some) for some in (forecast.stages, stages))
        log.warning(
            "job %s: its forecast is of other stages (%s) than it has (%s): left aside",
            *(printable(words) for words in (wanted.name, known, has)),
        )
        forecast = None
    return JobSubmitted(
        job=job,
        name=wanted.name,
        user=wanted.user,
        queue=wanted.queue,
        tags=wanted.tags,
        stages=stages,
        output_path=wanted.output_path.rstrip("/"),
        output_owner=wanted.output_owner,
        output_replication=wanted.output_replication,
        output_racks=wanted.output_racks,
        first_racks=wanted.first_racks,
        plain_names=wanted.plain_names,
        max_attempts=wanted.max_attempts,
        forecast=forecast,
    )


def _plan(stage: StageSpec, job: SubmitJob, inputs: Mapping[str, Sequence[TaskInput]]) -> StagePlan:
    """A stage with its tasks; ``inputs``: {path of an input: the inputs of tasks}."""
    of_tasks: tuple[TaskInput, ...] = ()
    if stage.reads_files:
        of_tasks = tuple([each for path in _read_by(stage, job) for each in inputs[path]])
    return StagePlan(
        name=stage.name,
        reads=stage.reads,
        tasks=len(of_tasks) if stage.reads_files else stage.tasks,
        inputs=of_tasks,
        max_attempts=stage.max_attempts,
        may_copy=stage.may_copy,
    )


def _check_cuts(job: SubmitJob, files: Sequence[FileBlocks]) -> None:
    """Raise ``UsageError`` unless the ranges of a file begin within it, in order."""
    for file in files:
        begins = job.cuts.get(file.path, ())
        in_order = all(one < other for one, other in pairwise(begins))
        if begins and (begins[0] != 0 or not in_order or begins[-1] >= file.stored_length):
            right = "offsets from 0 on, in order, within it"
            raise UsageError(f"job {job.name}: cuts of {file.path}: need {right}")


def _check_input(job: SubmitJob) -> None:
    """Raise ``UsageError`` unless each stage that reads files has some, and each file a reader."""
    where, paths, names = f"job {job.name}", job.input_paths, job.input_names
    readers = [stage for stage in job.stages if stage.reads_files]
    if readers and not paths:
        raise UsageError(f'{where}: stage "{readers[0].name}" reads files: need an input path')
    if paths and not readers:
        raise UsageError(f"{where}: reads no files: need no input path")
    if names and len(names) != len(paths):
        raise UsageError(f"{where}: {len(names)} names for {len(paths)} inputs: need one for each")
    check_input_names(job.stages, dict.fromkeys(names), f"{where}: ")


def _read_by(stage: StageSpec, job: SubmitJob) -> list[str]:
    """The paths of the inputs that a stage reads, in the order in which they were given."""
    if not stage.inputs:
        return list(job.input_paths)
    named = zip(job.input_names, job.input_paths, strict=True)
    return [path for name, path in named if name in stage.inputs]


def _with_nodes(file: FileBlocks, number: int, nodes: tuple[NodeId, ...]) -> FileBlocks:
    blocks = list(file.blocks)
    if number >= len(blocks):  # it was another file of that name
        return file
    blocks[number] = msgspec.structs.replace(blocks[number], nodes=nodes)
    return msgspec.structs.replace(file, blocks=tuple(blocks))


def input_files(answer: BlocksLocated) -> tuple[FileBlocks, ...]:
    """The files of an input: all of a folder but hidden ones, or the file itself."""
    if not answer.folder:
        return answer.files
    hidden = ("_", ".")  # _SUCCESS and the like, as in Hadoop
    return tuple([f for f in answer.files if not f.path.rsplit("/", 1)[-1].startswith(hidden)])


#: Ids that were reserved and not used yet; the oldest are forgotten.
RESERVED_MAX = 1000


class JobIds:
    """Gives each job an id of its own."""

    def __init__(self, first: int = 1) -> None:
        self._numbers = count(first)
        self._reserved: dict[JobId, None] = {}

    def reserve(self) -> JobId:
        job = JobId(f"j{next(self._numbers)}")
        self._reserved[job] = None
        if len(self._reserved) > RESERVED_MAX:
            del self._reserved[next(iter(self._reserved))]
        return job

    def id_for(self, reserved: JobId | None) -> JobId:
        """The id that a job gets: its reserved one, or the next.

        Raises ``PeerError`` if that is not reserved, or not any more.
        """
        if reserved is None:
            return JobId(f"j{next(self._numbers)}")
        if reserved not in self._reserved:
            raise PeerError(f"job {reserved}: this id is not reserved, or was used already")
        return reserved

    def used(self, job: JobId) -> None:
        """A job was accepted with this id: no other gets it."""
        self._reserved.pop(job, None)
