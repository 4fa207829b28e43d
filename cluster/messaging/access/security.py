"""CURVE keys for clusters that talk over TCP: only holders of the run folder's keys get in.

Each role has a key of its own, by which servers know it; servers prove themselves with another.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import zmq
import zmq.auth

from railyard.cluster.messaging.access.roles import ROLES

if TYPE_CHECKING:
    from zmq.auth.thread import ThreadAuthenticator

_SERVER = "server"
_ADMITTED = "admitted"


class Keys:
    """The key pair that servers prove themselves with, and that of one role."""

    def __init__(self, folder: Path, role: str) -> None:
        self._folder = folder
        self._server = zmq.auth.load_certificate(folder / f"{_SERVER}.key_secret")
        self._client = zmq.auth.load_certificate(folder / f"{role}.key_secret")
        self._roles = {_public(folder / _ADMITTED / f"{each}.key"): each for each in ROLES}
        self._gate: ThreadAuthenticator | None = None

    @classmethod
    def create(cls, folder: Path) -> None:
        """Make all key pairs in a new folder that only this user can read."""
        folder.mkdir(mode=0o700)
        (folder / _ADMITTED).mkdir(mode=0o700)
        zmq.auth.create_certificates(folder, _SERVER)
        for role in ROLES:
            zmq.auth.create_certificates(folder, role)
            (folder / f"{role}.key").rename(folder / _ADMITTED / f"{role}.key")

    @classmethod
    def load(cls, folder: Path, role: str) -> Keys | None:
        """A role's keys in ``folder``; None if the cluster has none: it uses Unix sockets."""
        return cls(folder, role) if folder.is_dir() else None

    def role(self, public_key: str) -> str:
        """Whose key that is; nobody else gets in."""
        return self._roles[public_key]

    def admit_only_own_clients(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        """Refuse connections from whoever has no role's key."""
        from zmq.auth.thread import ThreadAuthenticator  # imports asyncio: only where TCP is used

        self._gate = ThreadAuthenticator(context)
        self._gate.start()
        self._gate.configure_curve(domain="*", location=self._folder / _ADMITTED)

    def stop_admitting(self) -> None:
        """End what ``admit_only_own_clients`` began."""
        if self._gate is not None:
            self._gate.stop()

    def secure_server(self, socket: zmq.Socket[bytes]) -> None:
        """Make a socket that will be bound prove itself, and encrypt."""
        socket.curve_publickey, socket.curve_secretkey = self._server
        socket.curve_server = True

    def secure_client(self, socket: zmq.Socket[bytes]) -> None:
        """Make a socket that will be connected prove itself, and encrypt."""
        socket.curve_publickey, socket.curve_secretkey = self._client
        socket.curve_serverkey = self._server[0]


def _public(certificate: Path) -> str:
    """The public key in a file, as ZeroMQ tells it of a peer."""
    return zmq.auth.load_certificate(certificate)[0].decode()
