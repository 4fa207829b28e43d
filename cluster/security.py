"""CURVE keys for clusters that talk over TCP: only holders of the run folder's keys get in."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import zmq
import zmq.auth

if TYPE_CHECKING:
    from zmq.auth.thread import ThreadAuthenticator


class Keys:
    """The cluster's two key pairs: one that servers prove themselves with, one for clients."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = zmq.auth.load_certificate(folder / "server.key_secret")
        self._client = zmq.auth.load_certificate(folder / "client.key_secret")
        self._gate: ThreadAuthenticator | None = None

    @classmethod
    def create(cls, folder: Path) -> None:
        """Make both key pairs in a new folder that only this user can read."""
        folder.mkdir(mode=0o700)
        zmq.auth.create_certificates(folder, "server")
        zmq.auth.create_certificates(folder, "client")
        (folder / "admitted").mkdir(mode=0o700)
        (folder / "client.key").rename(folder / "admitted" / "client.key")

    @classmethod
    def load(cls, folder: Path) -> Keys | None:
        """The keys in ``folder``; None if the cluster has none (it uses Unix-domain sockets)."""
        return cls(folder) if folder.is_dir() else None

    def admit_only_own_clients(self, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        """Refuse connections from whoever lacks the client key."""
        from zmq.auth.thread import ThreadAuthenticator  # imports asyncio: only where TCP is used

        self._gate = ThreadAuthenticator(context)
        self._gate.start()
        self._gate.configure_curve(domain="*", location=self._folder / "admitted")

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
