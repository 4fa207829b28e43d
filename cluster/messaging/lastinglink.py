"""A link that reconnects whenever it is lost, to a critical daemon.

Such a daemon lives as long as the cluster: if it can't be reached it is slow, was stopped for a
while or is being restarted, so the link waits, at most until the cluster ends.  A broken connection
is remade after a pause, which grows if connections break soon each time.

A message in flight when the connection broke may have arrived or not.  A ``request`` is then
answered with ``PeerLost``, which ``call`` raises; ``insist`` and ``ask`` send it again, so it must
be idempotent.

Where this process has no descriptor left for a new connection, it tries again, and requests wait.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import zmq

from railyard.cluster.errors import PeerLost
from railyard.cluster.machine import exhausted
from railyard.cluster.messaging.link import Link, await_answer
from railyard.cluster.messaging.reactor import now_s
from railyard.cluster.messaging.sockets import Payload
from railyard.cluster.messaging.transport import Transport
from railyard.cluster.messaging.wire import Message, Refusal

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

#: Time limit for connecting to a critical daemon.  Had it died, its cluster would have ended, so it
#: is only slow, or stopped for a while.
CENTRAL_PATIENCE_S = 30.0
#: Pause before a broken connection is remade; doubled if the last one broke within ``_SOON_S`` of
#: its making.
_PAUSE_S = 0.05
_PAUSE_S_MAX = 2.0
_SOON_S = 5.0
#: Pause before the next try where a descriptor was lacking.
_NO_DESCRIPTOR_PAUSE_S = 0.5

_Request = tuple[Message, type[Any], Callable[[Any, memoryview | None], None]]


class LastingLink:
    """A ``Link`` that is never lost.  ``on_renewed`` is called for each new connection."""

    def __init__(
        self, transport: Transport, name: str, on_renewed: Callable[[], None] = lambda: None
    ) -> None:
        self.name = name
        self._transport = transport
        self._on_renewed = on_renewed
        self._handlers: dict[type[Message], Callable[[Any, memoryview | None], None]] = {}
        self.pause_s = _PAUSE_S  #: pause before the current connection was made
        #: requests that wait for a link, which could not be made; None: there is one
        self._held: list[_Request] | None = None
        self._is_closed = False
        self._link = self._make(pause_s=0.0)

    def on(self, kind: type[M], handler: Callable[[M, memoryview | None], None]) -> None:
        self._handlers[kind] = handler
        self._link.on(kind, handler)

    def send(self, message: Message, payload: Payload = None) -> None:
        """Send a message without an answer; it may be lost with the connection."""
        self._link.send(message, payload)

    def request(
        self,
        message: Message,
        answer: type[M],
        on_answer: Callable[[M | Refusal | PeerLost, memoryview | None], None],
    ) -> None:
        """Send a request; answered with ``PeerLost`` if the connection breaks before its answer."""
        if self._held is not None:
            self._held.append((message, answer, on_answer))
        else:
            self._link.request(message, answer, on_answer)

    def insist(
        self,
        message: Message,
        answer: type[M],
        on_answer: Callable[[M | Refusal, memoryview | None], None],
        again: Message | None = None,
    ) -> None:
        """Send a request, and again over each new connection until it is answered.

        ``again``, if given, is the message to send from the second time on.
        """

        def answered(got: M | Refusal | PeerLost, payload: memoryview | None) -> None:
            if isinstance(got, PeerLost):
                self.insist(again or message, answer, on_answer, again)
            else:
                on_answer(got, payload)

        self.request(message, answer, answered)

    def call(self, message: Message, answer: type[M], timeout_s: float = 30.0) -> M:
        """As ``Link.call``: not from within a handler; raises ``Refused`` or ``PeerLost``."""
        return self._link.call(message, answer, timeout_s)

    def ask(self, message: Message, answer: type[M], timeout_s: float = 30.0) -> M:
        """As ``call``, but sent again over each new connection: it must be idempotent.

        ``PeerLost`` says that there was no answer in time; it is not sent again then.
        """
        got: list[M | Refusal | PeerLost] = []
        over = False

        def answered(reply: M | Refusal | PeerLost, _: object) -> None:
            if not isinstance(reply, PeerLost):
                got.append(reply)
            elif not over:
                self.request(message, answer, answered)

        self.request(message, answer, answered)
        try:
            failure = f"{self.name} did not answer {message.tag()}"
            return await_answer(self._transport.reactor, got, failure, timeout_s)
        finally:
            over = True

    def close(self) -> None:
        self._is_closed, self._held = True, None
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
        log.info("the connection to %s broke: connecting again", self.name)
        self._connect_again()

    def _connect_again(self) -> None:
        if self._is_closed:
            return
        try:
            self._link = self._make(self.pause_s)
        except (OSError, zmq.ZMQError) as error:
            cause = exhausted(error)
            if cause is None:
                raise
            if self._held is None:
                self._held = []
                log.warning("%s cannot be connected to for now: %s", self.name, cause)
            self._transport.reactor.call_later(_NO_DESCRIPTOR_PAUSE_S, self._connect_again)
            return
        held, self._held = self._held or [], None
        self._on_renewed()
        for request in held:
            self.request(*request)
