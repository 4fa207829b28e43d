"""A link that is made anew whenever it is lost, to a daemon without which the cluster can't go on.

Such a daemon is there for as long as the cluster is: if it can't be reached, it was stopped or is
late, and is waited for; who waits in vain ends with the cluster.  A connection that breaks is made
again, after pauses that grow if it breaks soon each time.

What was under way when a connection broke may have arrived or not.  A ``request`` is then answered
with ``PeerLost``; an ``insist`` is sent again, so it is for what may be carried out twice.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from railyard.cluster.errors import PeerLost
from railyard.cluster.messaging.frames import Payload
from railyard.cluster.messaging.link import Link
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Message, Refusal

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

#: A central daemon may take this long to take a connection: had it died, its cluster would have
#: ended, so it is only slow, or stopped for a while.
CENTRAL_PATIENCE_S = 30.0
#: The pause before a connection that has broken is made anew; doubled if the last one broke within
#: ``_SOON_S`` of being asked for.
_PAUSE_S = 0.05
_PAUSE_S_MAX = 2.0
_SOON_S = 5.0


class LastingLink:
    """As a ``Link``, but it is never lost.  ``on_renewed`` is called for each new connection."""

    def __init__(
        self, transport: Transport, name: str, on_renewed: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self._transport = transport
        self._on_renewed = on_renewed
        self._handlers: dict[type[Message], Callable[[Any, memoryview | None], None]] = {}
        self.pause_s = _PAUSE_S  #: before the last connection was made
        self._link = self._make(pause_s=0.0)

    def on(self, kind: type[M], handler: Callable[[M, memoryview | None], None]) -> None:
        """Handle messages of class ``kind`` that the server sends without being asked."""
        self._handlers[kind] = handler
        self._link.on(kind, handler)

    def send(self, message: Message, payload: Payload = None) -> None:
        """Send a message that wants no answer; it may be lost with the connection."""
        self._link.send(message, payload)

    def request(
        self,
        message: Message,
        answer: type[M],
        on_answer: Callable[[M | Refusal | PeerLost, memoryview | None], None],
    ) -> None:
        """Send a request; ``PeerLost`` says that its connection broke before the answer came."""
        self._link.request(message, answer, on_answer)

    def insist(
        self,
        message: Message,
        answer: type[M],
        on_answer: Callable[[M | Refusal, memoryview | None], None],
        again: Message | None = None,
    ) -> None:
        """Send a request, over each new connection too until it is answered.

        ``again`` is what to send from the second time on, if that is to be something else.
        """

        def answered(got: M | Refusal | PeerLost, payload: memoryview | None) -> None:
            if isinstance(got, PeerLost):
                self.insist(again or message, answer, on_answer, again)
            else:
                on_answer(got, payload)

        self.request(message, answer, answered)

    def call(self, message: Message, answer: type[M], timeout_s: float = 30.0) -> M:
        """Send a request and wait for its answer; not from within a handler.

        Raises ``Refused`` with the other side's reason, or ``PeerLost``.
        """
        return self._link.call(message, answer, timeout_s)

    @property
    def waits_s(self) -> float:
        """For how long it has waited for a connection; 0 if it has one."""
        return self._link.waits_s

    def close(self) -> None:
        """Close it for good, as a ``Link``."""
        self._link.close()

    def _make(self, pause_s: float) -> Link:
        self._made_s = now_s() + pause_s
        link = self._transport.link(self.name, self._renew, patience_s=None, pause_s=pause_s)
        for kind, handler in self._handlers.items():
            link.on(kind, handler)
        return link

    def _renew(self) -> None:
        broke_soon = now_s() < self._made_s + _SOON_S
        self.pause_s = min(2 * self.pause_s, _PAUSE_S_MAX) if broke_soon else _PAUSE_S
        log.warning("the connection to %s broke: connecting again", self.name)
        self._link = self._make(self.pause_s)
        self._on_renewed()
