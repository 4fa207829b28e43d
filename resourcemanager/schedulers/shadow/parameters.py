"""Settings "shadow.*"."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from railyard.cluster.errors import require

Selection = Literal["estimate", "first-counts"]


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
