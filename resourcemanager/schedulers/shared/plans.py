"""Plans of which rack runs how many tasks of a stage, while the same racks have slots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from railyard.cluster.ids import StageId
from railyard.resourcemanager.interface.policies import NoConfig, Policy
from railyard.resourcemanager.interface.views import ClusterView, JobView, SlotView

P = TypeVar("P")


class Plans(Policy, Generic[P]):
    """A plan of each stage; a part of the policy that makes and follows them.

    All are forgotten, and all jobs looked at again, when a rack may have no slots left, or some
    again; those of a job when it ends.
    """

    def __init__(self, cluster: ClusterView) -> None:
        super().__init__(NoConfig(), cluster)
        self.of: dict[StageId, P] = {}
        self._forgotten = False  #: since jobs were last looked at again

    # What happens --------------------------------------------------------------------------------
    def job_ended(self, job: JobView) -> None:
        for stage in job.stages.values():
            self.of.pop(stage.id, None)

    def node_joined(self, node: SlotView) -> None:
        self._forget()

    def node_lost(self, node: SlotView) -> None:
        self._forget()

    def slots_changed(self, node: SlotView, before: int) -> None:
        if not (before and node.slots):
            self._forget()

    def _forget(self) -> None:
        self.of.clear()
        self._forgotten = True

    def reconsider(self) -> Iterable[JobView]:
        forgotten, self._forgotten = self._forgotten, False
        return list(self.cluster.jobs.values()) if forgotten else ()
