"""Nodes of which none is down or late, as in most simulations: fetches are reported in batches.

Not here: nodes that may fail (``nodemanagers``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from railyard.netemu.model.arrays import Numbers
from railyard.resourcemanager.core.shuffling.messages import CancelFetch, StartFetches
from railyard.simulator.driver import BatchDriver
from railyard.simulator.network.network import OnEnd
from railyard.simulator.nodes.attempt import SimulatedAttempt
from railyard.simulator.nodes.workers import Workers


class IdealWorkers(Workers):
    """The attempts of all nodes, and their fetches, which have numbers."""

    def __init__(self, *args: Any, driver: BatchDriver) -> None:
        super().__init__(*args)
        self._driver = driver
        self.network.call_each = self._flows_ended

    def start_fetches(self, command: StartFetches) -> None:
        """Start the flows of fetches, in this order."""
        here = command.fetches[(command.src == command.dst) | (command.size_bytes == 0)]
        if len(here):
            self.heap.after(0.0, self._fetched_here, here)
        self.network.carry_fetches(command)

    def report_progress(self, attempts: Sequence[SimulatedAttempt]) -> None:
        """Have attempts, none of which is over, report how far they are."""
        now_s = self.heap.now_s
        reports = [
            (attempt.id, share)
            for attempt in attempts
            if (share := attempt.progressed(now_s)) is not None
        ]
        self._driver.feed_progress(reports)

    def cancel_fetch(self, command: CancelFetch) -> None:
        """Cancel the flow of a fetch."""
        self.network.cancel_fetch(command)

    def _flows_ended(self, ends: Iterator[OnEnd | Numbers]) -> None:
        """Flows have sent all their bytes; see ``SimulatedNetwork.call_each``.

        Each end is reported before the next is looked at, and those of fetches together.
        """
        for on_end in ends:
            if isinstance(on_end, np.ndarray):
                self._fetched(on_end)
            else:
                on_end(0, "")

    # Inside --------------------------------------------------------------------------------------
    def _fetched(self, fetches: Numbers) -> None:
        """The flows of fetches have sent all their bytes, in this order."""
        while len(fetches):
            fetches = fetches[self._some_fetched(fetches) :]

    def _some_fetched(self, fetches: Numbers) -> int:
        """Report the first of these ends, up to one that something else may follow from.

        Returns how many these are.
        """
        running, now_s = self.running, self.heap.now_s
        complete: list[SimulatedAttempt] = []
        many = 0
        for name, outputs, size_bytes, began_s in self._driver.arriving(fetches):
            many += 1
            reader = running.get(name)
            if reader is None or not outputs:
                continue  # it is being killed, and its fetches are cancelled
            if not reader.take(outputs, size_bytes, began_s, now_s):
                continue
            complete.append(reader)
            if not reader.computes_later:
                break
        self._driver.feed_fetches(fetches[:many])
        for reader in complete:
            reader.go_on()
        return many

    def _fetched_here(self, fetches: Numbers) -> None:
        """Fetches within a node, or of nothing, have ended: each is reported by itself."""
        for number in range(len(fetches)):
            self._fetched(fetches[number : number + 1])
