"""What is planned on each slot, and the first place for one more task: insertion.

A task may go between two others that are planned already, if the gap is long enough.  Left open,
chosen here: of equal times, the first slot in the order of the topology.
"""

from __future__ import annotations

import numpy as np

from railyard.netemu.model.arrays import Bools, Floats, Numbers


class Timelines:
    """The plans of all slots.  Times are those of the cluster's clock."""

    def __init__(self, slots: Numbers) -> None:
        """``slots``: how many each server has [servers]."""
        self._server = np.repeat(np.arange(len(slots)), slots)  #: of each slot
        self._end_s = np.zeros(len(self._server))  #: of the last task planned on each slot
        self._gaps: list[tuple[float, float, int]] = []  #: (begin, end, slot) before that

    def free_from(self, now_s: float, busy_until_s: Floats) -> None:
        """Nothing more can start before now, nor on a server before it has done what is queued.

        ``busy_until_s``: [servers].
        """
        self._end_s = np.maximum(self._end_s, busy_until_s[self._server])
        self._end_s[np.isinf(self._end_s)] = now_s
        self._gaps = [gap for gap in self._gaps if gap[1] > now_s]

    def earliest(
        self, ready_s: Floats, length_s: float, usable: Bools, now_s: float
    ) -> tuple[int, float] | None:
        """The slot and the time at which a task can start first; None if no server is usable.

        ``ready_s``: when it would have its data on each server [servers].
        """
        if not usable.any():
            return None
        ready_s = np.where(usable, np.maximum(ready_s, now_s), np.inf)
        start_s = np.maximum(self._end_s, ready_s[self._server])
        slot = int(start_s.argmin())
        best = slot, float(start_s[slot])
        if self._gaps:
            begins, ends, slots = map(np.array, zip(*self._gaps, strict=True))
            within_s = np.maximum(begins, ready_s[self._server[slots]])
            within_s[within_s + length_s > ends] = np.inf
            gap = int(within_s.argmin())
            if within_s[gap] < best[1]:
                best = int(slots[gap]), float(within_s[gap])
        return best

    def add(self, slot: int, start_s: float, length_s: float) -> int:
        """Plan a task there; returns the server."""
        end_s = start_s + length_s
        for at, (begin_s, until_s, where) in enumerate(self._gaps):
            if where == slot and begin_s <= start_s and end_s <= until_s:
                rest = ((begin_s, start_s, slot), (end_s, until_s, slot))
                self._gaps[at : at + 1] = [gap for gap in rest if gap[0] < gap[1]]
                break
        else:
            if self._end_s[slot] < start_s:
                self._gaps.append((float(self._end_s[slot]), start_s, slot))
            self._end_s[slot] = end_s
        return int(self._server[slot])
