"""Where a cluster's gateway is: noted in the run folder, for commands and for its next process."""

from __future__ import annotations

import json
import os
import socket

from railyard.cluster.errors import UsageError
from railyard.cluster.files.runfolder import RunFolder

HOST = "127.0.0.1"
_BACKLOG = 128


def listen(port: int) -> socket.socket:
    """A socket that listens on the loopback; port 0 is any.  ``UsageError`` if it is taken."""
    try:
        return listen_at(HOST, port)
    except OSError as error:
        why = os.strerror(error.errno or 0)
        raise UsageError(f"--http {port}: {why}: need a port that is free, or auto") from None


def listen_at(host: str, port: int) -> socket.socket:
    """A socket that listens there; raises ``OSError`` if it is taken."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError:
        listening.close()
        raise
    listening.listen(_BACKLOG)
    return listening


def publish(folder: RunFolder, url: str) -> None:
    """Note in the run folder where the gateway is."""
    new = folder.gateway.with_suffix(".new")
    new.write_text(json.dumps({"url": url}), encoding="utf-8")
    new.rename(folder.gateway)


def known_url(folder: RunFolder) -> str | None:
    """Where the cluster's gateway is; None if it has none."""
    try:
        return str(json.loads(folder.gateway.read_text(encoding="utf-8"))["url"])
    except FileNotFoundError:
        return None


def known_port(folder: RunFolder) -> int | None:
    """The port where an earlier gateway of the cluster was."""
    url = known_url(folder)
    return None if url is None else int(url.rsplit(":", 1)[1])


def gateway_lines(folder: RunFolder) -> list[str]:
    """Lines that say where a cluster's gateway is; none if it has no gateway."""
    url = known_url(folder)
    if url is None:
        return []
    return [
        f"gateway    {url}  (WebHDFS: {url}/webhdfs/v1)",
        f"           HADOOP_CONF_DIR={folder.client_files}",
    ]
