"""How a submission becomes the core's event: its input is looked up, a split for each block.

The NameNode's answers come through the reactor; whoever submitted the job is answered last.
"""

from __future__ import annotations

from collections.abc import Callable

from railyard.cluster.errors import UsageError
from railyard.cluster.ids import JobId
from railyard.cluster.messages.execution import Split
from railyard.cluster.messaging.lastinglink import LastingLink
from railyard.cluster.messaging.wire import Refusal
from railyard.dfs.messages import BlocksLocated, FileBlocks, GetStatus, LocateBlocks, Status
from railyard.jobs.model import StageSpec, check_stages
from railyard.resourcemanager.interface.events import JobSubmitted, StagePlan, TaskInput
from railyard.resourcemanager.process.messages import SubmitJob

OnReady = Callable[[tuple[StagePlan, ...]], None]
OnRefused = Callable[[str], None]
_Located = BlocksLocated | Refusal


class Submission:
    """One job on its way in.  Ends in ``on_ready`` with its stages or ``on_refused``, once."""

    def __init__(
        self, job: SubmitJob, scale: int, on_ready: OnReady, on_refused: OnRefused
    ) -> None:
        self._job = job
        self._scale = scale
        self._on_ready = on_ready
        self._on_refused = on_refused
        self._files: dict[str, tuple[FileBlocks, ...]] = {}
        self._waiting = 0
        self._over = False

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
            namenode.insist(LocateBlocks(path=path), BlocksLocated, self._located_at(path))
        if job.output_path:
            namenode.insist(
                GetStatus(path=job.output_path), Status, lambda answer, _: self._looked(answer)
            )
        if not self._waiting:
            self._ready()

    def _located_at(self, path: str) -> Callable[[_Located, object], None]:
        return lambda answer, _: self._located(path, answer)

    def _located(self, path: str, answer: _Located) -> None:
        if not isinstance(answer, BlocksLocated):
            self._refuse(f"input {path}: {answer.reason}")
            return
        shown = tuple(file for file in answer.files if not (answer.folder and _hidden(file.path)))
        if not any(file.stored_length for file in shown):
            self._refuse(f"input {path}: is empty: need at least one byte")
            return
        self._files[path] = shown
        self._answered()

    def _looked(self, answer: Status | Refusal) -> None:
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
        self._over = True
        inputs = tuple(
            TaskInput(
                splits=(
                    Split(
                        path=file.path,
                        stored_offset=block.stored_offset,
                        stored_length=block.stored_length,
                    ),
                ),
                input_bytes=block.stored_length * self._scale,
                nodes=block.nodes,
            )
            for path in self._job.input_paths
            for file in self._files[path]
            for block in file.blocks
        )
        self._on_ready(tuple(_plan(stage, inputs) for stage in self._job.stages))

    def _refuse(self, reason: str) -> None:
        if not self._over:
            self._over = True
            self._on_refused(reason)


def submitted(job: JobId, wanted: SubmitJob, stages: tuple[StagePlan, ...]) -> JobSubmitted:
    """The core's event."""
    return JobSubmitted(
        job=job,
        name=wanted.name,
        user=wanted.user,
        queue=wanted.queue,
        stages=stages,
        output_path=wanted.output_path.rstrip("/"),
        output_replication=wanted.output_replication,
        output_racks=wanted.output_racks,
        first_racks=wanted.first_racks,
        max_attempts=wanted.max_attempts,
        forecast=wanted.forecast,
    )


def _plan(stage: StageSpec, inputs: tuple[TaskInput, ...]) -> StagePlan:
    if _reads_files(stage):
        return StagePlan(name=stage.name, tasks=len(inputs), inputs=inputs)
    return StagePlan(name=stage.name, reads=stage.reads, tasks=stage.tasks)


def _check_input(job: SubmitJob) -> None:
    """Raise ``UsageError`` unless there is input exactly if there is a stage that reads it."""
    readers = [stage.name for stage in job.stages if _reads_files(stage)]
    if readers and not job.input_paths:
        raise UsageError(f'job {job.name}: stage "{readers[0]}" reads files: need an input path')
    if job.input_paths and not readers:
        raise UsageError(f"job {job.name}: reads no files: need no input path")


def _reads_files(stage: StageSpec) -> bool:
    return not stage.reads and not stage.tasks


def _hidden(path: str) -> bool:
    """Whether a file in an input folder is not input: _SUCCESS and the like, as in Hadoop."""
    return path.rsplit("/", 1)[-1].startswith(("_", "."))
