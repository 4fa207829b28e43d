"""How many slots reduces may hold: asked of the shuffle policy, noted in the state.

Policies and the state's own questions read ``Stage.limit``.  It is asked anew when a task that the
stage reads is done or pending again, when the last pending task of such a stage is launched, and
right before the stage's job is offered a slot.

Never here: which task gets a slot; see ``offers.py``.
"""

from __future__ import annotations

from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.core.state.jobs import Job, Stage


class Limits:
    """The limits of all stages that read others."""

    def __init__(self, state: ClusterState) -> None:
        self._ask_number = state.policies.ask_number
        self._limit = state.policies.shuffle.limit
        self._state = state

    def review(self, stage: Stage) -> None:
        """Ask about one stage."""
        stage.limit = self._ask_number(self._limit, stage)

    def before_offer(self, job: Job) -> None:
        """Ask about the stages of a job with tasks that could take a slot offered to it."""
        for stage in job.reduces:
            if stage.open and stage.pending.count:
                stage.limit = self._ask_number(self._limit, stage)

    def review_readers(self, stage: Stage) -> None:
        """Ask about those who read a stage; let their tasks ask for slots that they may have."""
        for reader in stage.readers:
            if reader.pending.count:
                self.review(reader)
                if reader.held < reader.limit:
                    reader.open = True
                    self._state.ask(stage.job)
