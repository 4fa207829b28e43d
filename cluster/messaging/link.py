"""The client's end of a connection to one server: requests, answers, and loss of the connection.

Not here: the lookup of addresses and the making of links (``cluster.messaging.transport``).
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import InitVar, dataclass
from typing import Any, TypeVar, cast

import zmq

from railyard.cluster.errors import PeerLost
from railyard.cluster.messaging import sockets, wire
from railyard.cluster.messaging.access import Epochs, daemon_of
from railyard.cluster.messaging.reactor import Reactor, Timer, now_s

log = logging.getLogger(__name__)

M = TypeVar("M", bound=wire.Message)

#: A link without a connection for longer is listed as waiting for its server.
UNREACHABLE_S = 1.0


@dataclass(eq=False)
class Link:
    """The client's end of a connection to one server."""

    name: str
    _socket: zmq.Socket[bytes]
    _reactor: Reactor
    _address: Callable[[], str | None]
    _epochs: Epochs
    _on_lost: Callable[[], None] | None
    patience_s: InitVar[float | None]
    pause_s: InitVar[float]

    def __post_init__(self, patience_s: float | None, pause_s: float) -> None:
        self.lost = False
        self._made_s = now_s()
        #: name and epoch of the server's process: the latest when the connection was made, until a
        #: message says which it is; None: not known, or it has no epochs
        self._server: tuple[str, int] | None = None
        self._is_server_known = False
        self._complaints = sockets.FewLines(log, self._reactor)
        self._vocabulary = wire.Vocabulary([wire.Refusal])
        self._handlers: dict[type[wire.Message], Callable[[Any, memoryview | None], None]] = {}
        self._replies: dict[int, Callable[[wire.Message | PeerLost, memoryview | None], None]] = {}
        self._numbers = itertools.count(1)
        #: messages sent before the address was known; None from then on
        self._backlog: list[list[bytes | memoryview]] | None = []
        self._connected = False
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        self._monitor = self._socket.get_monitor_socket(events)
        self._reactor.add(self._monitor, self._on_monitor)
        self._reactor.add(self._socket, self._receive_all)
        self._patience: Timer | None = None
        if patience_s is not None:
            self._patience = self._reactor.call_later(patience_s, self._give_up)
        if pause_s:
            self._reactor.call_later(pause_s, self._connect)
        else:
            self._connect()

    def on(self, kind: type[M], handler: Callable[[M, memoryview | None], None]) -> None:
        self._vocabulary.add(kind)
        self._handlers[kind] = handler

    def send(self, message: wire.Message, payload: sockets.Payload = None) -> None:
        """Send a message without an answer; raises ``Unsendable`` if it is too large."""
        self._send(wire.pack(message), payload)

    def request(
        self,
        message: wire.Message,
        answer: type[M],
        on_answer: Callable[[M | wire.Refusal | PeerLost, memoryview | None], None],
        payload: sockets.Payload = None,
    ) -> None:
        """Send a request; ``on_answer`` is called with its answer, a refusal, or ``PeerLost``."""
        self._vocabulary.add(answer)
        if self.lost:
            self._reactor.call_later(0, lambda: on_answer(self._loss(), None))
            return
        number = next(self._numbers)
        try:
            header = wire.pack(message, number)
        except wire.Unsendable as error:
            refusal = wire.Refusal.because(error)
            self._reactor.call_later(0, lambda: on_answer(refusal, None))
            return
        self._replies[number] = cast("Any", on_answer)
        self._send(header, payload)

    def call(
        self,
        message: wire.Message,
        answer: type[M],
        timeout_s: float = 30.0,
        payload: sockets.Payload = None,
    ) -> M:
        """Send a request and wait for its answer; not from within a handler.

        Raises ``Refused`` with the other side's reason, or ``PeerLost``.
        """
        got: list[M | wire.Refusal | PeerLost] = []
        self.request(message, answer, lambda reply, _: got.append(reply), payload)
        failure = f"{self.name} did not answer {message.tag()}"
        return await_answer(self._reactor, got, failure, timeout_s)

    def leave_if_replaced(self) -> None:
        """Lose the connection if it is to a process that was replaced by another."""
        if self._server is not None and self._epochs.is_over(self._server):
            self._lose()

    @property
    def closed(self) -> bool:
        return bool(self._socket.closed)

    @property
    def waits_s(self) -> float:
        """Seconds that it has waited for a connection; 0 if connected or lost."""
        return 0.0 if self._connected or self.lost else now_s() - self._made_s

    def close(self) -> None:
        """Close the link after a moment to send queued messages; drop pending requests."""
        self.lost = True
        self._replies.clear()
        self._release(linger_ms=None)

    def _release(self, linger_ms: int | None) -> None:
        """Close the sockets unless closed; ``linger_ms`` None keeps the configured linger."""
        if self.closed:
            return
        self._stop_waiting()
        self._reactor.remove(self._socket)
        self._reactor.remove(self._monitor)
        self._socket.disable_monitor()
        self._monitor.close(linger=0)
        self._socket.close(linger=linger_ms)

    def _connect(self) -> None:
        if self.lost:
            return
        address = self._address()
        if address is None:
            self._reactor.call_later(0.02, self._connect)
        else:
            self._socket.connect(address)
            backlog, self._backlog = self._backlog or [], None
            for frames in backlog:
                self._socket.send_multipart(frames)

    def _send(self, header: bytes, payload: sockets.Payload) -> None:
        if self.lost:
            return
        self._epochs.check()
        frames: list[bytes | memoryview] = [header] if payload is None else [header, payload]
        if self._backlog is not None:
            self._backlog.append(frames)
        else:
            self._socket.send_multipart(frames, copy=payload is None)

    def _receive_all(self) -> None:
        for frames in itertools.islice(sockets.arrived(self._socket), sockets.MESSAGES_A_TURN):
            self._handle(frames)

    def _handle(self, frames: list[zmq.Frame]) -> None:
        if not self._is_server_known:
            self._is_server_known = True
            self._server = daemon_of(str(frames[0].get("Identity")).encode())
        self.leave_if_replaced()
        if self.lost:
            return
        payload = frames[1].buffer if len(frames) == 2 else None
        try:
            number, message = wire.unpack(frames[0].buffer, self._vocabulary)
        except wire.Malformed as error:
            self._complaints.warning(f"{self.name} sent nonsense: {error}")
            if not error.request:
                return
            number = error.request
            message = wire.Refusal.because(f"{self.name} sent an answer that is none: {error}")
        if number:
            reply = self._replies.pop(number, None)
            if reply is not None:
                reply(message, payload)
        elif type(message) in self._handlers:
            self._handlers[type(message)](message, payload)
        elif isinstance(message, wire.Refusal):
            self._complaints.warning(f"{self.name} refused a message: {message.reason}")

    def _on_monitor(self) -> None:
        event, _ = sockets.monitored_event(self._monitor)
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._connected = True
            self._stop_waiting()
            if not self._is_server_known and (latest := self._epochs.latest(self.name)):
                self._server = (self.name, latest)
        elif event == zmq.EVENT_DISCONNECTED and self._connected:
            for frames in sockets.arrived(self._socket):  # they came before the loss
                self._handle(frames)
            self._lose()

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()

    def _give_up(self) -> None:
        if not self._connected:
            self._lose()

    def _lose(self) -> None:
        if self.lost:
            return
        self.lost = True
        # At once: ZeroMQ would reconnect by itself, and deliver messages for the lost server to
        # its successor of the same name.
        self._release(linger_ms=0)
        pending, self._replies = list(self._replies.values()), {}
        if self._on_lost is not None:
            self._on_lost()  # first: it may make a new link, for requests that are repeated
        for reply in pending:
            reply(self._loss(), None)

    def _loss(self) -> PeerLost:
        return PeerLost(f"{self.name} {'is gone' if self._connected else 'cannot be reached'}")


def await_answer(
    reactor: Reactor, got: list[M | wire.Refusal | PeerLost], failure: str, timeout_s: float
) -> M:
    """Run the loop until a request has ``got`` an answer; raises as ``Link.call``."""
    if not reactor.run_until(lambda: bool(got), timeout_s):
        how = f"within {timeout_s:g} s, or before this process was asked to stop"
        raise PeerLost(f"{failure} {how}")
    if isinstance(got[0], wire.Refusal):
        raise got[0].error()
    if isinstance(got[0], PeerLost):
        raise got[0]
    return got[0]
