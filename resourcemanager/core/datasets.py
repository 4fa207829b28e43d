"""Data that jobs read: the data policy is asked where it goes; where it is gets noted.

Never here: what a policy proposes about data; see ``proposing/moves.py``.
"""

from __future__ import annotations

import msgspec

from railyard.cluster.errors import PeerError
from railyard.cluster.ids import rack_id
from railyard.resourcemanager.core.state.cluster import ClusterState
from railyard.resourcemanager.interface.commands import PlaceData
from railyard.resourcemanager.interface.events import DataAnnounced, DataStored


def place_data(state: ClusterState, data: DataAnnounced) -> None:
    """Command where the replicas of data should go that is about to be written.

    Raises ``PeerError`` for a negative size, ``InvalidDecision`` for racks that do not exist.
    """
    if data.size_bytes < 0:
        raise PeerError(f"{data.path}: size_bytes = {data.size_bytes}: need bytes >= 0")
    policies = state.policies
    if not state.uses_forecasts:
        data = msgspec.structs.replace(data, forecast=None)
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


def data_stored(state: ClusterState, event: DataStored) -> None:
    """Note where blocks of a file are.  Raises ``PeerError`` if those before them are not known."""
    if not state.stored.is_next(event.path, event.first):
        known = len(state.data.get(event.path, ()))
        raise PeerError(f"{event.path}: first = {event.first}: need 0 or {known}, the next block")
    state.stored.put(event.path, event.first, event.blocks)
    state.policies.notify("data_stored", event.path, event.jobs)
