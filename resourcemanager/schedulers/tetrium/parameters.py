"""Settings "tetrium.*"."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from railyard.cluster.errors import require

MapOrder = Literal["remote-first", "local-first"]
Remaining = Literal["stages", "time"]
ReduceOrder = Literal["largest-first", "random"]


class TetriumConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "tetrium.*", with the paper's values where it has any."""

    section: ClassVar[str] = "tetrium"

    rho: float = 1.0  #: WAN budget (4.3): 0 = as few bytes between sites as possible, 1 = any
    epsilon: float = 1.0  #: fairness (4.4): 0 = slots in proportion to tasks, 1 = no job is capped
    #: jobs' order (4.1): by the stages that are left, or by the time of all of these together
    remaining: Remaining = "stages"
    k_sites: int = 10  #: sites that may change when slots or links are lost (4.2; Fig. 11: enough)
    #: share of the slots given to a job at a site that local maps get (5: "a small fraction")
    local_share: float = 0.1
    #: freed slots are collected for this share of a recent task's duration (5; left open there)
    batch: float = 0.02
    #: tasks are taken to be up to this much longer or shorter than estimated (Fig. 12d)
    estimate_error: float = 0.0
    #: the slots that plans are made with: those of a site, or those of it that are free now
    slots: Literal["all", "free"] = "all"
    solver: Literal["exact", "general"] = "exact"  #: the optimum, or the paper's linear programs
    reverse: bool = False  #: also plan from the reduces, with forecasts, and take the better (3.4)
    #: whether a site's maps that read from other sites run before those that read there (3.2)
    map_order: MapOrder = "remote-first"
    reduce_order: ReduceOrder = "largest-first"  #: which of a stage's reduces run first (3.3)

    def __post_init__(self) -> None:
        for name in ("rho", "epsilon", "estimate_error"):
            value = getattr(self, name)
            require(0 <= value <= 1, f"{self.section}.{name}", value, "a number in [0, 1]")
        right = "a whole number above 0"
        require(self.k_sites > 0, f"{self.section}.k_sites", self.k_sites, right)
        share = self.local_share
        require(0 <= share < 1, f"{self.section}.local_share", share, "a share in [0, 1)")
        require(0 <= self.batch <= 10, f"{self.section}.batch", self.batch, "a number in [0, 10]")
