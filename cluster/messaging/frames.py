"""The frames of messages on ZeroMQ's sockets, and the limits on sockets.

Never here: the content of frames.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

import zmq

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
