"""Settings "shadow.*", and what Shadow and its baselines have in common."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from railyard.cluster.errors import require
from railyard.resourcemanager.interface.recipe import Option

Selection = Literal["estimate", "first-counts"]
#: Their Hadoop (5.1, 5.2): copies of slow tasks as in Hadoop 1.2.1, and reduces after 80 % of maps.
HADOOP: dict[str, Option] = {
    "shuffle.slowstart": 0.8,
    "speculation.on": True,
    "speculation.gap": 0.2,
}
#: The same, and maps that wait for their rack only.
RACK_WAIT_ONLY: dict[str, Option] = {"delay.node_wait_s": 0.0, **HADOOP}


class ShadowConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "shadow.*"."""

    section: ClassVar[str] = "shadow"

    #: Algorithm 1's threshold, as a share of the maps, rounded up; left open there: it launched
    #: duplicates of less than 15 % of them for all applications (6.2)
    duplicates_max: float = 0.15
    #: which of a task's two outputs counts: as 4.3 says, or the first that is there
    selection: Selection = "estimate"

    def __post_init__(self) -> None:
        share = self.duplicates_max
        require(0 <= share <= 1, "shadow.duplicates_max", share, "a share of the maps in [0, 1]")
