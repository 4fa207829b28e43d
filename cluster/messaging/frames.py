"""The frames of messages on ZeroMQ's sockets, and how much of them a socket takes.

Never here: what is in a frame.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import zmq

Payload = bytes | memoryview | None

#: No frame may be larger; bulk bytes travel in chunks far below it.
FRAME_BYTES_MAX = 64 * 2**20
#: Who sent it (from the socket), header, payload.
FRAMES_MAX = 3
#: A flood on one socket must not starve timers and the other sockets.
MESSAGES_A_TURN = 256
#: So many messages of one peer wait in a server, then the peer does.
_WAITING_MAX = 1000
#: Whoever has not read so many messages of a server counts as gone.
_UNREAD_MAX = 100_000


def arrived(socket: zmq.Socket[bytes]) -> Iterator[list[zmq.Frame]]:
    """The frames of each message that is there, until the socket is closed.

    Of one that has too many only the first are kept: one more than any message has.
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
    """The event that a monitor socket tells of, and its value; ``zmq.Again`` if there is none.

    ``zmq.utils.monitor`` reads it too, but imports asyncio, a tenth of a daemon's start.
    """
    number, value = struct.unpack("=hi", monitor.recv_multipart(zmq.DONTWAIT)[0])
    return int(number), int(value)


def configure(socket: zmq.Socket[bytes]) -> None:
    """Prepare a link's socket."""
    # No high-water mark: senders are bound by grants and by their windows, and nothing is dropped.
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.RCVHWM, 0)
    socket.setsockopt(zmq.MAXMSGSIZE, FRAME_BYTES_MAX)
    socket.setsockopt(zmq.LINGER, 1000)


def configure_server(socket: zmq.Socket[bytes]) -> None:
    """Prepare a server's socket: no peer can fill this process's memory with messages."""
    configure(socket)
    socket.setsockopt(zmq.ROUTER_MANDATORY, 1)
    socket.setsockopt(zmq.RCVHWM, _WAITING_MAX)
    socket.setsockopt(zmq.SNDHWM, _UNREAD_MAX)
