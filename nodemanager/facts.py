"""What a NodeManager tells the ResourceManager, kept until that has journaled it.

So nothing is lost with a ResourceManager that dies: its successor is told again what may not be in
the journal.  A fact that comes twice changes nothing, since attempts and flows end once.

Not here: what the facts say.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from railyard.cluster.messaging.wire import Message


class Facts:
    """Facts in the order in which they happened."""

    def __init__(self, send: Callable[[Message], None]) -> None:
        self._send = send
        self._kept: deque[Message] = deque()  #: those that may not be journaled
        self.is_heard = False  #: whether this process is registered, over this connection

    def __len__(self) -> int:
        return len(self._kept)

    def tell(self, fact: Message) -> None:
        """Tell a fact, now or once somebody hears it."""
        self._kept.append(fact)
        if self.is_heard:
            self._send(fact)

    def tell_again(self) -> None:
        """The ResourceManager hears this process: tell it all that it may not know."""
        self.is_heard = True
        for fact in self._kept:
            self._send(fact)

    def wait(self) -> None:
        """The connection broke: keep what happens from now on."""
        self.is_heard = False

    def journaled(self, count: int) -> None:
        """Forget the oldest, which are journaled."""
        for _ in range(min(count, len(self._kept))):
            self._kept.popleft()
