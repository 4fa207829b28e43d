"""Co-scheduler's settings, and the hybrid network as its formulas see it.

Source: Li and Shen, IEEE/ACM Transactions on Networking, 2022, sections II and IV.  The network's
figures (T_e, delta, W, both bandwidths) are the topology's; without [ocs] no shuffle is large
enough for circuits.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from statistics import fmean
from typing import ClassVar, Literal

from railyard.cluster.errors import require
from railyard.cluster.topology import Topology
from railyard.resourcemanager.schedulers.fair import FairConfig


class CoConfig(FairConfig, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "co-scheduler.*"; those of the fair order of users are as in "fair.*"."""

    section: ClassVar[str] = "co-scheduler"

    guidelines: Literal["all", "data", "none"] = "all"  #: "data": for data and maps only
    sir: float = 1.0  #: shuffle / input of a job before any of its maps has ended
    zone_factor: float = 1.1  #: a recurring job's latency may be this many times its best
    #: predict shuffles by eq. 2 (without delta), under which makespans are less than Fair's and
    #: Corral's as published; false: by eq. 10, as printed, by which a shuffle to one rack is free
    shuffle_bound: bool = True
    hold_out_s: float = 30.0  #: how long a job refuses slots off its guideline; 0 = not at all
    #: jobs refuse such slots only as long as circuits should save them more time than waiting costs
    only_if_faster: bool = True
    remaining_error: float = 0.0  #: relative error put on T_rem, up or down
    forecast_error: float = 0.0  #: relative error put on predicted sizes, up or down

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.sir >= 0, "co-scheduler.sir", self.sir, "a number >= 0")
        require(self.zone_factor >= 1, "co-scheduler.zone_factor", self.zone_factor, "at least 1")
        require(self.hold_out_s >= 0, "co-scheduler.hold_out_s", self.hold_out_s, "seconds >= 0")
        for name in ("remaining_error", "forecast_error"):
            error = getattr(self, name)
            require(0 <= error < 1, f"co-scheduler.{name}", error, "a share in [0, 1)")


@dataclass(frozen=True, kw_only=True)
class Hybrid:
    """Racks that are all alike, joined by packet switches (EPS) and a circuit switch (OCS)."""

    racks: int
    slots: int  #: task slots of one rack
    eps_bytes_per_s: float  #: BW_EPS: a rack's link to the packet-switched core
    ocs_bytes_per_s: float  #: BW_OCS: one circuit
    elephant_bytes: float  #: T_e: the least that one rack sends to another over a circuit
    delta_s: float = 0.0  #: delta: how long a circuit takes to set up
    wavelengths: int = 1  #: W: circuits that a rack can have at once
    replicas: int = 3  #: of each block
    shuffle_bound: bool = False  #: as in ``CoConfig``, which has another default

    @classmethod
    def of(cls, topology: Topology, *, shuffle_bound: bool = False) -> Hybrid:
        """A topology's figures; racks that differ count with their mean."""
        racks, ocs = topology.rack_list(), topology.ocs
        eps = fmean(rack.uplink_bytes_per_s for rack in racks)
        return cls(
            racks=len(racks),
            slots=max(1, topology.slots // len(racks)),
            eps_bytes_per_s=eps,
            ocs_bytes_per_s=ocs.port_bytes_per_s if ocs else eps,
            elephant_bytes=ocs.elephant_bytes if ocs else inf,
            delta_s=ocs.delta_s if ocs else 0.0,
            wavelengths=ocs.wavelengths if ocs else 1,
            replicas=topology.storage.replication,
            shuffle_bound=shuffle_bound,
        )

    @property
    def racks_max(self) -> int:
        """The most racks for one replica, so that all replicas' racks are disjoint; at least 1."""
        return max(1, self.racks // self.replicas)
