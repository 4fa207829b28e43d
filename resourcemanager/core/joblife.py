"""The life of jobs: submitted, running, perhaps committing, then succeeded or failed.

Never here: tasks and attempts, but for killing what is left of them.
"""

from __future__ import annotations

from collections import Counter, deque
from sys import intern

from railyard.cluster.errors import PeerError, require
from railyard.cluster.ids import JobId
from railyard.jobs.model import StageSpec, check_stages
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.jobs import Job, Stage
from railyard.resourcemanager.core.shuffling.shuffle import Shuffle
from railyard.resourcemanager.interface.commands import CommitJob, EndJob, SetTimer
from railyard.resourcemanager.interface.events import (
    JobCommitFailed,
    JobCommitted,
    JobKilled,
    JobSubmitted,
)

OUTAGE = "outage"  #: a timer; no job is called so


class JobLife:
    """Takes jobs, and ends them."""

    def __init__(self, state: ClusterState, shuffle: Shuffle, records_kept: int | None) -> None:
        self._state = state
        self._shuffle = shuffle
        self._records_kept = records_kept
        self._ended: deque[JobId] = deque()  #: ended jobs with a record, the first to end first
        self._without_nodes_s = state.topology.liveness.without_nodes
        self._outage_s: float | None = None  #: when the timer ``OUTAGE`` fires, if it is set

    def submitted(self, event: JobSubmitted) -> None:
        """Take a job.  Raises ``PeerError`` or ``UsageError`` if it can't be taken."""
        state = self._state
        if event.job in state.records:
            raise PeerError(f"there is a job {event.job} already")
        check_submission(event)
        job = Job(event, state.now_s, event.forecast if state.uses_forecasts else None)
        state.policies.ask(state.policies.order.admit, job)
        state.jobs[job.id] = job
        state.records[job.id] = job.record
        self._shuffle.job_submitted(job)
        state.policies.notify("job_submitted", job)
        for stage in job.stages.values():
            stage.pending.add_all()
            if stage.reads:
                state.review_limit(stage)
                stage.open = stage.limit > 0
        state.make_due(job)

    def killed(self, event: JobKilled) -> None:
        job = self._state.jobs.get(event.job)
        if job is None:
            known = event.job in self._state.records
            raise PeerError(f"job {event.job} " + ("is over" if known else "does not exist"))
        if job.state == "committing":
            raise PeerError(f"job {event.job} is done and being committed")
        job.record.stopped = True
        self.fail(job, event.reason)

    def stage_done(self, stage: Stage) -> None:
        """A stage is done; if all stages are that nobody reads, commit the job."""
        job = stage.job
        last = [other for other in job.stages.values() if not other.readers]
        if stage.readers or not all(other.complete for other in last):
            return
        job.move("done")
        for other in job.stages.values():
            other.leave_all()  # what ran again for readers that have ended
        self._stop_all(job, "the job is done")
        self._state.emit(commit_order(job))

    def committed(self, event: JobCommitted) -> None:
        job = self._committing(event.job)
        job.move("committed")
        self._end(job, "")

    def commit_failed(self, event: JobCommitFailed) -> None:
        job = self._committing(event.job)
        job.move("not committed")
        self._end(job, f"its output could not be committed: {event.reason}")

    def fail(self, job: Job, reason: str) -> None:
        if job.state == "running":
            job.move("given up")
            self._stop_all(job, "the job failed")
            self._end(job, reason)

    # While no node is alive ----------------------------------------------------------------------
    # Nodes that are lost mostly come back; where none does, a job would wait for ever.
    def outage_timer_fired(self) -> None:
        """Jobs may have waited for too long; ``review_outage`` is to follow."""
        self._outage_s = None

    def review_outage(self) -> None:
        """Fail the jobs that have waited too long for a node, and set a timer for the others.

        To be called after each event as long as there is no node.  O(jobs).
        """
        state, lost = self._state, self._state.lost_last
        waited_s = f"{self._without_nodes_s:g} s"
        reason = f"no node has been alive for {waited_s} (liveness.without_nodes of the topology)"
        if lost is not None:
            reason += f"; the last was {lost.id}: {lost.lost_because}"
        waiting = [job for job in state.jobs.values() if job.state == "running"]
        for job in waiting:
            if self._fails_s(job) <= state.now_s:
                self.fail(job, reason)
        due_s = min((self._fails_s(job) for job in waiting if job.state == "running"), default=None)
        if due_s is not None and due_s != self._outage_s:
            self._outage_s = due_s
            state.emit(SetTimer(timer=OUTAGE, at_s=due_s))

    def _fails_s(self, job: Job) -> float:
        return max(job.submitted_s, self._state.empty_since_s or 0.0) + self._without_nodes_s

    # ---------------------------------------------------------------------------------------------
    def _committing(self, job_id: JobId) -> Job:
        job = self._state.jobs.get(job_id)
        if job is None or job.state != "committing":
            raise PeerError(f"job {job_id} is not being committed")
        return job

    def _stop_all(self, job: Job, reason: str) -> None:
        """Let nothing of the job start any more, and end what still runs."""
        state = self._state
        state.review_wants(job)
        state.due_jobs.pop(job.id, None)
        if job.held:  # as they were launched, whatever their stage
            for attempt in [a for a in state.attempts.values() if a.task.stage.job is job]:
                self._shuffle.stop(attempt)
                state.kill(attempt, reason)
        for stage in job.stages.values():
            for attempt in list(stage.reserved.values()):
                self._shuffle.stop(attempt)
                state.withdraw(attempt, reason)
        for stage in [stage for stage in state.keeping.values() if stage.job is job]:
            del state.keeping[stage.id]
            for task in stage.tasks:
                task.drop_kept()
        self._shuffle.job_stopped(job)

    def _end(self, job: Job, reason: str) -> None:
        state, record = self._state, job.record
        record.finished_s = state.now_s
        record.ok = job.state == "succeeded"
        record.reason = reason
        record.maps_done = sum(stage.counted for stage in job.maps)
        record.reduces_done = sum(stage.counted for stage in job.reduces)
        # it is kept for long: counters' names are in memory once for all jobs
        record.counters = Counter({intern(name): n for name, n in record.counters.items()})
        del state.jobs[job.id]
        self._shuffle.job_ended(job)
        state.policies.notify("job_ended", job)
        path = job.submission.output_path
        state.emit(EndJob(job=job.id, ok=record.ok, reason=reason, output_path=path))
        if job.held:
            state.draining[job.id] = job
        else:
            state.discard(job)
        self._ended.append(job.id)
        if self._records_kept is not None and len(self._ended) > self._records_kept:
            del state.records[self._ended.popleft()]


def commit_order(job: Job) -> CommitJob:
    """The order to commit a job whose tasks are done."""
    last = [stage for stage in job.stages.values() if not stage.readers]
    winners = tuple(t.winner.id for s in last for t in s.tasks if t.winner is not None)
    return CommitJob(job=job.id, output_path=job.submission.output_path, winners=winners)


def check_submission(event: JobSubmitted) -> None:
    """Raise ``UsageError`` unless the stages are a DAG, each with a number of tasks."""
    where = f"job {event.job}"
    require(event.max_attempts >= 1, f"{where}: max_attempts", event.max_attempts, "at least 1")
    require(event.weight > 0, f"{where}: weight", event.weight, "a number above 0")
    check_stages([StageSpec(name=s.name, reads=s.reads, tasks=s.tasks) for s in event.stages])
    read = {name for stage in event.stages for name in stage.reads}
    for stage in event.stages:
        of_stage = f'{where}: stage "{stage.name}"'
        require(stage.tasks >= 1, f"{of_stage}: tasks", stage.tasks, "at least 1")
        enough = f"at most its {stage.tasks} tasks"
        require(stage.needed <= stage.tasks, f"{of_stage}: needed", stage.needed, enough)
        every = stage.needed in (0, stage.tasks)
        right = f"all of its {stage.tasks} tasks, since what they make is the job's output"
        require(every or stage.name in read, f"{of_stage}: needed", stage.needed, right)
        right = "none, or one per task of a stage that reads no other"
        fits = len(stage.inputs) == (0 if stage.reads else stage.tasks)
        require(not stage.inputs or fits, f"{of_stage}: inputs", len(stage.inputs), right)
    if event.first_racks:
        last = [stage.tasks for stage in event.stages if stage.name not in read]
        right = f"one rack for each task of a single last stage, not of {last}"
        fits = last == [len(event.first_racks)]
        require(fits, f"{where}: first_racks", len(event.first_racks), right)
