"""Which messages a server accepts from whom, by the role and the epoch of the sender."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import zmq

from railyard.cluster.errors import PeerError
from railyard.cluster.messaging.access.epochs import Epochs, daemon_of
from railyard.cluster.messaging.access.roles import Sender
from railyard.cluster.messaging.wire import Message

#: Of so many peers the role is cached.  Most are attempts, which come and go: one costs 0.5 KB.
_PEERS_MAX = 512
_Known = TypeVar("_Known")


class Admission:
    """The rules of one server; a class of messages without a rule is accepted from everybody."""

    def __init__(self, who_sent: Callable[[zmq.Frame], Sender], epochs: Epochs) -> None:
        self._who_sent = who_sent
        self._epochs = epochs
        self._senders: dict[bytes, Sender] = {}  #: {peer: its cached sender}
        #: {peer: name and epoch of the daemon that it is, None if it is none}
        self._daemons: dict[bytes, tuple[str, int] | None] = {}
        self._only: dict[type[Message], frozenset[str]] = {}

    def restrict(self, kind: type[Message], only: Iterable[str]) -> None:
        """Accept messages of a class from these roles only; from everybody if there are none."""
        roles = frozenset(only)
        if roles:
            self._only[kind] = roles
        else:
            self._only.pop(kind, None)

    def sender(self, peer: bytes, frame: zmq.Frame) -> Sender:
        """The sender of a frame that came from ``peer``."""
        known = self._senders.get(peer)
        if known is None:
            known = _kept(self._senders, peer, self._who_sent(frame))
        return known

    def check(self, kind: type[Message], peer: bytes, frame: zmq.Frame) -> None:
        """Raise ``PeerError`` unless the sender of a frame may send messages of that class."""
        self._check_epoch(kind, peer)
        only = self._only.get(kind)
        if only is None:
            return
        sender = self.sender(peer, frame)
        if not sender.may(only):
            who = f"{sender.role} (process {sender.pid})" if sender.pid else sender.role
            raise PeerError(f"{kind.tag()} from {who}: only for {' and '.join(sorted(only))}")

    def _check_epoch(self, kind: type[Message], peer: bytes) -> None:
        try:
            daemon = self._daemons[peer]
        except KeyError:
            daemon = _kept(self._daemons, peer, daemon_of(peer))
        if daemon is not None and self._epochs.is_over(daemon):
            name, epoch = daemon
            raise PeerError(f"{kind.tag()} from {name} of epoch {epoch}: it was replaced")


def _kept(cache: dict[bytes, _Known], peer: bytes, known: _Known) -> _Known:
    """Cache what is known of a peer, in place of the one that has been cached for longest."""
    if len(cache) >= _PEERS_MAX:
        del cache[next(iter(cache))]
    cache[peer] = known
    return known
