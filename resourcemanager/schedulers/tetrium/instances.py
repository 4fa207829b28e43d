"""When the next scheduling instance is (4.1, and 5's batching of slots).

At once when tasks become ready or capacity has changed; when slots are freed, after ``batch`` of a
recent task's duration, so that slots at several sites are free by then.
"""

from __future__ import annotations

from collections import deque
from statistics import fmean

from railyard.cluster.ids import JobId
from railyard.resourcemanager.interface.policies import Policy
from railyard.resourcemanager.interface.views import AttemptView, ClusterView, JobView, SlotView
from railyard.resourcemanager.schedulers.tetrium.parameters import TetriumConfig

#: "recently finished tasks" (5)
_RECENT = 50


class Instances(Policy):
    """The jobs that want slots, and when to look at them next."""

    def __init__(self, config: TetriumConfig, cluster: ClusterView) -> None:
        super().__init__(config, cluster)
        self._batch = config.batch
        self.wanting: dict[JobId, JobView] = {}
        self._due_s: float | None = None  #: when the next instance is
        self._recent_s: deque[float] = deque(maxlen=_RECENT)  #: durations of tasks

    def begins(self) -> bool:
        """Whether an instance is due; it counts as begun then."""
        if self._due_s is None or self.cluster.now_s < self._due_s or not self.wanting:
            return False
        self._due_s = None
        return True

    def at_once(self) -> None:
        """Let the next instance be now."""
        self.at_most_in(0.0)

    def at_most_in(self, seconds: float) -> None:
        due_s = self.cluster.now_s + seconds
        self._due_s = due_s if self._due_s is None else min(self._due_s, due_s)

    # What happens --------------------------------------------------------------------------------
    def wake_s(self) -> float | None:
        due_s = self._due_s if self.wanting else None
        return due_s if due_s is not None and due_s > self.cluster.now_s else None

    def job_wants(self, job: JobView) -> None:
        self.wanting[job.id] = job
        self.at_once()

    def job_rests(self, job: JobView) -> None:
        self.wanting.pop(job.id, None)

    def attempt_ended(self, attempt: AttemptView) -> None:
        if attempt.ended_s is not None:
            self._recent_s.append(attempt.ended_s - attempt.launched_s)
        recent_s = fmean(self._recent_s) if self._recent_s else 0.0
        self.at_most_in(self._batch * recent_s)

    def node_joined(self, node: SlotView) -> None:
        self.at_once()

    def slots_changed(self, node: SlotView, before: int) -> None:
        self.at_once()
