"""Sending typed messages between processes, over ZeroMQ.

One ``Transport`` a process.  A ``Server`` answers any number of ``Link``s.  Addresses are names
("namenode", "datanode-r0"): Unix-domain sockets in the run folder, or TCP ports (encrypted and
authenticated with CURVE keys from the run folder) that are published there.

    frames:  [header]  or  [header, payload];  a header is ``wire.pack``ed, a payload is bulk bytes

What is malformed is refused and counted and never ends the process; whoever asked is always told,
also by this side if its question is too large to be sent.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
from collections.abc import Callable, Iterable
from typing import Annotated, Any, TypeVar, cast

import msgspec
import zmq

from cluster.addresses import publish_port, tcp_address, unix_address
from cluster.admission import Admission
from cluster.bounded import FEW, Count, Name, Pid
from cluster.config import Daemon
from cluster.doorman import Doorman
from cluster.errors import InvariantError, PeerError, PeerLost
from cluster.fewlines import FewLines
from cluster.frames import FRAMES_MAX, arrived, configure, configure_server, monitored_event
from cluster.reactor import Reactor, Timer, now_s
from cluster.roles import CLIENT, OWN, Sender, process_at, role_of, role_of_process
from cluster.runfolder import RunFolder
from cluster.security import Keys
from cluster.wire import Malformed, Message, Refusal, Unsendable, Vocabulary, pack, unpack

log = logging.getLogger(__name__)

Payload = bytes | memoryview | None
M = TypeVar("M", bound=Message)
E = TypeVar("E", "Server", "Link")

#: A link without a connection for so long counts as one that waits for its server.
_UNREACHABLE_S = 1.0
#: A flood on one socket must not starve timers and the other sockets.
_MESSAGES_A_TURN = 256


class Describe(Message, frozen=True):
    """Who are you?  Every server answers."""


class Description(Message, frozen=True, kw_only=True):
    """A process's name and the counts that every server keeps."""

    name: Name
    pid: Pid
    requests: Count
    refused: Count  #: malformed or refused messages
    #: servers that it waits for, having no connection to them
    unreachable: Annotated[tuple[Name, ...], FEW] = ()


class Request(msgspec.Struct, frozen=True):
    """A message that arrived at a server."""

    peer: bytes  #: who sent it; stays the same for as long as its link lives
    number: int  #: pairs the reply with it; 0 = no reply is expected
    message: Message
    payload: memoryview | None
    header: zmq.Frame | None = None  #: which knows where it came from


class Transport:
    """This process's ZeroMQ context, and how names become addresses.

    Make it after the last fork: a context must not be shared between processes.  Over TCP its links
    have the key of ``role``.  With ``for_tests``, servers let clients say what only daemons may.
    """

    def __init__(
        self,
        folder: RunFolder,
        reactor: Reactor | None = None,
        role: str = CLIENT,
        *,
        for_tests: bool = False,
    ) -> None:
        self.folder = folder
        self.reactor = reactor or Reactor()
        self.context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.for_tests = for_tests
        self._keys = Keys.load(folder.keys, role)
        if self._keys is not None:
            self._keys.admit_only_own_clients(self.context)
        self._open: list[Server | Link] = []

    @classmethod
    def of(cls, daemon: Daemon) -> Transport:
        """That of a daemon's process."""
        role = role_of(daemon.name)
        return cls(daemon.folder, role=role, for_tests=daemon.config.for_tests)

    def server(self, name: str) -> Server:
        """A new server that others reach as ``name``."""
        socket = self.context.socket(zmq.ROUTER)
        configure_server(socket)
        if self._keys is None:
            socket.bind(unix_address(self.folder, name))
        else:
            self._keys.secure_server(socket)
            port = socket.bind_to_random_port("tcp://127.0.0.1")
            publish_port(self.folder, name, port)
        return self._keep(Server(name, socket, self.reactor, self.unreachable, self._sender))

    def link(
        self,
        name: str,
        on_lost: Callable[[], None] | None = None,
        patience_s: float | None = 10.0,
        pause_s: float = 0.0,
    ) -> Link:
        """A new link to the server called ``name``; it is connected after ``pause_s``.

        The link counts as lost when its connection breaks, or when none could be made within
        ``patience_s`` (None: it may take for ever): its pending requests then fail with
        ``PeerLost`` and ``on_lost`` is called.  A lost link stays lost: make a new one, or have a
        ``LastingLink``.
        """
        socket = self.context.socket(zmq.DEALER)
        configure(socket)
        if self._keys is not None:
            self._keys.secure_client(socket)
        address = functools.partial(self._address, name)
        return self._keep(Link(name, socket, self.reactor, address, on_lost, patience_s, pause_s))

    def unreachable(self) -> tuple[str, ...]:
        """The servers that links of this process wait for, by name."""
        links = [end for end in self._open if isinstance(end, Link)]
        return tuple(sorted({link.name for link in links if link.waits_s >= _UNREACHABLE_S}))

    def close(self) -> None:
        """Close everything; messages already sent get a moment to leave."""
        for end in self._open:
            end.close()
        self._open.clear()
        if self._keys is not None:
            self._keys.stop_admitting()
        self.context.term()

    def _keep(self, end: E) -> E:
        """Remember a server or link for ``close``; those that are closed already are forgotten."""
        self._open = [known for known in self._open if not known.closed]
        self._open.append(end)
        return end

    def _sender(self, header: zmq.Frame) -> Sender:
        """Who sent a message with this header."""
        if self._keys is not None:
            key = str(header.get("User-Id"))
            role, pid = self._keys.role(key), None
        else:
            key = str(header.get("Peer-Address"))
            pid = process_at(key)
            role = CLIENT if pid is None else role_of_process(pid)
        return Sender(OWN if self.for_tests and role == CLIENT else role, pid, key)

    def _address(self, name: str) -> str | None:
        """Where to connect to; None while it is not known yet."""
        address = unix_address if self._keys is None else tcp_address
        return address(self.folder, name)


class Server:
    """Answers requests by the handler of their message's class."""

    def __init__(
        self,
        name: str,
        socket: zmq.Socket[bytes],
        reactor: Reactor,
        unreachable: Callable[[], tuple[str, ...]],
        who_sent: Callable[[zmq.Frame], Sender],
    ) -> None:
        self.name = name
        self._unreachable = unreachable
        self._admission = Admission(who_sent)
        self.requests = 0  #: messages handled
        self.refused = 0  #: messages refused, malformed ones included
        self._socket = socket
        self._reactor = reactor
        self._complaints = FewLines(log, reactor)
        self._vocabulary = Vocabulary()
        self._handlers: dict[type[Message], Callable[[Request], Message | None]] = {}
        self._doorman = Doorman(name, socket, reactor, log)
        self.on(Describe, self._describe)
        reactor.add(socket, self._receive_all)

    def on(
        self,
        kind: type[Message],
        handler: Callable[[Request], Message | None],
        only: Iterable[str] = (),
    ) -> None:
        """Handle messages of class ``kind``; with ``only``, of no other roles than these.

        What the handler returns is the reply; None means that there is none, or that it comes
        later through ``reply``.  A ``PeerError`` that it raises becomes a ``Refusal``.
        """
        self._vocabulary.add(kind)
        self._handlers[kind] = handler
        self._admission.restrict(kind, only)

    def sender(self, request: Request) -> Sender:
        """Who sent a request."""
        assert request.header is not None, "it came from a socket"
        return self._admission.sender(request.peer, request.header)

    def reply(self, request: Request, message: Message, payload: Payload = None) -> bool:
        """Answer a request; False if whoever asked is gone.

        An answer that is too large becomes a refusal that says so.
        """
        return self._answer(request.peer, request.number, message, payload)

    def push(self, peer: bytes, message: Message, payload: Payload = None) -> bool:
        """Send a message that is no answer; False if the peer is gone.

        Raises ``Unsendable`` for one that is too large.
        """
        return self._send(peer, pack(message), payload)

    @property
    def closed(self) -> bool:
        return bool(self._socket.closed)

    def close(self) -> None:
        """Stop serving."""
        if not self.closed:
            self._reactor.remove(self._socket)
            self._doorman.close()
            self._socket.close()

    def _send(self, peer: bytes, header: bytes, payload: Payload) -> bool:
        frames = [peer, header] if payload is None else [peer, header, payload]
        try:
            self._socket.send_multipart(frames, flags=zmq.DONTWAIT, copy=payload is None)
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True

    def _answer(self, peer: bytes, number: int, message: Message, payload: Payload) -> bool:
        try:
            header = pack(message, number)
        except Unsendable as error:
            self._complaints.warning(f"{self.name} could not answer: {error}")
            advice = "ask for less at once, such as for a folder further down"
            header, payload = pack(Refusal.because(f"{error}: {advice}"), number), None
        return self._send(peer, header, payload)

    def _receive_all(self) -> None:
        for frames in itertools.islice(arrived(self._socket), _MESSAGES_A_TURN):
            self._handle(frames)

    def _handle(self, frames: list[zmq.Frame]) -> None:
        peer, number = frames[0].bytes, 0
        try:
            if not 2 <= len(frames) <= FRAMES_MAX:
                raise PeerError("too many frames, or none: a message has 1 or 2")
            header = frames[1]
            number, message = unpack(header.buffer, self._vocabulary)
            payload = frames[2].buffer if len(frames) == FRAMES_MAX else None
            self.requests += 1
            kind = type(message)
            self._admission.check(kind, peer, header)
            request = Request(peer, number, message, payload, header)
            answer = self._handlers[kind](request)
        except InvariantError:
            raise
        except PeerError as error:
            if isinstance(error, Malformed):
                number = error.request
            self.refused += 1
            self._complaints.warning(f"{self.name} refused a message: {error}")
            answer = Refusal.because(error)
        except Exception as error:  # a daemon never dies of a message
            self.refused += 1
            self._complaints.warning(f"{self.name} failed on a message", error)
            answer = Refusal.because(f"{self.name} failed on it: {type(error).__name__}: {error}")
        if answer is not None:
            self._answer(peer, number, answer, None)

    def _describe(self, _: Request) -> Message:
        return Description(
            name=self.name,
            pid=os.getpid(),
            requests=self.requests,
            refused=self.refused,
            unreachable=self._unreachable(),
        )


class Link:
    """The client's end of a conversation with one server."""

    def __init__(
        self,
        name: str,
        socket: zmq.Socket[bytes],
        reactor: Reactor,
        address: Callable[[], str | None],
        on_lost: Callable[[], None] | None,
        patience_s: float | None,
        pause_s: float,
    ) -> None:
        self.name = name
        self.lost = False
        self._made_s = now_s()
        self._socket = socket
        self._reactor = reactor
        self._address = address
        self._on_lost = on_lost
        self._complaints = FewLines(log, reactor)
        self._vocabulary = Vocabulary([Refusal])
        self._handlers: dict[type[Message], Callable[[Any, memoryview | None], None]] = {}
        self._replies: dict[int, Callable[[Message | PeerLost, memoryview | None], None]] = {}
        self._numbers = itertools.count(1)
        #: what was sent before there was an address to connect to; None from then on
        self._backlog: list[list[bytes | memoryview]] | None = []
        self._connected = False
        events = zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED
        self._monitor = socket.get_monitor_socket(events)
        reactor.add(self._monitor, self._on_monitor)
        reactor.add(socket, self._receive_all)
        self._patience: Timer | None = None
        if patience_s is not None:
            self._patience = reactor.call_later(patience_s, self._give_up)
        if pause_s:
            reactor.call_later(pause_s, self._connect)
        else:
            self._connect()

    def on(self, kind: type[M], handler: Callable[[M, memoryview | None], None]) -> None:
        """Handle messages of class ``kind`` that the server sends without being asked."""
        self._vocabulary.add(kind)
        self._handlers[kind] = handler

    def send(self, message: Message, payload: Payload = None) -> None:
        """Send a message that wants no answer; raises ``Unsendable`` for one that is too large."""
        self._send(pack(message), payload)

    def request(
        self,
        message: Message,
        answer: type[M],
        on_answer: Callable[[M | Refusal | PeerLost, memoryview | None], None],
        payload: Payload = None,
    ) -> None:
        """Send a request; ``on_answer`` gets its answer, the refusal, or ``PeerLost``."""
        self._vocabulary.add(answer)
        if self.lost:
            self._reactor.call_later(0, lambda: on_answer(self._loss(), None))
            return
        number = next(self._numbers)
        try:
            header = pack(message, number)
        except Unsendable as error:
            refusal = Refusal.because(error)
            self._reactor.call_later(0, lambda: on_answer(refusal, None))
            return
        self._replies[number] = cast("Any", on_answer)
        self._send(header, payload)

    def call(
        self, message: Message, answer: type[M], timeout_s: float = 30.0, payload: Payload = None
    ) -> M:
        """Send a request and wait for its answer; not from within a handler.

        Raises ``Refused`` with the other side's reason, or ``PeerLost``.
        """
        got: list[M | Refusal | PeerLost] = []
        self.request(message, answer, lambda reply, _: got.append(reply), payload)
        if not self._reactor.run_until(lambda: bool(got), timeout_s):
            how = f"within {timeout_s:g} s, or before this process was asked to stop"
            raise PeerLost(f"{self.name} did not answer {message.tag()} {how}")
        if isinstance(got[0], Refusal):
            raise got[0].error()
        if isinstance(got[0], PeerLost):
            raise got[0]
        return got[0]

    @property
    def closed(self) -> bool:
        return bool(self._socket.closed)

    @property
    def waits_s(self) -> float:
        """For how long it has waited for a connection; 0 if it has one, or waits no more."""
        return 0.0 if self._connected or self.lost else now_s() - self._made_s

    def close(self) -> None:
        """Close the link; what was sent gets a moment to leave.  Pending requests are dropped."""
        self.lost = True
        self._replies.clear()
        self._release(linger_ms=None)

    def _release(self, linger_ms: int | None) -> None:
        """Let go of the sockets, if that was not done; ``linger_ms`` None is as configured."""
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

    def _send(self, header: bytes, payload: Payload) -> None:
        if self.lost:
            return
        frames: list[bytes | memoryview] = [header] if payload is None else [header, payload]
        if self._backlog is not None:
            self._backlog.append(frames)
        else:
            self._socket.send_multipart(frames, copy=payload is None)

    def _receive_all(self) -> None:
        for frames in itertools.islice(arrived(self._socket), _MESSAGES_A_TURN):
            self._handle(frames)

    def _handle(self, frames: list[zmq.Frame]) -> None:
        payload = frames[1].buffer if len(frames) == 2 else None
        try:
            number, message = unpack(frames[0].buffer, self._vocabulary)
        except Malformed as error:
            self._complaints.warning(f"{self.name} sent nonsense: {error}")
            if not error.request:
                return
            number = error.request
            message = Refusal.because(f"{self.name} sent an answer that is none: {error}")
        if number:
            reply = self._replies.pop(number, None)
            if reply is not None:
                reply(message, payload)
        elif type(message) in self._handlers:
            self._handlers[type(message)](message, payload)
        elif isinstance(message, Refusal):
            self._complaints.warning(f"{self.name} refused a message: {message.reason}")

    def _on_monitor(self) -> None:
        event, _ = monitored_event(self._monitor)
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self._connected = True
            self._stop_waiting()
        elif event == zmq.EVENT_DISCONNECTED and self._connected:
            for frames in arrived(self._socket):  # what came before the end still counts
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
        # At once: ZeroMQ would connect anew behind our back, and hand to another server of that
        # name what was meant for the one that is gone.
        self._release(linger_ms=0)
        pending, self._replies = list(self._replies.values()), {}
        if self._on_lost is not None:
            self._on_lost()  # first: it may make a new link, for what is asked again
        for reply in pending:
            reply(self._loss(), None)

    def _loss(self) -> PeerLost:
        how = "is gone" if self._connected else "cannot be reached"
        return PeerLost(f"{self.name} {how}")
