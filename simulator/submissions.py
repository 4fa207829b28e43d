"""Submits a workload's jobs to the core, and manages their files in the block store.

All input is stored before the first job is submitted.  It is placed by the scheduler's data policy,
by the workload's own distribution over sites, or by the block store's default rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from railyard.cluster.ids import JobId, NodeId, RackId, rack_id
from railyard.cluster.messages import DiscardJob, Split
from railyard.cluster.messaging.wire import Message, Refusal
from railyard.cluster.topology import Topology
from railyard.dfs.messages import BlockId, GetStatus, PlacementHint, Remove, ReplicaMoved
from railyard.jobs.workloads.model import InputFile, WorkloadJob, WorkStage, rack_of_each
from railyard.resourcemanager.core.files import commit_of, commit_refused, success_file
from railyard.resourcemanager.driving.coredriver import CoreDriver
from railyard.resourcemanager.driving.orders import move_ended, move_request, report_data
from railyard.resourcemanager.interface.commands import CommitJob, EndJob, MoveBlock, PlaceData
from railyard.resourcemanager.interface.events import (
    DataAnnounced,
    DataBlock,
    JobCommitted,
    JobsPredicted,
    JobSubmitted,
    StagePlan,
    TaskInput,
)
from railyard.resourcemanager.interface.forecast import forecast_of, predicted_jobs
from railyard.simulator.behaviour import job_work
from railyard.simulator.blockstore import BlockStore
from railyard.simulator.clock import EventPriority
from railyard.simulator.workers import Workers

Blocks = list[tuple[BlockId, int]]


class Submissions:
    """Submits jobs, and commits, ends and discards them at the core's commands."""

    def __init__(
        self, topology: Topology, driver: CoreDriver, store: BlockStore, workers: Workers
    ) -> None:
        self.ended = 0  #: number of jobs that have ended
        self._topology = topology
        self._driver = driver
        self._store = store
        self._workers = workers
        self._files: dict[str, Blocks] = {}
        self._readers: dict[str, list[str]] = {}  #: {path: names of the jobs that read it}
        self._outputs: dict[JobId, str] = {}  #: {job that is not discarded yet: output folder}
        self._failed: dict[JobId, None] = {}  #: failed jobs; their output will be removed
        #: {job: those that are submitted once it has ended well}
        self._next: dict[JobId, list[tuple[JobId, WorkloadJob]]] = {}
        #: {data path: racks that the data policy allows, per replica}, until the data is stored
        self._racks: dict[str, tuple[tuple[RackId, ...], ...]] = {}
        driver.on(PlaceData, self._place)
        driver.on(MoveBlock, self._move)
        driver.on(CommitJob, self._commit)
        driver.on(EndJob, self._end)
        driver.on(DiscardJob, self._discard)

    def send_forecasts(self, jobs: Sequence[WorkloadJob]) -> None:
        """Send the core the forecasts of these jobs, before any of them is submitted."""
        expected = predicted_jobs(jobs)
        if expected:
            self._driver.feed(JobsPredicted(jobs=expected))

    def store_input(self, wanted: WorkloadJob) -> None:
        """Store the input files of a job, except those that another job has stored already."""
        forecast = forecast_of(wanted)
        hints: dict[str, PlacementHint] = {}  #: {folder or file that is placed as a whole: hint}
        for file in wanted.files:
            self._readers.setdefault(file.path, []).append(wanted.name)
            if file.path not in self._files:
                data = file.folder or file.path
                if data not in hints and (file.nodes or not file.shares):
                    whole = sum(f.size_bytes for f in wanted.files if data in (f.folder, f.path))
                    announced = DataAnnounced(
                        path=data, size_bytes=whole, job=wanted.name, forecast=forecast
                    )
                    self._driver.feed(announced)  # the data policy chooses racks
                    hints[data] = PlacementHint(racks=self._racks.pop(data))
                self._files[file.path] = self._put(file, hints.get(data))

    def report_inputs(self) -> None:
        """Report to the core where all input is, once it is stored, if a policy wants to know."""
        for path in self._files:
            self._report_data(path, self._readers[path])

    def submit_after(self, earlier: JobId, job: JobId, wanted: WorkloadJob) -> None:
        """Submit a job once an earlier one has ended well; if that fails, it ends unsubmitted."""
        self._next.setdefault(earlier, []).append((job, wanted))

    def submit(self, job: JobId, wanted: WorkloadJob) -> None:
        """Submit a job.  Raises ``UsageError`` if the scheduler refuses it."""
        for file in wanted.files:
            self._report_data(file.path)
        self._workers.jobs[job] = job_work(wanted, self._topology, self._files)
        if wanted.output_bytes:
            self._outputs[job] = f"/out/{job}"
        self._driver.feed(
            JobSubmitted(
                job=job,
                name=wanted.name,
                user=wanted.user,
                queue=wanted.queue,
                stages=tuple(self._plan(stage) for stage in wanted.stages),
                output_path=self._outputs.get(job, ""),
                output_replication=wanted.output_replication,
                forecast=forecast_of(wanted),
            )
        )

    # Input ---------------------------------------------------------------------------------------
    def _put(self, file: InputFile, hint: PlacementHint | None) -> Blocks:
        """Store a file; without a hint, first replicas lie by its ``shares``."""
        sizes, put = file.block_sizes(), self._store.put
        if hint is not None:
            blocks = put(file.path, sizes, hint, at=file.nodes)
        else:
            racks = [rack_id(number) for number in rack_of_each(file.shares, len(sizes))]
            blocks = put(file.path, sizes, first_racks=racks)
        return list(zip(blocks, sizes, strict=True))

    def _report_data(self, path: str, jobs: Sequence[str] = ()) -> None:
        """Report to the core where a file's blocks are and who will read it, if that is used."""
        if self._driver.core.state.uses_data:
            blocks = [DataBlock(*each) for each in self._located(path)]
            report_data(self._driver, path, blocks, jobs)

    def _place(self, command: PlaceData) -> None:
        self._racks[command.path] = command.racks

    def _plan(self, stage: WorkStage) -> StagePlan:
        if not stage.files:
            tasks, needed = stage.tasks, stage.needed
            return StagePlan(name=stage.name, reads=stage.reads, tasks=tasks, needed=needed)
        inputs = tuple([each for path in stage.files for each in self._inputs(path)])
        return StagePlan(name=stage.name, tasks=len(inputs), inputs=inputs, needed=stage.needed)

    def _inputs(self, path: str) -> Iterator[TaskInput]:
        scale = self._topology.scale
        for stored_offset, size_bytes, nodes in self._located(path):
            split = Split(path=path, stored_offset=stored_offset, stored_length=size_bytes // scale)
            yield TaskInput(splits=(split,), input_bytes=size_bytes, nodes=nodes)

    def _located(self, path: str) -> Iterator[tuple[int, int, tuple[NodeId, ...]]]:
        """For each block of a file: its offset in stored bytes, its size, and its nodes."""
        scale, locate, offset = self._topology.scale, self._store.locate, 0
        for block, size_bytes in self._files[path]:
            yield offset // scale, size_bytes, locate(block)
            offset += size_bytes

    def _move(self, order: MoveBlock) -> None:
        def ended(answer: ReplicaMoved | Refusal) -> None:
            self._driver.feed(move_ended(order, answer))

        self._store.move(move_request(order), ended)

    # The core's commands -------------------------------------------------------------------------
    def _commit(self, command: CommitJob) -> None:
        """Move the winning attempts' files into the output folder, as the ResourceManager does."""
        folder = command.output_path

        def found(refused: Refusal, answer: Message | Refusal | None) -> None:
            self._driver.feed(commit_refused(command.job, refused, answer))

        def ended(answer: Message | Refusal | None) -> None:
            if isinstance(answer, Refusal):  # it may have been done, if it was requested before
                success = GetStatus(path=success_file(folder))
                self._store.ask(success, partial(found, answer))
            else:
                self._driver.feed(JobCommitted(job=command.job))

        if folder:
            self._store.ask(commit_of(folder, command.winners), ended)
        else:
            self._driver.feed(JobCommitted(job=command.job))

    def _end(self, command: EndJob) -> None:
        if not command.ok and command.job in self._outputs:
            self._failed[command.job] = None
        if command.ok:
            heap = self._workers.heap
            for job, wanted in self._next.pop(command.job, ()):
                heap.at(heap.now_s, self.submit, job, wanted, priority=EventPriority.ARRIVAL)
        self.ended += 1 if command.ok else self._never_submitted(command.job) + 1

    def _never_submitted(self, failed: JobId) -> int:
        """How many jobs waited for a failed one, directly or indirectly."""
        return sum(1 + self._never_submitted(job) for job, _ in self._next.pop(failed, ()))

    def _discard(self, command: DiscardJob) -> None:
        del self._workers.jobs[command.job]
        path = self._outputs.pop(command.job, "")
        if command.job in self._failed:
            del self._failed[command.job]
            # refused if the job has written nothing
            self._store.ask(Remove(path=path, recursive=True), lambda _: None)
