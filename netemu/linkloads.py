"""What groups of flows put on the links, all together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from netemu.schedulers.base import Floats


class Carrier(Protocol):
    """A group of flows."""

    @property
    def load(self) -> Floats:
        """Bytes/s that it puts on each link."""

    @property
    def rate_bytes_per_s(self) -> float:
        """At which all of it is sending."""


class LinkLoads:
    """The sum of what was told last of each group, in bytes/s by link."""

    def __init__(self, links: int) -> None:
        self.total: Floats = np.zeros(links)
        self._counted: dict[Carrier, Floats] = {}  #: of those that send

    def count(self, groups: Sequence[Carrier]) -> None:
        """Groups, all different, put their loads on the links; the arrays must stay as they are."""
        counted = self._counted
        before = [load for group in groups if (load := counted.pop(group, None)) is not None]
        sending = {group: group.load for group in groups if group.rate_bytes_per_s}
        if len(before) > len(counted):  # quicker, and rounding is gone
            before, self.total = [], np.zeros(len(self.total))
            sending.update(counted)
        if before:
            self.total -= np.add.reduce(before)
        if sending:
            self.total += np.add.reduce(list(sending.values()))
        counted.update(sending)

    def forget(self, group: Carrier) -> None:
        """A group puts nothing on the links any more."""
        load = self._counted.pop(group, None)
        if load is not None:
            self.total -= load
        if not self._counted:
            self.total[:] = 0.0  # so that rounding never piles up
