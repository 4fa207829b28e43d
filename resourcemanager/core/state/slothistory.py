"""How many slots the cluster has had over time, for the share of them that was used."""

from __future__ import annotations


class SlotHistory:
    """The slots of all nodes, those of lost ones included: at first, then as they change."""

    def __init__(self, slots: int) -> None:
        self._at_first = slots
        self._changes: list[tuple[float, int]] = []  #: (when, by how many), by time

    def change(self, at_s: float, by: int) -> None:
        """There are so many slots more from now on, or less."""
        self._changes.append((at_s, by))

    def slot_s(self, begin_s: float, end_s: float) -> float:
        """Seconds x slots from one time to another."""
        return self._at_first * (end_s - begin_s) + sum(
            by * (end_s - max(at_s, begin_s)) for at_s, by in self._changes if at_s < end_s
        )
