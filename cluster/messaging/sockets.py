"""ZeroMQ's sockets: frames of messages, limits, and few words about those who break them.

Never here: the content of frames.
"""

from __future__ import annotations

import logging
import resource
import socket
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import zmq

from railyard.cluster.errors import printable
from railyard.cluster.messaging.reactor import Reactor

Payload = bytes | memoryview | None

#: Maximum size of a frame; bulk bytes travel in chunks far below it.
FRAME_BYTES_MAX = 64 * 2**20
#: Frames of a message as received: sender (added by the socket), header, payload.
FRAMES_MAX = 3
#: Messages read from one socket before timers and the other sockets get their turn.
MESSAGES_A_TURN = 256
#: Messages of one peer that a server queues; then the peer's sends block.
_WAITING_MAX = 1000
#: Messages that a server queues for one peer; beyond that the peer counts as gone.
_UNREAD_MAX = 100_000
_LINE_LETTERS_MAX = 1000
#: Maximum number of connections of one process; it needs one, or one per concurrent activity.
OF_A_PROCESS_MAX = 256
#: Maximum share of this process's descriptors for one server's connections.
_SHARE_MAX = 0.6
_CREDENTIALS = struct.Struct("3i")  #: process, user, group: ``struct ucred``


def arrived(socket: zmq.Socket[bytes]) -> Iterator[list[zmq.Frame]]:
    """Yield the frames of each message that is queued, unless the socket is closed meanwhile.

    A message with too many frames is cut to one frame more than allowed, so that it is refused.
    """
    while not socket.closed:
        try:
            frames = [socket.recv(flags=zmq.DONTWAIT, copy=False)]
        except zmq.Again:
            return
        while frames[-1].more and len(frames) <= FRAMES_MAX:
            frames.append(socket.recv(copy=False))
        while frames[-1].more:
            frames[-1] = socket.recv(copy=False)
        yield frames


def monitored_event(monitor: zmq.Socket[bytes]) -> tuple[int, int]:
    """Read an event and its value from a monitor socket; raises ``zmq.Again`` if there is none.

    ``zmq.utils.monitor`` can do this too, but imports asyncio, a tenth of a daemon's start time.
    """
    number, value = struct.unpack("=hi", monitor.recv_multipart(zmq.DONTWAIT)[0])
    return int(number), int(value)


def configure(socket: zmq.Socket[bytes]) -> None:
    """Set the options of a link's socket."""
    # No high-water mark: grants and windows limit what is sent, and nothing may be dropped.
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES_MAX)
    socket.setsockopt(zmq.LINGER, 1000)


def configure_server(socket: zmq.Socket[bytes]) -> None:
    """Set the options of a server's socket, so that no peer can fill this process's memory."""
    configure(socket)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    socket.setsockopt(zmq.RCVHWM, _WAITING_MAX)
    socket.setsockopt(zmq.SNDHWM, _UNREAD_MAX)


class FewLines:
    """Logs at most ``LINES_MAX`` lines per ``PERIOD_S``, then the number of those left out."""

    LINES_MAX = 10
    PERIOD_S = 1.0

    def __init__(self, log: logging.Logger, reactor: Reactor) -> None:
        self._log = log
        self._reactor = reactor
        self._lines = 0  #: lines since the period began; 0 = no period is running
        self._last = ""  #: the last line that was left out

    def warning(self, line: str, error: Exception | None = None) -> None:
        """Log a line unless over the limit; with the traceback of ``error`` if given."""
        if not self._lines:
            self._reactor.call_later(self.PERIOD_S, self._period_over)
        self._lines += 1
        if self._lines <= self.LINES_MAX:
            self._log.warning("%s", printable(line, _LINE_LETTERS_MAX), exc_info=error)
        else:
            self._last = line

    def _period_over(self) -> None:
        more, self._lines = self._lines - self.LINES_MAX, 0
        if more > 0:
            last = printable(self._last, _LINE_LETTERS_MAX)
            self._log.warning(
                "... and %s more lines within %g s, the last: %s", f"{more:,}", self.PERIOD_S, last
            )


class Doorman:
    """Closes those connections of one server's socket that are above the limits.

    ZeroMQ aborts a process that runs out of descriptors while a connection is accepted.  So each
    peer process is limited to a few hundred connections, and all together to a share of the
    descriptors.
    """

    def __init__(
        self, name: str, served: zmq.Socket[bytes], reactor: Reactor, log: logging.Logger
    ) -> None:
        self.name = name
        self.cut = 0  #: number of connections closed
        self._served = served
        self._reactor = reactor
        self._complaints = FewLines(log, reactor)
        self._all_max = int(resource.getrlimit(resource.RLIMIT_NOFILE)[0] * _SHARE_MAX)
        self._owners: dict[int, int] = {}  #: {descriptor: process id of the other end}
        self._by_process: Counter[int] = Counter()
        self._monitor = served.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED)
        reactor.add(self._monitor, self._on_events)

    def close(self) -> None:
        self._reactor.remove(self._monitor)
        self._served.disable_monitor()
        self._monitor.close(linger=0)

    def _on_events(self) -> None:
        with suppress(zmq.Again):
            while True:
                event, descriptor = monitored_event(self._monitor)
                if event == zmq.EVENT_ACCEPTED:
                    self._opened(descriptor)
                else:
                    self._closed(descriptor)

    def _opened(self, descriptor: int) -> None:
        self._closed(descriptor)  # its end was not reported
        with suppress(OSError):  # it is closed already, or has just been
            connection = socket.socket(fileno=descriptor)
            try:
                owner = _process_of(connection)
                self._owners[descriptor] = owner
                self._by_process[owner] += 1
                too_many = bool(owner) and self._by_process[owner] > OF_A_PROCESS_MAX
                if too_many or len(self._owners) > self._all_max:
                    self.cut += 1
                    connection.shutdown(socket.SHUT_RDWR)  # ZeroMQ then closes it
                    who = f"of process {owner}" if owner else "in all"
                    self._complaints.warning(f"{self.name} cuts a connection: too many {who}")
            finally:
                connection.detach()

    def _closed(self, descriptor: int) -> None:
        owner = self._owners.pop(descriptor, None)
        if owner is not None:
            self._by_process[owner] -= 1
            if not self._by_process[owner]:
                del self._by_process[owner]


def _process_of(connection: socket.socket) -> int:
    """Process id of the other end; 0 over TCP, where it is not known."""
    if connection.family != socket.AF_UNIX or not hasattr(socket, "SO_PEERCRED"):
        return 0
    packed = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(packed)[0])
