"""Where a cluster's servers are reached: by name, in the run folder."""

from __future__ import annotations

from railyard.cluster.files.runfolder import RunFolder


def unix_address(folder: RunFolder, name: str) -> str:
    """The Unix-domain socket of the server called ``name``."""
    return f"ipc://{folder.sockets / name}"


def tcp_address(folder: RunFolder, name: str) -> str | None:
    """The TCP port that a server has published; None while it has not."""
    try:
        return f"tcp://127.0.0.1:{int(folder.port(name).read_text())}"
    except FileNotFoundError:
        return None


def publish_port(folder: RunFolder, name: str, port: int) -> None:
    """Tell others a server's TCP port; they see all of it or nothing."""
    published = folder.port(name)
    unfinished = published.with_suffix(".new")
    unfinished.write_text(str(port))
    unfinished.replace(published)
