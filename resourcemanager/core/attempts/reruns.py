"""What is done again: tasks that are pending once more, and those whose output they need.

Never here: why (``attempts.py``), where (``offers.py``).
"""

from __future__ import annotations

from railyard.resourcemanager.core.limits import Limits
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Attempt, Stage, Task


class Reruns:
    """Makes tasks pending again."""

    def __init__(self, state: ClusterState, limits: Limits) -> None:
        self._state = state
        self._limits = limits

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
            self._limits.review(reader)

    def make_pending(self, task: Task, event: str) -> None:
        """Make a task pending, and with it what it reads where that is lost."""
        stage = task.stage
        task.pending_since_s = self._state.now_s
        task.move(event)
        if stage.readers:
            stage.reruns[task.index] = task
        self.restore_inputs(stage)
        self._state.ask(stage.job)

    def restore_inputs(self, stage: Stage) -> None:
        """Run the tasks again that have lost their output, for a new attempt of a reading stage."""
        for source in stage.reads:
            missing, source.unreadable = source.unreadable, {}
            for lost in missing.values():
                self.run_again(lost)


def fetched_bytes(attempt: Attempt) -> int:
    """Bytes of an attempt's output that are fetched: all of it by each reading stage."""
    return attempt.shuffle_bytes * len(attempt.task.stage.readers)
