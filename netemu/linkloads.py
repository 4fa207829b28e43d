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


class LinkLoads:
    """The sum of what was told last of each group, in bytes/s by link."""

    def __init__(self, links: int) -> None:
        self.total: Floats = np.zeros(links)
        self._counted: dict[Carrier, Floats] = {}

    def count(self, groups: Sequence[Carrier]) -> None:
        """Groups, all different, put their loads on the links; the arrays must stay as they are."""
        before = [load for group in groups if (load := self._counted.get(group)) is not None]
        loads = [group.load for group in groups]
        if before:
            self.total -= np.add.reduce(before)
        if loads:
            self.total += np.add.reduce(loads)
        self._counted.update(zip(groups, loads, strict=True))

    def forget(self, group: Carrier) -> None:
        """A group puts nothing on the links any more."""
        load = self._counted.pop(group, None)
        if load is not None:
            self.total -= load
        if not self._counted:
            self.total[:] = 0.0  # so that rounding never piles up
