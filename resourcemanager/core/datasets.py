"""Racks for data that jobs will read: asks the data policy, and checks its answer.

The data is not written yet, so no job that reads it has been submitted.
"""

from __future__ import annotations

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import rack_id
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.events import DataAnnounced


def place_data(state: ClusterState, data: DataAnnounced) -> None:
    """Command where the replicas should go.

    Raises ``PeerError`` for a negative size, ``InvalidDecision`` for racks that do not exist.
    """
    if data.size_bytes < 0:
        raise PeerError(f"{data.path}: size_bytes = {data.size_bytes}: need bytes >= 0")
    policies = state.policies
    try:
        racks = tuple(tuple(each) for each in policies.data.replica_racks(data))
    except Exception as error:  # third parties' code
        raise policies.failed("data", f"placing {data.path}", error, data.path) from error
    known = {rack_id(number) for number in range(state.topology.racks.count)}
    for rack in (rack for each in racks for rack in each):
        if rack not in known:
            raise policies.invalid(
                "data", f"placed {data.path} in {rack}", "there is no such rack", data.path
            )
    state.emit(PlaceData(path=data.path, racks=racks))
