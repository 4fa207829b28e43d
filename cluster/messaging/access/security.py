"""CURVE keys for clusters over TCP: only holders of the run folder's keys can connect.

Each role has a key pair, by which servers identify it; servers have another key pair.
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
    """The servers' key pair, and that of one role."""

    def __init__(self, folder: Path, role: str) -> None:
        self._folder = folder
        self._server = zmq.auth.load_certificate(folder / f"{_SERVER}.key_secret")
        self._client = zmq.auth.load_certificate(folder / f"{role}.key_secret")
        self._roles = {_public(folder / _ADMITTED / f"{each}.key"): each for each in ROLES}
        self._gate: ThreadAuthenticator | None = None

    @classmethod
    def create(cls, folder: Path) -> None:
        """Generate all key pairs in a new folder that only this user can read."""
        folder.mkdir(mode=0o700)
        (folder / _ADMITTED).mkdir(mode=0o700)
        zmq.auth.create_certificates(folder, _SERVER)
        for role in ROLES:
            zmq.auth.create_certificates(folder, role)
            (folder / f"{role}.key").rename(folder / _ADMITTED / f"{role}.key")

    @classmethod
    def load(cls, folder: Path, role: str) -> Keys | None:
        """Load a role's keys from ``folder``; None if there are none, as with Unix sockets."""
        return cls(folder, role) if folder.is_dir() else None

    def role(self, public_key: str) -> str:
        """The role with this public key; keys of others are refused before."""
        return self._roles[public_key]

    def admit_only_own_clients(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        """Refuse connections without the key of a role."""
        from zmq.auth.thread import ThreadAuthenticator  # imports asyncio: only where TCP is used

        self._gate = ThreadAuthenticator(context)
        self._gate.start()
        self._gate.configure_curve(domain="*", location=self._folder / _ADMITTED)

    def stop_admitting(self) -> None:
        """Stop the authenticator that ``admit_only_own_clients`` started."""
        if self._gate is not None:
            self._gate.stop()

    def secure_server(self, socket: zmq.Socket[bytes]) -> None:
        """Set a server's keys on a socket that will be bound, so that it encrypts."""
        socket.curve_publickey, socket.curve_secretkey = self._server
        socket.curve_server = True

    def secure_client(self, socket: zmq.Socket[bytes]) -> None:
        """Set a client's keys on a socket that will be connected, so that it encrypts."""
        socket.curve_publickey, socket.curve_secretkey = self._client
        socket.curve_serverkey = self._server[0]


def _public(certificate: Path) -> str:
    """The public key in a certificate file, in the form in which ZeroMQ reports a peer's key."""
    return zmq.auth.load_certificate(certificate)[0].decode()
