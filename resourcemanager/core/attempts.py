"""The life of tasks and attempts: success, failure, kill, loss, and what follows from each.

A done task becomes pending again when its output is lost and somebody still needs it.  Where the
copies policy wants to choose, an output is kept until it is taken; so that no job waits for a
policy, what is kept of a task is taken once its last live attempt has ended, all that is kept of a
stage when nothing of it is pending or running.

Never here: which task runs where (``offers.py``), when a job is over (``joblife.py``).
"""

from __future__ import annotations

from collections.abc import Collection

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import AttemptId, JobId, NodeId
from railyard.cluster.messages import (
    AttemptFailed,
    AttemptKilled,
    AttemptProgressed,
    AttemptReady,
    AttemptStarted,
    AttemptSucceeded,
    FlowFailed,
)
from railyard.cluster.messaging.wire import BYTES_MAX
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.joblife import JobLife
from railyard.resourcemanager.core.jobs import Attempt, Job, Node, Stage, Task
from railyard.resourcemanager.core.launches import Launches, fetched_bytes
from railyard.resourcemanager.core.records import (
    COUNTED_TOO_FAR,
    COUNTERS_MAX,
    FAILURES_KEPT,
    TaskFailure,
    counted_too_far,
)
from railyard.resourcemanager.core.shuffling.shuffle import Shuffle
from railyard.resourcemanager.interface.commands import SetTimer
from railyard.resourcemanager.interface.policies import CopyPolicy

#: A job is not offered the slots of a node on which so many of its attempts failed;
#: mapreduce.job.maxtaskfailures.per.tracker.
BLAME_MAX = 3
#: Nor, for so many seconds, those of a node where one of them found no room on the disk.
NO_ROOM_S = 10.0
#: Stands between job and node in the name of the timer that ends this.
ROOM = ".room."


class Attempts:
    """Handles what happens to attempts."""

    def __init__(
        self, state: ClusterState, shuffle: Shuffle, jobs: JobLife, launches: Launches
    ) -> None:
        self._state = state
        self._shuffle = shuffle
        self._jobs = jobs
        self._launches = launches
        copies = state.policies.copies
        self.keep = type(copies).first_counts is not CopyPolicy.first_counts  #: outputs, at times

    # Events --------------------------------------------------------------------------------------
    def started(self, event: AttemptStarted) -> None:
        """Its process runs, which changes nothing here."""
        self._known(event.attempt)

    def progressed(self, event: AttemptProgressed) -> None:
        attempt, progress = self._known(event.attempt), min(1.0, max(0.0, event.progress))
        if attempt is None:
            return
        before, attempt.progress = attempt.progress, progress
        if attempt.state != "reserved":
            attempt.task.stage.progress_sum += progress - before
            self._state.policies.notify("attempt_progressed", attempt)

    def ready(self, event: AttemptReady) -> None:
        """All that it reads is at its node, which matters as long as it has no slot."""
        attempt = self._known(event.attempt)
        if attempt is not None and attempt.state == "reserved" and not attempt.ready:
            attempt.ready = True
            self._state.offer_again(attempt.node)
            self._state.policies.notify("attempt_ready", attempt)

    def succeeded(self, event: AttemptSucceeded) -> None:
        attempt = self._known(event.attempt)
        if attempt is None:
            return
        if attempt.state == "reserved":
            raise PeerError(f"{attempt.id} succeeded without an order to begin")
        task, stage = attempt.task, attempt.task.stage
        if refused := _why_refused(event, task):
            self.failed(AttemptFailed(attempt=event.attempt, reason=refused))
            return
        stage.job.record.computed_s += event.computed_s
        if stage.job.state != "running" or task.state in ("done", "left"):
            self._end(attempt, "successful too late")  # the job or others were faster
            stage.job.record.killed += 1
            return
        policies = self._state.policies
        kept = self.keep and not policies.ask(policies.copies.first_counts, task)
        self._end(attempt, "successful and kept" if kept else "successful")
        attempt.partition_bytes = event.partition_bytes
        attempt.shuffle_bytes = sum(event.partition_bytes)
        attempt.read_s = event.read_s
        attempt.computed_s = event.computed_s
        if kept:
            self._keep(attempt, event)
        else:
            self._record(attempt, event)
            self._win(attempt)

    def failed(self, event: AttemptFailed) -> None:
        attempt = self._known(event.attempt)
        if attempt is None:
            return
        if attempt.killing:  # it broke on its way out, say because its fetches were cancelled
            self.killed(AttemptKilled(attempt=event.attempt))
            return
        job = attempt.task.stage.job
        if attempt.state == "reserved":
            self._end_reservation(attempt, "failed")
            job.record.launched += 1  # so that each that failed is one that was launched
            job.record.reduces_launched += bool(attempt.task.stage.reads)
        else:
            self._end(attempt, "failed")
        if job.state == "running":
            job.record.failed += 1
            self._count_failure(attempt, event.reason, event.stderr, no_room=event.no_room)
            self._requeue(attempt.task)

    def killed(self, event: AttemptKilled) -> None:
        attempt = self._known(event.attempt)
        if attempt is not None and attempt.state == "reserved":
            self._end_reservation(attempt, "killed")
        elif attempt is not None:
            self._end(attempt, "killed")
            attempt.task.stage.job.record.killed += 1
            self._requeue(attempt.task)

    def give_up(self, attempt: Attempt, reason: str) -> None:
        """Ask an attempt to end, and cancel its fetches at once."""
        self._shuffle.stop(attempt)
        self._state.kill(attempt, reason)

    def reconsider(self, job: Job) -> None:
        """Ask the policies again about a job that runs: its slots, its fetches, its tasks."""
        for stage in job.stages.values():
            self._state.review_readers(stage)
        for stage in job.reduces:
            if stage.live:
                self._shuffle.begin_to_fetch(stage)
        self._state.make_due(job)

    # Outputs that are kept -----------------------------------------------------------------------
    def take(self, attempt: Attempt) -> None:
        """The output of an attempt that was kept is its task's."""
        task, success = attempt.task, attempt.success
        assert success is not None, f"nothing of {attempt.id} is kept"
        task.kept = tuple(other for other in task.kept if other is not attempt)
        attempt.success = None
        attempt.move("taken")
        self._record(attempt, success)
        self._win(attempt)

    def take_what_is_left(self) -> bool:
        """Take all that stages keep of which nothing is pending or running; is that anything?"""
        state, taken = self._state, False
        for stage in list(state.keeping.values()):
            if stage.kept and not stage.pending.count and not stage.running:
                taken = True
                for task in stage.tasks:
                    if task.state == "kept":
                        self.take(task.kept[0])
        return taken

    def _keep(self, attempt: Attempt, event: AttemptSucceeded) -> None:
        task = attempt.task
        attempt.success = event
        task.kept += (attempt,)
        if not task.live:
            task.move("kept")
        self._state.keeping[task.stage.id] = task.stage

    def _lose_kept_on(self, node: Node, whole: Collection[AttemptId] = ()) -> None:
        """What is kept on a node is lost, but for what is ``whole`` or in the block store."""
        for stage in list(self._state.keeping.values()):
            for task in stage.tasks if stage.readers else ():
                on_node = [attempt for attempt in task.kept if attempt.node is node]
                lost = [attempt for attempt in on_node if attempt.id not in whole]
                for attempt in lost:
                    attempt.move("lost with its node")
                    attempt.success = None
                if lost:
                    stage.job.record.killed += len(lost)
                    task.kept = tuple(each for each in task.kept if each not in lost)
                if task.state == "kept" and not task.kept:
                    self._launches.make_pending(task, "missed, as its output is lost")

    # What is lost --------------------------------------------------------------------------------
    def node_lost(self, node: Node) -> None:
        """Write off what a node held: its attempts, which did not fail, and its output."""
        self._shuffle.source_lost(node)
        self._end_all_on(node)
        for job in self._state.jobs.values():
            self._forgive(job, node)
            for stage in job.stages.values():
                self._lose_outputs_on(stage, node)

    def node_restarted(self, node: Node, whole: Collection[AttemptId]) -> None:
        """Write off what ran on a node, and the output there that is not ``whole``.

        What is whole is fetched again: who served it is another process now.
        """
        readers = self._shuffle.source_lost(node)
        self._end_all_on(node, whole)
        for job in self._state.jobs.values():
            for stage in job.stages.values():
                for output in stage.outputs.get(node.id, ()):
                    if output.id not in whole and not output.output_lost:
                        self._lose_output(output)
        for reader in readers:
            if reader.ended_s is None:
                self._shuffle.try_again(reader, node)

    def drain(self, node: Node, *, kill: bool) -> None:
        """Leave a node no reservations, and if ``kill`` no attempts; its output stays."""
        for job in self._state.jobs.values():
            self._forgive(job, node)
        for reservation in list(node.reserved.values()):
            self._launches.withdraw(reservation, f"{node.id} is drained")
        if kill:
            for attempt in node.attempts.values():
                if not attempt.killing:
                    self.give_up(attempt, f"{node.id} is drained")

    def fetch_failed(self, event: FlowFailed) -> None:
        """A fetch broke off; output that can't be had mostly counts as a failure of who made it."""
        broken = self._shuffle.failed(event)
        if broken is None:
            return
        reader, node, lost, to_blame = broken
        for output in lost:
            self._lose_output(output)
            if to_blame and output.task.stage.job.state == "running":
                reason = f"its output could not be fetched by {reader.id}: {event.reason}"
                self._count_failure(output, reason, "")
        if reader.ended_s is None:
            self._shuffle.try_again(reader, node)

    # Failures, and nodes that jobs avoid for them ------------------------------------------------
    def _count_failure(
        self, attempt: Attempt, reason: str, stderr: str, *, no_room: bool = False
    ) -> None:
        """Blame task and node; too many failures of a task end its job."""
        task, job, node = attempt.task, attempt.task.stage.job, attempt.node
        task.failures += 1
        failure = TaskFailure(
            task=task.id, attempt=attempt.id, node=node.id, reason=reason, stderr=stderr
        )
        job.record.failures = [*job.record.failures, failure][-FAILURES_KEPT:]
        if no_room:
            self._avoid_for_a_time(job, node)
        else:
            job.blame[node.id] = job.blame.get(node.id, 0) + 1
        if job.blame.get(node.id, 0) >= BLAME_MAX and len(job.avoid) < self._state.avoidable():
            self._avoid(job, node)
        if task.failures >= task.stage.max_attempts:
            tries = f"{task.failures} of {task.stage.max_attempts} attempts"
            self._jobs.fail(job, f"task {task.id} failed {tries}, the last on {node.id}: {reason}")

    def room_again(self, timer: str) -> None:
        """Offer a job the slots of a node again that it was kept off by ``_avoid_for_a_time``."""
        job_id, _, node = timer.partition(ROOM)
        job = self._state.jobs.get(JobId(job_id))
        if job is None or job.blame.get(NodeId(node), 0) >= BLAME_MAX:
            return
        if NodeId(node) in job.avoid:
            del job.avoid[NodeId(node)]
            self._state.make_due(job)

    def _forgive(self, job: Job, lost: Node) -> None:
        """Forgive nodes if the job would avoid too many of those that are left."""
        job.avoid.pop(lost.id, None)
        while len(job.avoid) > self._state.avoidable():
            job.avoid.popitem()
            self._state.make_due(job)

    def _avoid(self, job: Job, node: Node) -> None:
        job.avoid[node.id] = None
        for attempt in list(node.reserved.values()):
            if attempt.task.stage.job is job:
                self._launches.withdraw(attempt, f"{job.id} avoids {node.id}")

    def _avoid_for_a_time(self, job: Job, node: Node) -> None:
        """Keep a job off a node with a full disk, if enough other nodes are left."""
        if node.id not in job.avoid and len(job.avoid) < self._state.avoidable():
            self._avoid(job, node)
            until_s = self._state.now_s + NO_ROOM_S
            self._state.emit(SetTimer(timer=f"{job.id}{ROOM}{node.id}", at_s=until_s))

    # ---------------------------------------------------------------------------------------------
    def _known(self, attempt: AttemptId) -> Attempt | None:
        """The attempt; None if it has ended already, which whoever reports it can't know."""
        known = self._state.attempts.get(attempt) or self._state.reserved.get(attempt)
        if known is None and attempt.split(".", 1)[0] not in self._state.records:
            raise PeerError(f'there is no attempt "{attempt}"')
        return known

    def _end_all_on(self, node: Node, whole: Collection[AttemptId] = ()) -> None:
        """Write off a node's attempts, and what is kept there but for what is ``whole``."""
        for reservation in list(node.reserved.values()):
            self._end_reservation(reservation, "lost with its node")
        attempts = list(node.attempts.values())
        for attempt in attempts:
            self._end(attempt, "lost with its node")
            attempt.task.stage.job.record.killed += 1
        self._lose_kept_on(node, whole)
        for attempt in attempts:
            self._requeue(attempt.task)

    def _end(self, attempt: Attempt, event: str) -> None:
        attempt.move(event)
        self._shuffle.stop(attempt)
        self._state.release(attempt)

    def _end_reservation(self, attempt: Attempt, event: str) -> None:
        self._shuffle.stop(attempt)
        self._state.end_reservation(attempt, event)

    def _win(self, attempt: Attempt) -> None:
        task, stage = attempt.task, attempt.task.stage
        task.winner = attempt
        task.move("won by an attempt")
        if task.kept:
            task.drop_kept()
        self._state.policies.notify("task_done", task)
        for other in task.live:
            self.give_up(other, f"{attempt.id} was faster")
        if not task.counted:
            task.counted = True
            stage.counted += 1
            if stage.counted == stage.needed != stage.size:
                self._leave_others(stage)
        if stage.readers:
            stage.job.record.shuffle_bytes += fetched_bytes(attempt)
            self._shuffle.output_ready(attempt)
            self._state.review_readers(stage)
        if stage.done == stage.needed:
            if stage.reads:
                self._shuffle.stage_done(stage)
            self._jobs.stage_done(stage)

    def _leave_others(self, stage: Stage) -> None:
        """As many tasks have been done as are needed: the others are not."""
        enough = f"{stage.needed} of {stage.name} are enough"
        for other in stage.tasks:
            if not other.counted:
                other.leave()
                if other.reserved is not None:
                    self._launches.withdraw(other.reserved, enough)
                for attempt in other.live:
                    self.give_up(attempt, enough)
        self._state.review_wants(stage.job)

    def _record(self, attempt: Attempt, event: AttemptSucceeded) -> None:
        record = attempt.task.stage.job.record
        record.succeeded += 1
        record.copies_chosen += attempt.copy
        record.output_bytes += event.output_bytes
        if event.counters and not attempt.task.counted:  # a task that ran again counts once
            record.counters.update(event.counters)
        read = record.read
        read.local += event.local_bytes
        read.rack += event.rack_bytes
        read.remote += event.remote_bytes
        if attempt.task.stage.reads:
            record.reduced += 1
            record.reduce_s += (attempt.ended_s or self._state.now_s) - attempt.launched_s

    def _requeue(self, task: Task) -> None:
        """After an attempt has ended without its output: if it was the last, take or run again."""
        if task.stage.job.state != "running" or task.state != "running" or task.live:
            return
        if task.kept:
            self.take(task.kept[0])
        else:
            self._launches.make_pending(task, "left by its last attempt")

    def _lose_outputs_on(self, stage: Stage, node: Node) -> None:
        outputs = stage.outputs.pop(node.id, ())
        for reader_stage in stage.readers:
            self._shuffle.stages[reader_stage.id].forget_place(node.id)  # what they lack of it
        for output in outputs:
            if not output.output_lost:
                self._lose_output(output)

    def _lose_output(self, attempt: Attempt) -> None:
        attempt.move("without its output")
        self._shuffle.output_lost(attempt)
        task, stage = attempt.task, attempt.task.stage
        if stage.job.state != "running" or task.winner is not attempt:
            return
        if any(self._shuffle.is_to_fetch(reader, task) for reader in stage.readers):
            self._launches.run_again(task)
        else:
            stage.unreadable[task.index] = task


def _why_refused(event: AttemptSucceeded, task: Task) -> str:
    stage, record = task.stage, task.stage.job.record
    partitions, shuffle_bytes = len(event.partition_bytes), sum(event.partition_bytes)
    if partitions != stage.partitions:
        return f"reported {partitions} partitions, has {stage.partitions}"
    if record.shuffle_bytes + shuffle_bytes * len(stage.readers) > BYTES_MAX:
        return f"reported {shuffle_bytes:,} bytes to shuffle: a job may have {BYTES_MAX:,}"
    counters = len(record.counters.keys() | event.counters.keys())
    if counters > COUNTERS_MAX:
        return f"counted {counters} different things: a job may have {COUNTERS_MAX}"
    name = counted_too_far(record.counters, event.counters)
    if name is not None and not task.counted:
        return f"counter {name} of the job's tasks: {COUNTED_TOO_FAR}"
    return ""
