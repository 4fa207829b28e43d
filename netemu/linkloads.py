"""What groups of flows put on the links, all together."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from netemu.schedulers.base import Floats


class LinkLoads:
    """The sum of what was told last of each group, in bytes/s by link."""

    def __init__(self, links: int) -> None:
        self.total: Floats = np.zeros(links)
        self._counted: dict[Hashable, Floats] = {}

    def count(self, group: Hashable, load: Floats | None) -> None:
        """A group puts this on the links; None: nothing any more.  The array must stay as it is."""
        before = self._counted.pop(group, None)
        if before is not None:
            self.total -= before
        if load is not None:
            self.total += load
            self._counted[group] = load
        if not self._counted:
            self.total[:] = 0.0  # so that rounding never piles up
