"""Addresses of a cluster's servers: by name, in the run folder."""

from __future__ import annotations

from railyard.cluster.files.runfolder import RunFolder


def unix_address(folder: RunFolder, name: str) -> str:
    """The ZeroMQ address of the Unix-domain socket of the server called ``name``."""
    return f"ipc://{folder.sockets / name}"


def tcp_address(folder: RunFolder, name: str) -> str | None:
    """The ZeroMQ address of a server's published TCP port; None until it is published."""
    try:
        return f"tcp://127.0.0.1:{int(folder.port(name).read_text())}"
    except FileNotFoundError:
        return None


def publish_port(folder: RunFolder, name: str, port: int) -> None:
    """Publish a server's TCP port in the run folder, atomically."""
    published = folder.port(name)
    unfinished = published.with_suffix(".new")
    unfinished.write_text(str(port))
    unfinished.replace(published)
