"""Where the gateway's process begins; clusters without one have no HTTP library in memory."""

from __future__ import annotations

from railyard.cluster.config import Daemon

#: What it needs and no other daemon does, with the HTTP library.
PROCESS = "railyard.gateway.process"


def main(daemon: Daemon) -> None:
    """Serve: see ``process``."""
    from railyard.gateway.process import main as serve

    serve(daemon)
