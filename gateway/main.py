"""Where the gateway's process begins; the other daemons' processes have no HTTP server in them."""

from __future__ import annotations

from railyard.cluster.config import Daemon


def main(daemon: Daemon) -> None:
    """Import what HTTP needs, and serve: see ``process``."""
    from railyard.gateway.process import main as serve

    serve(daemon)
