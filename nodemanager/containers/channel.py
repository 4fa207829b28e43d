"""Typed messages over a Unix socket pair, for processes that must not hold a ZeroMQ context.

    a message:  length (4 bytes, little endian), then what ``wire.pack`` makes of it

File descriptors can travel with a message.
"""

from __future__ import annotations

import os
import socket
import struct
from collections import deque
from collections.abc import Sequence

from railyard.cluster.errors import PeerError
from railyard.cluster.messaging.wire import LONG_BYTES_MAX, Message, Vocabulary, pack, unpack

_LENGTH = struct.Struct("<I")
_READ_BYTES = 2**18
_FD = struct.Struct("i")
_FDS_ROOM = socket.CMSG_LEN(64 * _FD.size)
_FLAGS = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC


class Channel:
    """One end of a conversation between two related processes.

    Sending blocks while the other side does not read; receiving never blocks.
    """

    def __init__(self, end: socket.socket, vocabulary: Vocabulary) -> None:
        self.at_end = False  #: the other side has closed, or is gone
        self._end = end
        self._vocabulary = vocabulary
        self._received = bytearray()
        self._fds: deque[int] = deque()

    def fileno(self) -> int:
        """The descriptor to wait on."""
        return self._end.fileno()

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send a message; to a side that is gone it is dropped: see ``at_end``."""
        packed = pack(message)
        data = _LENGTH.pack(len(packed)) + packed
        try:
            if fds:
                sent = socket.send_fds(self._end, [data], fds)
                data = data[sent:]
            self._end.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            self.at_end = True

    def receive(self) -> list[Message]:
        """The messages that have arrived; ``PeerError`` if one is malformed."""
        self._read_all()
        messages = []
        while len(self._received) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received)
            if length > LONG_BYTES_MAX:
                raise PeerError(f"a message of {length:,} bytes: the most is {LONG_BYTES_MAX:,}")
            end = _LENGTH.size + length
            if len(self._received) < end:
                break
            _, message = unpack(bytes(self._received[_LENGTH.size : end]), self._vocabulary)
            del self._received[:end]
            messages.append(message)
        return messages

    def take_fd(self) -> int:
        """The oldest descriptor that came with a message and was not taken yet."""
        if not self._fds:
            raise PeerError("a message came without its file descriptor")
        return self._fds.popleft()

    def close(self) -> None:
        """Close this end."""
        self._end.close()
        while self._fds:
            os.close(self._fds.popleft())

    def _read_all(self) -> None:
        while not self.at_end:
            try:
                # Not socket.recv_fds, which takes flags and does not pass them on.
                data, ancillary, _, _ = self._end.recvmsg(_READ_BYTES, _FDS_ROOM, _FLAGS)
            except BlockingIOError:
                return
            except ConnectionResetError:
                data, ancillary = b"", []
            for level, kind, content in ancillary:
                if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                    whole = len(content) - len(content) % _FD.size
                    self._fds.extend(fd for (fd,) in _FD.iter_unpack(content[:whole]))
            self._received += data
            self.at_end = not data
