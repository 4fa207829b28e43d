"""How the links between racks are observed, for schedulers that use the network.

They are looked at every ``period_s``, on both clocks; those that have changed, if any, are reported
to the core (``LinksObserved``).
"""

from __future__ import annotations

import msgspec

from railyard.cluster.errors import require

#: The prefix of these settings.
SECTION = "links"


class LinksConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings "links.*" of every scheduler that uses the network."""

    period_s: float = 1.0  #: between two looks at the links
    #: what is free of a link has changed once it differs by more than this share of the capacity
    change: float = 0.05

    def __post_init__(self) -> None:
        right = "seconds from 0.05 to 3600"
        require(0.05 <= self.period_s <= 3600, f"{SECTION}.period_s", self.period_s, right)
        require(0 <= self.change <= 1, f"{SECTION}.change", self.change, "a share in [0, 1]")
