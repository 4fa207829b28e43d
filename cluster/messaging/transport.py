"""Sends typed messages between processes, over ZeroMQ.

Each process has one ``Transport``.  A ``Server`` answers any number of ``Link``s.  Addresses are
names ("namenode", "datanode-r0"): Unix-domain sockets in the run folder, or TCP ports published
there (encrypted and authenticated with CURVE keys from the run folder).

    frames:  [header]  or  [header, payload];  a header is ``wire.pack``ed, a payload is bulk bytes

A malformed message is refused and counted and never ends the process.  Every request gets an answer
or a refusal, also if the request is too large to be sent.
"""

from __future__ import annotations

import functools
import itertools
import logging
import os
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

import msgspec
import zmq

from railyard.cluster.config import Daemon
from railyard.cluster.errors import InvariantError, PeerError
from railyard.cluster.messaging import access, sockets, wire
from railyard.cluster.messaging.link import UNREACHABLE_S, Link
from railyard.cluster.messaging.reactor import Reactor
from railyard.cluster.messaging.sockets import Payload
from railyard.cluster.runfolder import RunFolder

log = logging.getLogger(__name__)

M = TypeVar("M", bound=wire.Message)
Received = TypeVar("Received", bound=wire.Message, covariant=True)
E = TypeVar("E", "Server", "Link")

#: Links look this often whether their server was replaced while it is silent.
_REPLACED_PERIOD_S = 0.5


class Describe(wire.Message, frozen=True):
    """Get a server's ``Description``.  Answered by every server."""


class Description(wire.Message, frozen=True, kw_only=True):
    """A server's name and its counters."""

    name: wire.Name
    pid: wire.Pid
    requests: wire.Count
    refused: wire.Count  #: number of refused messages, malformed ones included
    unreachable: wire.Few[wire.Name] = ()  #: servers that it waits for a connection to


class Request(msgspec.Struct, Generic[Received], frozen=True):
    """A message received by a server."""

    peer: bytes  #: the sender's link; stays the same for the link's life
    number: int  #: pairs the reply with the request; 0 = no reply is expected
    message: Received
    payload: memoryview | None
    header: zmq.Frame | None = None  #: its frame, which has the sender's address


class Transport:
    """This process's ZeroMQ context; makes servers and links by name.

    Make it after the last fork: a context must not be shared between processes.  Over TCP its links
    use the key of ``role``.  With ``for_tests``, servers accept daemons' messages from clients.
    One of several in a process, each with a thread of its own, may use a ``shared`` context, which
    outlives it; it has links alone.

    With ``daemon``, this process is the latest of that name: see ``messaging.access``.
    """

    def __init__(
        self,
        folder: RunFolder,
        reactor: Reactor | None = None,
        role: str = access.CLIENT,
        *,
        daemon: str | None = None,
        for_tests: bool = False,
        shared: zmq.Context[zmq.Socket[bytes]] | None = None,
    ) -> None:
        self.folder = folder
        self.reactor = reactor or Reactor()
        self._shares = shared is not None
        self.context: zmq.Context[zmq.Socket[bytes]] = shared or zmq.Context()
        self.for_tests = for_tests
        #: None: over Unix-domain sockets
        self._keys = access.Keys(folder.keys, role) if folder.keys.is_dir() else None
        if self._keys is not None and not self._shares:
            self._keys.admit_only_own_clients(self.context)
        self._open: list[Server | Link] = []
        self.epochs = access.Epochs(folder.epochs, daemon)
        if daemon is not None:
            self.reactor.on_woken = self.epochs.check
        if role != access.ATTEMPT:  # those wake only while they work
            self.reactor.call_every(_REPLACED_PERIOD_S, self.leave_replaced)

    @classmethod
    def of(cls, daemon: Daemon, reactor: Reactor | None = None) -> Transport:
        """Make the transport of a daemon's process; no earlier one of its name acts then."""
        role, for_tests = access.role_of(daemon.name), daemon.config.for_tests
        return cls(daemon.folder, reactor, role, daemon=daemon.name, for_tests=for_tests)

    def server(self, name: str) -> Server:
        assert not self._shares, "who may connect is checked for a context of its own"
        socket = self.context.socket(zmq.ROUTER)
        sockets.configure_server(socket)
        self.epochs.identify(socket, is_link=False)
        if self._keys is None:
            socket.bind(f"ipc://{self.folder.sockets / name}")
        else:
            self._keys.secure_server(socket)
            published = self.folder.port(name)
            unfinished = published.with_suffix(".new")
            unfinished.write_text(str(socket.bind_to_random_port("tcp://127.0.0.1")))
            unfinished.replace(published)
        return self._keep(Server(name, socket, self))

    def link(
        self,
        name: str,
        on_lost: Callable[[], None] | None = None,
        patience_s: float | None = 10.0,
        pause_s: float = 0.0,
    ) -> Link:
        """Make a link to the server called ``name``; it connects after ``pause_s``.

        The link is lost when its connection breaks, or when none was made within ``patience_s``
        (None: no limit): its pending requests then fail with ``PeerLost`` and ``on_lost`` is
        called.  A lost link stays lost: make a new one, or use a ``LastingLink``.
        """
        socket = self.context.socket(zmq.DEALER)
        sockets.configure(socket)
        self.epochs.identify(socket, is_link=True)
        if self._keys is not None:
            self._keys.secure_client(socket)
        address = functools.partial(self._address, name)
        how = self.reactor, address, self.epochs, on_lost, patience_s, pause_s
        try:
            return self._keep(Link(name, socket, *how))
        except zmq.ZMQError:  # no descriptor is left for what watches it
            socket.close(linger=0)
            raise

    def unreachable(self) -> tuple[str, ...]:
        """Names of the servers that links of this process wait for, sorted."""
        links = [end for end in self._open if isinstance(end, Link)]
        return tuple(sorted({link.name for link in links if link.waits_s >= UNREACHABLE_S}))

    def leave_replaced(self) -> None:
        """Lose connections to processes that were replaced; attempts do so when they report."""
        for end in list(self._open):
            if isinstance(end, Link):
                end.leave_if_replaced()

    def close(self) -> None:
        """Close all servers and links, after a moment to send queued messages."""
        for end in self._open:
            end.close()
        self._open.clear()
        self.epochs.close()
        if self._keys is not None:
            self._keys.stop_admitting()
        if not self._shares:
            self.context.destroy()  # with what an interrupt left open: it would wait for it

    def _keep(self, end: E) -> E:
        self._open = [known for known in self._open if not known.closed]
        self._open.append(end)
        return end

    def sender(self, header: zmq.Frame) -> access.Sender:
        if self._keys is not None:
            key = str(header.get("User-Id"))
            role, pid = self._keys.role(key), None
        else:
            key = str(header.get("Peer-Address"))
            pid = access.process_at(key)
            role = access.CLIENT if pid is None else access.role_of_process(pid)
        return access.Sender(
            access.OWN if self.for_tests and role == access.CLIENT else role, pid, key
        )

    def _address(self, name: str) -> str | None:
        """The address of a server; None while it is not known yet."""
        if self._keys is None:
            return f"ipc://{self.folder.sockets / name}"
        try:
            return f"tcp://127.0.0.1:{int(self.folder.port(name).read_text())}"
        except FileNotFoundError:
            return None


class Server:
    """Dispatches requests to the handlers of their messages' classes."""

    def __init__(self, name: str, socket: zmq.Socket[bytes], transport: Transport) -> None:
        self.name = name
        self._transport = transport
        self._admission = access.Admission(transport.sender, transport.epochs)
        self.requests = 0  #: number of messages handled
        self.refused = 0  #: number of messages refused, malformed ones included
        self._socket = socket
        self._complaints = sockets.FewLines(log, transport.reactor)
        self._vocabulary = wire.Vocabulary()
        self._handlers: dict[type[wire.Message], Callable[[Request[Any]], wire.Message | None]] = {}
        self._doorman = sockets.Doorman(name, socket, transport.reactor, log)
        self.on(Describe, self._describe)
        transport.reactor.add(socket, self._receive_all)

    def on(
        self,
        kind: type[M],
        handler: Callable[[Request[M]], wire.Message | None],
        only: Iterable[str] = (),
    ) -> None:
        """Set the handler of messages of class ``kind``; with ``only``, from these roles only.

        The handler returns the reply; None means that there is none, or that it follows later
        through ``reply``.  A ``PeerError`` that it raises becomes a ``Refusal``.
        """
        self._vocabulary.add(kind)
        self._handlers[kind] = handler
        self._admission.only[kind] = frozenset(only)

    def again(self, request: Request[wire.Message]) -> None:
        answer: wire.Message | None
        try:
            answer = self._handlers[type(request.message)](request)
        except InvariantError:
            raise
        except Exception as error:  # no message may end a daemon
            answer = self._refusal(error)
        if answer is not None:
            self._answer(request.peer, request.number, answer, None)

    def sender(self, request: Request[wire.Message]) -> access.Sender:
        assert request.header is not None, "it came from a socket"
        return self._admission.sender(request.peer, request.header)

    def reply(
        self, request: Request[wire.Message], message: wire.Message, payload: Payload = None
    ) -> None:
        """Answer a request; an answer that is too large is replaced by a refusal."""
        self._answer(request.peer, request.number, message, payload)

    def push(self, peer: bytes, message: wire.Message, payload: Payload = None) -> bool:
        """Send a message that is not an answer; return False if the peer is gone.

        Raises ``Unsendable`` if it is too large.
        """
        return self._send(peer, wire.pack(message), payload)

    @property
    def closed(self) -> bool:
        return bool(self._socket.closed)

    def close(self) -> None:
        if not self.closed:
            self._transport.reactor.remove(self._socket)
            self._doorman.close()
            self._socket.close()

    def _send(self, peer: bytes, header: bytes, payload: Payload) -> bool:
        frames = [peer, header] if payload is None else [peer, header, payload]
        self._transport.epochs.check()
        try:
            self._socket.send_multipart(frames, flags=zmq.DONTWAIT, copy=payload is None)
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN, zmq.ENOTSOCK):  # closed, the last
                return False
            raise
        return True

    def _answer(self, peer: bytes, number: int, message: wire.Message, payload: Payload) -> None:
        try:
            header = wire.pack(message, number)
        except wire.Unsendable as error:
            self._complaints.warning(f"{self.name} could not answer: {error}")
            advice = "ask for less at once, such as for a folder further down"
            header, payload = wire.pack(wire.Refusal.because(f"{error}: {advice}"), number), None
        self._send(peer, header, payload)

    def _receive_all(self) -> None:
        for frames in itertools.islice(sockets.arrived(self._socket), sockets.MESSAGES_A_TURN):
            self._handle(frames)

    def _handle(self, frames: list[zmq.Frame]) -> None:
        peer, number = frames[0].bytes, 0
        try:
            if not 2 <= len(frames) <= sockets.FRAMES_MAX:
                raise PeerError("too many frames, or none: a message has 1 or 2")
            header = frames[1]
            number, message = wire.unpack(header.buffer, self._vocabulary)
            payload = frames[2].buffer if len(frames) == sockets.FRAMES_MAX else None
            self.requests += 1
            self._admission.check(type(message), peer, header)
        except Exception as error:  # no message may end a daemon
            if isinstance(error, wire.Malformed):
                number = error.request
            self._answer(peer, number, self._refusal(error), None)
        else:
            self.again(Request(peer, number, message, payload, header))

    def _refusal(self, error: Exception) -> wire.Refusal:
        self.refused += 1
        if isinstance(error, PeerError):
            self._complaints.warning(f"{self.name} refused a message: {error}")
            return wire.Refusal.because(error)
        self._complaints.warning(f"{self.name} failed on a message", error)
        return wire.Refusal.because(f"{self.name} failed on it: {type(error).__name__}: {error}")

    def _describe(self, _: object) -> wire.Message:
        return Description(
            name=self.name,
            pid=os.getpid(),
            requests=self.requests,
            refused=self.refused,
            unreachable=self._transport.unreachable(),
        )
