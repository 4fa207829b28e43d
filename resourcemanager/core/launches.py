"""Launches: attempts that take slots, reservations, which have none yet, and tasks done again.

Never here: which task is launched where (``offers.py``), how an attempt ends (``attempts.py``).
"""

from __future__ import annotations

from railyard.cluster.ids import attempt_id
from railyard.cluster.messages import BeginAttempt, LaunchAttempt, TaskSpec
from railyard.resourcemanager.core.cluster import ClusterState
from railyard.resourcemanager.core.files import attempt_file, racks_for, success_file
from railyard.resourcemanager.core.jobs import Attempt, Node, Stage, Task
from railyard.resourcemanager.core.shuffling.shuffle import Shuffle


class Launches:
    """Launches attempts, makes and withdraws reservations, makes tasks pending again."""

    def __init__(self, state: ClusterState, shuffle: Shuffle) -> None:
        self._state = state
        self._shuffle = shuffle

    def launch(self, task: Task, node: Node) -> None:
        """Run an attempt of a pending or, as a copy, of a running task in a free slot."""
        state, stage = self._state, task.stage
        job, record = stage.job, stage.job.record
        begun = None if task.reserved is None else self._begin(task.reserved, node)
        attempt = begun or self._new(task, node)
        if task.state != "pending":
            attempt.copy = True
            record.copies += 1
            task.move("launched again as a copy")
            self.restore_inputs(stage)  # what the other attempt has fetched already, say
        else:
            task.move("launched")
            if stage.reruns:
                stage.reruns.pop(task.index, None)
        state.hold(attempt)
        record.launched += 1
        record.reduces_launched += bool(stage.reads)
        if attempt.level == "node-local":
            record.locality.local += 1
        elif attempt.level == "rack-local":
            record.locality.rack += 1
        elif attempt.level == "remote":
            record.locality.remote += 1
        if begun is None:
            state.emit(launch_order(attempt))
        else:
            state.emit(BeginAttempt(attempt=attempt.id, node=node.id))
        state.policies.notify("attempt_launched", attempt)
        if stage.reads:
            self._shuffle.reader_launched(attempt)
        if not stage.pending.count:
            state.review_readers(stage)
            state.review_wants(job)

    def reserve(self, task: Task, node: Node) -> None:
        """Have an attempt of a pending task read on a node, without a slot."""
        attempt = self._new(task, node)
        attempt.state = "reserved"
        self._state.reserve(attempt)
        self._state.emit(launch_order(attempt))
        if task.stage.reads:
            self._shuffle.reader_launched(attempt)

    def withdraw(self, attempt: Attempt, reason: str) -> None:
        self._shuffle.stop(attempt)
        self._state.withdraw(attempt, reason)

    # What is done again --------------------------------------------------------------------------
    def run_again(self, task: Task) -> None:
        """Make a done task pending: its output is lost and needed.

        It waits for the end of other attempts, if these have not ended yet.
        """
        stage = task.stage
        if task.winner is not None:
            stage.job.record.shuffle_bytes -= fetched_bytes(task.winner)
        task.winner = None
        if task.live:
            task.move("missed before its other attempts have ended")
        else:
            self.make_pending(task, "missed, as its output is lost")
        for reader in stage.readers:
            self._state.review_limit(reader)

    def make_pending(self, task: Task, event: str) -> None:
        """Make a task pending, and with it what it reads where that is lost."""
        stage = task.stage
        task.pending_since_s = self._state.now_s
        task.move(event)
        if stage.readers:
            stage.reruns[task.index] = task
        self.restore_inputs(stage)
        self._state.make_due(stage.job)

    def restore_inputs(self, stage: Stage) -> None:
        """Run the tasks again that have lost their output, for a new attempt of a reading stage."""
        for source in stage.reads:
            missing, source.unreadable = source.unreadable, {}
            for lost in missing.values():
                self.run_again(lost)

    # ---------------------------------------------------------------------------------------------
    def _begin(self, reservation: Attempt, node: Node) -> Attempt | None:
        """The task's reservation, about to be given a slot of a node; withdrawn if elsewhere."""
        if reservation.node is node:
            self._state.begin(reservation)
            return reservation
        self.withdraw(reservation, f"its task is launched on {node.id}")
        return None

    def _new(self, task: Task, node: Node) -> Attempt:
        name, stage = attempt_id(task.id, task.launches), task.stage
        task.launches += 1
        level = stage.pending.level(task.index, node.id, node.rack)
        return Attempt(name, task, node, level, self._state.now_s)


def launch_order(attempt: Attempt) -> LaunchAttempt:
    """The order to launch an attempt, in a slot or, if it is a reservation, without one."""
    task, stage, index = attempt.task, attempt.task.stage, attempt.task.index
    submission = stage.job.submission
    writes = bool(submission.output_path) and not stage.readers
    spec = TaskSpec(
        stage=stage.name,
        index=index,
        splits=task.input.splits,
        reads=stage.plan.reads,
        inputs=stage.inputs,
        partitions=stage.partitions,
        output_path=attempt_file(submission, attempt.id, stage.name, index) if writes else "",
        success_path=success_file(submission.output_path) if writes else "",
        output_owner=submission.output_owner,
        output_replication=submission.output_replication,
        output_racks=racks_for(submission, index) if writes else (),
    )
    begins = attempt.state != "reserved"
    return LaunchAttempt(attempt=attempt.id, node=attempt.node.id, task=spec, begins=begins)


def fetched_bytes(attempt: Attempt) -> int:
    """Bytes of an attempt's output that are fetched: all of it by each reading stage."""
    return attempt.shuffle_bytes * len(attempt.task.stage.readers)
