"""Where a job's input goes: asked of the scheduler's data policy before a byte of it is written."""

from __future__ import annotations

from railyard.cluster.ids import RackId
from railyard.resourcemanager.interface.forecast import Forecast
from railyard.resourcemanager.process.messages import DataPlan, PlanData
from railyard.scripts.clusters.session import Session

#: For the first replica, the second, ...: racks for it; empty or missing = the store's own rule.
Racks = tuple[tuple[RackId, ...], ...]


def planned_racks(
    session: Session,
    path: str,
    stored_bytes: int,
    job: str = "",
    forecast: Forecast | None = None,
) -> Racks:
    """The racks for the replicas of a file, or of all files of a folder, of so many real bytes.

    ``job``: the name of the job that will read it, if that is known; ``forecast`` is that job's.
    """
    size_bytes = stored_bytes * session.config.topology.scale
    link = session.link("resourcemanager")
    asked = PlanData(path=path, size_bytes=size_bytes, job=job, forecast=forecast)
    return link.ask(asked, DataPlan).racks
