"""What was said to a daemon while it is stopped: it hears it, in order, when it goes on."""

from __future__ import annotations

import math
from collections.abc import Callable


class Mailbox:
    """Of one daemon, from when it is stopped until it goes on, or dies instead."""

    def __init__(self) -> None:
        #: calls that carry out what it was told, and when they were, in seconds, if that matters
        self.orders: list[tuple[Callable[[], object], float]] = []
        self._waiting: list[Callable[[], object]] = []

    def tell(self, order: Callable[[], object], given_s: float = math.inf) -> None:
        """Have it hear this when it goes on; never, if it dies."""
        self.orders.append((order, given_s))

    def when_over(self, call: Callable[[], object]) -> None:
        """Have this called once it has heard all its orders, or has died."""
        self._waiting.append(call)

    def go_on(self) -> None:
        """It goes on."""
        for order, _ in self.orders:
            order()
        self.die()

    def die(self) -> None:
        """It dies: what it was told is lost, and who waits for it knows."""
        for call in self._waiting:
            call()
