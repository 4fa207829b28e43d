"""From a workload's jobs to the core's events, and what becomes of their files.

All jobs' input is in the block store from the beginning: placed by the scheduler's data policy, by
what the workload says of its sites, or by the store's own rule.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import JobId, RackId, rack_id
from railyard.cluster.messages.execution import DiscardJob, Split
from railyard.cluster.topology import Topology
from railyard.dfs.messages import BlockId, PlacementHint, Remove
from railyard.jobs.workloads.model import InputFile, WorkloadJob, WorkStage, split_by
from railyard.resourcemanager.core.output import commit_of
from railyard.resourcemanager.driving.coredriver import CoreDriver
from railyard.resourcemanager.interface.commands import CommitJob, EndJob, PlaceData
from railyard.resourcemanager.interface.events import (
    DataAnnounced,
    JobCommitFailed,
    JobCommitted,
    JobsPredicted,
    JobSubmitted,
    StagePlan,
    TaskInput,
)
from railyard.resourcemanager.interface.forecast import Forecast, forecast_of, predicted_jobs
from railyard.simulator.nodes.blockstore import BlockStore
from railyard.simulator.nodes.jobwork import JobWork
from railyard.simulator.nodes.workers import Workers

Blocks = list[tuple[BlockId, int]]


class Submissions:
    """The jobs on their way in and out."""

    def __init__(
        self, topology: Topology, driver: CoreDriver, store: BlockStore, workers: Workers
    ) -> None:
        self.ended = 0  #: jobs
        self._topology = topology
        self._driver = driver
        self._store = store
        self._workers = workers
        self._files: dict[str, Blocks] = {}
        self._outputs: dict[JobId, str] = {}  #: folders of jobs that are not discarded yet
        self._failed: dict[JobId, None] = {}  #: those of them whose output must go
        #: {file: for each replica, the racks that the data policy wants}, until it is put there
        self._racks: dict[str, tuple[tuple[RackId, ...], ...]] = {}
        self._replication = topology.storage.replication
        driver.on(PlaceData, self._place)
        driver.on(CommitJob, self._commit)
        driver.on(EndJob, self._end)
        driver.on(DiscardJob, self._discard)

    def send_forecasts(self, jobs: Sequence[WorkloadJob]) -> None:
        """Send the core the forecasts of these jobs, before any of them comes."""
        expected = predicted_jobs(jobs)
        if expected:
            self._driver.feed(JobsPredicted(jobs=expected))

    def store_input(self, wanted: WorkloadJob) -> None:
        """Have the files of a job that will come; jobs may share them."""
        forecast = forecast_of(wanted)
        hints: dict[str, PlacementHint] = {}  #: of data that is placed as a whole
        for file in wanted.files:
            if file.path not in self._files:
                data = file.folder or file.path
                if data not in hints and (file.nodes or not file.shares):
                    whole = sum(f.size_bytes for f in wanted.files if data in (f.folder, f.path))
                    hints[data] = self._hint(data, whole, wanted.name, forecast)
                self._files[file.path] = self._put(file, hints.get(data))

    def submit(self, job: JobId, wanted: WorkloadJob) -> None:
        """A job comes.  Raises ``UsageError`` if the scheduler can't take it."""
        self._workers.jobs[job] = JobWork(wanted, self._topology, self._files)
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
                shuffle_flows=self._workers.behaviour.shuffle_flows,
            )
        )

    # Input ---------------------------------------------------------------------------------------
    def _put(self, file: InputFile, hint: PlacementHint | None) -> Blocks:
        """Have a file in the block store; without a hint, a part for each rack, by its shares."""
        sizes = file.block_sizes()
        if hint is not None:
            blocks = self._store.put(file.path, sizes, hint, file.nodes)
            return list(zip(blocks, sizes, strict=True))
        placed: Blocks = []
        for number, count in enumerate(split_by(len(sizes), file.shares)):
            part = sizes[len(placed) : len(placed) + count]
            if part:
                hint = PlacementHint(racks=((rack_id(number),),) * self._replication)
                blocks = self._store.put(f"{file.path}/{rack_id(number)}", part, hint)
                placed += zip(blocks, part, strict=True)
        return placed

    def _hint(
        self, path: str, size_bytes: int, job: str, forecast: Forecast | None
    ) -> PlacementHint:
        """What the scheduler's data policy wants."""
        self._driver.feed(
            DataAnnounced(path=path, size_bytes=size_bytes, job=job, forecast=forecast)
        )
        return PlacementHint(racks=self._racks.pop(path))

    def _place(self, order: PlaceData) -> None:
        self._racks[order.path] = order.racks

    def _plan(self, stage: WorkStage) -> StagePlan:
        if not stage.files:
            return StagePlan(name=stage.name, reads=stage.reads, tasks=stage.tasks)
        inputs = tuple([each for path in stage.files for each in self._inputs(path)])
        return StagePlan(name=stage.name, tasks=len(inputs), inputs=inputs)

    def _inputs(self, path: str) -> list[TaskInput]:
        """What each of a file's blocks is to the task that reads it."""
        scale, locate = self._topology.scale, self._store.locate
        offset, inputs = 0, []
        for block, size_bytes in self._files[path]:
            split = Split(
                path=path, stored_offset=offset // scale, stored_length=size_bytes // scale
            )
            inputs.append(TaskInput(splits=(split,), input_bytes=size_bytes, nodes=locate(block)))
            offset += size_bytes
        return inputs

    # The core's orders ---------------------------------------------------------------------------
    def _commit(self, order: CommitJob) -> None:
        """Rename the winners' files, as the ResourceManager's process does."""
        folder = order.output_path
        if folder:
            try:
                self._store.tell(commit_of(folder, order.winners))
            except PeerError as error:
                self._driver.feed(JobCommitFailed(job=order.job, reason=str(error)))
                return
        self._driver.feed(JobCommitted(job=order.job))

    def _end(self, order: EndJob) -> None:
        self.ended += 1
        if not order.ok and order.job in self._outputs:
            self._failed[order.job] = None

    def _discard(self, order: DiscardJob) -> None:
        del self._workers.jobs[order.job]
        path = self._outputs.pop(order.job, "")
        if order.job in self._failed:
            del self._failed[order.job]
            with contextlib.suppress(PeerError):  # nothing of it was written
                self._store.tell(Remove(path=path, recursive=True))
