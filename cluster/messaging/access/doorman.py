"""Limits a server's connections: closes those above the limits.

ZeroMQ aborts a process that runs out of descriptors while a connection is accepted.  So each peer
process is limited to a few hundred connections, and all together to a share of the descriptors; the
rest is left for the files that this process needs.
"""

from __future__ import annotations

import logging
import resource
import socket
import struct
from collections import Counter

import zmq

from railyard.cluster.messaging.fewlines import FewLines
from railyard.cluster.messaging.frames import monitored_event
from railyard.cluster.messaging.reactor import Reactor

#: Maximum number of connections of one process; it needs one, or one per concurrent activity.
OF_A_PROCESS_MAX = 256
#: Maximum share of this process's descriptors for one server's connections.
_SHARE_MAX = 0.6
_CREDENTIALS = struct.Struct("3i")  #: process, user, group: ``struct ucred``


class Doorman:
    """Watches the connections of one server's socket."""

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
        reactor.add(self._monitor, self._look)

    def close(self) -> None:
        """Stop watching."""
        self._reactor.remove(self._monitor)
        self._served.disable_monitor()
        self._monitor.close(linger=0)

    def _look(self) -> None:
        try:
            while True:
                event, descriptor = monitored_event(self._monitor)
                if event == zmq.EVENT_ACCEPTED:
                    self._come(descriptor)
                else:
                    self._gone(descriptor)
        except zmq.Again:
            return

    def _come(self, descriptor: int) -> None:
        self._gone(descriptor)  # its end was not reported
        try:
            connection = socket.socket(fileno=descriptor)
        except OSError:
            return  # it is closed already
        try:
            owner = _process_of(connection)
            self._owners[descriptor] = owner
            self._by_process[owner] += 1
            if self._is_too_many(owner):
                self.cut += 1
                connection.shutdown(socket.SHUT_RDWR)  # ZeroMQ then closes it
                who = f"of process {owner}" if owner else "in all"
                self._complaints.warning(f"{self.name} cuts a connection: too many {who}")
        except OSError:
            return  # it has just been closed
        finally:
            connection.detach()

    def _is_too_many(self, owner: int) -> bool:
        if len(self._owners) > self._all_max:
            return True
        return bool(owner) and self._by_process[owner] > OF_A_PROCESS_MAX

    def _gone(self, descriptor: int) -> None:
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
